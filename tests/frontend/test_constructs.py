"""Constructs that the front end rewrites to others: each view equals its query, run by the engine alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

import viewkeep
from viewkeep.cli.json_form import of_result

from ..helpers import con
from ..oracle.harness import bag, independent
from .constructs import AGGREGATED, CORRELATED, OTHERS, STARS, TABLES, WINDOWS, batch, start

VIEWS: Mapping[str, tuple[str, str]] = {
    **{
        name: (query, independent(query))
        for name, query in {**CORRELATED, **STARS, **WINDOWS, **OTHERS}.items()
    },
    **AGGREGATED,
}
SEEDS, BATCHES = int(os.environ.get("VIEWKEEP_SEEDS", "1")), 3


def rows(vk: viewkeep.Connection, query: str) -> Counter[Any]:
    found = con(vk).execute(query).fetchall()
    return bag([tuple(v) if isinstance(v, list) else v for v in row] for row in found)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_kept_under_random_changes(name: str) -> None:
    query, on_duckdb = VIEWS[name]
    for seed in range(SEEDS):
        random = Random(f"{name} {seed}")
        with viewkeep.connect("duckdb:") as vk:
            for statement in (*TABLES, *start(random)):
                vk.sql(statement)
            for strategy in ("id", "tuple"):
                vk.sql(f"CREATE MATERIALIZED VIEW {strategy} WITH (strategy = '{strategy}') AS {query}")
            for number in range(BATCHES + 1):
                for statement in batch(random, number) if number else ():
                    vk.sql(statement)
                vk.refresh()
                expected = rows(vk, on_duckdb)
                for strategy in ("id", "tuple"):
                    found = rows(vk, f"SELECT * FROM {strategy}")
                    assert found == expected, f"{strategy}, seed {seed}, after batch {number}"
            assert vk.verify("id")
            assert vk.verify("tuple")


def test_an_array_is_a_list_in_json() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE t (k INT, m DECIMAL(5,2), PRIMARY KEY (k))")
        vk.sql("INSERT INTO t VALUES (1, 2.5), (2, 1), (3, NULL)")
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT COLLECT_LIST(m) AS l FROM t")
        (form,) = of_result(vk.sql("SELECT * FROM v"))
        assert form["rows"] == [[["1.00", "2.50"]]]


# PostgreSQL has no IGNORE NULLS
NOT_ON_POSTGRES: frozenset[str] = frozenset({"ignore_nulls"})


@pytest.mark.xdist_group("postgres")
def test_postgres_keeps_what_duckdb_keeps(postgres: viewkeep.Connection) -> None:
    """All at once: their tables and batches are the same."""
    random = Random("postgres")
    with viewkeep.connect("duckdb:") as other:
        for statement in (*TABLES, *start(random)):
            for vk in (postgres, other):
                vk.sql(statement)
        kept = [name for name in VIEWS if name not in NOT_ON_POSTGRES]
        for name in kept:
            postgres.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {VIEWS[name][0]}")
        for number in range(BATCHES + 1):
            for statement in batch(random, number) if number else ():
                for vk in (postgres, other):
                    vk.sql(statement)
            postgres.refresh()
            for name in kept:
                found = postgres.sql(f"SELECT * FROM v_{name}").rows
                same = bag([tuple(v) if isinstance(v, list) else v for v in row] for row in found)
                assert same == rows(other, VIEWS[name][1]), f"{name} differs after batch {number}"


# a refresh on Spark takes a second or more, so there are few views that have most of the constructs
ON_SPARK = (
    "max_by_two", "latest_before", "lateral_aggregate", "collect_of_outer", "listagg", "percentiles", "range_days",
)  # fmt: skip


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("alone")
def test_spark_keeps_what_duckdb_keeps(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """Spark itself refuses some of these queries, and leaves open what others answer."""
    random = Random("spark")
    with viewkeep.connect("duckdb:") as other:
        for statement in (*TABLES, *start(random)):
            for vk in (spark_engine, other):
                vk.sql(statement)
        for name in ON_SPARK:
            spark_engine.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {VIEWS[name][0]}")
        for number in range(2):
            for statement in batch(random, number) if number else ():
                for vk in (spark_engine, other):
                    vk.sql(statement)
            spark_engine.refresh()
            for name in ON_SPARK:
                found = spark.sql(f"SELECT * FROM v_{name}").collect()
                same = bag([tuple(v) if isinstance(v, list) else v for v in row] for row in found)
                assert same == rows(other, VIEWS[name][1]), f"{name} differs after batch {number}"
        for name in ("latest_before", "listagg"):
            assert spark_engine.verify(f"v_{name}"), name
