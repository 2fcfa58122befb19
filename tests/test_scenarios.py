"""The fixed scenarios on every engine: after every batch each view equals its query, run by the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import viewkeep

from .oracle.harness import bag
from .scenarios import BATCHES, START, TABLES, VIEWS


def check_all(vk: viewkeep.Connection, ask: Callable[[str], Any], when: str) -> None:
    for name, query in VIEWS.items():
        expected, found = bag(ask(query)), bag(ask(f"SELECT * FROM v_{name}"))
        assert found == expected, f"{name} differs {when}: {query}"


def play(
    vk: viewkeep.Connection,
    change: Callable[[str], Any],
    ask: Callable[[str], Any],
    batches: Sequence[Sequence[str]],
    strategy: str = "id",
) -> None:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    for name, query in VIEWS.items():
        vk.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (strategy = '{strategy}') AS {query}")
    for number, batch in enumerate(batches, start=1):
        for statement in batch:
            change(statement)
        done = vk.refresh()
        ran = {r.strategy for r in done}
        assert ran <= {strategy, "groups", "none"}, "a small change needs no full recompute"
        check_all(vk, ask, f"after batch {number}")
    assert {r.strategy for r in vk.refresh()} == {"none"}


@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_scenarios_on_duckdb(strategy: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        play(vk, vk.sql, lambda q: vk.sql(q).rows, ((), *BATCHES), strategy)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_scenarios_on_spark(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """Changes are made by plain Spark SQL in the user's own session, not through viewkeep. Batches taken together,
    since a refresh is what takes time here."""
    play(
        spark_engine,
        lambda text: spark.sql(text).collect(),
        lambda query: [tuple(r) for r in spark.sql(query).collect()],
        [[s for batch in some for s in batch] for some in (BATCHES[:2], BATCHES[2:3])],
    )
