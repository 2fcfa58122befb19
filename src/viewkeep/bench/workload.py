"""What a workload is: tables, the views over them, and changes. The runner does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class MergeJob:
    """How an engineer without viewkeep keeps a view's table: one MERGE from a table's change feed.

    `changes` reduces the feed, which it calls `feed`, to one row a key; `merge` reads that as `changes`
    and names the view's table `{target}`.
    """

    table: str
    changes: str
    merge: str


class Workload(Protocol):
    """Tables at a scale, and statements that change them. All SQL is Spark's, which every engine takes."""

    @property
    def views(self) -> Mapping[str, str]:
        """The defining query of each view."""

    @property
    def changing(self) -> Sequence[str]:
        """The tables that a change touches."""

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        """The hand-written job of each view."""

    def rows(self, scale: float) -> int:
        """The rows of the largest base table."""

    def load(self, scale: float) -> Sequence[tuple[str, str]]:
        """The statements that make and fill the tables, each with a line that says what it does."""

    def largest_diff(self, scale: float) -> int:
        """How many rows a change can touch at most."""

    def change(self, scale: float, diff: int, seed: str) -> str:
        """A statement that changes `diff` rows, chosen by the seed."""
