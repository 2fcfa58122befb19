"""Streams into base tables: batches that come again, and crashes between a batch and the refresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import DuplicateKey, NoKey, UnknownTable, Unsupported
from viewkeep.streaming import refresh_sink

from .helpers import crash_at

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def test_a_stream_that_dies_before_the_refresh_goes_on_with_nothing_twice(
    spark_engine: viewkeep.Connection, spark: Any, tmp_path: Path
) -> None:
    vk = spark_engine
    vk.sql("CREATE TABLE source (k INT, x INT) USING delta")
    vk.sql("CREATE TABLE events (k INT, x INT, PRIMARY KEY (k))")
    vk.sql("CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(x) AS x FROM events")
    vk.sql("INSERT INTO source VALUES (1, 10), (2, 20)")

    def run(sink: Any) -> None:
        stream = spark.readStream.table("source").writeStream.foreachBatch(sink)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream.trigger(availableNow=True).start().awaitTermination()

    crashing = viewkeep.connect(spark)
    crashing.progress = crash_at(1)  # between the batch and the refresh
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException, match="reading where total stands"):
        run(crashing.stream_into("events", name="feed"))
    assert rows(spark, "SELECT * FROM events") == [(1, 10), (2, 20)], "the batch was written"
    assert rows(spark, "SELECT * FROM total") == [(0, None)], "the view was not refreshed"

    vk.sql("INSERT INTO source VALUES (3, 30)")
    run(vk.stream_into("events", name="feed"))
    assert rows(spark, "SELECT * FROM events") == [(1, 10), (2, 20), (3, 30)], "nothing is there twice"
    assert rows(spark, "SELECT * FROM total") == [(3, 60)]


def test_upserts_merge_by_key_and_a_batch_that_comes_again_changes_nothing(
    spark_engine: viewkeep.Connection, spark: Any
) -> None:
    vk = spark_engine
    vk.sql("CREATE TABLE stock (k INT, x INT, PRIMARY KEY (k))")
    vk.sql("CREATE TABLE nokey (k INT) USING delta")
    vk.sql("INSERT INTO stock VALUES (1, 10)")
    vk.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(x) AS x FROM stock")
    sink = refresh_sink(vk, "total", into="stock", name="feed", mode="upsert")
    schema = "k INT, x INT"
    sink(spark.createDataFrame([(1, 11), (2, 20)], schema), 0)
    assert rows(spark, "SELECT * FROM stock") == [(1, 11), (2, 20)]
    assert rows(spark, "SELECT * FROM total") == [(31,)]
    vk.sql("UPDATE stock SET x = 12 WHERE k = 1")  # someone else's change must outlive the replay
    sink(spark.createDataFrame([(1, 11), (2, 20)], schema), 0)
    assert rows(spark, "SELECT * FROM stock") == [(1, 12), (2, 20)]
    assert rows(spark, "SELECT * FROM total") == [(32,)]
    with pytest.raises(DuplicateKey, match="more than once"):
        sink(spark.createDataFrame([(5, 1), (5, 2)], schema), 1)
    with pytest.raises(DuplicateKey, match="null"):
        sink(spark.createDataFrame([(None, 1)], schema), 1)
    assert rows(spark, "SELECT * FROM stock") == [(1, 12), (2, 20)]
    with pytest.raises(NoKey):
        vk.stream_into("nokey", mode="upsert", name="feed")(spark.createDataFrame([(1,)], "k INT"), 0)
    with pytest.raises(UnknownTable):
        vk.stream_into("nowhere", name="feed")(spark.createDataFrame([(1,)], "k INT"), 0)
    with pytest.raises(Unsupported, match="materialized view"):
        vk.stream_into("total", name="feed")
    with pytest.raises(Unsupported, match="no mode"):
        vk.stream_into("stock", mode="replace", name="feed")
    assert not [row for row in spark.sql("SHOW TABLES").collect() if row.isTemporary]
