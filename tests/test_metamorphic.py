"""What must be equal whatever the answer is: batches taken together or apart, there and back, and the same query
in other words. No recomputation by the engine stands in between."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

import viewkeep

from .helpers import contents
from .language import BATCHES, START, TABLES
from .oracle.backend import independent_cases
from .oracle.grammar import Case, Col, Tab, cases, change
from .oracle.harness import Overflow, Replay, bag


def drawn(number: int, strategy: st.SearchStrategy[Any]) -> Any:
    """Runs a test for as many independent cases; each time the same ones."""

    def decorate(test: Any) -> Any:
        return seed(number)(independent_cases(number)(given(strategy)(test)))

    return decorate


# --- batches ---


@drawn(20, cases(most_views=4))
def test_one_big_batch_equals_many_small_ones(case: Case) -> None:
    with viewkeep.connect("duckdb:") as vk:
        try:
            run = Replay(vk, case, {"step": "id", "late": "id"})
            for statement in (s for batch in case.batches for s in batch):
                run.change([statement])
                if run.queries:
                    run.refresh(*(f"v{n}_step" for n in run.queries))
            if run.queries:
                run.refresh(*(f"v{n}_late" for n in run.queries))
            for n in run.queries:
                assert run.contents(n, "step") == run.contents(n, "late"), f"view {n}\n{case.only(n)}"
        except Overflow:
            return


@drawn(20, cases(most_views=4))
def test_a_batch_and_its_inverse_give_back_the_old_view(case: Case) -> None:
    with viewkeep.connect("duckdb:") as vk:
        try:
            run = Replay(vk, case, {"id": "id"})
            old = {n: run.contents(n, "id") for n in run.queries}
            for table in case.tables:
                vk.sql(f"CREATE TABLE old_{table.name} AS SELECT * FROM {table.name}")
            undo = [f"INSERT OVERWRITE {t.name} SELECT * FROM old_{t.name}" for t in case.tables]
            for batch in case.batches:
                run.change(batch)
                run.refresh()
                run.change(undo)
                run.refresh()
                for n in run.queries:
                    assert run.contents(n, "id") == old[n], f"view {n} after there and back\n{case.only(n)}"
                run.change([*batch, *undo])
                told = {done.strategy for done in run.refresh()}
                assert told <= {"none"}, "changes that cancel out change nothing"
        except Overflow:
            return


# --- the same in other words ---

SPELLINGS: dict[str, tuple[str, ...]] = {
    "rows with a partner": (
        "SELECT k, b FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a = r.a)",
        "SELECT k, b FROM r WHERE a IN (SELECT a FROM u)",
        "SELECT r.k, r.b FROM r LEFT SEMI JOIN u ON u.a = r.a",
        "SELECT r.k, r.b FROM r JOIN (SELECT DISTINCT a FROM u) AS d ON d.a = r.a",
        "SELECT k, b FROM r WHERE a = ANY (SELECT a FROM u)",
        "SELECT k, b FROM r WHERE (SELECT COUNT(*) FROM u WHERE u.a = r.a) > 0",
    ),
    "rows without a partner": (
        "SELECT k, b FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = r.a)",
        "SELECT r.k, r.b FROM r LEFT ANTI JOIN u ON u.a = r.a",
        "SELECT r.k, r.b FROM r LEFT JOIN u ON u.a = r.a WHERE u.k IS NULL",
        "SELECT k, b FROM r EXCEPT ALL SELECT k, b FROM r WHERE a IN (SELECT a FROM u)",
    ),
    "a query in a query": (
        "SELECT x.a, u.c, x.n FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) AS x JOIN u ON u.a = x.a",
        "WITH x AS (SELECT a, COUNT(*) AS n FROM r GROUP BY a) SELECT x.a, u.c, x.n FROM x JOIN u ON u.a = x.a",
        "SELECT x.a, u.c, x.n FROM below AS x JOIN u ON u.a = x.a",
        "SELECT r.a, u.c, COUNT(*) AS n FROM r JOIN u ON u.a = r.a GROUP BY r.a, u.c, u.k",
    ),
    "distinct rows of two tables": (
        "SELECT a, b FROM r UNION SELECT a, c FROM u",
        "SELECT DISTINCT a, b FROM (SELECT a, b FROM r UNION ALL SELECT a, c FROM u) AS x",
        "SELECT a, b FROM (SELECT a, b FROM r UNION ALL SELECT a, c FROM u) AS x GROUP BY a, b",
    ),
    "rows of both tables": (
        "SELECT a FROM r INTERSECT SELECT a FROM u",
        "SELECT DISTINCT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.a <=> r.a)",
    ),
    "rows of one table only": (
        "SELECT a FROM r EXCEPT SELECT a FROM u",
        "SELECT DISTINCT a FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a <=> r.a)",
    ),
    "groups by their sum": (
        "SELECT a, SUM(b) AS s FROM r GROUP BY a HAVING SUM(b) > 10",
        "SELECT a, s FROM (SELECT a, SUM(b) AS s FROM r GROUP BY a) AS x WHERE s > 10",
    ),
    "the first of a partition": (
        "SELECT k, a FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) = 1",
        "SELECT k, a FROM (SELECT k, a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, k) AS n FROM r) AS x WHERE n = 1",
    ),
    "totals": (
        "SELECT a, s, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY ROLLUP (a, s) HAVING COUNT(*) > 0",
        "SELECT a, s, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY a, s "
        "UNION ALL SELECT a, CAST(NULL AS STRING), COUNT(*), SUM(b) FROM r GROUP BY a "
        "UNION ALL SELECT CAST(NULL AS INT) AS a, CAST(NULL AS STRING) AS s, COUNT(*), SUM(b) FROM r HAVING COUNT(*) > 0",
        "SELECT a, s, COUNT(*) AS n, SUM(b) AS t FROM r GROUP BY GROUPING SETS ((a, s), (a), ()) HAVING COUNT(*) > 0",
    ),
    "the largest of a group": (
        "SELECT k, a, b FROM r QUALIFY RANK() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) = 1 AND b IS NOT NULL",
        "SELECT r.k, r.a, r.b FROM r JOIN (SELECT a, MAX(b) AS m FROM r GROUP BY a) AS g ON r.a <=> g.a AND r.b = g.m",
        "SELECT k, a, b FROM r WHERE b IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM r AS x WHERE x.a <=> r.a AND x.b > r.b)",
    ),
    "an outer join": (
        "SELECT r.k, u.k AS uk, u.c FROM r FULL JOIN u ON r.a = u.a",
        "SELECT r.k, u.k AS uk, u.c FROM r LEFT JOIN u ON r.a = u.a UNION ALL "
        "SELECT CAST(NULL AS INT), u.k, u.c FROM u WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = u.a)",
        "SELECT r.k, u.k AS uk, u.c FROM u FULL JOIN r ON r.a = u.a",
    ),
    "sums of some": (
        "SELECT a, SUM(b) FILTER (WHERE s = 'x') AS x, COUNT(DISTINCT b) AS d FROM r GROUP BY a",
        "SELECT a, SUM(CASE WHEN s = 'x' THEN b END) AS x, COUNT(DISTINCT b) AS d FROM r GROUP BY a",
        "SELECT g.a, g.x, y.d FROM (SELECT a, SUM(IF(s = 'x', b, NULL)) AS x FROM r GROUP BY a) AS g JOIN "
        "(SELECT a, COUNT(b) AS d FROM (SELECT DISTINCT a, b FROM r) AS z GROUP BY a) AS y ON y.a <=> g.a",
    ),
}
BELOW = "SELECT a, COUNT(*) AS n FROM r GROUP BY a"
R = Tab("r", (Col("k", "INT", False),), (Col("a", "INT"), Col("b", "INT"), Col("s", "STRING")))
U = Tab("u", (Col("k", "INT", False),), (Col("a", "INT"), Col("c", "INT")))
SPELLED = [(name, n) for name, spellings in SPELLINGS.items() for n in range(len(spellings))]


def create_spellings(vk: viewkeep.Connection, wanted: Sequence[tuple[str, int]]) -> None:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    vk.sql(f"CREATE MATERIALIZED VIEW below AS {BELOW}")
    for name, n in wanted:
        vk.sql(f"CREATE MATERIALIZED VIEW {view_of(name, n)} AS {SPELLINGS[name][n]}")


def view_of(name: str, n: int) -> str:
    return f"{name.replace(' ', '_')}_{n}"


def same_in_other_words(vk: viewkeep.Connection, batch: Sequence[str]) -> None:
    wrong = []
    for name, n in SPELLED:
        if contents(vk, view_of(name, n)) != contents(vk, view_of(name, 0)):
            wrong.append(f"{name}: {SPELLINGS[name][n]}")
    assert not wrong, f"after {list(batch)}:\n" + "\n".join(wrong)


def test_a_query_in_other_words_stays_equal() -> None:
    with viewkeep.connect("duckdb:") as vk:
        create_spellings(vk, SPELLED)
        for batch in ((), *BATCHES):
            for statement in batch:
                vk.sql(statement)
            vk.refresh()
            same_in_other_words(vk, batch)


@drawn(3, st.lists(st.lists(change((R, U)), min_size=1, max_size=3), min_size=3, max_size=4))
def test_a_query_in_other_words_stays_equal_under_random_changes(batches: list[list[str]]) -> None:
    with viewkeep.connect("duckdb:") as vk:
        create_spellings(vk, SPELLED)
        for batch in batches:
            for statement in batch:
                try:
                    vk.sql(statement)
                except viewkeep.ViewkeepError:
                    continue  # refused, so it changed nothing
            vk.refresh()
            same_in_other_words(vk, batch)


# --- on Spark ---

ON_SPARK = [
    ("rows with a partner", 0), ("rows with a partner", 3), ("rows without a partner", 2),
    ("rows without a partner", 3), ("totals", 0), ("totals", 1), ("the largest of a group", 0),
    ("the largest of a group", 1),
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif("VIEWKEEP_SPARK_ALL" not in os.environ, reason="long: VIEWKEEP_SPARK_ALL=1 runs it")
def test_small_batches_one_big_one_and_other_words_on_spark(
    spark_engine: viewkeep.Connection, spark: Any
) -> None:
    """The first spelling of each is refreshed after every batch, the second once, at the end."""
    vk = spark_engine
    create_spellings(vk, ON_SPARK)
    by_name: dict[str, list[str]] = {}
    for name, n in ON_SPARK:
        by_name.setdefault(name, []).append(view_of(name, n))
    for some in (BATCHES[:3], BATCHES[3:5]):
        for statement in (s for batch in some for s in batch):
            spark.sql(statement).collect()
        vk.refresh(*(views[0] for views in by_name.values()))
    told = vk.refresh(*(views[1] for views in by_name.values()))
    assert "full" not in {done.strategy for done in told}
    for name, views in by_name.items():
        first, second = (bag(tuple(r) for r in spark.sql(f"SELECT * FROM {v}").collect()) for v in views)
        assert first == second, name
