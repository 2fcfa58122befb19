"""One Spark session and one PostgreSQL server for the whole run; each test that uses one gets databases of its
own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import viewkeep
from viewkeep.bench.server import Server, private_server

# Hundreds of queries over a few rows each: what takes time is to plan them, to compile them, and to start jobs
# and tasks, of which there are as few as can be. Tests that start a session of their own have Spark's defaults.
FOR_FEW_ROWS = {
    "spark.driver.memory": "4g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xms2g -Xmn1g -XX:MetaspaceSize=512m",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.ui.explainMode": "simple",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A user's own Spark session with Delta Lake."""
    from viewkeep.engines.spark.local import local_builder

    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    builder = local_builder(warehouse)
    for key, value in FOR_FEW_ROWS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def spark_engine(spark: Any) -> Iterator[viewkeep.Connection]:
    """viewkeep on that session, with no tables in it before and none after."""
    for table in spark.sql("SHOW TABLES").collect():
        if table.isTemporary:
            spark.catalog.dropTempView(table.tableName)
    connection = viewkeep.connect(spark)
    yield connection
    views = connection.engine.views()
    while views:  # those that no other reads first
        read = {name for view in views for name in view.views}
        for view in [view for view in views if view.name not in read]:
            connection.drop(view.name)
        views = connection.engine.views()
    for view in spark.sql("SHOW VIEWS").collect():
        spark.sql(f"DROP VIEW IF EXISTS `{view.viewName}`")
    for table in spark.sql("SHOW TABLES").collect():
        if not table.isTemporary:
            spark.sql(f"DROP TABLE IF EXISTS `{table.tableName}`")
    connection.close()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark commits as in a warehouse that one process holds: quicker, and right where a test has one
    engine."""
    from viewkeep.engines.spark.engine import SparkEngine

    monkeypatch.setattr(SparkEngine, "is_alone", lambda self: True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A server of the tests' own. Its strings compare as people sort them, not as Spark does: by their bytes."""
    with private_server(locale=("--locale-provider=icu", "--icu-locale=en-US")) as server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: Server) -> Iterator[str]:
    """A database of the test's own."""
    name = f"test_{uuid4().hex}"
    postgres_server.run(f"CREATE DATABASE {name}")
    yield postgres_server.address(name)
    postgres_server.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres(postgres_address: str) -> Iterator[viewkeep.Connection]:
    """viewkeep on a database of the test's own."""
    with viewkeep.connect(postgres_address) as connection:
        yield connection
