"""Which strategy a refresh runs, and why.

    auto                 the cheapest by estimate: the delta script, or recomputing
    incremental          the delta script, whatever recomputing would cost
    incremental_strict   the same, and views of which a change may mean computing all again are refused
    full                 recomputing

An estimate is what the same work cost before, scaled to this change; before there is any, it is what
recomputing cost, scaled by the rows that the script reads and changes against those that the query reads.

Caches serve scripts only. A view whose changes are usually cheaper to recompute, or to propagate by
tuple-based diffs, which need no rows below an aggregate, is kept without them, and gets them back when they
would soon be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
# No view takes longer than so many times its recompute for what others will use.
FOR_OTHERS = 1.4
# What computing a view took when it was created is more than it takes later: its tables were read for the
# first time, and caches were written that are larger than the view.
CREATING = 0.5
# So is what a script took when changes of about this size came for the first time: it is not given up before
# it had a second chance. What TPC-H's scripts come to is between 0.05 and 0.6 of the first run, most often a
# quarter to a half; half of the first can be more than recomputing takes, and then it stays so.
FIRST_TIME = 0.25
# Changes whose numbers differ by less than a third, as a logarithm, are of about one size.
ABOUT = 0.3
# So many of the last times that something took are looked at.
RECENT = 3
# Caches are made again where scripts save what that takes in so many refreshes.
PAID_BACK = 10
# Where recomputing was measured only when the view was created, what it takes is found out once by doing it,
# as soon as a script that had its second chance takes more than this share of the estimate: the estimate may
# be too high by as much.
DOUBTFUL = 0.4
# A script for which caches would be dropped must promise more than estimates err by, before it ran once.
UNTRIED = 1.5


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
class Lean:
    """The script by tuple-based diffs of a view that keeps nothing but its own rows: the rows that it reads,
    those that it scans where it looks none up, and the seconds that its statements take at least."""

    reads: int
    scans: int
    overhead: float


@dataclass(frozen=True)
class Netting:
    """The seconds that combining the log will take: the view's share of them, since other views will use what
    was combined, and all of them. If each view reckoned with all, none would do it for the others; if with
    its share alone, a view that is recomputed in no time would pay for them all."""

    share: float
    seconds: float


@dataclass(frozen=True)
class Facts:
    """What is known before a refresh. `table_rows`: of all base tables of the view. `query_reads` and
    `script_reads`: the rows that recomputing and the delta script scan. `overhead`: seconds that a script's
    statements take however little they read. `script_scans`: the rows that the script scans where it looks
    none up, which it does for more than `looked_up` changes. `netting`: what combining the log will take,
    where no other view had it done; it may then have more changes."""

    changes: int
    table_rows: int
    query_reads: int
    script_reads: int
    overhead: float
    past: Sequence[Past]
    kept: Kept = ALONE
    script_scans: int = 0
    looked_up: int = 0
    netting: Netting | None = None
    lean: Lean | None = None


@dataclass(frozen=True)
class Choice:
    """Whether to recompute, the reason to tell, and whether the view has caches afterwards. Without them, and
    not recomputed, it is maintained by its lean script."""

    full: bool
    reason: str = ""
    caches: bool = True


ALWAYS = Choice(True, "refresh_policy is full", caches=False)


def choose(policy: str, facts: Facts) -> Choice:
    """Recomputing, or the delta script."""
    if policy == "full":
        return ALWAYS
    if policy != "auto" or facts.table_rows < SMALL_TABLES:
        return Choice(facts.kept.is_bare, "its caches were missing")
    filling = _recomputing(facts, bare=False)
    if filling is None:
        return Choice(facts.kept.is_bare, "its caches were missing")
    bare = _recomputing(facts, bare=True)
    if bare is None:
        bare = facts.kept.longest * CREATING if facts.kept.longest is not None else filling
    bare = min(filling, bare)
    usual = _usual(facts)
    usually = _maintaining(usual, filling, _by_script(facts))
    without = min(bare, _leaning(usual, filling, facts))
    if facts.kept.is_bare:
        worth_caches = (usually + (filling - bare) / PAID_BACK) * MARGIN <= without
    else:
        worth_caches = usually <= without * MARGIN
    netting = facts.netting or Netting(0, 0)
    maintaining = _maintaining(facts.changes, filling, _by_script(facts)) + netting.share
    leaning = _leaning(facts.changes, filling, facts) + netting.share
    recomputing = filling if worth_caches else bare

    def is_chosen(seconds: float) -> bool:
        too_little = facts.table_rows < LARGE_TABLES and seconds - recomputing < WORTH_SAVING
        first = seconds + netting.seconds - netting.share
        worth_it = seconds <= recomputing * MARGIN and first <= recomputing * FOR_OTHERS
        return worth_it or (too_little and seconds < math.inf)

    script = min(maintaining, leaning)
    if is_chosen(script) and script > recomputing * DOUBTFUL and _is_to_be_tried(facts):
        return Choice(
            True,
            f"{facts.changes:,} changes would take about {_told(script)} to propagate; what recomputing "
            "takes is known only from creating the view, and found out once",
            caches=worth_caches,
        )
    if not worth_caches and is_chosen(leaning) and (facts.kept.is_bare or leaning < maintaining):
        dropped = f"without its caches, since with them it should take about {_told(maintaining)}"
        return Choice(False, "" if facts.kept.is_bare else dropped, caches=False)
    if not facts.kept.is_bare and is_chosen(maintaining):
        return Choice(False)
    if facts.kept.is_bare and worth_caches:
        return Choice(True, f"with its caches changes should take about {_told(usually)}")
    return Choice(
        True,
        f"{'at least ' if facts.netting else ''}{facts.changes:,} changes would take about "
        f"{_told(script)} to propagate, recomputing "
        f"about {_told(recomputing)}",
        caches=worth_caches,
    )


def _is_to_be_tried(facts: Facts) -> bool:
    """Whether no refresh of large tables has recomputed yet, though scripts ran more than once for changes of
    about this size."""
    did = [p for p in facts.past if p.changes]
    alike = [p for p in did if _distance(p, facts.changes) <= ABOUT]
    untold = all(p.strategy != "full" for p in did)
    return facts.table_rows >= LARGE_TABLES and untold and len(alike) > 1


def _distance(past: Past, changes: int) -> float:
    """How far an earlier refresh was from one of so many changes, as a logarithm."""
    return abs(math.log((past.changes + 1) / (changes + 1)))


def _by_script(facts: Facts) -> Facts:
    """What is known of the view's own script. Where there is a lean one, `tuple` is what that did."""
    if facts.lean is None:
        return facts
    return replace(facts, past=[p for p in facts.past if p.strategy != "tuple"])


def _by_lean(facts: Facts, lean: Lean) -> Facts:
    """The same of the lean script. Groups that were computed anew tell of the script that a view has now."""
    did = ("full", "tuple", "groups") if facts.kept.is_bare else ("full", "tuple")
    past = [p for p in facts.past if p.strategy in did]
    return replace(facts, past=past, script_reads=lean.reads, script_scans=lean.scans, overhead=lean.overhead)


def _leaning(changes: int, filling: float, facts: Facts) -> float:
    """What the lean script should take. Before it ran, as much longer than by its rows as the view's own
    script took longer: what both are wrong about is mostly the same."""
    if facts.lean is None:
        return math.inf
    known = _by_lean(facts, facts.lean)
    seconds = _maintaining(changes, filling, known)
    if any(p.strategy != "full" for p in known.past):
        return seconds
    own = _by_script(facts)
    untried = replace(own, past=[p for p in own.past if p.strategy == "full"])
    took = _maintaining(changes, filling, own) / _maintaining(changes, filling, untried)
    return seconds * max(took, 1.0) * UNTRIED


def _recomputing(facts: Facts, *, bare: bool) -> float | None:
    """What computing the view last took, with its caches or without: it reads everything, however much
    changed. Before a refresh did it, what creating the view took tells."""
    full = [p for p in facts.past if p.strategy == "full"]
    alike = [p for p in full if (p.statements < facts.kept.relations) == bare]
    refreshed = _least([p.seconds for p in alike if p.changes])
    created = _least([p.seconds for p in alike if not p.changes])
    if refreshed is not None or created is None:
        return refreshed
    return created * CREATING


def _maintaining(changes: int, filling: float, facts: Facts) -> float:
    """What a script should take, from the last refreshes of about this size that one did. Scripts that
    recompute the groups they touch are delta scripts like others. Before there was any, from what the rows
    cost that recomputing reads."""
    did = [p for p in facts.past if p.strategy != "full"]
    if not did:
        share = (_reads(changes, facts) + CHANGED_ROW * changes) / max(facts.query_reads, 1)
        return facts.overhead + filling * share

    nearest = min(_distance(p, changes) for p in did)
    alike = [p for p in did if _distance(p, changes) <= nearest + ABOUT]
    if len(alike) == 1 and not facts.kept.is_bare:
        alike = [replace(p, seconds=p.seconds * FIRST_TIME) for p in alike]
    seconds = _least([_scaled(p, changes, facts) for p in alike])
    assert seconds is not None  # there is one that is nearest
    return seconds


def _scaled(past: Past, changes: int, facts: Facts) -> float:
    """What a refresh would have taken with another number of changes. Most of a small refresh is there at any
    size, so more changes cost what so many rows cost where the view is computed, and not a multiple of it: a
    script that took 50 ms for 10 rows does not take 10 s for 2,000."""
    if changes <= past.changes:
        return min(past.seconds, facts.overhead + past.seconds * (changes + 1) / (past.changes + 1))
    computing = _recomputing(facts, bare=False) or 0.0
    changed = (changes - past.changes) * CHANGED_ROW / max(facts.table_rows, 1)
    scanned = max(0, _reads(changes, facts) - _reads(past.changes, facts)) / max(facts.query_reads, 1)
    return past.seconds + computing * (changed + scanned)


def _reads(changes: int, facts: Facts) -> int:
    """The rows that a script scans for so many changes."""
    if changes <= facts.looked_up:
        return facts.script_reads
    return max(facts.script_reads, facts.script_scans)


def _least(seconds: Sequence[float]) -> float | None:
    """The least of the last times that something took: other work on the machine only ever adds to it."""
    return min(seconds[-RECENT:], default=None)


def _usual(facts: Facts) -> int:
    """How many changes a refresh of this view has to do with."""
    before = [p.changes for p in facts.past if p.changes]
    return round(median([*before[1 - RECENT :], facts.changes]))


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
