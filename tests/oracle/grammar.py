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
        style = draw(
            st.sampled_from(
                ["", "", "", "COMMA", "CROSS", "LEFT ", "LEFT ", "RIGHT ", "FULL ", "SEMI", "ANTI"]
            )
        )
        condition = draw(join_condition(scope, own))
        if style in ("SEMI", "ANTI"):
            text = f"{text} LEFT {style} JOIN {item} ON {condition}"
            continue
        scope = Scope(scope.columns + own.columns)
        if style in ("", "LEFT ", "RIGHT ", "FULL "):
            if where and style in ("RIGHT ", "FULL "):
                style = ""
            text = f"{text} {style}JOIN {item} ON {condition}"
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
    if depth > 0 and draw(st.integers(0, 7)) == 0:
        return draw(set_operation(tabs, depth, names))
    text, scope, conditions = draw(from_clause(tabs, depth, names))
    if draw(st.booleans()):
        conditions = [*conditions, draw(boolean(scope, 1))]
    if draw(st.integers(0, 3)) == 0:
        conditions = [*conditions, draw(with_subquery(tabs, scope, names))]
    where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
    if draw(st.booleans()):
        return draw(grouped(text, where, scope))
    outputs, columns = [], []
    windowed = draw(st.integers(0, 5)) == 0
    for n in range(draw(st.integers(1, 3))):
        name = f"o{n}"
        special = draw(st.integers(0, 7))
        if special == 0:
            outputs.append(f"{draw(scalar_subquery(tabs, scope, names))} AS {name}")
            columns.append((name, "?"))
        elif windowed and special < 5:
            outputs.append(f"{draw(window(scope))} AS {name}")
            columns.append((name, "?"))
        elif draw(st.integers(0, 3)) == 0:
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
    distinct = "DISTINCT " if draw(st.integers(0, 7)) == 0 else ""
    made = f"SELECT {distinct}{', '.join(outputs)} FROM {text}{where}"
    if windowed and not distinct and draw(st.booleans()):
        made += f" QUALIFY {draw(window(scope, ranks=True))} <= {draw(st.integers(1, 2))}"
    elif draw(st.integers(0, 9)) == 0:
        made += draw(cut(columns))
    return made, columns


@st.composite
def cut(draw: st.DrawFn, columns: list[tuple[str, str]]) -> str:
    """ORDER BY all outputs, so that rows which are equal in the order are equal, and LIMIT."""
    orders = [
        f"{name}{draw(st.sampled_from(['', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST']))}"
        for name, _ in columns
    ]
    offset = draw(st.sampled_from(["", "", " OFFSET 1"]))
    return f" ORDER BY {', '.join(orders)} LIMIT {draw(st.integers(1, 4))}{offset}"


@st.composite
def window(draw: st.DrawFn, scope: Scope, ranks: bool = False) -> str:
    """A window function whose value does not depend on how rows that are equal in its order are arranged."""
    refs = [r for r, k in scope.columns if k != "?"] or ["1"]
    partition = draw(st.lists(st.sampled_from(refs), max_size=2, unique=True))
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    whole = f"{by}ORDER BY {', '.join(r + draw(st.sampled_from(['', ' DESC'])) for r in refs)}"
    some = f"{by}ORDER BY {draw(st.sampled_from(refs))}"
    if ranks or draw(st.booleans()):
        return draw(
            st.sampled_from(
                [f"RANK() OVER ({some})", f"DENSE_RANK() OVER ({some})", f"ROW_NUMBER() OVER ({whole})"]
            )
        )
    numbers = scope.of("INT", "BIGINT", "SMALLINT", "DECIMAL(8,2)") or ["1"]
    value = draw(st.sampled_from(numbers))
    return draw(
        st.sampled_from(
            [
                f"SUM({value}) OVER ({by})",
                f"SUM({value}) OVER ({some})",
                f"AVG({value}) OVER ({by})",
                f"COUNT(*) OVER ({some})",
                f"MAX({value}) OVER ({whole} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
                f"LAG({value}) OVER ({whole})",
                f"LEAD({value}, 2) OVER ({whole})",
                f"FIRST_VALUE({value}) OVER ({whole})",
            ]
        )
    )


@st.composite
def inner_query(draw: st.DrawFn, tabs: tuple[Tab, ...], outer: Scope, names: list[int]) -> tuple[str, Scope]:
    """FROM and WHERE of a subquery over one table, mostly correlated."""
    names.append(0)
    tab, alias = draw(st.sampled_from(tabs)), f"q{len(names)}"
    own = Scope([(f"{alias}.{c.name}", c.kind) for c in tab.columns])
    pairs = [(a, b) for a, k in own.columns for b, j in outer.columns if k == j != "?"]
    terms = []
    if pairs and draw(st.integers(0, 4)) > 0:
        a, b = draw(st.sampled_from(pairs))
        terms.append(f"{a} = {b}")
    if draw(st.integers(0, 2)) == 0:
        terms.append(f"({draw(boolean(own, 1))})")
    return f"FROM {tab.name} AS {alias}" + (f" WHERE {' AND '.join(terms)}" if terms else ""), own


@st.composite
def with_subquery(draw: st.DrawFn, tabs: tuple[Tab, ...], scope: Scope, names: list[int]) -> str:
    """A condition with EXISTS, IN, ANY or ALL, in any boolean position."""
    body, own = draw(inner_query(tabs, scope, names))
    pairs = [(a, b) for a, k in scope.columns for b, j in own.columns if k == j != "?"]
    style = draw(st.sampled_from(["exists", "exists", "in", "in", "any", "all", "theta"]))
    if style == "theta" and pairs:
        a, b = draw(st.sampled_from(pairs))
        more = " AND " if " WHERE " in body else " WHERE "
        made = f"EXISTS (SELECT 1 {body}{more}{b} {draw(st.sampled_from(['<', '>=', '<>', '<=>']))} {a})"
    elif style == "exists" or not pairs:
        made = f"EXISTS (SELECT 1 {body})"
    elif style == "in":
        a, b = draw(st.sampled_from(pairs))
        made = f"{a} {draw(st.sampled_from(['', 'NOT ']))}IN (SELECT {b} {body})"
    else:
        a, b = draw(st.sampled_from(pairs))
        made = f"{a} {draw(st.sampled_from(['=', '<', '>=', '<>']))} {style.upper()} (SELECT {b} {body})"
    position = draw(st.integers(0, 4))
    if position == 0:
        return f"({made} OR {draw(boolean(scope, 0))})"
    if position == 1:
        return f"NOT ({made})"
    if position == 2:
        return f"(CASE WHEN {made} THEN {draw(boolean(scope, 0))} ELSE TRUE END)"
    return made


@st.composite
def scalar_subquery(draw: st.DrawFn, tabs: tuple[Tab, ...], scope: Scope, names: list[int]) -> str:
    body, own = draw(inner_query(tabs, scope, names))
    ref, _ = draw(st.sampled_from(own.columns))
    numbers = own.of("INT", "BIGINT", "SMALLINT", "DECIMAL(8,2)")
    calls = ["COUNT(*)", f"COUNT({ref})", f"MIN({ref})", f"MAX({ref})", "COUNT(*) + 1"]
    calls += [f"SUM({n})" for n in numbers] + [f"AVG({n})" for n in numbers]
    return f"(SELECT {draw(st.sampled_from(calls))} {body})"


@st.composite
def set_operation(
    draw: st.DrawFn, tabs: tuple[Tab, ...], depth: int, names: list[int]
) -> tuple[str, list[tuple[str, str]]]:
    """Two queries that select columns of the same types."""
    sides = [draw(from_clause(tabs, depth - 1, names)) for _ in range(2)]
    shared = [k for _, k in sides[0][1].columns if k != "?" and sides[1][1].of(k)]
    kinds = draw(st.lists(st.sampled_from(shared), min_size=1, max_size=2)) if shared else []
    texts = []
    for text, scope, conditions in sides:
        outputs = [f"{draw(st.sampled_from(scope.of(k)))} AS o{n}" for n, k in enumerate(kinds)] or [
            "1 AS o0"
        ]
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        texts.append(f"SELECT {', '.join(outputs)} FROM {text}{where}")
    operator = draw(
        st.sampled_from(
            ["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
        )
    )
    return f"{texts[0]} {operator} {texts[1]}", [(f"o{n}", k) for n, k in enumerate(kinds or ["INT"])]


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
        function = draw(
            st.sampled_from(
                ["COUNT(*)", "COUNT", "SUM", "SUM", "AVG", "MIN", "MAX", "DISTINCT", "FILTER", "OTHER"]
            )
        )
        if function in ("MIN", "MAX"):
            ref, kind = draw(st.sampled_from(scope.columns))
            shown.append(f"{function}({ref}) AS {name}")
            columns.append((name, kind))
        elif function == "DISTINCT":
            ref, kind = draw(st.sampled_from(scope.columns))
            call = draw(st.sampled_from(["COUNT", "SUM"])) if kind in ("INT", "DECIMAL(8,2)") else "COUNT"
            shown.append(f"{call}(DISTINCT {ref}) AS {name}")
            columns.append((name, "?"))
        elif function == "FILTER":
            made, _ = draw(numeric(scope))
            call = draw(st.sampled_from([f"SUM({made})", "COUNT(*)", f"MAX({made})"]))
            shown.append(f"{call} FILTER (WHERE {draw(boolean(scope, 1))}) AS {name}")
            columns.append((name, "?"))
        elif function == "OTHER":
            numbers = scope.of("INT", "SMALLINT", "DECIMAL(8,2)") or ["1"]
            number, condition = draw(st.sampled_from(numbers)), draw(boolean(scope, 0))
            # the median of decimals is a decimal on DuckDB, and a double on Spark
            whole = draw(st.sampled_from(scope.of("INT", "SMALLINT") or ["1"]))
            calls = [f"STDDEV({number})", f"VAR_POP({number})", f"MEDIAN({whole})", f"BOOL_OR({condition})",
                     f"BOOL_AND({condition})"]  # fmt: skip
            shown.append(f"{draw(st.sampled_from(calls))} AS {name}")
            columns.append((name, "?"))
        elif function == "COUNT(*)":
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
    if len(set(keys)) == len(keys) > 0 and draw(st.integers(0, 7)) == 0:
        # over no rows DuckDB has a total and Spark has none
        by = f" GROUP BY {draw(st.sampled_from(['ROLLUP', 'CUBE']))} ({', '.join(keys)})"
        having = having or " HAVING COUNT(*) > 0"
    made = f"SELECT {', '.join(outputs + shown)} FROM {text}{where}{by}{having}"
    if draw(st.integers(0, 11)) == 0:
        made += draw(cut(columns))
    return made, columns


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
