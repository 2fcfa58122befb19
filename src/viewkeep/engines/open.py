"""From what a user gives to connect() to an engine."""

from __future__ import annotations

from typing import Any

from viewkeep.engines.contract import Engine
from viewkeep.errors import EngineError, Unavailable

_FORMS = 'a SparkSession, "spark:DIR", "duckdb:FILE", or "postgresql://USER@HOST/DATABASE"'


def open_engine(where: Any) -> Engine:
    """The engine behind a session or an address."""
    if not isinstance(where, str):
        return _spark_session(where)
    kind, colon, rest = where.partition(":")
    if colon and kind == "duckdb":
        from viewkeep.engines.duckdb.engine import DuckDBEngine

        return DuckDBEngine(rest)
    if colon and kind == "spark":
        _need_pyspark()
        from viewkeep.engines.spark.local import open_local

        return open_local(rest)
    if colon and kind in ("postgresql", "postgres"):
        _need_pg8000()
        from viewkeep.engines.postgres.engine import PostgresEngine

        return PostgresEngine(where)
    raise EngineError(f"viewkeep cannot connect to {where!r}", hint=f"give {_FORMS}")


def _spark_session(session: Any) -> Engine:
    if not hasattr(session, "sql") or not hasattr(session, "createDataFrame"):
        raise EngineError(f"{type(session).__name__} is no SparkSession", hint=f"give {_FORMS}")
    from viewkeep.engines.spark.engine import SparkEngine

    return SparkEngine(session)


def _need_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as problem:
        raise Unavailable("PySpark is not installed", hint='pip install "viewkeep[spark]"') from problem


def _need_pg8000() -> None:
    try:
        import pg8000  # noqa: F401
    except ImportError as problem:
        raise Unavailable("pg8000 is not installed", hint='pip install "viewkeep[postgres]"') from problem
