"""A sweep over the size of the change, up to where recomputing wins for every view, and whether the chooser
was on the right side of that point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeep.bench.workload import Size

Row = Mapping[str, Any]
# each change is so many times as large as the one before
STEP = 5
# where one side is many times as quick as the other, a few rounds tell as much as many
ROUNDS = 2
# the hand-written job is no side of the choice
METHODS = ("auto", "id", "tuple", "recompute")
SWEPT = ("changed rows", "id s", "tuple s", "recompute s", "auto s", "auto ran", "quickest", "auto/quickest")
# a choice that takes no longer than this many times the quickest is no wrong one, whatever it is called
CLOSE = 1.2


def larger(first: int, most: int) -> Iterator[Size]:
    """The sizes past the first, up to all rows that can change."""
    rows = first
    while rows < most:
        rows = min(rows * STEP, most)
        yield Size(rows)


def is_past_crossover(rows: Sequence[Row], diff: int) -> bool:
    """Whether recomputing is quicker than both delta scripts, for all views, with so many changes."""
    found = [one for one in swept(rows) if one.diff == diff]
    return bool(found) and all(one.quickest == "recompute" for one in found)


@dataclass(frozen=True)
class Swept:
    """The medians of one view at one size of the change, by method; what ran where the chooser chose."""

    view: str
    diff: int
    seconds: Mapping[str, float]
    ran: str

    @property
    def quickest(self) -> str:
        """Of what can be chosen."""
        return min((name for name in self.seconds if name != "auto"), key=lambda name: self.seconds[name])

    @property
    def times_quickest(self) -> float:
        """How many times as long the choice took as the quickest."""
        return self.seconds["auto"] / max(self.seconds[self.quickest], 1e-4)

    @property
    def is_right(self) -> bool:
        """Whether the chooser was on the right side, or so near that it does not matter."""
        sides = (self.ran == "full", self.quickest == "recompute")
        return sides[0] == sides[1] or self.times_quickest <= CLOSE

    def cells(self) -> list[str]:
        """A line of a table, under SWEPT."""
        taken = [f"{self.seconds[name]:.3f}" for name in ("id", "tuple", "recompute", "auto")]
        right = "" if self.is_right else ", wrong side"
        return [f"{self.diff:,}", *taken, self.ran, self.quickest, f"{self.times_quickest:.2f}{right}"]


def swept(rows: Sequence[Row]) -> list[Swept]:
    """Medians in which all sides and the chooser were measured, by view and size."""
    found = []
    for view, diff in sorted({(r["view"], r["diff"]) for r in rows}):
        own = {r["method"]: r for r in rows if (r["view"], r["diff"]) == (view, diff)}
        if all(name in own for name in METHODS):
            seconds = {name: own[name]["seconds"] for name in METHODS}
            found.append(Swept(view, diff, seconds, own["auto"].get("strategy", "")))
    return found


def crossovers(rows: Sequence[Row]) -> list[str]:
    """For each view in words between which sizes recomputing begins to win."""
    told = []
    for view in dict.fromkeys(one.view for one in swept(rows)):
        before, words = None, "recomputing never wins"
        for one in swept(rows):
            if one.view == view and one.quickest == "recompute":
                words = f"recomputing wins at {one.diff:,} changed rows"
                words += "" if before is None else f", not yet at {before:,}"
                break
            before = one.diff if one.view == view else before
        told.append(f"{view}: {words}")
    return told
