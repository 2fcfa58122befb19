"""The fixed scenarios on every engine: after every batch each view equals its query, run by the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import sqlglot

import viewkeep
from viewkeep.engines.postgres.session import Session
from viewkeep.engines.spark.nearby import Nearby

from .oracle.harness import bag
from .scenarios import BATCHES, START, TABLES, VIEWS

# On Spark a view takes seconds: what differs from others only in its WHERE, DuckDB and PostgreSQL have.
NOT_ON_SPARK = {"not_in_list", "between", "like", "is_null", "comma", "group_ordinal", "derived_columns"}


def check_all(views: Mapping[str, str], ask: Callable[[str], Any], when: str) -> None:
    for name, query in views.items():
        expected, found = bag(ask(query)), bag(ask(f"SELECT * FROM v_{name}"))
        assert found == expected, f"{name} differs {when}: {query}"


def play(
    vk: viewkeep.Connection,
    change: Callable[[str], Any],
    ask: Callable[[str], Any],
    batches: Sequence[Sequence[str]],
    strategy: str = "id",
    views: Mapping[str, str] = VIEWS,
) -> None:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    for name, query in views.items():
        vk.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (strategy = '{strategy}') AS {query}")
    for number, batch in enumerate(batches, start=1):
        for statement in batch:
            change(statement)
        done = vk.refresh()
        ran = {r.strategy for r in done}
        assert ran <= {strategy, "groups", "none"}, "a small change needs no full recompute"
        check_all(views, ask, f"after batch {number}")
    assert {r.strategy for r in vk.refresh()} == {"none"}


@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_scenarios_on_duckdb(strategy: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        play(vk, vk.sql, lambda q: vk.sql(q).rows, ((), *BATCHES), strategy)


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_scenarios_on_postgres(postgres: viewkeep.Connection, postgres_address: str, strategy: str) -> None:
    """Changes are made by another client, which speaks PostgreSQL's SQL; only Delta's shorthands by viewkeep."""
    other = Session(postgres_address)

    def change(statement: str) -> None:
        if "SET *" in statement:
            postgres.sql(statement)
        else:
            other.run(sqlglot.transpile(statement, read="spark", write="postgres")[0])

    play(postgres, change, lambda q: postgres.sql(q).rows, ((), *BATCHES), strategy)
    other.close()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("alone")
def test_scenarios_on_spark(
    spark_engine: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes are made by plain Spark SQL in the user's own session, not through viewkeep. Batches taken together,
    since a refresh is what takes time here. What a query answers, DuckDB says, after the same changes. The last
    refresh is computed by Spark alone."""
    with viewkeep.connect("duckdb:") as other:
        for statement in (*TABLES, *START):
            other.sql(statement)

        def change(statement: str) -> None:
            if statement == batches[-1][0]:
                monkeypatch.setattr(Nearby, "answer", lambda *_: None)
            spark.sql(statement).collect()
            other.sql(statement)

        def ask(query: str) -> Any:
            on_spark = query.startswith("SELECT * FROM v_")
            return map(tuple, spark.sql(query).collect()) if on_spark else other.sql(query).rows

        batches = [[s for batch in some for s in batch] for some in (BATCHES[:2], BATCHES[2:3])]
        views = {name: query for name, query in VIEWS.items() if name not in NOT_ON_SPARK}
        play(spark_engine, change, ask, batches, views=views)
        assert all(spark_engine.verify(f"v_{name}") for name in ("four_way", "all_aggregates"))
