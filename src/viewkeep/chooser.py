"""Which strategy a refresh runs, and why.

    auto                 the cheapest by estimate: the delta script, or recomputing
    incremental          the delta script, whatever recomputing would cost
    incremental_strict   the same, and views of which a change may mean computing all again are refused
    full                 recomputing

An estimate is what the same work cost before, scaled to this change; before there is any, it is what
recomputing cost, scaled by the rows that the script reads and changes against those that the query reads.

Caches serve scripts only. A view whose changes are usually cheaper to recompute is kept without them, and
gets them back when they would soon be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

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
# Changes whose numbers differ by less than a third, as a logarithm, are of about one size.
ABOUT = 0.3
# So many of the last times that something took are looked at.
RECENT = 3
# Caches are made again where scripts save what that takes in so many refreshes.
PAID_BACK = 10


@dataclass(frozen=True)
class Past:
    """An earlier refresh: what ran, over how many changes, how long it took, and how many statements wrote:
    of recomputing one for each relation that it filled."""

    strategy: str
    changes: int
    seconds: float
    statements: int = 1


@dataclass(frozen=True)
class Kept:
    """What a view keeps: how many relations, itself and its caches; whether it is without its caches now; and
    the seconds that the longest took to be filled."""

    relations: int = 1
    is_bare: bool = False
    longest: float | None = None


ALONE = Kept()


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
    kept: Kept = ALONE


@dataclass(frozen=True)
class Choice:
    """Whether to recompute, the reason to tell, and whether recomputing fills the caches too."""

    full: bool
    reason: str = ""
    caches: bool = True


def choose(policy: str, facts: Facts) -> Choice:
    """Recomputing, or the delta script."""
    if policy == "full":
        return Choice(True, "refresh_policy is full", caches=False)
    if policy != "auto" or facts.table_rows < SMALL_TABLES:
        return Choice(facts.kept.is_bare, "its caches were missing")
    filling = _recomputing(facts, bare=False)
    if filling is None:
        return Choice(facts.kept.is_bare, "its caches were missing")
    bare = min(filling, _recomputing(facts, bare=True) or facts.kept.longest or filling)
    maintaining = _maintaining(facts.changes, facts)
    if maintaining is None:
        share = (facts.script_reads + CHANGED_ROW * facts.changes) / max(facts.query_reads, 1)
        usually = maintaining = facts.overhead + filling * share
        worth_caches = True  # what was never tried is not given up
    else:
        usually = _maintaining(_usual(facts), facts) or maintaining
        extra = (filling - bare) / PAID_BACK if facts.kept.is_bare else 0
        worth_caches = usually + extra <= bare * MARGIN
    recomputing = filling if worth_caches else bare
    saving = maintaining - recomputing
    too_little = facts.table_rows < LARGE_TABLES and saving < WORTH_SAVING
    if not facts.kept.is_bare and (maintaining <= recomputing * MARGIN or too_little):
        return Choice(False)
    if facts.kept.is_bare and worth_caches:
        return Choice(True, f"with its caches changes should take about {_told(usually)}")
    return Choice(
        True,
        f"{facts.changes:,} changes would take about {_told(maintaining)} to propagate, recomputing "
        f"about {_told(recomputing)}",
        caches=worth_caches,
    )


def _recomputing(facts: Facts, *, bare: bool) -> float | None:
    """What computing the view last took, with its caches or without: it reads everything, however much
    changed."""
    full = [p for p in facts.past if p.strategy == "full"]
    return _least([p.seconds for p in full if (p.statements < facts.kept.relations) == bare])


def _maintaining(changes: int, facts: Facts) -> float | None:
    """What a script should take, from the last refreshes of about this size that one did. Scripts that
    recompute the groups they touch are delta scripts like others."""
    did = [p for p in facts.past if p.strategy != "full"]
    if not did:
        return None

    def distance(p: Past) -> float:
        return abs(math.log((p.changes + 1) / (changes + 1)))

    nearest = min(map(distance, did))
    alike = [p for p in did if distance(p) <= nearest + ABOUT]
    return _least([_scaled(p, changes, facts) for p in alike])


def _scaled(past: Past, changes: int, facts: Facts) -> float:
    """What a refresh would have taken with another number of changes. Most of a small refresh is there at any
    size, so more changes cost what so many rows cost where the view is computed, and not a multiple of it: a
    script that took 50 ms for 10 rows does not take 10 s for 2,000."""
    if changes <= past.changes:
        return min(past.seconds, facts.overhead + past.seconds * (changes + 1) / (past.changes + 1))
    row = (_recomputing(facts, bare=False) or 0.0) / max(facts.table_rows, 1)
    return past.seconds + (changes - past.changes) * CHANGED_ROW * row


def _least(seconds: Sequence[float]) -> float | None:
    """The least of the last times that something took: other work on the machine only ever adds to it."""
    return min(seconds[-RECENT:], default=None)


def _usual(facts: Facts) -> int:
    """How many changes a refresh of this view has to do with."""
    return round(median([facts.changes, *(p.changes for p in facts.past if p.changes)]))


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
