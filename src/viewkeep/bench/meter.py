"""What a block of work cost: processor time, and on Spark its jobs and the rows that it read from files.

Processor time counts all threads, and Spark's JVM with its compiler and its garbage collector. Where others
use the machine too it says more than the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewkeep.connection import Connection

Costs = dict[str, int | float]


@contextmanager
def metered(vk: Connection) -> Iterator[Costs]:
    """Yields a dictionary that says, once the block is done, what it cost."""
    costs: Costs = {}
    if vk.engine.name == "spark":
        spark = vk.engine._user.sparkContext  # type: ignore[attr-defined]
        # jobs are numbered from 0, one after the other, for all sessions of the process
        first = spark._jsc.sc().dagScheduler().numTotalJobs()
        before = time.process_time() + _jvm_time(spark)
        yield costs
        costs["cpu_seconds"] = round(time.process_time() + _jvm_time(spark) - before, 6)
        costs |= _counts(spark, first)
    else:
        before = time.process_time()
        yield costs
        costs["cpu_seconds"] = round(time.process_time() - before, 6)


def _jvm_time(spark: Any) -> float:
    """Processor time of the JVM that PySpark started, from Linux: Java's own figure is closed to py4j."""
    text = Path(f"/proc/{spark._gateway.proc.pid}/stat").read_text(encoding="utf-8")
    # the name in parentheses may have blanks; user and system time are fields 14 and 15
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _counts(spark: Any, first: int) -> Costs:
    from viewkeep.engines.spark.counters import rows_read

    jobs = range(first, spark._jsc.sc().dagScheduler().numTotalJobs())
    return {"jobs": len(jobs), "rows_read": rows_read(spark, jobs)}
