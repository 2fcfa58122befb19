"""Every construct of the view language: after every batch each view equals its query, run by the engine."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep

from .helpers import con
from .language import BATCHES, START, TABLES, VIEWS
from .oracle.harness import bag, independent

# A refresh on Spark takes a second or more, so not every spelling of a construct is there.
ON_SPARK = (
    "unionall", "intersect", "exceptall", "left", "full", "overagg", "notexists", "notin", "inor", "scalarc",
    "scalarw", "minmax", "stddev", "rollup", "window", "qualify", "limitagg", "semi", "lateral2",
)  # fmt: skip


@pytest.mark.parametrize("strategy", ["id", "tuple"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_kept_on_duckdb(name: str, strategy: str) -> None:
    query = VIEWS[name]
    with viewkeep.connect("duckdb:") as vk:
        for statement in (*TABLES, *START):
            vk.sql(statement)
        vk.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = '{strategy}') AS {query}")
        for number, batch in enumerate(((), *BATCHES)):
            for statement in batch:
                vk.sql(statement)
            (done,) = vk.refresh("v")
            assert done.strategy in (strategy, "none")
            found = bag(con(vk).execute("SELECT * FROM v").fetchall())
            assert found == bag(con(vk).execute(independent(query)).fetchall()), f"after batch {number}"
            assert vk.verify("v")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_views_are_kept_on_spark(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """Several batches at once, since a refresh is what takes time here."""
    for statement in (*TABLES, *START):
        spark_engine.sql(statement)
    for name in ON_SPARK:
        spark_engine.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {VIEWS[name]}")
    for number, batches in enumerate(((), BATCHES[:3], BATCHES[3:5]), start=1):
        for statement in (s for batch in batches for s in batch):
            spark.sql(statement).collect()
        spark_engine.refresh()
        for name in ON_SPARK:
            found, expected = (
                bag(tuple(r) for r in spark.sql(q).collect())
                for q in (f"SELECT * FROM v_{name}", VIEWS[name])
            )
            assert found == expected, f"{name} differs after step {number}"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_refuses_a_comparison_that_it_answers_differently(spark_engine: viewkeep.Connection) -> None:
    for statement in TABLES:
        spark_engine.sql(statement)
    with pytest.raises(viewkeep.ViewkeepError, match="Spark answers false"):
        spark_engine.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS['insel']}")
