"""A warehouse directory on one machine: viewkeep starts Spark, holds the directory, and finds its tables."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from viewkeep.engines.spark.delta_package import DELTA_PACKAGE
from viewkeep.engines.spark.engine import OPEN, SparkEngine
from viewkeep.errors import EngineError, Unavailable, WarehouseHeld


def open_local(where: str) -> LocalSparkEngine:
    """Starts a local Spark over a warehouse directory, which is made if it is not there."""
    directory = Path(where or "warehouse").resolve()
    if SparkSession.getActiveSession() is not None:
        raise EngineError(
            "a Spark session is active in this process already",
            hint="give it to viewkeep: viewkeep.connect(spark)",
        )
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / ".viewkeep.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        lock.close()
        raise WarehouseHeld(
            f"{directory} is open in another process", hint="close it there, or wait until it is done"
        ) from problem
    try:
        return LocalSparkEngine(_session(directory), directory, lock)
    except BaseException:
        lock.close()
        raise


def local_builder(warehouse: Path | str) -> Any:
    """A session builder with Delta Lake and settings that suit one machine."""
    # Python functions run where this runs, not in whatever python3 is first on the path
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.appName("viewkeep")
        .master("local[*]")
        .config("spark.jars.packages", DELTA_PACKAGE)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "16")  # of which adaptive plans make fewer where rows are few
        .config("spark.databricks.delta.snapshotPartitions", "2")
        # what each broadcast and each aggregate takes at once, however few rows it has: else up to 64 MB
        .config("spark.buffer.pageSize", "2m")
        # on a local disk it starts a thread for each page that is read
        .config("spark.hadoop.parquet.hadoop.vectored.io.enabled", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
    )


def _session(directory: Path) -> SparkSession:
    log = directory / ".viewkeep-spark.log"
    try:
        with _stderr_to(log):
            session: SparkSession = local_builder(directory).config("spark.driver.memory", "6g").getOrCreate()
    except PySparkException as problem:
        raise Unavailable(
            f"Spark does not start: {str(problem).splitlines()[0]}",
            hint="it needs Java 17 or later and, the first time, the Delta Lake package: run make setup; "
            f"what Spark said is in {log}",
        ) from problem
    return session


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What the Java process writes goes to a file, for all its life: it inherits the handle at its start."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


class LocalSparkEngine(SparkEngine):
    """Owns its session and its directory. The catalog is in memory: tables are found by their files."""

    def __init__(self, session: SparkSession, directory: Path, lock: Any) -> None:
        super().__init__(session)
        self._directory = directory
        self._lock_file = lock
        self._find_tables(directory, "default")
        for place in sorted(path for path in directory.glob("*.db") if path.is_dir()):
            database = exp.to_identifier(place.stem, quoted=True).sql("spark")
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
            self._find_tables(place, database)
        for view, body in self._registered():
            self.show(view, body)

    def _find_tables(self, directory: Path, database: str) -> None:
        for log in sorted(directory.glob("*/_delta_log")):
            table = log.parent
            if any(log.iterdir()):
                self._session.catalog.createTable(
                    f"{database}.`{table.name}`", path=table.as_uri(), source="delta"
                )

    def drop_table(self, name: str, if_exists: bool) -> None:
        super().drop_table(name, if_exists)
        database, _, bare = name.rpartition(".")
        self._dropped(database or "default", bare)

    def _dropped(self, database: str, table: str) -> None:
        """A table found by its files is external to Spark, which then leaves them when it is dropped."""
        parent = self._directory if database == "default" else self._directory / f"{database}.db"
        path = parent / table.lower()
        if path.is_dir() and path.parent == parent:
            shutil.rmtree(path)

    def is_alone(self) -> bool:
        """The directory is this process's, and here nobody has made another engine of the same session."""
        return set(OPEN) == {self}

    def close(self) -> None:
        super().close()
        self._user.stop()
        self._lock_file.close()
