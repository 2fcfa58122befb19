"""Every construct of the view language: after every batch each view equals its query, run by the engine.

The views share their tables, their batches and the refreshes: on Spark these are what takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import Unsupported

from . import support
from .helpers import con
from .language import BATCHES, PYTHON_FUNCTION, START, TABLES, VIEWS
from .oracle.harness import bag, independent

Rows = Sequence[tuple[Any, ...]]
Batch = Sequence[str]


# On Spark a view takes seconds, so there is one for each construct.
NOT_ON_SPARK = {
    "all", "anti", "bracketed", "exceptall", "existscase", "fullagg", "fullchain", "inneragg", "intersectall",
    "notexists", "overagg",
    "using", "theta", "fullusing", "mixed", "fulltheta", "antitheta", "lateral", "padded_partition",
    "padded_intersect", "existsnot", "scalar", "scalar1", "scalarwu", "inh", "distinctjoin", "constant_key",
    "keyless", "minkeyless", "groupall", "maxofsum", "cube", "constant_window", "joinwin", "topk", "limit",
    "constant_order", "offset", "setnested",
}  # fmt: skip


# Spark has no ANY and ALL
SPARKS_WORDS = {"any": "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM u WHERE r.b > u.c)"}


def play(
    vk: viewkeep.Connection,
    change: Callable[[str], Any],
    both: Callable[[str, str], tuple[Rows, Rows]],
    batches: Sequence[Batch],
    strategy: str,
    views: Mapping[str, str] = VIEWS,
) -> dict[str, set[str]]:
    """Creates views, changes their tables, and compares. For each view the strategies that were reported.

    `both`: the rows of a query and those of a view.
    """
    vk.register_function(PYTHON_FUNCTION, _plus_one, "INT", ["INT"])
    for statement in (*TABLES, *START):
        vk.sql(statement)
    ran: dict[str, set[str]] = {}
    for name, query in views.items():
        ran[name] = set()
        try:
            vk.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (strategy = '{strategy}') AS {query}")
        except Unsupported:
            ran[name] = {"refused"}
    kept = {name: query for name, query in views.items() if ran[name] != {"refused"}}
    for number, batch in enumerate(batches):
        for statement in batch:
            change(statement)
        for done in vk.refresh():
            ran[done.view.removeprefix("v_")] |= {done.strategy} - {"none"}
        wrong = []
        for name, query in kept.items():
            expected, found = both(query, f"v_{name}")
            if bag(expected) != bag(found):
                wrong.append(f"{name}: {sorted(map(str, found))} is not {sorted(map(str, expected))}")
        assert not wrong, f"after batch {number}:\n" + "\n".join(wrong)
    return ran


def _plus_one(x: int | None) -> int | None:
    return None if x is None else x + 1


def _together(batches: Sequence[Batch]) -> list[str]:
    return [statement for batch in batches for statement in batch]


@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_views_are_kept_on_duckdb(strategy: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        texts = {query: independent(query) for query in VIEWS.values()}

        def both(query: str, view: str) -> tuple[Rows, Rows]:
            run = con(vk).execute
            return run(texts[query]).fetchall(), run(f"SELECT * FROM {view}").fetchall()

        # the rules of tuple-based diffs compare more and tell less apart: larger batches will do
        steps = (
            ((), *BATCHES)
            if strategy == "id"
            else [_together(b) for b in (BATCHES[:2], BATCHES[2:5], BATCHES[5:])]
        )
        ran = play(vk, vk.sql, both, steps, strategy)
        assert all(vk.verify(f"v_{name}") for name in VIEWS)
    support.compare(f"DuckDB, `{strategy}`", ran)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_views_are_kept_on_spark(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """Several batches as one, by plain Spark SQL in the user's own session."""

    def both(query: str, view: str) -> tuple[Rows, Rows]:
        query = SPARKS_WORDS.get(view.removeprefix("v_"), query)
        tagged = f"SELECT 0 AS side, q.* FROM ({query}) AS q UNION ALL SELECT 1, v.* FROM {view} AS v"
        rows = [tuple(row) for row in spark.sql(tagged).collect()]
        return [row[1:] for row in rows if row[0] == 0], [row[1:] for row in rows if row[0] == 1]

    steps = [_together(BATCHES[:6])]
    views = {name: query for name, query in VIEWS.items() if name not in NOT_ON_SPARK}
    ran = play(spark_engine, lambda text: spark.sql(text).collect(), both, steps, "id", views)
    support.compare("Spark, `id`", ran)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_refuses_a_comparison_that_it_answers_differently(spark_engine: viewkeep.Connection) -> None:
    for statement in TABLES:
        spark_engine.sql(statement)
    with pytest.raises(viewkeep.ViewkeepError, match="Spark answers false"):
        spark_engine.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['insel']}")


@pytest.mark.parametrize(
    "query",
    [
        # names of the parts below do not count
        "SELECT a, b FROM r UNION ALL SELECT c, c FROM u",
        "SELECT a, b FROM r UNION ALL SELECT c + 1, 2 FROM u",
        # an untyped null is of the other side's type
        "SELECT a FROM r UNION ALL SELECT NULL FROM u",
        "SELECT NULL AS x, k FROM r UNION SELECT s, b FROM r",
        "SELECT s, NULL AS n FROM r EXCEPT SELECT NULL, c FROM u",
    ],
)
def test_parts_of_a_set_operation_that_mean_nothing_alone(query: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        for statement in (*TABLES, *START):
            vk.sql(statement)
        vk.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for batch in ((), *BATCHES[:3]):
            for statement in batch:
                vk.sql(statement)
            vk.refresh("v")
            wanted = bag(con(vk).execute(independent(query)).fetchall())
            assert bag(con(vk).execute("SELECT * FROM v").fetchall()) == wanted
