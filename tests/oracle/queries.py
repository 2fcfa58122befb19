"""Random queries from the grammar that CREATE MATERIALIZED VIEW takes, as SQL text in Spark's dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from .expressions import (
    Scope,
    aggregate,
    boolean,
    join_condition,
    lined,
    numeric,
    one_in,
    over,
    typed,
    window,
)

Columns = list[tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """A relation that FROM can name: a table, a CTE, or a view that was drawn before."""

    name: str
    columns: tuple[tuple[str, str], ...]
    size: int = 1
    """How many base tables it reads, one that it reads twice counted twice."""


@dataclass
class Around:
    """What a query stands in: the relations that it can read, how many aliases there are already, and how many
    base tables it may still read. Large views take long, and fail for the same reasons as small ones."""

    sources: tuple[Source, ...]
    room: int
    aliases: int = 0
    ctes: list[Source] = field(default_factory=list)

    def fitting(self) -> list[Source]:
        """What there is room for; there is always room for a table."""
        return [s for s in (*self.sources, *self.ctes, *self.ctes) if s.size <= max(1, self.room)]

    def take(self, source: Source) -> None:
        self.room -= source.size

    def alias(self, letter: str = "x") -> str:
        self.aliases += 1
        return f"{letter}{self.aliases}"

    @property
    def tables(self) -> tuple[Source, ...]:
        return tuple(s for s in self.sources if not s.name.startswith("@"))


@st.composite
def views(draw: st.DrawFn, sources: Sequence[Source]) -> tuple[str, Columns, int]:
    """A query, with CTEs or without; its columns; and how many base tables it reads."""
    around = Around(tuple(sources), draw(st.sampled_from([1, 1, 1, 2, 2, 2, 2, 3, 3, 4])))
    whole = around.room
    clauses = []
    if draw(one_in(6)):
        around.room = 2
        text, columns = draw(query(around, 1))
        named = [(f"n{n}", kind) for n, (_, kind) in enumerate(columns)] if draw(st.booleans()) else columns
        listed = f" ({', '.join(n for n, _ in named)})" if named is not columns else ""
        clauses.append(f"c0{listed} AS ({text})")
        around.ctes.append(Source("c0", tuple(named), 2 - around.room))
        around.room = whole
    text, columns = draw(query(around, draw(st.integers(0, 2))))
    return (f"WITH {', '.join(clauses)} " if clauses else "") + text, columns, whole - around.room


@st.composite
def from_item(draw: st.DrawFn, around: Around, depth: int) -> tuple[str, Scope]:
    alias = around.alias()
    if depth > 0 and around.room > 1 and draw(one_in(4)):
        inner, columns = draw(query(around, depth - 1))
        listed = ""
        if draw(one_in(5)):
            columns = [(f"d{n}", kind) for n, (_, kind) in enumerate(columns)]
            listed = f" ({', '.join(name for name, _ in columns)})"
        return f"({inner}) AS {alias}{listed}", Scope([(f"{alias}.{n}", k) for n, k in columns])
    source = draw(st.sampled_from(around.fitting()))
    around.take(source)
    return f"{source.name} AS {alias}", Scope([(f"{alias}.{n}", k) for n, k in source.columns])


JOINS = (
    "",
    "",
    "",
    "",
    "COMMA",
    "CROSS",
    "LEFT ",
    "LEFT ",
    "RIGHT ",
    "FULL ",
    "SEMI",
    "ANTI",
    "LATERAL",
    "USING",
)


@st.composite
def from_clause(draw: st.DrawFn, around: Around, depth: int) -> tuple[str, Scope, list[str]]:
    """FROM text, what it offers, and conditions that a comma join leaves to WHERE."""
    count = min(draw(st.sampled_from([1, 2, 2, 2, 3])), max(1, around.room))
    text, scope = draw(from_item(around, depth))
    where: list[str] = []
    for n in range(1, count):
        if around.room <= 0:
            break
        style = draw(st.sampled_from(JOINS))
        if style == "LATERAL":
            item, own = draw(lateral(around, scope))
            text, scope = f"{text}{item}", Scope(scope.columns + own.columns)
            continue
        item, own = draw(from_item(around, depth))
        common = _shared(scope, own)
        if style == "USING" and common and count == 2:
            name, kind = draw(st.sampled_from(common))
            side = draw(st.sampled_from(["", "LEFT ", "RIGHT ", "FULL "]))
            return f"{text} {side}JOIN {item} USING ({name})", _using(scope, own, name, kind), where
        condition = draw(join_condition(scope, own))
        if around.room > 0 and draw(one_in(8)):  # a subquery that looks at one side, or at both
            seen = draw(st.sampled_from([scope, own, Scope(scope.columns + own.columns)]))
            asked = draw(with_subquery(around, seen))
            condition = f"({condition}) AND {asked}"
        if style in ("SEMI", "ANTI"):
            text = f"{text} LEFT {style} JOIN {item} ON {condition}"
            continue
        scope = Scope(scope.columns + own.columns)
        if style in ("COMMA", "CROSS"):
            text = f"{text}{', ' if style == 'COMMA' else ' CROSS JOIN '}{item}"
            where.append(condition)
            continue
        if style == "USING" or (where and style in ("RIGHT ", "FULL ")):
            style = ""
        if around.room > 0 and n == 2 and style and draw(one_in(3)):
            # the last two in brackets: an outer join of a join
            other, more = draw(from_item(around, 0))
            inner = draw(join_condition(own, more))
            scope = Scope(scope.columns + more.columns)
            item = f"({item} {draw(st.sampled_from(['', 'LEFT ']))}JOIN {other} ON {inner})"
        text = f"{text} {style}JOIN {item} ON {condition}"
    return text, scope, where


def _shared(left: Scope, right: Scope) -> Columns:
    """Columns that both sides have once, under one name and of one type."""
    names = [ref.partition(".")[2] for ref, _ in left.columns + right.columns]
    theirs = {ref.partition(".")[2]: kind for ref, kind in right.known}
    mine = ((ref.partition(".")[2], kind) for ref, kind in left.known)
    return [(name, kind) for name, kind in mine if theirs.get(name) == kind and names.count(name) == 2]


def _using(left: Scope, right: Scope, name: str, kind: str) -> Scope:
    rest = [(r, k) for r, k in left.columns + right.columns if r.partition(".")[2] != name]
    return Scope([(name, kind), *rest])


@st.composite
def lateral(draw: st.DrawFn, around: Around, scope: Scope) -> tuple[str, Scope]:
    """LATERAL over the columns before it, or over a table that they choose rows of."""
    alias = around.alias()
    if draw(st.booleans()):
        made, kind = draw(typed(scope.qualified))
        return f", LATERAL (SELECT {made} AS l0) AS {alias}", Scope([(f"{alias}.l0", kind)])
    body, own = draw(inner_query(around, scope))
    ref, kind = draw(st.sampled_from(own.columns))
    return f" CROSS JOIN LATERAL (SELECT {ref} AS l0 {body}) AS {alias}", Scope([(f"{alias}.l0", kind)])


@st.composite
def query(draw: st.DrawFn, around: Around, depth: int) -> tuple[str, Columns]:
    """A SELECT and its columns (name, type); type "?" where it cannot be used further."""
    if depth > 0 and around.room > 1 and draw(one_in(6)):
        return draw(set_operation(around, depth))
    text, scope, conditions = draw(from_clause(around, depth))
    if draw(st.booleans()):
        conditions = [*conditions, draw(boolean(scope, 1))]
    if around.room > 0 and draw(one_in(3)):
        conditions = [*conditions, draw(with_subquery(around, scope))]
    where = lined(conditions)
    if draw(st.booleans()):
        return draw(grouped(around, text, where, scope))
    if draw(one_in(12)) and " JOIN " not in text and "," not in text.rpartition(")")[2]:
        return f"SELECT * FROM {text}{where}", [(r.partition(".")[2], k) for r, k in scope.columns]
    return draw(plain(around, text, where, scope))


@st.composite
def plain(draw: st.DrawFn, around: Around, text: str, where: str, scope: Scope) -> tuple[str, Columns]:
    """SELECT without GROUP BY: expressions, scalar subqueries, window functions, DISTINCT, QUALIFY, LIMIT."""
    windowed = draw(one_in(6))
    outputs: list[str] = []
    columns: Columns = []
    for n in range(draw(st.integers(1, 3))):
        special = draw(st.integers(0, 15))
        if special < 2 and around.room > 0:
            made, kind = draw(scalar_subquery(around, scope)), "?"
        elif special == 2 and around.room > 0:
            made, kind = f"({draw(with_subquery(around, scope))})", "BOOLEAN"
        elif special == 3:
            made, kind = f"({draw(boolean(scope, 1))})", "BOOLEAN"
        elif special < 6:
            made, kind = draw(numeric(scope)), "?"
        elif windowed and special < 12:
            made, kind = draw(window(scope)), "?"
        else:
            made, kind = draw(typed(scope))
        outputs.append(f"{made} AS o{n}")
        columns.append((f"o{n}", kind))
    distinct = "DISTINCT " if draw(one_in(8)) else ""
    made = f"SELECT {distinct}{', '.join(outputs)} FROM {text}{where}"
    if windowed and not distinct and draw(st.booleans()):
        if draw(one_in(3)):
            _, some, _ = draw(over(scope))
            return f"{made} WINDOW w AS ({some}) QUALIFY RANK() OVER w <= 2 OR COUNT(*) OVER w = 3", columns
        return f"{made} QUALIFY {draw(window(scope, ranks=True))} <= {draw(st.integers(1, 2))}", columns
    return made + (draw(cut(columns)) if draw(one_in(10)) else ""), columns


@st.composite
def cut(draw: st.DrawFn, columns: Columns) -> str:
    """ORDER BY all outputs, so that rows which are equal in the order are equal, and LIMIT."""
    orders = [
        f"{name}{draw(st.sampled_from(['', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST']))}"
        for name, _ in columns
    ]
    ends = ["LIMIT 1", "LIMIT 2", "LIMIT 3", "LIMIT 4", "LIMIT 2 OFFSET 1", "LIMIT 0", "OFFSET 2"]
    return f" ORDER BY {', '.join(orders)} {draw(st.sampled_from(ends))}"


@st.composite
def grouped(draw: st.DrawFn, around: Around, text: str, where: str, scope: Scope) -> tuple[str, Columns]:
    """GROUP BY in all its forms, with aggregates in SELECT and HAVING."""
    keys: list[str] = []
    outputs: list[str] = []
    columns: Columns = []
    for n in range(draw(st.integers(0, 2))):
        ref, kind = draw(typed(scope))
        keys.append(ref)
        outputs.append(f"{ref} AS g{n}")
        columns.append((f"g{n}", kind))
    for n in range(draw(st.integers(1, 3))):
        made, kind = draw(aggregate(scope))
        outputs.append(f"{made} AS m{n}")
        columns.append((f"m{n}", kind))
    by, having = draw(group_by(keys)), ""
    if keys and draw(one_in(4)):
        having = f" HAVING {draw(having_condition(around, scope))}"
    if "(" in by and by.split("(")[0].strip().split()[-1] in ("ROLLUP", "CUBE", "SETS"):
        # over no rows DuckDB has a total and Spark has none
        having = f"{having} AND COUNT(*) > 0" if having else " HAVING COUNT(*) > 0"
        if draw(st.booleans()):
            outputs.append(f"GROUPING({keys[0]}) AS m9")
            columns.append(("m9", "?"))
    elif keys and "ALL" not in by and draw(one_in(10)):
        outputs.append(f"RANK() OVER (ORDER BY COUNT(*), {keys[0]}) AS m8")
        columns.append(("m8", "?"))
    made = f"SELECT {', '.join(outputs)} FROM {text}{where}{by}{having}"
    return made + (draw(cut(columns)) if draw(one_in(12)) else ""), columns


@st.composite
def group_by(draw: st.DrawFn, keys: Sequence[str]) -> str:
    if not keys:
        return ""
    listed = ", ".join(keys)
    bare = all("(" not in k and " " not in k for k in keys)  # grouping sets of columns
    if len(set(keys)) == len(keys) and bare and draw(one_in(7)):
        sets = [f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({keys[0]}), ())"]
        return f" GROUP BY {draw(st.sampled_from(sets))}"
    form = draw(st.sampled_from(["keys", "keys", "keys", "positions", "all"]))
    if form == "positions":
        return f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}"
    return " GROUP BY ALL" if form == "all" else f" GROUP BY {listed}"


@st.composite
def having_condition(draw: st.DrawFn, around: Around, scope: Scope) -> str:
    made, _ = draw(aggregate(scope))
    number = draw(st.sampled_from(scope.of("INT", "SMALLINT", "BIGINT") or ["1"]))
    terms = ["COUNT(*) > 1", f"({made}) IS NOT NULL", f"SUM({number}) > 1 OR COUNT(*) = 1"]
    if around.room > 0:
        around.take(around.tables[0])
        terms.append(f"MAX({number}) IN (SELECT COUNT(*) FROM {around.tables[0].name})")
        terms.append(f"COUNT(*) >= (SELECT COUNT(*) FROM {around.tables[0].name}) - 1")
    return draw(st.sampled_from(terms))


# --- subqueries ---


@st.composite
def inner_query(draw: st.DrawFn, around: Around, outer: Scope) -> tuple[str, Scope]:
    """FROM and WHERE of a subquery over one relation, mostly correlated by an equality."""
    source = draw(st.sampled_from(around.fitting()))
    around.take(source)
    alias = around.alias("q")
    own = Scope([(f"{alias}.{n}", k) for n, k in source.columns])
    pairs = [(a, b) for a, k in own.known for b, j in outer.qualified.known if k == j]
    terms = []
    if pairs and not draw(one_in(5)):
        a, b = draw(st.sampled_from(pairs))
        terms.append(f"{a} = {b}")
    if draw(one_in(3)):
        terms.append(draw(boolean(own, 1)))
    if around.room > 0 and draw(one_in(8)):
        deeper = around.alias("q")
        table = around.tables[-1]
        around.take(table)
        ref, kind = draw(st.sampled_from(own.columns))
        same = [n for n, k in table.columns if k == kind]
        match = f" WHERE {deeper}.{draw(st.sampled_from(same))} = {ref}" if same else ""
        terms.append(f"EXISTS (SELECT 1 FROM {table.name} AS {deeper}{match})")
    return f"FROM {source.name} AS {alias}{lined(terms)}", own


@st.composite
def with_subquery(draw: st.DrawFn, around: Around, scope: Scope) -> str:
    """A condition with EXISTS, IN, ANY or ALL, in any boolean position."""
    body, own = draw(inner_query(around, scope))
    pairs = [(a, b) for a, k in scope.qualified.known for b, j in own.known if k == j]
    style = draw(st.sampled_from(["exists", "exists", "in", "in", "any", "all", "theta", "scalar"]))
    if style == "scalar":
        made = (
            f"{draw(scalar_subquery(around, scope, counts=True))} {draw(st.sampled_from(['=', '>', '<=']))} 1"
        )
    elif style == "exists" or not pairs:
        made = f"EXISTS (SELECT 1 {body})"
    else:
        a, b = draw(st.sampled_from(pairs))
        if style == "theta":
            more = " AND " if " WHERE " in body else " WHERE "
            made = f"EXISTS (SELECT 1 {body}{more}{b} {draw(st.sampled_from(['<', '>=', '<>', '<=>']))} {a})"
        elif style == "in":
            made = f"{a} {draw(st.sampled_from(['', 'NOT ']))}IN (SELECT {b} {body})"
        else:
            made = f"{a} {draw(st.sampled_from(['=', '<', '>=', '<>']))} {style.upper()} (SELECT {b} {body})"
    position = draw(st.integers(0, 5))
    if position == 3:
        return f"({made} OR {draw(boolean(scope, 0))})"
    if position == 4:
        return f"NOT ({made})"
    if position == 5:
        return f"(CASE WHEN {made} THEN {draw(boolean(scope, 0))} ELSE TRUE END)"
    return made


@st.composite
def scalar_subquery(draw: st.DrawFn, around: Around, scope: Scope, counts: bool = False) -> str:
    """A subquery of one value: an aggregate."""
    body, own = draw(inner_query(around, scope))
    ref, _ = draw(st.sampled_from(own.columns))
    calls = ["COUNT(*)", f"COUNT({ref})", "COUNT(*) + 1", f"COUNT(DISTINCT {ref})"]
    if not counts and scope.columns:
        numbers = own.of("INT", "BIGINT", "SMALLINT", "DECIMAL(8,2)")
        calls += [f"MIN({ref})", f"MAX({ref})", *(f"SUM({n})" for n in numbers)]
        calls += [f"AVG({n})" for n in own.of("INT", "SMALLINT", "DOUBLE")]
    return f"(SELECT {draw(st.sampled_from(calls))} {body})"


# --- set operations ---

OPERATORS = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


@st.composite
def set_operation(draw: st.DrawFn, around: Around, depth: int) -> tuple[str, Columns]:
    """Two or three queries that select columns of the same types."""
    sides = [draw(from_clause(around, depth - 1)) for _ in range(2 + draw(one_in(3)))]
    shared = [k for _, k in sides[0][1].known if all(scope.of(k) for _, scope, _ in sides)]
    kinds = draw(st.lists(st.sampled_from(shared), min_size=1, max_size=2)) if shared else []
    texts = []
    for text, scope, conditions in sides:
        outputs = [f"{draw(st.sampled_from(scope.of(k)))} AS o{n}" for n, k in enumerate(kinds)]
        texts.append(f"SELECT {', '.join(outputs or ['1 AS o0'])} FROM {text}{lined(conditions)}")
    made = f"{texts[0]} {draw(st.sampled_from(OPERATORS))} {texts[1]}"
    if len(texts) == 3:
        operator = draw(st.sampled_from(OPERATORS))
        made = draw(st.sampled_from([f"({made}) {operator} {texts[2]}", f"{texts[2]} {operator} ({made})"]))
    columns = [(f"o{n}", k) for n, k in enumerate(kinds or ["INT"])]
    return made + (draw(cut(columns)) if draw(one_in(10)) else ""), columns
