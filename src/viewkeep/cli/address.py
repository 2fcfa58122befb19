"""From --engine, --at and VIEWKEEP_AT to an address that viewkeep.connect() takes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from viewkeep.errors import EngineError

VARIABLE = "VIEWKEEP_AT"
_DEFAULTS = {"spark": "./warehouse", "duckdb": "", "postgres": "//"}
_ALIASES = {"postgresql": "postgres"}
_DUCKDB_SUFFIXES = (".db", ".duckdb")


def address(engine: str | None, at: str | None) -> str:
    """The address of the warehouse that the user means.

    --at is a full address (duckdb:shop.db, postgresql://host/shop), or what --engine reads: a file for
    duckdb, a directory for spark, a database for postgres. Without --at the variable VIEWKEEP_AT says where;
    without both it is ./warehouse on Spark, and what psql's variables say on PostgreSQL.
    """
    if at is None:
        at = _from_environment(engine)
    if at is None:
        engine = engine or "spark"
        return f"{engine}:{_DEFAULTS[engine]}"
    named = _engine_in(at)
    if named is None and engine == "postgres":
        return f"postgres:///{at}"
    if named is None:
        _refuse_unknown_engine(engine, at)
        return f"{engine or _engine_for_path(at)}:{at}"
    if engine is not None and engine != named:
        raise EngineError(
            f"--engine {engine} does not fit --at {at}",
            hint=f"leave out --engine, or give --at a path for {engine}",
        )
    return at


def _from_environment(engine: str | None) -> str | None:
    """What the variable says, unless --engine asks for another engine than the one it names."""
    at = os.environ.get(VARIABLE)
    if not at:
        return None
    named = _engine_in(at)
    return None if engine and named and named != engine else at


def _engine_in(at: str) -> str | None:
    kind, colon, _ = at.partition(":")
    kind = _ALIASES.get(kind, kind)
    return kind if colon and kind in _DEFAULTS else None


def _refuse_unknown_engine(engine: str | None, at: str) -> None:
    """A misspelled engine must not become a new warehouse of that name. A drive is one letter, and s3a://...
    a directory of Spark's."""
    found = re.match(r"(\w{2,}):(?!//)", at)
    if engine is None and found and not Path(at).exists():
        raise EngineError(
            f"viewkeep knows no engine {found[1]}",
            hint="write duckdb:FILE, spark:DIR or postgresql://HOST/DATABASE, or say --engine for a path",
        )


def _engine_for_path(path: str) -> str:
    """A Spark warehouse is a directory, so a file can only be DuckDB's."""
    return "duckdb" if Path(path).is_file() or path.endswith(_DUCKDB_SUFFIXES) else "spark"
