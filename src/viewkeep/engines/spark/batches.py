"""Batches of a stream into Delta tables. Each commit carries the name of its stream and the number of its
batch, and Delta leaves out one that it has made already: a batch may be delivered any number of times."""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp

from viewkeep.catalog.models import Table
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.names import of, temporary, versioned
from viewkeep.errors import DuplicateKey, NoKey
from viewkeep.frontend.statements import DIALECT
from viewkeep.store import delta

_MERGE = "MERGE INTO t USING b ON TRUE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
TARGET, BATCH = "viewkeep_target", "viewkeep_batch"


def append(batch: Any, table: Table, stream: str, number: int) -> None:
    """Adds the rows of a batch, their columns by name."""
    writer = batch.write.format("delta").mode("append")
    writer = writer.option("txnAppId", stream).option("txnVersion", number)
    writer.saveAsTable(to_sql(versioned(table.name, None)))


def upsert(batch: Any, table: Table, stream: str, number: int) -> None:
    """Puts the rows of a batch in the place of those with the same key, and adds the others."""
    if not table.key:
        raise NoKey(
            f"rows are merged by their key, and table {table.name} has none",
            hint=f"ALTER TABLE {table.name} ADD PRIMARY KEY (column, ...), or use mode append",
        )
    batch = batch.persist()  # it is read twice, and its source may give other rows the second time
    try:
        _check_keys(batch, table)
        session = batch.sparkSession
        source = temporary(f"batch_{table.name}")
        batch.createOrReplaceTempView(source)
        try:
            with delta.writing_once(session, stream, number):
                session.sql(to_sql(_merge(table, source))).collect()
        finally:
            session.catalog.dropTempView(source)
    finally:
        batch.unpersist()


def _merge(table: Table, source: str) -> exp.Expr:
    merge = sqlglot.parse_one(_MERGE, read=DIALECT)
    merge.set("this", exp.alias_(versioned(table.name, None), TARGET, table=True))
    merge.set("using", exp.alias_(exp.table_(source, quoted=True), BATCH, table=True))
    same = [exp.EQ(this=of(TARGET, k), expression=of(BATCH, k)) for k in table.key]
    merge.set("on", exp.and_(*same))
    return merge


def _check_keys(batch: Any, table: Table) -> None:
    """Of two rows with one key nobody can say which is to stay, and a null names no row."""
    from pyspark.sql import functions as f

    keys = [f.col(f"`{k}`") for k in table.key]
    wrong = f.lit(False)
    for key in keys:
        wrong = wrong | key.isNull()
    rows = batch.groupBy(*keys).agg(f.count("*").alias("times")).where(wrong | (f.col("times") > 1)).take(5)
    if rows:
        shown = ", ".join(str(tuple(row)[:-1]) for row in rows)
        raise DuplicateKey(
            f"keys of a batch for {table.name} are null or there more than once: {shown}",
            hint="keep one row of each key in the batch, the newest by a column of yours",
        )
