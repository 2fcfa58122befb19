"""One Spark session for the whole run; each test that uses it gets databases of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeep


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A user's own Spark session with Delta Lake."""
    from viewkeep.engines.spark.local import local_builder

    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = (
        local_builder(warehouse)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.artifact.isolation.enabled", "false")
        # hundreds of queries over a few rows each: to compile them would take longer than to interpret them
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
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
