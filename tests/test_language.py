"""Every construct of the view language: after every batch each view equals its query, run by the engine.

The views share their tables, their batches and the refreshes: on Spark these are what takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import UnknownFunction, Unsupported

from . import support
from .helpers import con
from .language import BATCHES, PYTHON_FUNCTION, START, TABLES, VIEWS, WRITTEN_OUT
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
    with suppress(Unsupported):  # on a server
        vk.register_function(PYTHON_FUNCTION, _plus_one, "INT", ["INT"])
    for statement in (*TABLES, *START):
        vk.sql(statement)
    ran: dict[str, set[str]] = {}
    for name, query in views.items():
        ran[name] = set()
        try:
            vk.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (strategy = '{strategy}') AS {query}")
        except (Unsupported, UnknownFunction):
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
        texts = {query: independent(WRITTEN_OUT.get(query, query)) for query in VIEWS.values()}

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


@contextmanager
def answers() -> Iterator[tuple[Callable[[str], Any], Callable[[str], Rows]]]:
    """The same tables on DuckDB: how to change them there, and what it answers to a view's query by itself."""
    with viewkeep.connect("duckdb:") as other:
        for statement in (*TABLES, *START):
            other.sql(statement)
        other.register_function(PYTHON_FUNCTION, _plus_one, "INT", ["INT"])
        texts = {query: independent(WRITTEN_OUT.get(query, query)) for query in VIEWS.values()}
        for name, query in VIEWS.items():  # for views over views
            con(other).execute(f"CREATE VIEW v_{name} AS {texts[query]}")
        yield other.sql, lambda query: con(other).execute(texts[query]).fetchall()


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_views_are_kept_on_postgres(postgres: viewkeep.Connection, strategy: str) -> None:
    """What each view shows is what DuckDB answers to its query, after the same batches."""
    with answers() as (change_there, answer):

        def change(statement: str) -> None:
            postgres.sql(statement)
            change_there(statement)

        def both(query: str, view: str) -> tuple[Rows, Rows]:
            return answer(query), postgres.sql(f"SELECT * FROM {view}").rows

        steps = [_together(b) for b in (BATCHES[:2], BATCHES[2:5], BATCHES[5:])]
        ran = play(postgres, change, both, steps, strategy)
        kept = [name for name, strategies in ran.items() if strategies != {"refused"}]
        assert all(postgres.verify(f"v_{name}") for name in kept)
    support.compare(f"PostgreSQL, `{strategy}`", ran)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("alone")
def test_views_are_kept_on_spark(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """By plain Spark SQL in the user's own session, several batches as one. What each view shows is what DuckDB
    answers to its query, after the same batches; for some Spark itself is asked too, by VERIFY."""
    with answers() as (change_there, answer):

        def change(statement: str) -> None:
            spark.sql(statement).collect()
            change_there(statement)

        def both(query: str, view: str) -> tuple[Rows, Rows]:
            return answer(query), [tuple(row) for row in spark.table(view).collect()]

        steps = [_together(BATCHES[:6])]
        views = {name: query for name, query in VIEWS.items() if name not in NOT_ON_SPARK}
        ran = play(spark_engine, change, both, steps, "id", views)
        assert all(spark_engine.verify(f"v_{name}") for name in ("any", "full", "sums", "casts", "overviews"))
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
