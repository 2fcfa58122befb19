"""Which strategy a refresh runs, and why.

    auto                 the cheapest by estimate: the delta script, or recomputing
    incremental          the delta script, whatever recomputing would cost
    incremental_strict   the same, and views of which a change may mean computing all again are refused
    full                 recomputing

An estimate is what the same work cost before, scaled to this change; before there is any, it is what
recomputing cost, scaled by the rows that the script reads and changes against those that the query reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from viewkeep.algebra.nodes import Aggregate, Limit, Node, Window, walk

POLICIES = ("auto", "incremental", "incremental_strict", "full")
# Recomputing such small tables takes no time worth thinking of, and neither does their maintenance.
SMALL_TABLES = 100_000
# Over tables that are not large a small change is propagated although its statements may take some
# milliseconds longer than recomputing: what counts there is not to recompute without need. It must save
# so many seconds.
LARGE_TABLES, WORTH_SAVING = 1_000_000, 0.25
# A changed row is logged, netted, joined, compared and written, where recomputing reads it once.
CHANGED_ROW = 30
# Estimates are not so good that a smaller difference would tell anything.
MARGIN = 1.2


@dataclass(frozen=True)
class Past:
    """An earlier refresh: what ran, over how many changes, and how long it took."""

    strategy: str
    changes: int
    seconds: float


@dataclass(frozen=True)
class Facts:
    """What is known before a refresh. `table_rows`: of all base tables of the view. `query_reads` and
    `script_reads`: the rows that recomputing and the delta script scan. `overhead`: seconds that a script's
    statements take however little they read."""

    changes: int
    table_rows: int
    query_reads: int
    script_reads: int
    overhead: float
    past: Sequence[Past]


@dataclass(frozen=True)
class Choice:
    """Whether to recompute, and the reason to tell."""

    full: bool
    reason: str = ""


def choose(policy: str, strategy: str, facts: Facts) -> Choice:
    """Recomputing, or the delta script of a strategy."""
    if policy == "full":
        return Choice(True, "refresh_policy is full")
    if policy != "auto" or facts.table_rows < SMALL_TABLES:
        return Choice(False)
    recomputing = _seconds("full", facts)
    if recomputing is None:
        return Choice(False)
    maintaining = _seconds(strategy, facts)
    if maintaining is None:
        share = (facts.script_reads + CHANGED_ROW * facts.changes) / max(facts.query_reads, 1)
        maintaining = facts.overhead + recomputing * share
    saving = maintaining - recomputing
    if maintaining <= recomputing * MARGIN or (facts.table_rows < LARGE_TABLES and saving < WORTH_SAVING):
        return Choice(False)
    return Choice(
        True,
        f"{facts.changes:,} changes would take about {_told(maintaining)} to propagate, recomputing "
        f"about {_told(recomputing)}",
    )


def _seconds(strategy: str, facts: Facts) -> float | None:
    """What a strategy should take, from the last refresh of about this size that it did."""
    did = [p for p in facts.past if _kin(p.strategy) == _kin(strategy)]
    if not did:
        return None
    if strategy == "full":
        return did[-1].seconds  # it reads everything, however much changed
    nearest = min(reversed(did), key=lambda p: abs(math.log((p.changes + 1) / (facts.changes + 1))))
    # half of it is taken to be there at any size, the other half to grow with the change
    return nearest.seconds * (1 + (facts.changes + 1) / (nearest.changes + 1)) / 2


def _kin(strategy: str) -> str:
    """Scripts that recompute the groups they touch are delta scripts like others."""
    return "full" if strategy == "full" else "script"


def _told(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def needs_everything(plan: Node) -> str | None:
    """Why a small change may mean computing the whole view again, if it may."""
    for node in walk(plan):
        if isinstance(node, Window) and not node.partition:
            return "a window without PARTITION BY has one partition, which every change touches"
        if isinstance(node, Limit):
            return "the first rows are looked for among all rows at every change"
        if isinstance(node, Aggregate) and not node.keys and any(m.function == "any" for m in node.measures):
            return "an aggregate without GROUP BY that nothing can be added to is computed from all rows"
    return None
