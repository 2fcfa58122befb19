"""Random databases, views and batches of changes, drawn by hypothesis so that failures shrink.

Views are drawn as SQL text in Spark's dialect, from the grammar that CREATE MATERIALIZED VIEW takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

KINDS = ("INT", "BIGINT", "STRING", "DECIMAL(8,2)", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "SMALLINT")
NUMERIC = ("INT", "BIGINT", "DECIMAL(8,2)", "DOUBLE", "SMALLINT")
# few values, so that joins match, groups collide and updates swap
VALUES = {
    "INT": ["0", "1", "2", "3", "-1"],
    "BIGINT": ["0", "1", "2", "5000000000"],
    "SMALLINT": ["0", "1", "2", "-3"],
    "STRING": ["'a'", "'b'", "'c'", "''"],
    "DECIMAL(8,2)": ["0.00", "1.50", "2.25", "-1.50", "99999.99"],
    "DOUBLE": ["CAST(0.5 AS DOUBLE)", "CAST(1.25 AS DOUBLE)", "CAST(-2 AS DOUBLE)", "CAST(1e17 AS DOUBLE)"],
    "BOOLEAN": ["TRUE", "FALSE"],
    "DATE": ["DATE '2024-01-01'", "DATE '2024-02-29'", "DATE '2025-12-31'"],
    "TIMESTAMP": ["TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 12:30:00'"],
}


@dataclass(frozen=True)
class Col:
    name: str
    kind: str
    nullable: bool = True


@dataclass(frozen=True)
class Tab:
    name: str
    key: tuple[Col, ...]
    others: tuple[Col, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        return self.key + self.others

    def ddl(self) -> str:
        columns = ", ".join(f"{c.name} {c.kind}" for c in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(c.name for c in self.key)}))"


@dataclass(frozen=True)
class Case:
    tables: tuple[Tab, ...]
    view: str
    start: tuple[str, ...]
    batches: tuple[tuple[str, ...], ...]


@dataclass
class Scope:
    """What a query under construction can refer to."""

    columns: list[tuple[str, str]] = field(default_factory=list)  # (SQL reference, type)

    def of(self, *kinds: str) -> list[str]:
        return [ref for ref, kind in self.columns if kind in kinds]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Tab, ...]:
    count = draw(st.integers(1, 3))
    made = []
    for n in range(count):
        name = "rst"[n]
        width = draw(st.integers(1, 2))
        key = tuple(
            Col(f"k{i}", draw(st.sampled_from(["INT", "INT", "STRING"])), False) for i in range(width)
        )
        others = tuple(
            Col(f"{'abcd'[i]}", draw(st.sampled_from(KINDS))) for i in range(draw(st.integers(1, 4)))
        )
        made.append(Tab(name, key, others))
    return tuple(made)


@st.composite
def value(draw: st.DrawFn, kind: str, nullable: bool) -> str:
    options = VALUES[kind]
    if nullable and draw(st.integers(0, 4)) == 0:
        return f"CAST(NULL AS {kind})"
    return draw(st.sampled_from(options))


@st.composite
def numeric(draw: st.DrawFn, scope: Scope, depth: int = 1) -> tuple[str, str]:
    """A numeric expression and whether it is exact ("exact" or "double")."""
    options = [(r, k) for r, k in scope.columns if k in NUMERIC]
    choice = draw(st.integers(0, 5))
    if not options or choice == 0:
        return draw(st.sampled_from(["1", "2", "0.5"])), "exact"
    if depth > 0 and choice in (1, 2):
        left, a = draw(numeric(scope, depth - 1))
        right, b = draw(numeric(scope, depth - 1))
        operator = draw(st.sampled_from(["+", "-", "*"]))
        return f"({left} {operator} {right})", "double" if "double" in (a, b) else "exact"
    if depth > 0 and choice == 3 and scope.columns:
        condition = draw(boolean(scope, 0))
        left, a = draw(numeric(scope, 0))
        right, b = draw(numeric(scope, 0))
        kind = "double" if "double" in (a, b) else "exact"
        return f"CASE WHEN {condition} THEN {left} ELSE {right} END", kind
    ref, kind = draw(st.sampled_from(options))
    if choice == 4:
        return f"COALESCE({ref}, 1)", "double" if kind == "DOUBLE" else "exact"
    return ref, "double" if kind == "DOUBLE" else "exact"


@st.composite
def boolean(draw: st.DrawFn, scope: Scope, depth: int = 2) -> str:
    choice = draw(st.integers(0, 7))
    if depth > 0 and choice <= 1:
        left, right = draw(boolean(scope, depth - 1)), draw(boolean(scope, depth - 1))
        return f"({left} {draw(st.sampled_from(['AND', 'OR']))} {right})"
    if depth > 0 and choice == 2:
        return f"NOT ({draw(boolean(scope, depth - 1))})"
    known = [(r, k) for r, k in scope.columns if k != "?"]
    if not known:
        return "TRUE"
    ref, kind = draw(st.sampled_from(known))
    if choice == 3:
        return f"{ref} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    negated = draw(st.sampled_from(["", "NOT "]))
    if choice == 4 and kind in ("INT", "STRING"):
        picked = draw(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=2))
        return f"{ref} {negated}IN ({', '.join(picked)})"
    if choice == 5 and kind == "STRING":
        return f"{ref} {negated}LIKE {draw(st.sampled_from([chr(39) + p + chr(39) for p in ('a%', '%b', '_', '%')]))}"
    if choice == 5 and kind in NUMERIC:
        low, high = draw(value(kind, False)), draw(value(kind, False))
        return f"{ref} {negated}BETWEEN {low} AND {high}"
    if kind == "BOOLEAN" and choice == 5:
        return ref
    same = [r for r in scope.of(kind) if r != ref]
    operator = draw(st.sampled_from(["=", "<>", "<", ">=", "<=>", "IS DISTINCT FROM"]))
    if same and choice >= 6:
        return f"{ref} {operator} {draw(st.sampled_from(same))}"
    return f"{ref} {operator} {draw(value(kind, False))}"


@st.composite
def join_condition(draw: st.DrawFn, left: Scope, right: Scope) -> str:
    """Mostly an equality of two columns of one type, which may be keys; sometimes anything at all."""
    pairs = [(a, b) for a, k in left.columns for b, j in right.columns if k == j != "?"]
    if pairs and draw(st.integers(0, 5)) > 0:
        chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique=True))
        terms = [f"{a} = {b}" for a, b in chosen]
        if draw(st.integers(0, 4)) == 0:
            terms.append(draw(boolean(Scope(left.columns + right.columns), 1)))
        return " AND ".join(terms)
    return draw(boolean(Scope(left.columns + right.columns), 1))


@st.composite
def from_clause(
    draw: st.DrawFn, tabs: tuple[Tab, ...], depth: int, names: list[int]
) -> tuple[str, Scope, list[str]]:
    """FROM text, what it offers, and conditions that a comma join leaves to WHERE."""
    count = draw(st.sampled_from([1, 2, 2, 2, 3]))
    text, scope, where = "", Scope(), []
    for n in range(count):
        item, own = draw(from_item(tabs, depth, names))
        if n == 0:
            text, scope = item, own
            continue
        style = draw(st.sampled_from(["ON", "ON", "ON", "COMMA", "CROSS"]))
        condition = draw(join_condition(scope, own))
        scope = Scope(scope.columns + own.columns)
        if style == "ON":
            text = f"{text} JOIN {item} ON {condition}"
        else:
            text = f"{text}{', ' if style == 'COMMA' else ' CROSS JOIN '}{item}"
            where.append(condition)
    return text, scope, where


@st.composite
def from_item(draw: st.DrawFn, tabs: tuple[Tab, ...], depth: int, names: list[int]) -> tuple[str, Scope]:
    names.append(0)
    alias = f"x{len(names)}"
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        inner, outputs = draw(query(tabs, depth - 1, names))
        return f"({inner}) AS {alias}", Scope([(f"{alias}.{n}", k) for n, k in outputs])
    tab = draw(st.sampled_from(tabs))
    return f"{tab.name} AS {alias}", Scope([(f"{alias}.{c.name}", c.kind) for c in tab.columns])


@st.composite
def query(
    draw: st.DrawFn, tabs: tuple[Tab, ...], depth: int, names: list[int]
) -> tuple[str, list[tuple[str, str]]]:
    """A SELECT and its columns (name, type); type "?" where it cannot be used further."""
    text, scope, conditions = draw(from_clause(tabs, depth, names))
    if draw(st.booleans()):
        conditions = [*conditions, draw(boolean(scope, 1))]
    where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
    if draw(st.booleans()):
        return draw(grouped(text, where, scope))
    outputs, columns = [], []
    for n in range(draw(st.integers(1, 3))):
        name = f"o{n}"
        if draw(st.integers(0, 3)) == 0:
            made, kind = draw(numeric(scope))
            outputs.append(f"{made} AS {name}")
            columns.append((name, "?"))
        elif draw(st.integers(0, 9)) == 0:
            outputs.append(f"({draw(boolean(scope, 1))}) AS {name}")
            columns.append((name, "BOOLEAN"))
        else:
            ref, kind = draw(st.sampled_from(scope.columns))
            outputs.append(f"{ref} AS {name}")
            columns.append((name, kind))
    return f"SELECT {', '.join(outputs)} FROM {text}{where}", columns


@st.composite
def grouped(draw: st.DrawFn, text: str, where: str, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
    keys, columns, outputs, shown = [], [], [], []
    for n in range(draw(st.integers(0, 2))):
        ref, kind = draw(st.sampled_from(scope.columns))
        if kind in ("INT", "BIGINT") and draw(st.integers(0, 3)) == 0:
            ref, kind = f"({ref} + 1)", "?"
        keys.append(ref)
        outputs.append(f"{ref} AS g{n}")
        columns.append((f"g{n}", kind))
    for n in range(draw(st.integers(1, 3))):
        name = f"m{n}"
        function = draw(st.sampled_from(["COUNT(*)", "COUNT", "SUM", "SUM", "AVG"]))
        if function == "COUNT(*)":
            shown.append(f"COUNT(*) AS {name}")
            columns.append((name, "BIGINT"))
        elif function == "COUNT":
            ref, _ = draw(st.sampled_from(scope.columns))
            shown.append(f"COUNT({ref}) AS {name}")
            columns.append((name, "BIGINT"))
        else:
            made, _ = draw(numeric(scope))
            shown.append(f"{function}({made}) AS {name}")
            columns.append((name, "?"))
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = " HAVING COUNT(*) > 1" if keys and draw(st.integers(0, 5)) == 0 else ""
    return f"SELECT {', '.join(outputs + shown)} FROM {text}{where}{by}{having}", columns


@st.composite
def change(draw: st.DrawFn, tabs: tuple[Tab, ...]) -> str:
    tab = draw(st.sampled_from(tabs))
    style = draw(
        st.sampled_from(["insert", "insert", "update", "update", "update", "delete", "key", "merge", "again"])
    )
    column = draw(st.sampled_from(tab.columns))
    picked = f"{column.name} = {draw(value(column.kind, False))}"
    if style == "insert":
        return draw(insertion(tab))
    if style == "update":
        sets = draw(st.lists(st.sampled_from(tab.others), min_size=1, max_size=2, unique=True))
        assigned = ", ".join(f"{c.name} = {draw(value(c.kind, True))}" for c in sets)
        return f"UPDATE {tab.name} SET {assigned} WHERE {picked}"
    if style == "delete":
        return f"DELETE FROM {tab.name} WHERE {picked}"
    if style == "key":
        first = tab.key[0]
        old, new = draw(value(first.kind, False)), draw(value(first.kind, False))
        return f"UPDATE {tab.name} SET {first.name} = {new} WHERE {first.name} = {old}"
    row = draw(rows(tab))
    named = ", ".join(f"{v} AS {c.name}" for v, c in zip(row, tab.columns, strict=True))
    on = " AND ".join(f"t.{c.name} = s.{c.name}" for c in tab.key)
    matched = "DELETE" if style == "again" else "UPDATE SET *"
    return (
        f"MERGE INTO {tab.name} AS t USING (SELECT {named}) AS s ON {on} "
        f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"
    )


@st.composite
def rows(draw: st.DrawFn, tab: Tab) -> list[str]:
    return [draw(value(c.kind, c.nullable)) for c in tab.columns]


@st.composite
def insertion(draw: st.DrawFn, tab: Tab) -> str:
    made = draw(st.lists(rows(tab), min_size=1, max_size=6, unique_by=lambda r: tuple(r[: len(tab.key)])))
    return f"INSERT INTO {tab.name} VALUES " + ", ".join(f"({', '.join(r)})" for r in made)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tabs = draw(tables())
    view, _ = draw(query(tabs, draw(st.integers(0, 2)), []))
    start = tuple(draw(insertion(tab)) for tab in tabs)
    batch = st.lists(change(tabs), min_size=1, max_size=5).map(tuple)
    return Case(tabs, view, start, tuple(draw(st.lists(batch, min_size=1, max_size=3))))
