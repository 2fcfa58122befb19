"""TPC-H as a workload: 22 views that nobody chose to suit viewkeep, under changes of orders and lineitem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viewkeep.bench.tpch_changes import Changes
from viewkeep.bench.tpch_data import TABLES, files
from viewkeep.bench.tpch_queries import VIEWS, views_at
from viewkeep.bench.workload import MergeJob

__all__ = ["TABLES", "TPCH", "VIEWS", "Changes"]


@dataclass(frozen=True)
class TPCH:
    """The tables at a scale of TPC-H: 1 is 1.5 million orders with 6 million lines."""

    scale: float = 1

    @property
    def views(self) -> Mapping[str, str]:
        return views_at(self.scale)

    @property
    def methods(self) -> Sequence[str]:
        return ("auto", "recompute")

    @property
    def sizes(self) -> Sequence[str]:
        return ("0.01%", "0.1%", "1%")

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        return {}

    @property
    def recomputes(self) -> Mapping[str, str]:
        return {}

    @property
    def some_rows(self) -> Mapping[str, str]:
        return {}

    @property
    def largest(self) -> str:
        return "lineitem"

    @property
    def changing(self) -> Sequence[str]:
        return ("orders", "lineitem")

    @property
    def changeable(self) -> int:
        return Changes(self.scale).rows

    @property
    def exact(self) -> bool:
        return False

    def prepare(self, folder: Path) -> None:
        files(self.scale, folder)

    def load(self, engine: str, folder: Path) -> Sequence[tuple[str, str]]:
        made = files(self.scale, folder)
        creating = [(f"creating {table.name}", table.create()) for table in TABLES]
        return creating + [(f"filling {table.name}", table.fill(engine, made)) for table in TABLES]

    def change(self, rows: int, number: int) -> Sequence[str]:
        return Changes(self.scale).stream(rows, number)
