"""What a block of work made Spark do: jobs, and rows read from files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException

from viewkeep.engines.spark.errors import BETWEEN_PROCESSES, THROWN

# what Delta says of the jobs in which it reads its own log
_OWN_JOBS = "Delta: "
UNTOLD: tuple[type[Exception], ...] = (*BETWEEN_PROCESSES, AttributeError)


@dataclass(frozen=True)
class Counters:
    """None where the session cannot tell."""

    jobs: int | None = None
    rows_read: int | None = None


@contextmanager
def counting(session: Any) -> Iterator[Callable[[], Counters]]:
    """Counts the Spark jobs of a block and the rows that they read, where the session can tell: Spark Connect
    cannot."""
    try:
        context = session.sparkContext
        before = context.getLocalProperty("spark.jobGroup.id")
    except (PySparkException, AttributeError):
        yield Counters
        return
    group = f"viewkeep-{uuid.uuid4()}"
    context.setLocalProperty("spark.jobGroup.id", group)
    try:
        yield lambda: _counted(context, group)
    finally:
        context.setLocalProperty("spark.jobGroup.id", before)


def _counted(context: Any, group: str) -> Counters:
    jobs = context.statusTracker().getJobIdsForGroup(group)
    try:
        return Counters(len(jobs), rows_read(context, jobs))
    except UNTOLD:  # how Spark keeps count inside is not part of its API
        return Counters(len(jobs))


def rows_read(context: Any, jobs: Iterable[int]) -> int:
    """The rows that jobs have read from files; Delta's reading of its own log does not count."""
    inside = context._jsc.sc()
    # metrics arrive on a queue of their own, some time after their job is done
    inside.listenerBus().waitUntilEmpty()
    store = inside.statusStore()
    stages = {stage for job in jobs for stage in _stages(store.job(job))}
    return sum(_of_stage(store, stage) for stage in stages)


def _stages(job: Any) -> list[int]:
    said = job.description()
    if said.isDefined() and said.get().startswith(_OWN_JOBS):
        return []
    ids = job.stageIds()
    return [int(ids.apply(at)) for at in range(ids.size())]


def _of_stage(store: Any, stage: int) -> int:
    try:
        return int(store.lastStageAttempt(stage).inputRecords())
    except THROWN:
        return 0  # a stage that was skipped, its output being there already
