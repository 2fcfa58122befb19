"""Decimals of as many digits as there are, on Spark, which rounds sums and negatives of them."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep

VIEWS = {
    "sums": "SELECT SUM(e) AS e, SUM(g) AS g, SUM(f) AS f, MAX(x) AS x FROM n",
    "groups": "SELECT id % 2 AS k, SUM(e) AS e, SUM(-f) AS f, MAX(x) AS x FROM n GROUP BY id % 2",
    "near": "SELECT id, -f AS f, ABS(f) AS a, -e AS e FROM m",
}


@pytest.mark.spark
def test_no_digit_is_lost(spark_engine: viewkeep.Connection, spark: Any) -> None:
    """Doubles have Spark compute the scripts by itself, also of few rows; without them it is done here."""
    for name, last in (("n", ", x DOUBLE"), ("m", "")):
        spark.sql(
            f"CREATE TABLE {name} (id INT NOT NULL, e DECIMAL(38,18), f DECIMAL(38,0), g DECIMAL(30,10){last}) "
            "USING DELTA"
        )
        spark_engine.sql(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    rows = (
        "SELECT CAST(id AS INT), id * 0.000000000000000001, 99999999999999999999999999999999999 + id, "
        "id * 0.0000000001"
    )
    spark.sql(f"INSERT INTO n {rows}, id FROM range(1, 9)")
    spark.sql(f"INSERT INTO m {rows} FROM range(1, 9)")
    for name, query in VIEWS.items():
        spark_engine.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for change in (
        "UPDATE {} SET e = e + 0.000000000000000001, g = g + 0.0000000001, f = f + 1",
        "UPDATE {} SET e = e - 1000.000000000000000007, g = -g, f = f - 3 WHERE id < 4",
    ):
        for name in ("n", "m"):
            spark.sql(change.format(name))
        assert {done.strategy for done in spark_engine.refresh()} == {"id"}
        for name, query in VIEWS.items():
            made, wanted = (
                sorted(map(str, spark.sql(q).collect())) for q in (f"SELECT * FROM {name}", query)
            )
            assert made == wanted, (name, change)
            assert spark_engine.verify(name)
    spark.sql("UPDATE n SET e = 20000000000000000000 WHERE id = 1")
    with pytest.raises(viewkeep.ViewkeepError, match="38 digits"):  # not a sum that is nearly right
        spark_engine.refresh()
    spark_engine.refresh(full=True)
    assert spark_engine.verify("sums")
