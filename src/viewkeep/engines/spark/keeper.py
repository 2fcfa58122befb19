"""Views kept in one session: filled, refreshed, folded; one at a time.

An engine has several keepers, each with a session of its own, since settings and temporary views belong to
a session: so views are refreshed side by side. A view stays with its keeper, which has its waiting diffs at
hand.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from viewkeep.catalog.models import Table, View
from viewkeep.engines.contract import Progress
from viewkeep.engines.initial import fill_queries, shown
from viewkeep.engines.spark.counters import counting
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import FAILURES, translated
from viewkeep.engines.spark.feeds import Together
from viewkeep.engines.spark.filling import in_order, looked_for_by, selected_first
from viewkeep.engines.spark.folding import pages
from viewkeep.engines.spark.history import History
from viewkeep.engines.spark.names import SparkNames
from viewkeep.engines.spark.refresh import Outcome, Refresher
from viewkeep.engines.spark.tables import BaseTables
from viewkeep.engines.spark.ways import chosen
from viewkeep.errors import BaseTableChanged, ConcurrentRefresh, ViewReplaced
from viewkeep.idiff import log
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh
from viewkeep.store import delta

# OPTIMIZE packs only small files together: what refreshes have appended, not the rows as they were filled
PACKING = {"spark.databricks.delta.optimize.minFileSize": str(16 * 1024 * 1024)}


@dataclass(frozen=True)
class Known:
    """What the keepers of an engine share."""

    history: History
    sizes: dict[tuple[str, int], int]
    """The rows of tables, by identity and version."""
    unique: set[tuple[str, tuple[str, ...], int]]
    """Tables, keys and versions that were found to have every key once."""
    is_alone: Callable[[], bool]
    """Whether nobody else can be refreshing the views of these tables."""


class Keeper:
    """Keeps views in one session."""

    def __init__(self, session: Any, known: Known) -> None:
        self.session = session
        self._history, self._sizes, self._unique = known.history, known.sizes, known.unique
        self._tables = BaseTables(session)
        self._is_alone = known.is_alone
        self._refresher = Refresher(session, self._tables, known.is_alone)
        self._states: dict[str, delta.State] = {}
        self._seen: dict[str, str] = {}

    # --- filling ---

    def fill(
        self,
        view: View,
        compiled: Compiled,
        report: delta.Report,
        progress: Progress,
        replacing: bool,
        *,
        caches: bool,
    ) -> tuple[int, int]:
        """Computes every target at the newest versions, caches first, or the rows alone; the rows' commit
        registers all. The number of rows, and of targets. Caches that are not filled are left as they are:
        the rows name no version of them any more."""
        replaced = self._replaced(view, compiled) if replacing and not self._is_alone() else {}
        started = {table.name: self._start(table, progress) for table in view.tables}
        ids = {name: identity for name, (identity, _) in started.items()}
        watermark = {name: version for name, (_, version) in started.items()}
        sizes = {table.name: self._rows_of(table.name, ids[table.name], watermark) for table in view.tables}
        before = None if caches else self._states.get(view.name)
        cached = before.cached if before is not None else {}
        state = delta.State(watermark, ids, {}, 0, datetime.now(UTC), sizes=sizes, cached=cached)
        filling = str(uuid.uuid4())
        names = SparkNames(view.name, watermark, watermark)
        layouts = compiled.layouts()
        self._refresher.forget(view.name)
        queries = list(fill_queries(compiled, names, caches=caches))
        report = replace(report, statements=len(queries))
        for target, query in queries:
            progress(f"computing {target.role} {target.name} of {view.name}")
            is_view = target.role == "view"
            table = f"{delta.DATABASE}.{delta.storage_name(view.name, target.name)}"
            rows_to_fill = log.rows_to_fill(layouts[target.name], selected_first(query))
            by = looked_for_by(state, compiled, target.name)
            told = state.metadata(report) if is_view else ""
            with (
                delta.settings(self.session, pages(target.name, by)),
                in_order(self.session.sql(to_sql(rows_to_fill)), by) as rows,
                delta.filling(self.session, view.name, target.name, told, replaced.get(target.name)),
            ):
                writer = rows.writeTo(table).using("delta")
                for key, value in delta.TABLE_PROPERTIES.items():
                    writer = writer.tableProperty(key, value)
                if is_view:
                    writer = writer.tableProperty(delta.VIEW_PROPERTY, view.to_json())
                    writer = writer.tableProperty(delta.SHOWN_PROPERTY, shown_sql(view, compiled))
                    writer = writer.tableProperty(delta.ID_PROPERTY, filling)
                (writer.createOrReplace if replacing else writer.create)()
            state = state.moved(target.name, delta.last_version(self.session))
            written = delta.rows_written(self.session, delta.storage(view.name, target.name))
            if not is_view:
                state = replace(state, cached={**state.cached, target.name: written})
        self._remember(view, state, filling)
        return written, len(queries)

    def _replaced(self, view: View, compiled: Compiled) -> dict[str, int]:
        """The versions of the tables that are there, which are filled anew unless another changes them
        meanwhile."""
        places = {t.name: delta.storage(view.name, t.name) for t in compiled.placement.targets}
        there = {name: place for name, place in places.items() if self._tables.properties(place) is not None}
        return {name: delta.history(self.session, at, limit=1)[0].version for name, at in there.items()}

    def _start(self, table: Table, progress: Progress) -> tuple[str, int]:
        """The identity of a table, and the version that a view is filled from. Its key is checked there:
        later refreshes look at what comes in."""
        identity = self._tables.start_feed(table)
        version = self._tables.newest(table.name)
        checked = (identity, table.key, version)
        if table.key and checked not in self._unique:
            progress(f"checking the key of {table.name}")
            self._sizes[identity, version] = self._tables.check_all_unique(table, version)
            self._unique.add(checked)
        return identity, version

    def _rows_of(self, table: str, identity: str, watermark: Mapping[str, int]) -> int:
        """How many rows a table has. Delta knows without reading them, but asking takes a job, which is for
        whoever fills a view: with the view it is kept how many there are, and refreshes count what comes and
        goes."""
        key = (identity, watermark[table])
        if key not in self._sizes:
            self._sizes[key] = int(self.session.table(table).count())
        return self._sizes[key]

    def forget(self, view: View) -> None:
        """The view is gone, or what is known of it may be wrong."""
        self._states.pop(view.name, None)
        self._refresher.forget(view.name)

    # --- refreshing ---

    def refresh(
        self, view: View, compiled: Compiled, full: bool, together: Together, progress: Progress
    ) -> Refresh:
        """Brings a view up to date; once more where another refresh came first."""
        try:
            return self._try_refresh(view, compiled, full, together, progress)
        except ConcurrentRefresh:
            progress(f"another refresh of {view.name} came first; starting over")
            return self._try_refresh(view, compiled, full, together, progress)

    def _try_refresh(
        self, view: View, compiled: Compiled, full: bool, together: Together, progress: Progress
    ) -> Refresh:
        started = time.perf_counter()
        with self._forgetting(view), counting(self.session) as counters:
            if full:
                self._check_definition(view, self._properties(view))
                outcome = Outcome("full", "asked for", {}, None, caches=view.policy != "full")
            else:
                progress(f"reading where {view.name} stands")
                state = self.state(view, compiled, together.tables)
                choosing = partial(chosen, view, compiled, partial(self._history.past, view))
                outcome = self._refresher.refresh(view, compiled, state, together, choosing, progress)
            if outcome.strategy == "full":
                outcome = self._recompute(view, compiled, outcome, progress)
            elif outcome.state is not None:
                self._remember(view, outcome.state, self._seen[view.name])
                outcome = self._fold_what_is_due(view, compiled, outcome, progress)
            seconds = time.perf_counter() - started
            told = counters()
        done = Refresh(
            view.name,
            outcome.strategy,
            outcome.reason,
            seconds,
            jobs=told.jobs,
            rows_read=None if told.rows_read is None else told.rows_read + outcome.rows_read,
            **outcome.counts,
        )
        self._history.note(done)
        return done

    def _recompute(self, view: View, compiled: Compiled, asked: Outcome, progress: Progress) -> Outcome:
        changes = asked.counts.get("changes_in", 0)
        report = delta.Report("full", asked.reason, time.time(), changes)
        rows, commits = self.fill(view, compiled, report, progress, replacing=True, caches=asked.caches)
        counts = {"counted": rows, "statements": commits, "commits": commits, "changes_in": changes}
        return replace(asked, counts=counts)

    @contextmanager
    def _forgetting(self, view: View) -> Iterator[None]:
        """What is known of a view is forgotten where something fails: what was committed is read back."""
        try:
            yield
        except BaseException as problem:
            self.forget(view)
            if isinstance(problem, FAILURES):
                raise translated(problem) from problem
            raise

    # --- folding ---

    def _fold_what_is_due(
        self, view: View, compiled: Compiled, outcome: Outcome, progress: Progress
    ) -> Outcome:
        """Folds diffs into rows where reading through them has cost as much as that."""
        assert outcome.state is not None
        due = self._refresher.waiting.due(view.name, outcome.state)
        if not due:
            return outcome
        folded = self._fold(view, compiled, due, progress)
        counts = {**outcome.counts, "commits": outcome.counts["commits"] + folded}
        return replace(outcome, counts=counts, reason=f"{outcome.reason}; waiting diffs were folded in")

    def _fold(self, view: View, compiled: Compiled, targets: Sequence[str], progress: Progress) -> int:
        """Folds what waits for some targets; how many commits that took."""
        state, folded = self.state(view, compiled), 0
        for target in targets:
            if state.waits(target).entries:
                progress(f"folding {state.waits(target).entries} waiting diffs into {target} of {view.name}")
                layout = compiled.layouts()[target]
                by = looked_for_by(state, compiled, target)
                state = self._refresher.waiting.fold(view.name, target, layout, state, by)
                self._remember(view, state, self._seen[view.name])
                folded += 1
        return folded

    def optimize(self, view: View, compiled: Compiled, progress: Progress) -> str:
        """Folds all that waits, and packs small files; what was done, in words."""
        with self._forgetting(view):
            state = self.state(view, compiled)
            targets = [*state.caches, delta.ROWS]
            waited = sum(state.waits(target).entries for target in targets)
            self._fold(view, compiled, targets, progress)
            for target in targets:
                progress(f"packing the files of {target} of {view.name}")
                small = pages(target, looked_for_by(state, compiled, target))
                with delta.settings(self.session, {**PACKING, **small}):
                    self.session.sql(f"OPTIMIZE {to_sql(delta.storage(view.name, target))}").collect()
            for cache in compiled.caches:
                if cache not in state.caches:
                    self._empty(view, cache, progress)
            self.forget(view)
            return f"{view.name}: {waited} waiting diffs folded in, small files packed"

    def _empty(self, view: View, cache: str, progress: Progress) -> None:
        """Empties a cache that the view does without. Its table stays: versions are not to come twice, which
        other sessions know it by, and one that has not heard of it yet reads the version that it knows."""
        table = delta.storage(view.name, cache)
        name = f"{delta.DATABASE}.{delta.storage_name(view.name, cache)}"
        if not self.session.catalog.tableExists(name) or self.session.table(name).isEmpty():
            return
        progress(f"emptying {cache} of {view.name}")
        newest = int(delta.history(self.session, table, limit=1)[0].version)

        def delete() -> None:
            self.session.sql(to_sql(exp.Delete(this=table))).collect()

        delta.commit(self.session, view.name, cache, newest, "", delete, alone=self._is_alone())

    # --- where views stand ---

    def state(
        self,
        view: View,
        compiled: Compiled,
        tables: Mapping[str, tuple[Table | None, str]] = MappingProxyType({}),
    ) -> delta.State:
        """Where a view stands: as this session left it, unless others have touched its tables since.
        `tables`: base tables that were looked at a moment ago."""
        known = self._states.get(view.name)
        properties = self._properties(view)
        if known is None or properties.get(delta.ID_PROPERTY) != self._seen.get(view.name):
            self._check_definition(view, properties)
            filling = properties.get(delta.ID_PROPERTY, "")
            loaded = delta.load_state(self.session, view.name, compiled.caches)
            known = self._remember(view, loaded, filling)
        self._check_identity(view, known, tables)
        return known

    def _check_definition(self, view: View, properties: Mapping[str, str]) -> None:
        doc = properties.get(delta.VIEW_PROPERTY)
        if doc is None or View.from_json(doc) != view:
            raise ViewReplaced(
                f"view {view.name} was replaced or dropped by another session",
                hint="run the statement again: the view as it is now is then known",
            )

    def shown(self, view: View, *, as_it_is: bool = False) -> delta.State:
        """What readers of a view see now, whoever refreshed it last."""
        state = delta.shown_state(self.session, view.name, as_it_is=as_it_is)
        self._check_identity(view, state)
        return state

    def _check_identity(
        self,
        view: View,
        state: delta.State,
        tables: Mapping[str, tuple[Table | None, str]] = MappingProxyType({}),
    ) -> None:
        for table in view.tables:
            known = tables.get(table.name)
            identity = self._tables.identity(table.name) if known is None else known[1]
            if identity != state.table_ids[table.name]:
                raise BaseTableChanged(
                    f"table {table.name} is not the one that view {view.name} was made over",
                    hint=f"REFRESH MATERIALIZED VIEW {view.name} FULL takes the new one",
                )

    def _remember(self, view: View, state: delta.State, filling: str) -> delta.State:
        """`filling`: which one the state belongs to. It is a property of the view's table, since that is
        cheap to ask; refreshes by others in between show when a commit's transaction number is taken."""
        self._states[view.name] = state
        self._seen[view.name] = filling
        return state

    def _properties(self, view: View) -> dict[str, str]:
        return self._tables.properties(delta.storage(view.name, delta.ROWS)) or {}


def shown_query(view: View, compiled: Compiled, version: int | None = None) -> exp.Select:
    """What stands behind the view's name: its rows, with the diffs that wait in effect; now, or as of a
    version of its table."""
    stored = delta.storage(view.name, delta.ROWS, version)
    rows = exp.Subquery(this=log.resolved(compiled.layouts()[delta.ROWS], stored, stored))
    return shown(compiled, SparkNames(view.name, {}, {}, lambda target: rows))


def shown_sql(view: View, compiled: Compiled) -> str:
    """The same, as it is written down."""
    return to_sql(shown_query(view, compiled))
