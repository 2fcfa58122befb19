"""What a block of work cost Spark, as Spark itself counts it: jobs, and rows read from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from viewkeep.connection import Connection

Counts = Callable[[], dict[str, int]]


@contextmanager
def metered(vk: Connection) -> Iterator[Counts]:
    """Yields a function that tells, once the block is done, what it cost; nothing on other engines."""
    if vk.engine.name != "spark":
        yield dict
        return
    context = vk.engine._user.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    # jobs are numbered from 0, one after the other, for all sessions of the process
    first = context.dagScheduler().numTotalJobs()
    yield lambda: _counts(context, first)


def _counts(context: Any, first: int) -> dict[str, int]:
    # metrics arrive on a queue of their own, some time after their job is done
    context.listenerBus().waitUntilEmpty()
    jobs = range(first, context.dagScheduler().numTotalJobs())
    store = context.statusStore()
    stages = {stage for job in jobs for stage in _stages(store, job)}
    return {"jobs": len(jobs), "rows_read": sum(_rows_read(store, stage) for stage in stages)}


def _stages(store: Any, job: int) -> list[int]:
    ids = store.job(job).stageIds()
    return [int(ids.apply(at)) for at in range(ids.size())]


def _rows_read(store: Any, stage: int) -> int:
    from py4j.protocol import Py4JJavaError

    try:
        return int(store.lastStageAttempt(stage).inputRecords())
    except Py4JJavaError:
        return 0  # a stage that was skipped, its output being there already
