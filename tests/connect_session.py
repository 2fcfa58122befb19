"""A Spark Connect session, in a process of its own, that keeps two views: see test_spark_connect.py.

Prints what it finds as JSON. A process has either classic sessions or those of Spark Connect.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import viewkeep
from viewkeep import pipelines
from viewkeep.engines.spark.delta_package import DELTA_PACKAGE
from viewkeep.errors import Unsupported

SETTINGS = {
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
VIEWS = {
    "spj": "SELECT did, pid, price FROM parts NATURAL JOIN used",
    "cost": "SELECT did, SUM(price) AS cost, COUNT(*) AS n FROM parts NATURAL JOIN used GROUP BY did",
}


def main(warehouse: Path) -> None:
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.warehouse.dir", str(warehouse))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    vk = viewkeep.connect(spark)
    vk.sql("CREATE TABLE parts (pid INT, price DECIMAL(10,2), PRIMARY KEY (pid))")
    vk.sql("CREATE TABLE used (did INT, pid INT, PRIMARY KEY (did, pid))")
    vk.sql("INSERT INTO parts VALUES (1, 10), (2, 20), (3, 30)")
    vk.sql("INSERT INTO used VALUES (1, 1), (1, 2), (2, 1), (3, 3)")
    for name, query in VIEWS.items():
        vk.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    spark.sql("UPDATE parts SET price = 11 WHERE pid = 1").collect()
    spark.sql("INSERT INTO used VALUES (4, 1)").collect()
    spark.sql("DELETE FROM used WHERE did = 3").collect()
    found: dict[str, object] = {"session": type(spark).__module__}
    for done in vk.refresh():
        found[done.view] = {"strategy": done.strategy, "rows_changed": done.rows_changed, "jobs": done.jobs}
    found["verified"] = [bool(vk.verify(name)) for name in VIEWS]
    vk.optimize("cost")
    try:
        pipelines.run(vk, warehouse / "spark-pipeline.yml")
    except Unsupported as problem:
        found["pipelines"] = problem.message
    found["rows"] = sorted([int(did), str(cost), n] for did, cost, n in vk.sql("SELECT * FROM cost").rows)
    print(json.dumps(found), flush=True)
    # PySpark ends the server first, and then waits many minutes for it to clean up after each session
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
