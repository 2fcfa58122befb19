"""Spark Declarative Pipelines: projects as they are, their materialized views kept incrementally.

PySpark is imported when a function here is called, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from viewkeep.errors import Unavailable

if TYPE_CHECKING:
    from viewkeep.connection import Connection
    from viewkeep.pipelines.runs import Run


def run(vk: Connection, spec_path: str | Path | None = None, full: bool = False) -> Run:
    """Brings the materialized views of a project up to date; new ones are made, changed ones are replaced.

    `spec_path` is its spark-pipeline.yml: else that of this directory, or of the nearest one above. A view
    that fails does not stop the others: the run is false then, and its outcomes tell. `full` computes the
    views from scratch.
    """
    _need_pyspark()
    from viewkeep.pipelines import runs

    return runs.run(vk, spec_path, full)


def dry_run(vk: Connection, spec_path: str | Path | None = None) -> Run:
    """What a run would do. Checks all that can be checked, and changes nothing."""
    _need_pyspark()
    from viewkeep.pipelines import runs

    return runs.dry_run(vk, spec_path)


def _need_pyspark() -> None:
    try:
        import pyspark.pipelines  # noqa: F401
    except ImportError as problem:
        raise Unavailable("PySpark is not installed", hint='pip install "viewkeep[spark]"') from problem


__all__ = ["dry_run", "run"]
