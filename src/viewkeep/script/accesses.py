"""The cost model of the idIVM paper (Katsis et al., SIGMOD 2015, section 6 and appendix A).

What maintenance costs is counted in accesses: lookups in indexes, and rows read. Four numbers tell it, each
for one row of the base table's diff or, g, for one row that it touches:

    a   accesses by which tuple-based maintenance finds the rows of the view's input that belong to it
    p   rows of the view's input that it updates or deletes, which ID-based maintenance finds by one lookup
    g   groups of the view for each of these rows; 1 where the view has no groups
    k   rows of the view's input that it inserts

For the chooser the same is estimated before a script runs: `estimated`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.script.cost import Sizes, rows_read
from viewkeep.script.model import Script

Leaf = Scan | Stored


@dataclass(frozen=True)
class Accesses:
    """What one refresh was counted to do: accesses, rows of base tables that had changed, rows of the view
    that it changed, and rows of caches that it changed and inserted; `cached` is None without a cache."""

    counted: int
    changes: int
    viewed: int
    cached: int | None = None
    inserted: int = 0


@dataclass(frozen=True)
class Parameters:
    """The parameters of a view and a change. `grouped`: whether what changes is aggregated over a cache."""

    a: float
    p: float
    g: float
    k: float
    grouped: bool

    @property
    def tuple_based(self) -> float:
        """Accesses for one row of the base table's diff, by tuple-based diffs."""
        return self.a + (2 * (self.p + self.k) * self.g if self.grouped else 2 * self.p)

    @property
    def id_based(self) -> float:
        """The same by ID-based diffs. Rows that are inserted take the joins that tuple-based diffs take, and
        must be added to the cache; what is updated or deleted takes a lookup and the rows it finds."""
        share = self.p / (self.p + self.k) if self.p + self.k else 1.0
        found = share * (1 + self.p) + (1 - share) * (self.a + self.k)
        return found + (2 * (self.p + self.k) * self.g if self.grouped else 0.0)

    @property
    def speedup(self) -> float:
        """How many times as much tuple-based maintenance should cost: (a + 2pg) / (1 + p + 2pg) for updates
        of a view with groups, (a + 2p) / (1 + p) for one without."""
        return self.tuple_based / self.id_based


def derived(by_ids: Accesses, by_tuples: Accesses) -> Parameters | None:
    """The parameters, from what both ways were counted to do with the same change; None where nothing
    changed. To change a row of the view takes a lookup and an access, which both ways have in common."""
    changes = by_ids.changes
    if not changes or not by_tuples.changes:
        return None
    # a view may have caches that the change does not reach: then its rows change as if it had none
    grouped = bool(by_ids.cached)
    touched = by_ids.cached or by_ids.viewed
    a = max(0.0, (by_tuples.counted - 2 * by_tuples.viewed) / by_tuples.changes)
    g = by_ids.viewed / touched if grouped and touched else 1.0
    p, k = (touched - by_ids.inserted) / changes, by_ids.inserted / changes
    return Parameters(a, p, g, k, grouped)


def estimated(script: Script, sizes: Sizes, changes: int) -> int:
    """The accesses of a script's queries, by estimate: the rows that they scan, and for each column by which
    they look rows up, a lookup and the rows found for each changed row."""
    found: set[tuple[Leaf, str]] = set()

    def note(leaf: Leaf, column: str) -> bool:
        looked_up = sizes.is_looked_up(leaf, column)
        if looked_up:
            found.add((leaf, column))
        return looked_up

    scanned = rows_read(script, replace(sizes, is_looked_up=note))
    return scanned + round(sum(changes * (1 + sizes.rows_a_value(leaf, column)) for leaf, column in found))
