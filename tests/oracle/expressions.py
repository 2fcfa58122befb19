"""Random scalar expressions, conditions, window functions and aggregates, as SQL text in Spark's dialect.

Only what DuckDB, after sqlglot's translation and nothing else, answers as Spark does: the oracle recomputes
views that way. How each function is spelled on each engine has tests of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

KINDS = ("INT", "BIGINT", "STRING", "DECIMAL(8,2)", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "SMALLINT")
NUMERIC = ("INT", "BIGINT", "DECIMAL(8,2)", "DOUBLE", "SMALLINT")
EXACT = ("INT", "BIGINT", "SMALLINT", "DECIMAL(8,2)")
# the mean of decimals is a decimal, rounded; on DuckDB, where the oracle recomputes, a double
AVERAGED = ("INT", "BIGINT", "SMALLINT", "DOUBLE")
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
# the name of a Python function that harness.py registers
PYTHON = "py_plus"


@dataclass
class Scope:
    """What a query under construction can refer to: (SQL reference, type); "?" is a type of no further use."""

    columns: list[tuple[str, str]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[str]:
        return [ref for ref, kind in self.columns if kind in kinds]

    @property
    def known(self) -> list[tuple[str, str]]:
        return [(ref, kind) for ref, kind in self.columns if kind != "?"]

    @property
    def qualified(self) -> Scope:
        """Without the columns of USING, whose bare names mean something else inside a subquery."""
        return Scope([(ref, kind) for ref, kind in self.columns if "." in ref])


@cache
def one_in(n: int) -> st.SearchStrategy[bool]:
    """True in one of n draws; shrinks to false."""
    return st.integers(0, n - 1).map(lambda drawn: drawn == n - 1)


@cache  # hypothesis looks at each new strategy for longer than it draws from it
@st.composite
def value(draw: st.DrawFn, kind: str, nullable: bool) -> str:
    if nullable and draw(one_in(5)):
        return f"CAST(NULL AS {kind})"
    return draw(st.sampled_from(VALUES[kind]))


@st.composite
def typed(draw: st.DrawFn, scope: Scope) -> tuple[str, str]:
    """A column, or now and then something computed from one; with its type."""
    if not scope.columns:
        return "1", "INT"
    ref, kind = draw(st.sampled_from(scope.columns))
    if kind == "?" or not draw(one_in(4)):
        return ref, kind
    made = [(f"COALESCE({ref}, {VALUES[kind][1]})", kind), (f"NULLIF({ref}, {VALUES[kind][0]})", kind)]
    if kind == "INT":
        made += [(f"{PYTHON}({ref})", "INT"), (f"ABS({ref})", "INT"), (f"({ref} % 2)", "INT")]
        made += [(f"CAST({ref} AS STRING)", "STRING"), (f"CAST({ref} AS BIGINT)", "BIGINT")]
        made += [(f"({ref} DIV 2)", "BIGINT"), (f"GREATEST({ref}, 1)", "INT"), (f"-{ref}", "INT")]
        made += [(f"CASE {ref} WHEN 0 THEN 'a' WHEN 1 THEN 'b' END", "STRING"), (f"({ref} / 2)", "DOUBLE")]
    if kind == "STRING":
        made += [(f"UPPER({ref})", "STRING"), (f"({ref} || 'a')", "STRING"), (f"LENGTH({ref})", "INT")]
        made += [(f"SUBSTRING({ref}, 1, 1)", "STRING"), (f"REPLACE({ref}, 'a', 'b')", "STRING")]
        made += [(f"NVL2({ref}, 1, 0)", "INT"), (f"CONCAT({ref}, 'c')", "STRING")]
        made += [(f"REGEXP_REPLACE({ref}, '[ab]', 'c')", "STRING"), (f"INITCAP({ref})", "STRING")]
        made += [(f"REGEXP_EXTRACT({ref}, '[bc]', 0)", "STRING"), (f"MD5({ref})", "STRING")]
    if kind == "DATE":
        made += [(f"YEAR({ref})", "INT"), (f"MONTH({ref})", "INT"), (f"LAST_DAY({ref})", "DATE")]
        made += [(f"NEXT_DAY({ref}, 'MON')", "DATE")]
        made += [(f"DATEDIFF({ref}, DATE '2024-01-01')", "INT"), (f"DATE_ADD({ref}, 1)", "?")]
        made += [(f"CAST({ref} AS TIMESTAMP)", "TIMESTAMP")]
    if kind == "TIMESTAMP":
        made += [(f"CAST({ref} AS DATE)", "DATE"), (f"HOUR({ref})", "INT")]
    if kind == "BOOLEAN":
        made += [(f"IF({ref}, 1, 0)", "INT"), (f"(NOT {ref})", "BOOLEAN"), (f"CAST({ref} AS INT)", "INT")]
    if kind == "DECIMAL(8,2)":
        made += [(f"ABS({ref})", "?"), (f"ROUND({ref}, 1)", "?"), (f"({ref} > 1)", "BOOLEAN")]
    return draw(st.sampled_from(made))


@st.composite
def numeric(draw: st.DrawFn, scope: Scope, depth: int = 1) -> str:
    options = [(r, k) for r, k in scope.columns if k in NUMERIC]
    choice = draw(st.integers(0, 5))
    if not options or choice == 0:
        return draw(st.sampled_from(["1", "2", "0.5"]))
    if depth > 0 and choice in (1, 2):
        left, right = draw(numeric(scope, depth - 1)), draw(numeric(scope, depth - 1))
        return f"({left} {draw(st.sampled_from(['+', '-', '*']))} {right})"
    if depth > 0 and choice == 3:
        condition = draw(boolean(scope, 0))
        return f"CASE WHEN {condition} THEN {draw(numeric(scope, 0))} ELSE {draw(numeric(scope, 0))} END"
    ref, _ = draw(st.sampled_from(options))
    return f"COALESCE({ref}, 1)" if choice == 4 else ref


@st.composite
def boolean(draw: st.DrawFn, scope: Scope, depth: int = 2) -> str:
    choice = draw(st.integers(0, 8))
    if depth > 0 and choice <= 1:
        left, right = draw(boolean(scope, depth - 1)), draw(boolean(scope, depth - 1))
        return f"({left} {draw(st.sampled_from(['AND', 'OR']))} {right})"
    if depth > 0 and choice == 2:
        made = draw(boolean(scope, depth - 1))
        return draw(st.sampled_from([f"NOT ({made})", f"({made}) IS NOT TRUE", f"({made}) IS FALSE"]))
    if not scope.known:
        return "TRUE"
    ref, kind = draw(typed(Scope(scope.known)))
    if choice == 3 or kind == "?":
        return f"{ref} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    negated = draw(st.sampled_from(["", "NOT "]))
    if choice == 4 and kind in ("INT", "STRING"):
        picked = draw(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=2))
        return f"{ref} {negated}IN ({', '.join(picked)})"
    if choice == 5 and kind == "STRING":
        like = draw(st.sampled_from(["LIKE 'a%'", "LIKE '%b'", "LIKE '_'", "LIKE '%'", "ILIKE 'A%'"]))
        return f"{ref} {negated}{like}"
    if choice == 5 and kind in NUMERIC:
        return f"{ref} {negated}BETWEEN {draw(value(kind, False))} AND {draw(value(kind, False))}"
    if choice == 5 and kind == "BOOLEAN":
        return ref
    operator = draw(st.sampled_from(["=", "<>", "<", ">=", "<=>", "IS DISTINCT FROM"]))
    same = [r for r in scope.of(kind) if r != ref]
    if same and choice >= 6:
        return f"{ref} {operator} {draw(st.sampled_from(same))}"
    return f"{ref} {operator} {draw(value(kind, False))}"


@st.composite
def join_condition(draw: st.DrawFn, left: Scope, right: Scope) -> str:
    """Mostly an equality of two columns of one type, which may be keys; sometimes anything at all."""
    pairs = [(a, b) for a, k in left.known for b, j in right.known if k == j]
    if pairs and draw(st.integers(0, 5)) > 0:
        chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique=True))
        terms = [f"{a} {draw(st.sampled_from(['=', '=', '=', '<=>']))} {b}" for a, b in chosen]
        if draw(one_in(5)):
            terms.append(draw(boolean(Scope(left.columns + right.columns), 1)))
        return " AND ".join(terms)
    return draw(boolean(Scope(left.columns + right.columns), 1))


@st.composite
def over(draw: st.DrawFn, scope: Scope) -> tuple[str, str, str]:
    """PARTITION BY, the same with some order, and with an order that leaves equal only equal rows."""
    refs = [ref for ref, kind in scope.columns if kind != "?"] or ["1"]
    parts = draw(st.lists(st.sampled_from(refs), max_size=2, unique=True))
    by = f"PARTITION BY {', '.join(parts)}" if parts else ""
    direction = draw(st.sampled_from(["", " DESC", " NULLS LAST"]))
    some = f"{by} ORDER BY {draw(st.sampled_from(refs))}{direction}".strip()
    # rows that are equal in every column may change places without anybody noticing
    whole = f"{by} ORDER BY {', '.join(refs)}{direction}".strip()
    return by, some, whole


RANKS = ("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()")


@st.composite
def window(draw: st.DrawFn, scope: Scope, ranks: bool = False) -> str:
    """A window function over columns of the scope; what it answers does not depend on how ties are broken."""
    by, some, whole = draw(over(scope))
    if ranks or draw(st.booleans()):
        calls = [f"{rank} OVER ({some})" for rank in (RANKS[:2] if ranks else RANKS)]
        calls += [f"ROW_NUMBER() OVER ({whole})"] + ([] if ranks else [f"NTILE(2) OVER ({whole})"])
        return draw(st.sampled_from(calls))
    number = draw(st.sampled_from(scope.of(*EXACT) or ["1"]))
    frame = draw(
        st.sampled_from(
            [
                "",
                "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
                "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            ]
        )
    )
    calls = [f"{f}({number})" for f in ("SUM", "MIN", "MAX", "COUNT")]
    aggregate = draw(st.sampled_from([*calls, f"AVG({_of(draw, scope, *AVERAGED[:3])})"]))
    calls = [
        f"{aggregate} OVER ({by})",
        f"{aggregate} OVER ({some})",
        f"{aggregate} OVER ({whole} {frame})",
        f"{aggregate} OVER ({some} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        f"COUNT(*) OVER ({some})",
        f"LAG({number}) OVER ({whole})",
        f"LAG({number}, 1, {number}) OVER ({whole})",
        f"LEAD({number}, 2) OVER ({whole})",
        f"FIRST_VALUE({number}) OVER ({whole})",
        f"LAST_VALUE({number}) OVER ({whole} {frame})",
        f"NTH_VALUE({number}, 2) OVER ({whole})",
    ]
    return draw(st.sampled_from(calls))


@st.composite
def aggregate(draw: st.DrawFn, scope: Scope) -> tuple[str, str]:
    """An aggregate function of columns of the scope, with its type."""
    form = draw(
        st.sampled_from(["rows", "count", "sum", "sum", "extreme", "distinct", "filter", "other", "over"])
    )
    if form == "rows":
        return "COUNT(*)", "BIGINT"
    if form in ("count", "extreme", "distinct"):
        ref, kind = draw(st.sampled_from(scope.columns))
        if form == "count":
            return f"COUNT({ref})", "BIGINT"
        if form == "extreme":
            return f"{draw(st.sampled_from(['MIN', 'MAX']))}({ref})", kind
        calls = {"INT": ["COUNT", "SUM", "AVG"], "DECIMAL(8,2)": ["COUNT", "SUM"]}.get(kind, ["COUNT"])
        return f"{draw(st.sampled_from(calls))}(DISTINCT {ref})", "?"
    made, mean = draw(numeric(scope)), f"AVG({_of(draw, scope, *AVERAGED)})"
    if form == "sum":
        return draw(st.sampled_from([f"SUM({made})", f"SUM({made})", mean])), "?"
    if form == "filter":
        call = draw(st.sampled_from([f"SUM({made})", "COUNT(*)", f"MAX({made})", mean]))
        return f"{call} FILTER (WHERE {draw(boolean(scope, 1))})", "?"
    if form == "over":
        calls = [f"SUM({made}) + COUNT(*)", f"COALESCE(SUM({made}), 0)", f"MAX({made}) - MIN({made})"]
        return f"({draw(st.sampled_from(calls))})", "?"
    # the median of decimals is a decimal on DuckDB, and a double on Spark
    whole, number = _of(draw, scope, "INT", "SMALLINT"), _of(draw, scope, "INT", "SMALLINT", "DECIMAL(8,2)")
    condition = draw(boolean(scope, 0))
    calls = [f"{f}({number})" for f in ("STDDEV", "STDDEV_POP", "VARIANCE", "VAR_POP")]
    calls += [f"MEDIAN({whole})", f"BOOL_OR({condition})", f"BOOL_AND({condition})"]
    calls += [f"COUNT_IF({condition})", f"COVAR_POP({number}, {whole})", f"COVAR_SAMP({whole}, {number})"]
    return draw(st.sampled_from(calls)), "?"


def _of(draw: st.DrawFn, scope: Scope, *kinds: str) -> str:
    return draw(st.sampled_from(scope.of(*kinds) or ["1"]))


def lined(terms: Sequence[str]) -> str:
    """WHERE with every term, or nothing."""
    return f" WHERE {' AND '.join(f'({t})' for t in terms)}" if terms else ""
