"""On what a measurement was made: figures without it mean little."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from viewkeep.connection import Connection

_PACKAGES = ("viewkeep", "duckdb", "pyspark", "pyarrow", "sqlglot", "pg8000")
_DUCKDB_SETTINGS = ("threads", "memory_limit")
_POSTGRES_SETTINGS = (
    "server_version",
    "shared_buffers",
    "work_mem",
    "effective_cache_size",
    "fsync",
    "synchronous_commit",
    "max_parallel_workers_per_gather",
    "random_page_cost",
)
_SPARK_SETTINGS = (
    "spark.master",
    "spark.driver.memory",
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.jars.packages",
)


def machine() -> dict[str, Any]:
    """The processor, memory, operating system and libraries."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: found for name in _PACKAGES if (found := _version(name))},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """How many programs wanted a processor in the last 1, 5 and 15 minutes: others disturb a measurement."""
    return [round(load, 2) for load in os.getloadavg()]


def settings(vk: Connection) -> dict[str, str]:
    """The settings of the engine that decide how quick it is."""
    if vk.engine.name == "spark":
        session = vk.engine._user  # type: ignore[attr-defined]
        return {name: str(session.conf.get(name, None)) for name in _SPARK_SETTINGS}
    if vk.engine.name == "postgres":
        ask = vk.engine._session.rows  # type: ignore[attr-defined]
        return {name: str(ask("SELECT current_setting($1)", name)[0][0]) for name in _POSTGRES_SETTINGS}
    con = vk.engine._con  # type: ignore[attr-defined]
    return {
        name: str(con.execute("SELECT current_setting(?)", [name]).fetchone()[0]) for name in _DUCKDB_SETTINGS
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    """The processor's name, as Linux tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
