"""Spark's errors in viewkeep's words."""

from __future__ import annotations

from pyspark.errors import PySparkException

from viewkeep.errors import EngineError, UnknownTable, ViewkeepError

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ImportError:  # a client of Spark Connect alone
    BETWEEN_PROCESSES: tuple[type[Exception], ...] = ()
    THROWN: tuple[type[Exception], ...] = ()
else:
    BETWEEN_PROCESSES, THROWN = (Py4JError,), (Py4JJavaError,)

# what a query raises: PySpark does not make errors of its own of all that a job throws
FAILURES: tuple[type[Exception], ...] = (PySparkException, *THROWN)


def first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    if isinstance(problem, THROWN):  # it begins with the name of a call between the processes
        lines = [
            line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")
        ] or lines
    return lines[0][:300]


def translated(problem: Exception) -> ViewkeepError:
    text = first_line(problem)
    if "TABLE_OR_VIEW_NOT_FOUND" in text:
        return UnknownTable(text, hint="create the table first, or check the spelling and the database")
    return EngineError(text, hint="correct the statement and run it again")
