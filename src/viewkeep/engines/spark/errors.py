"""Spark's errors in viewkeep's words."""

from __future__ import annotations

from pyspark.errors import PySparkException

from viewkeep.errors import EngineError, UnknownTable, ViewkeepError


def first_line(problem: BaseException) -> str:
    return str(problem).strip().splitlines()[0][:300]


def translated(problem: PySparkException) -> ViewkeepError:
    text = first_line(problem)
    if "TABLE_OR_VIEW_NOT_FOUND" in text:
        return UnknownTable(text, hint="create the table first, or check the spelling and the database")
    return EngineError(text, hint="correct the statement and run it again")
