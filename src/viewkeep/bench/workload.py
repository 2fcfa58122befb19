"""What a workload is: tables, the views over them, and changes. The runner does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from viewkeep.errors import Unsupported


@dataclass(frozen=True)
class MergeJob:
    """How an engineer without viewkeep keeps a view's table: one MERGE from a table's change feed.

    `changes` reduces the feed, which it calls `feed`, to one row a key; `merge` reads that as `changes`
    and names the view's table `{target}`.
    """

    table: str
    changes: str
    merge: str


@dataclass(frozen=True)
class Size:
    """How much changes: a number of rows, and the share of all rows that it was asked for as, if it was."""

    rows: int
    share: float | None = None

    def __str__(self) -> str:
        rows = f"{self.rows:,} changed rows"
        return rows if self.share is None else f"{self.share * 100:g}% ({rows})"


def size_of(text: str, all_rows: int) -> Size:
    """What a user wrote, 200 or 0.1%, of so many rows that can change: one row at least, and all at most."""
    hint = "write a number of rows, 200, or a share of them, 0.1%"
    share = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) / 100 if share else int(text)
    except ValueError:
        raise Unsupported(f"{text} is no size of a change", hint=hint) from None
    # also where the number is not a number
    if not number > 0 or (share and number > 1):
        raise Unsupported(f"no change can be {text}", hint=hint)
    if share:
        return Size(max(1, round(number * all_rows)), number)
    return Size(min(int(number), all_rows))


class Workload(Protocol):
    """Tables at a scale, and statements that change them. SQL is Spark's, which every engine takes, unless
    it is said otherwise."""

    @property
    def views(self) -> Mapping[str, str]:
        """The defining query of each view."""

    @property
    def methods(self) -> Sequence[str]:
        """The methods that are compared unless others are asked for, those that the engine has. The first
        is the one that the others are compared with."""

    @property
    def sizes(self) -> Sequence[str]:
        """The sizes of changes that are measured unless others are asked for."""

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        """The hand-written job of each view that has one."""

    @property
    def recomputes(self) -> Mapping[str, str]:
        """For some views, the query as an engineer writes it who recomputes it on Spark: in the best order of
        joins, with hints, which Spark does not find by itself."""

    @property
    def some_rows(self) -> Mapping[str, str]:
        """For views that are worth it, a condition that a few of their rows meet, found by their keys."""

    @property
    def largest(self) -> str:
        """The table with the most rows."""

    @property
    def changing(self) -> Sequence[str]:
        """The tables that a change touches."""

    @property
    def changeable(self) -> int:
        """The rows that a change can touch."""

    @property
    def exact(self) -> bool:
        """Whether every engine's own answer to the queries is viewkeep's, digit by digit: not so where they
        divide decimals, which DuckDB does in doubles."""

    def prepare(self, folder: Path) -> None:
        """Writes the files that the tables are loaded from into the folder, unless they are there."""

    def load(self, engine: str, folder: Path) -> Sequence[tuple[str, str]]:
        """The statements that make and fill the tables, in the engine's words where they read files, each
        with a line that says what it does."""

    def change(self, rows: int, number: int) -> Sequence[str]:
        """Statements that together change about so many rows: others for each number, from 0."""
