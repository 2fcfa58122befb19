"""Queries over few rows are answered beside Spark, and by Spark wherever an answer could differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import viewkeep
from viewkeep.algebra import types as t
from viewkeep.engines.spark import feeds, nearby, relations
from viewkeep.engines.spark.nearby import arrow_type

from .oracle.harness import bag

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def vk(spark_engine: viewkeep.Connection) -> viewkeep.Connection:
    for statement in (
        "CREATE TABLE parts (pid INT, price DECIMAL(10,2), weight DOUBLE, PRIMARY KEY (pid))",
        "CREATE TABLE used (did INT, pid INT, n INT, PRIMARY KEY (did, pid))",
        "INSERT INTO parts VALUES (1, 10, 0.5), (2, 20, 1.5), (3, 30, NULL)",
        "INSERT INTO used VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 3, 1)",
    ):
        spark_engine.sql(statement)
    return spark_engine


@contextmanager
def computed_by_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The relations that Spark computes in a block, but for net changes."""
    names: list[str] = []
    real: Callable[..., int] = relations.Relations.compute

    def compute(self: Any, name: str, frame: Any) -> int:
        if "_net_" not in name:
            names.append(name)
        return real(self, name, frame)

    with monkeypatch.context() as patch:
        patch.setattr(relations.Relations, "compute", compute)
        yield names


COST = "SELECT u.did, SUM(p.price * u.n) AS cost FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did"


def check(spark: Any, name: str, query: str) -> None:
    shown, wanted = (bag(map(tuple, spark.sql(q).collect())) for q in (f"SELECT * FROM {name}", query))
    assert shown == wanted


def test_spark_fetches_and_stores_and_computes_nothing_else(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    for change in (
        "UPDATE parts SET price = price + 1 WHERE pid <> 2",
        "DELETE FROM used WHERE pid = 3",
        "INSERT INTO used VALUES (3, 2, 5), (4, 1, 2)",
        "UPDATE used SET n = n + 1, pid = 3 WHERE did = 1 AND pid = 2",
    ):
        spark.sql(change).collect()
        with computed_by_spark(monkeypatch) as names:
            vk.refresh("cost")
        assert names == [], change
        check(spark, "cost", COST)
    assert vk.verify("cost")


def test_relations_that_are_not_small_are_fetched_by_the_values_that_a_diff_looks_for(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearby, "WHOLE", 0)
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    for number in range(3):
        spark.sql("UPDATE parts SET price = price + 1 WHERE pid = 1").collect()
        spark.sql(f"INSERT INTO used VALUES ({5 + number}, 2, 5)").collect()
        with computed_by_spark(monkeypatch) as names:
            vk.refresh("cost")
        assert names == []
        check(spark, "cost", COST)


def test_a_relation_with_too_many_rows_is_left_to_spark(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    spark.sql("UPDATE parts SET price = price + 1 WHERE pid = 1").collect()
    monkeypatch.setattr(nearby, "LOCAL_ROWS", 1)
    with computed_by_spark(monkeypatch) as names:
        vk.refresh("cost")
    assert names
    check(spark, "cost", COST)


def test_doubles_timestamps_and_functions_of_the_users_own_are_sparks(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # DuckDB has a function of this name, which answers something else
    vk.register_function("even", lambda x: None if x is None else x % 2, "INT", ["INT"])
    queries = {
        "weights": "SELECT u.did, SUM(p.weight) AS w FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did",
        "own": "SELECT did, pid, even(n) AS h FROM used",
        "digits": "SELECT did, pid, CAST(EXP(n) * 1000 AS DECIMAL(30,15)) AS e FROM used",
    }
    for name, query in queries.items():
        vk.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    spark.sql("UPDATE used SET n = n + 1, pid = 3 WHERE did = 1 AND pid = 2").collect()
    for name in queries:
        with computed_by_spark(monkeypatch) as names:
            vk.refresh(name)
        assert names, name
        assert vk.verify(name)


@pytest.mark.parametrize("kind", [t.DOUBLE, t.TIMESTAMP, t.NULL, t.array(t.INT)])
def test_types_that_are_not_compared_or_added_up_alike(kind: t.Type) -> None:
    assert arrow_type(kind) is None


@pytest.mark.parametrize("most", [100, 0])
def test_net_changes_of_few_events_are_combined_here(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    combined: list[str] = []
    real = relations.Relations.compute

    def compute(self: Any, name: str, frame: Any) -> int:
        combined.extend([name] if "_net_" in name else [])
        return real(self, name, frame)

    monkeypatch.setattr(relations.Relations, "compute", compute)
    monkeypatch.setattr(feeds, "LOCAL_ROWS", most)
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    for change in (
        "UPDATE used SET n = n + 1 WHERE did = 1",
        "UPDATE used SET n = n - 1 WHERE did = 1",  # these two come to nothing
        "DELETE FROM used WHERE did = 2",
        "INSERT INTO used VALUES (2, 1, 8), (5, 5, 5), (6, 1, 1)",
        "DELETE FROM used WHERE did = 5",
        "UPDATE used SET did = 7 WHERE did = 3",
    ):
        spark.sql(change).collect()
    done = vk.refresh("cost")[0]
    assert (done.strategy, done.changes_in) == ("id", 4)
    check(spark, "cost", COST)
    assert bool(combined) is (most == 0)


def test_net_changes_with_doubles_are_left_to_spark(vk: viewkeep.Connection, spark: Any) -> None:
    query = "SELECT u.did, u.pid, p.weight FROM used u JOIN parts p ON u.pid = p.pid"
    vk.sql(f"CREATE MATERIALIZED VIEW weights AS {query}")
    spark.sql("UPDATE parts SET weight = CASE pid WHEN 1 THEN -0.0 ELSE double('NaN') END").collect()
    vk.refresh("weights")
    spark.sql("UPDATE parts SET weight = CASE pid WHEN 1 THEN 0.0 ELSE double('NaN') END").collect()
    vk.refresh("weights")
    assert vk.verify("weights")
