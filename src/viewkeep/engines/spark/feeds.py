"""What changed in the tables of a view: their feeds past its watermark, as net changes."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pyspark import inheritable_thread_target
from sqlglot import exp

from viewkeep.capture.delta import (
    events_of_feed,
    is_empty,
    last_of,
    net_of_events,
    net_of_feed,
    read_feed,
    summary_of,
    values_of_feed,
)
from viewkeep.catalog.models import Table, View
from viewkeep.engines.contract import Progress
from viewkeep.engines.report import kinds_present
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import FAILURES, first_line
from viewkeep.engines.spark.names import LOCAL_ROWS, bare, temporary, versioned
from viewkeep.engines.spark.nearby import answered, arrow_type
from viewkeep.engines.spark.relations import Relations
from viewkeep.engines.spark.tables import BaseTables
from viewkeep.errors import BaseTableChanged, DuplicateKey
from viewkeep.idiff.bags import occurrence_changes
from viewkeep.idiff.net import LAST, labels, summary
from viewkeep.store import delta

# A change has few rows: they are computed where they are, in few tasks, by a plan that stays as it is.
SMALL_JOBS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
# To compile a query takes longer than to interpret it for few rows.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass
class Together:
    """Views that are refreshed together: up to which versions, and the net changes read so far."""

    upto: Mapping[str, int]
    tables: Mapping[str, tuple[Table | None, str]] = field(default_factory=dict)
    """The tables as they were found for all views, each with its identity."""
    nets: dict[tuple[str, int], Any] = field(default_factory=dict)
    reading: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    """Held by the view that reads a table's feed, so that others wait for what it finds."""


@dataclass
class Changes:
    """What a view has to catch up with: up to which versions, and for each table the kinds of change, by what
    its net changes hold of the columns that the view uses."""

    watermark: dict[str, int]
    present: dict[str, frozenset[str]] = field(default_factory=dict)
    counts: dict[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def are_none(self) -> bool:
        """Whether nothing that the view shows has changed; versions may have passed all the same."""
        return not any(self.present.values())

    def grown(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """How many rows the tables have after these changes that had so many before."""
        more = {
            table: kinds.get("insert", 0) - kinds.get("delete", 0) for table, kinds in self.counts.items()
        }
        return {table: rows + more.get(table, 0) for table, rows in sizes.items()}


@dataclass(frozen=True)
class _Feed:
    """What a feed has past a version: a data frame, and its events where these are few and can be here."""

    frame: Any
    events: Any = None


class Feeds:
    """Reads the feeds of one view for one refresh."""

    def __init__(
        self,
        view: View,
        state: delta.State,
        relations: Relations,
        tables: BaseTables,
        together: Together,
        progress: Progress,
        embedded: Any,
        changing: set[str],
    ) -> None:
        """`changing`: tables that had changed when they were last looked at."""
        self._embedded, self._changing = embedded, changing
        self._view, self._state, self._together = view, state, together
        self._relations, self._tables, self._progress = relations, tables, progress
        self._session = relations.session
        self._changes = Changes(dict(state.watermark))

    def _sql(self, tree: exp.Expr) -> Any:
        self._relations.show()
        return self._session.sql(to_sql(tree))

    def read(self) -> Changes:
        """Reads each feed past the watermark into net changes."""
        alone = [table for table in self._view.tables if table.name not in self._together.upto]
        feeds = self._feeds(alone)
        for table in self._view.tables:
            after = self._state.watermark[table.name]
            upto = self._together.upto.get(table.name)
            if (upto is not None and upto <= after) or (upto is None and table.name not in feeds):
                continue
            name = temporary(f"net_{table.name}")
            reading = self._together.reading[table.name] if upto is not None else nullcontext()
            with self._told_of(table), reading:
                rows = self._net(table, name, after, upto, feeds.get(table.name))
            if rows:
                found = kinds_present(self._summary(table, name))
                self._changes.present[table.name], self._changes.counts[table.name] = found
        return self._changes

    @contextmanager
    def _told_of(self, table: Table) -> Iterator[None]:
        """Spark's problems with a table's feed, as a user should hear of them."""
        try:
            yield
        except FAILURES as problem:
            raise BaseTableChanged(
                f"the change feed of {table.name} past version {self._state.watermark[table.name]} cannot be "
                f"read: {first_line(problem)}",
                hint=f"REFRESH MATERIALIZED VIEW {self._view.name} FULL starts from the table as it is",
            ) from problem

    def _feeds(self, tables: Sequence[Table]) -> dict[str, _Feed]:
        """The feeds that have something to read. They are looked at side by side: to find out that there is
        nothing takes Spark a plan for each."""

        def look(table: Table) -> _Feed | None:
            with self._told_of(table):
                return self._look(table)

        with delta.settings(self._session, {**SMALL_JOBS, **INTERPRETED}):
            if len(tables) < 2:
                found = [look(table) for table in tables]
            else:
                with ThreadPoolExecutor(max_workers=len(tables)) as pool:
                    found = list(pool.map(inheritable_thread_target(self._session)(look), tables))
        return {t.name: feed for t, feed in zip(tables, found, strict=True) if feed is not None}

    def _look(self, table: Table) -> _Feed | None:
        """A table's feed, if there is anything in it. To ask a feed that has something takes almost as long
        as to read it, so a table that changes again and again is not asked."""
        frame = read_feed(self._session, table.name, self._state.watermark[table.name])
        if table.name not in self._changing and is_empty(frame):
            return None
        events = self._events(table, frame)
        if events is not None and not events.num_rows:
            self._changing.discard(table.name)
            return None
        self._changing.add(table.name)
        return _Feed(frame, events)

    def _events(self, table: Table, frame: Any) -> Any:
        """The events of a feed, where they are few and of types that mean the same here: what they come to is
        then computed here, which takes no shuffle."""
        if not table.key or any(arrow_type(c.type) is None for c in table.columns):
            return None
        outputs = [to_sql(output) for output in events_of_feed(table, "feed").expressions]
        events = frame.selectExpr(*outputs).limit(LOCAL_ROWS + 1).toArrow()
        return events if events.num_rows <= LOCAL_ROWS else None

    def _net(self, table: Table, name: str, after: int, upto: int | None, feed: _Feed | None) -> int:
        """The net changes of one table, registered; views refreshed together read a feed once. `feed`: for a
        view that is refreshed alone."""
        shared = self._together.nets.get((table.name, after))
        if shared is not None:
            self._relations.register(name, shared)
            return int(shared.num_rows)
        self._progress(f"reading changes of {table.name}")
        # for several views all columns are read, since each may use others
        read = table if upto is None or not table.key else self._tables.find(table.name) or table
        if upto is not None:
            frame = read_feed(self._session, table.name, after)
            if is_empty(frame):
                return 0
            frame = frame.where(f"_commit_version <= {upto:d}")
            with delta.settings(self._session, {**SMALL_JOBS, **INTERPRETED}):
                feed = _Feed(frame, self._events(read, frame))
        assert feed is not None
        feed.frame.createOrReplaceTempView(temporary("feed"))
        if not table.key:
            return self._values(table, name)
        if feed.events is not None:
            events = temporary("events")
            query = net_of_events(read, exp.select("*").from_(exp.table_(events, quoted=True)))
            self._relations.register(name, answered(self._embedded, query, {events: feed.events}))
        else:
            with delta.settings(self._session, SMALL_JOBS):
                self._relations.compute(name, self._sql(net_of_feed(read, temporary("feed"))))
        rows = self._relations.sizes[name]
        if rows:
            self._check_inserted(table, name)
        if upto is not None and name in self._relations.local:
            self._together.nets[table.name, after] = self._relations.local[name]
        return rows

    def _values(self, table: Table, name: str) -> int:
        """The net changes of a table without a key, by the columns that this view uses."""
        values = temporary(f"values_{table.name}")
        relation = exp.table_(values, quoted=True)
        with delta.settings(self._session, SMALL_JOBS):
            if not self._relations.compute(values, self._sql(values_of_feed(table, temporary("feed")))):
                return 0
        small = values in self._relations.local
        with delta.settings(self._session, SMALL_JOBS if small else {}):
            if small:
                last = last_of(self._relations.local[values])
            else:
                last = int(self._sql(exp.select(exp.Max(this=bare(LAST))).from_(relation)).collect()[0][0])
            changes = occurrence_changes(table, relation, versioned(table.name, last))
            return self._relations.compute(name, self._sql(changes))

    def _summary(self, table: Table, name: str) -> dict[str, int]:
        """What the net changes hold of the columns that the view uses; moves the watermark."""
        if name in self._relations.local:
            found, self._changes.watermark[table.name] = summary_of(table, self._relations.local[name])
            return found
        query = summary(table, exp.table_(name, quoted=True))
        newest = exp.alias_(exp.Max(this=bare(LAST)), LAST, quoted=True)
        row = tuple(self._sql(query.select(newest)).collect()[0])
        self._changes.watermark[table.name] = int(row[-1])
        return {label: int(n) for label, n in zip(labels(table), row[:-1], strict=True) if n}

    def _check_inserted(self, table: Table, name: str) -> None:
        """Delta does not enforce keys: what a batch inserts must not share one."""
        found, newest = self._summary(table, name), self._changes.watermark[table.name]
        if found.get("duplicate"):
            self._tables.check_unique(table, newest)
            raise DuplicateKey(
                f"a key of {table.name} was there more than once since version "
                f"{self._state.watermark[table.name]}, and is not any more",
                hint=f"REFRESH MATERIALIZED VIEW {self._view.name} FULL starts from the table as it is",
            )
        if found.get("insert"):
            self._relations.show(name)
            self._tables.check_unique(table, newest, among=name)
