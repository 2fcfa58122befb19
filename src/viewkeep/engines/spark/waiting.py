"""Diffs that wait in the tables of views: kept at hand, read through, and folded into the rows.

A session keeps the entries that it has written, or has read once, as local data: to read a target in a
refresh then takes no second look at its table, and Spark knows that they are few.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.folding import WRITING, Fold, merge, merging_takes, write_anew, writing_takes
from viewkeep.engines.spark.names import LOCAL_ROWS, local_frame, temporary
from viewkeep.idiff import log
from viewkeep.store import delta

# Seconds that reading through entries costs more than reading rows: once, and for each entry.
READING, READING_ENTRY = 0.25, 5e-6


@dataclass(frozen=True)
class _Known:
    version: int
    entries: Any


class WaitingDiffs:
    """The entries of all targets that a session has to do with."""

    def __init__(self, session: Any, is_alone: Callable[[], bool]) -> None:
        self._session, self._is_alone = session, is_alone
        self._known: dict[tuple[str, str], _Known] = {}
        self._shown: set[tuple[str, str]] = set()
        """Of which entries Spark has a temporary view."""
        self._rows: dict[tuple[str, str], int] = {}
        self._seconds: dict[tuple[str, str], float] = {}

    def readable(self, view: str, target: str, layout: log.Layout, state: delta.State) -> exp.Expr:
        """What to read of a target in a refresh: the rows as of the state, with what waits in effect."""
        stored = delta.storage(view, target, state.version(target))
        if not state.waits(target).entries:
            return stored
        return exp.Subquery(this=log.resolved(layout, stored, self.entries(view, target, state)))

    def entries(self, view: str, target: str, state: delta.State) -> exp.Expr:
        """The entries that wait for a target, as a temporary view of local data."""
        name, entries = temporary(f"waiting_{view}_{target}"), self.here(view, target, state)
        if (view, target) not in self._shown:
            local_frame(self._session, entries).createOrReplaceTempView(name)
            self._shown.add((view, target))
        return exp.table_(name, quoted=True)

    def here(self, view: str, target: str, state: delta.State) -> Any:
        """The entries that wait for a target, as an Arrow table."""
        known = self._known.get((view, target))
        if known is None or known.version != state.version(target):
            query = exp.select("*").from_(delta.storage(view, target, state.version(target)))
            entries = self._session.sql(to_sql(query.where(log.is_entry()))).toArrow()
            known = self._keep(view, target, state.version(target), entries)
        return known.entries

    def added(self, view: str, target: str, before: delta.State, version: int, stored: Any) -> None:
        """What a refresh has stored, rows and entries, is committed as this version."""
        new = stored.filter(pc.is_valid(stored.column(log.IDS)))
        known = self._known.get((view, target))
        if known is not None and known.version == before.version(target):
            both = pa.concat_tables([known.entries, new.cast(known.entries.schema)])
            self._keep(view, target, version, both)
        elif not before.waits(target).entries:
            self._keep(view, target, version, new)

    def _keep(self, view: str, target: str, version: int, entries: Any) -> _Known:
        # what one query knows never to be null, another does not
        entries = entries.cast(pa.schema([f.with_nullable(True) for f in entries.schema]))
        self._shown.discard((view, target))
        known = self._known[view, target] = _Known(version, entries)
        return known

    def forget(self, view: str) -> None:
        """The view is gone, or filled anew."""
        self._known = {key: known for key, known in self._known.items() if key[0] != view}
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] != view}
        self._seconds = {key: seconds for key, seconds in self._seconds.items() if key[0] != view}

    # --- folding ---

    def after_refresh(self, entries: int, before: delta.Waiting) -> delta.Waiting:
        """What waits after a refresh: whoever reads until the next pays for it, once at least."""
        if not entries:
            return delta.NOTHING_WAITS
        return delta.Waiting(entries, before.debt + READING + READING_ENTRY * entries)

    def due(self, view: str, state: delta.State) -> list[str]:
        """The targets of which reading has cost as much as folding will: whoever waits until then pays at
        most twice what the best moment would have cost, and no one knows when the next read comes."""
        return [
            target
            for target, waiting in state.waiting.items()
            if waiting.entries > LOCAL_ROWS  # no more are kept at hand
            or (waiting.debt >= WRITING and waiting.debt >= self._price(view, target, waiting.entries))
        ]

    def _price(self, view: str, target: str, entries: int) -> float:
        if (view, target) in self._seconds:
            return self._seconds[view, target]
        rows = self._rows_of(view, target)
        return min(writing_takes(rows), merging_takes(rows, entries))

    def _rows_of(self, view: str, target: str) -> int:
        """About how many rows a target has: as many as when it was folded last, or asked for first."""
        key = (view, target)
        if key not in self._rows:
            self._rows[key] = int(self._session.sql(to_sql(_counting(view, target))).collect()[0][0])
        return self._rows[key]

    def folding(
        self,
        view: str,
        target: str,
        layout: log.Layout,
        state: delta.State,
        by: str | None,
        new: exp.Expr | None = None,
        more: int = 0,
    ) -> Fold:
        """How what waits for a target becomes rows. `by`: the column that its rows are looked for by. `new`:
        relation of so many rows and entries `more` that are to be stored as well."""
        version, waiting = state.version(target), state.waits(target).entries
        entries = self.entries(view, target, state) if waiting or new is None else new
        if waiting and new is not None:
            entries = log.both(entries, new)
        what = (self._session, view, target, layout, version, entries, new)
        self._rows.pop((view, target), None)
        rows = self._rows_of(view, target)
        if writing_takes(rows + more) <= merging_takes(rows, waiting + more):
            return Fold(partial(write_anew, *what, by), "all rows were written anew")
        return Fold(partial(merge, *what), "merged into the rows")

    def fold(
        self, view: str, target: str, layout: log.Layout, state: delta.State, by: str | None
    ) -> delta.State:
        """Folds what waits for a target into its rows; the state that the view is in then."""
        if not state.waits(target).entries:
            return state
        started = time.perf_counter()
        write = self.folding(view, target, layout, state, by).write
        folded = state.waits_for(target, delta.NOTHING_WAITS)
        said = folded.metadata(None) if target == delta.ROWS else delta.FOLDED
        version, alone = state.version(target), self._is_alone()
        made = delta.commit(self._session, view, target, version, said, write, alone=alone)
        self._known.pop((view, target), None)
        self._seconds[view, target] = time.perf_counter() - started
        return folded.moved(target, made)


def _counting(view: str, target: str) -> exp.Select:
    return exp.select(exp.Count(this=exp.Star())).from_(delta.storage(view, target))
