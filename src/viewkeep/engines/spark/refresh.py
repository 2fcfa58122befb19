"""One refresh on Spark: read the feeds, compute the script's relations, commit the caches, then the rows.

What is committed are the diffs themselves, as they come out of the script, where they are few: see
idiff/log.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlglot import exp

from viewkeep.algebra.nodes import Node, passing
from viewkeep.algebra.script_nodes import Ref, Stored
from viewkeep.catalog.models import View
from viewkeep.chooser import LARGE_TABLES, Choice
from viewkeep.engines.contract import Progress
from viewkeep.engines.report import Counts, told, total
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.feeds import INTERPRETED, SMALL_JOBS, Changes, Feeds, Together
from viewkeep.engines.spark.files import StoredFiles
from viewkeep.engines.spark.filling import looked_for_by
from viewkeep.engines.spark.names import SparkNames, local_frame, temporary
from viewkeep.engines.spark.nearby import (
    MANY_VALUES,
    STORED,
    WHOLE,
    Nearby,
    Place,
    embedded,
    rendered,
    schema_of,
)
from viewkeep.engines.spark.relations import Relations
from viewkeep.engines.spark.tables import BaseTables
from viewkeep.engines.spark.waiting import WaitingDiffs
from viewkeep.engines.spark.ways import way_of
from viewkeep.idiff import log
from viewkeep.passes.compiler import Compiled, Present
from viewkeep.rules.overlay import expand, union_rows
from viewkeep.script import dml
from viewkeep.script.model import Apply, Let, Script
from viewkeep.script.prune import MOST_VALUES, pruned, reads_little
from viewkeep.script.render import Names, Renderer
from viewkeep.store import delta

# Seconds: a query that was interpreted for longer read more than was thought, and is compiled from then on.
LONG = 3.0


@dataclass
class _Run:
    """What one refresh has found out so far."""

    view: View
    compiled: Compiled
    layouts: Mapping[str, log.Layout]
    state: delta.State
    relations: Relations
    nearby: Nearby
    changes: Changes
    report: delta.Report
    note: str = ""
    """What the reason says beside what changed, and what became of it."""
    commits: int = 0
    changed: int | Callable[[], int] = 0
    phases: dict[str, float] = field(default_factory=dict)
    """The seconds for reading the feeds, computing diffs, changing caches and changing the view."""


@dataclass(frozen=True)
class _ToStore:
    """What one refresh stores for a target: what writes it, how many rows and entries that is (`size`), from
    how many diff rows, how many rows change by it (None where only the rows after it tell), how many are
    entries; and all of it where it is local."""

    write: Callable[[], object] | None
    size: int
    diffs: int
    changed: int | Callable[[], int] | None
    entries: int
    rows: Any
    wide: str = ""
    """What is done with the rows and all entries of a change that is wide, in words."""


NOTHING = _ToStore(None, 0, 0, 0, 0, None)


@dataclass(frozen=True)
class Outcome:
    """What a refresh did: strategy and reason as they are reported, counts, and the view's state now."""

    strategy: str
    reason: str
    counts: Mapping[str, Any]
    state: delta.State | None
    rows_read: int = 0
    """Rows that were read without Spark."""
    caches: bool = True
    """Whether what is recomputed is to have caches."""


class Refresher:
    """Refreshes views in one session, one at a time."""

    def __init__(self, session: Any, tables: BaseTables, is_alone: Callable[[], bool]) -> None:
        self._session = session
        self._tables = tables
        self._is_alone = is_alone
        self.waiting = WaitingDiffs(session, is_alone)
        self._files = StoredFiles(session)
        self._long: set[tuple[str, str]] = set()
        self._embedded = embedded()
        self._changing: set[str] = set()
        self._too_many: set[tuple[str, str]] = set()

    def forget(self, view: str) -> None:
        """The view is gone, or filled anew."""
        self.waiting.forget(view)
        self._files.forget(view)

    def _sql(self, tree: exp.Expr, relations: Relations | None = None) -> Any:
        if relations is not None:
            relations.show()
        return self._session.sql(to_sql(tree))

    def refresh(
        self,
        view: View,
        compiled: Compiled,
        state: delta.State,
        together: Together,
        choosing: Callable[[Present, Counts, delta.State], Choice],
        progress: Progress,
    ) -> Outcome:
        """Computes and commits what changed since the state; the state that the view is in then. Where
        recomputing is chosen, nothing is done yet."""
        relations, started, begun = Relations(self._session), time.time(), time.perf_counter()
        try:
            feeds = Feeds(
                view, state, relations, self._tables, together, progress, self._embedded, self._changing
            )
            changes = feeds.read()
            if changes.are_none and changes.watermark == dict(state.watermark):
                return Outcome("none", "no base table changed", {"commits": 0}, state)
            net = time.perf_counter() - begun
            undeclared = compiled.not_updatable(changes.present)
            if undeclared:
                return Outcome("full", undeclared, {"changes_in": total(changes.counts)}, state)
            report = delta.Report("none", "the changes of the base tables cancel out", started)
            choice = Choice(False)
            if not changes.are_none:
                choice = choosing(changes.present, changes.counts, state)
            count = total(changes.counts)
            if choice.full:
                return Outcome("full", choice.reason, {"changes_in": count}, state, caches=choice.caches)
            way = way_of(compiled, changes, state, choice)
            state = way.state
            if not changes.are_none:
                reason = told(view, way.strategy, changes.counts) + way.note
                report = delta.Report(way.strategy, reason, started, changes_in=count)
            names = self._names(view, compiled, state, changes)
            nearby = self._nearby(view, compiled, state, relations, names, changes)
            layouts = compiled.layouts()
            run = _Run(view, compiled, layouts, state, relations, nearby, changes, report, way.note)
            run.phases |= {"net": net}
            self._run(run, way.script, names, progress)
        finally:
            relations.forget()
        more = {
            "counted": run.changed,
            "diff_rows": run.report.diff_rows,
            "statements": run.commits,
            "commits": run.commits,
            "changes_in": run.report.changes_in,
            "phases": run.phases,
        }
        return Outcome(run.report.strategy, run.report.reason, more, run.state, nearby.rows_read)

    def _names(self, view: View, compiled: Compiled, state: delta.State, changes: Changes) -> SparkNames:
        """Where the script's leaves are; to ask what waits may take a look at a target's table."""
        layouts, waiting = compiled.layouts(), self.waiting

        def readable(target: str) -> exp.Expr:
            return waiting.readable(view.name, target, layouts[target], state)

        return SparkNames(view.name, state.watermark, changes.watermark, readable)

    def _nearby(
        self,
        view: View,
        compiled: Compiled,
        state: delta.State,
        relations: Relations,
        names: SparkNames,
        changes: Changes,
    ) -> Nearby:
        changed = frozenset(table for table, kinds in changes.present.items() if kinds)
        is_large = sum(state.sizes.values()) >= LARGE_TABLES
        in_order = {target: by[0] for target, by in compiled.lookups().items() if by and is_large}
        place = Place(view.name, state, compiled.layouts(), names, changed, state.sizes, in_order)
        fetching = partial(self._fetching, place)
        return Nearby(self._embedded, place, relations, self.waiting, self._files, fetching, self._too_many)

    @contextmanager
    def _fetching(self, place: Place, name: str, leaf: Node) -> Iterator[None]:
        """Rows of a leaf are fetched in the block: interpreted, where little is read for it."""
        few = reads_little(leaf, place.state.caches) or sum(place.sizes.values()) <= WHOLE
        with self._interpreted((place.view, f"fetch {name}"), few):
            yield

    def _compute(self, run: _Run, name: str, query: Node, names: SparkNames) -> None:
        """Computes a relation of the script: here, where all that it takes can be here."""
        near = pruned(query, run.relations.values, MANY_VALUES)
        rows = run.nearby.answer([near], rendered, schema_of(query.columns))
        if rows is not None:
            run.relations.register(temporary(name), rows)
            return
        query = pruned(query, run.relations.values)
        with self._interpreting(run, name, [query]):
            run.relations.compute(temporary(name), self._sql(Renderer(names).query(query), run.relations))

    @contextmanager
    def _interpreting(self, run: _Run, name: str, queries: Sequence[Node]) -> Iterator[None]:
        """Queries of few rows, by what they read, are not compiled in the block."""
        few = run.relations.are_local
        few = few and all(reads_little(query, run.state.caches) for query in queries)
        with self._interpreted((run.view.name, name), few):
            yield

    @contextmanager
    def _interpreted(self, key: tuple[str, str], few: bool) -> Iterator[None]:
        """A query that reads little is not compiled in the block, unless it took long before."""
        few = few and key not in self._long
        started = time.perf_counter()
        with delta.settings(self._session, INTERPRETED if few else {}):
            yield
        if few and time.perf_counter() - started > LONG:
            self._long.add(key)

    def _run(self, run: _Run, script: Script, names: SparkNames, progress: Progress) -> None:
        """Computes all relations, commits the caches, then the rows."""
        started = time.perf_counter()
        with delta.settings(self._session, SMALL_JOBS if run.relations.are_local else {}):
            self._compute_all(run, script, names, progress)
            stored = {apply.target.name: self._to_store(run, apply, names) for apply in script.applies}
        on_view = stored.get(delta.ROWS, NOTHING)
        changed_caches = sum(bool(made.size) for made in stored.values()) - bool(on_view.size)
        run.report = replace(
            run.report,
            diff_rows=on_view.diffs,
            statements=changed_caches + 1,
            rows_changed=on_view.changed if isinstance(on_view.changed, int) else None,
        )
        if on_view.wide:
            reason = f"{run.report.reason}; {on_view.wide}, since the change is wide"
            run.report = replace(run.report, reason=reason)
        computed = time.perf_counter()
        for target, made in stored.items():
            if target != delta.ROWS and made.size:
                progress(f"committing {target} of {run.view.name}")
                self._commit(run, target, made)
        cached = time.perf_counter()
        progress(f"committing rows of {run.view.name}")
        if not on_view.size:  # the commit that counts, with the watermark, is made though no row changes
            on_view = replace(on_view, write=partial(self._write, _storing_nothing(run.view.name)))
        before = run.state
        self._commit(run, delta.ROWS, on_view)
        comparing = self._comparing(run.view.name, run.layouts[delta.ROWS], before, run.state)
        run.changed = comparing if on_view.changed is None else on_view.changed
        run.phases |= {"diff": computed - started, "caches": cached - computed}
        run.phases["view"] = time.perf_counter() - cached
        progress(f"committed rows of {run.view.name}")

    def _compute_all(self, run: _Run, script: Script, names: SparkNames, progress: Progress) -> None:
        """Computes the script's relations."""
        for let in script.lets:
            if let.unless_empty is not None and not run.relations.sizes[temporary(let.unless_empty)]:
                self._leave_empty(run, let, names)
                continue
            if let.unless_empty is not None:
                reason = told(run.view, "groups", run.changes.counts) + run.note
                run.report = replace(run.report, strategy="groups", reason=reason)
            progress(f"computing {let.name}")
            self._compute(run, let.name, let.query, names)

    def _leave_empty(self, run: _Run, let: Let, names: SparkNames) -> None:
        """A relation that need not be computed has no rows."""
        name, schema = temporary(let.name), schema_of(let.query.columns)
        if schema is not None:
            run.relations.register(name, schema.empty_table())
            return
        empty = self._session.createDataFrame([], self._render(run, let.query, names).schema)
        empty.createOrReplaceTempView(name)
        run.relations.sizes[name] = 0

    def _write(self, statement: exp.Expr) -> None:
        self._sql(statement).collect()

    def _commit(self, run: _Run, target: str, made: _ToStore) -> None:
        """Commits what is stored for a target, and with the rows the watermark; the run's state then names
        the version that it made."""
        assert made.write is not None
        view, before = run.view.name, run.state
        waited = before.waits(target)
        entries = 0 if made.wide else waited.entries + made.entries
        after, metadata = before.waits_for(target, self.waiting.after_refresh(entries, waited)), ""
        if target == delta.ROWS:
            sizes = run.changes.grown(before.sizes)
            after = replace(after, watermark=run.changes.watermark, refreshed=datetime.now(UTC), sizes=sizes)
            metadata = after.metadata(run.report)
        run.relations.show(temporary(f"stored_{target}"))
        is_small = made.rows is not None or not made.size
        with delta.settings(self._session, {**SMALL_JOBS, **INTERPRETED} if is_small else {}):
            version = delta.commit(
                self._session,
                view,
                target,
                before.version(target),
                metadata,
                made.write,
                alone=bool(made.size) and self._is_alone(),
            )
        run.commits += 1
        if made.rows is not None:
            self.waiting.added(view, target, before, version, made.rows)
            self._files.added(view, target, before.version(target), version, made.rows)
        run.state = after.moved(target, version)

    def _to_store(self, run: _Run, apply: Apply, names: SparkNames) -> _ToStore:
        """What a refresh stores for a target: its diffs as they are where they are few, else the rows that
        they change."""
        target, node = apply.target.name, apply.target.node
        layout = run.layouts[target]
        if apply.changes is None and not layout.has_room_for(apply.diffs):
            changes = expand(Stored.of(target, node), apply.diffs)
            ref = Ref(f"changes_{target}", changes.columns)
            self._compute(run, ref.name, changes, names)
            apply = replace(apply, changes=ref)
        name = temporary(f"stored_{target}")
        born = exp.Literal.number(run.state.version(target) + 1)
        changed = run.relations.sizes[temporary(apply.changes.name)] if apply.changes is not None else None
        size = 0
        if changed != 0:
            size = self._compute_stored(run, apply, layout, born, names)
        if not size:
            return NOTHING
        relation, table = exp.table_(name, quoted=True), delta.storage(run.view.name, target)
        diffs = size if changed is None else changed
        columns = [log.BORN, log.IDS, log.SETS, *node.names]
        if name not in run.relations.local:
            run.relations.show(name)
            if self._session.table(name).where(to_sql(log.is_entry())).isEmpty():
                appending = partial(self._write, dml.insert(table, relation, columns))
                return _ToStore(appending, size, diffs, size, 0, None)
            by = looked_for_by(run.state, run.compiled, target)
            fold = self.waiting.folding(run.view.name, target, layout, run.state, by, relation, size)
            return _ToStore(fold.write, size, diffs, changed, 0, None, wide=fold.told)
        rows = run.relations.local[name]
        entries = rows.num_rows - rows.column(log.IDS).null_count
        told = self._counting(run, layout, target, name) if changed is None else changed
        one_file = dml.insert(table, relation, columns)
        one_file.expression.hint("COALESCE(1)", copy=False)
        return _ToStore(partial(self._write, one_file), size, diffs, told, entries, rows)

    def _compute_stored(
        self, run: _Run, apply: Apply, layout: log.Layout, born: exp.Expr, names: SparkNames
    ) -> int:
        """Computes what is stored for a target; how many rows and entries that is."""
        name = temporary(f"stored_{apply.target.name}")
        near = self._queries(run, apply, MANY_VALUES)

        def build(near: Sequence[Node], here: Names) -> exp.Query:
            diffs = () if apply.changes is not None else zip(apply.diffs, near, strict=True)
            made = replace(apply, diffs=tuple(replace(diff, query=query) for diff, query in diffs))
            return as_stored(made, layout, born, here)

        rows = run.nearby.answer(near, build, schema_of(layout.columns, STORED))
        if rows is not None:
            run.relations.register(name, rows)
            return int(rows.num_rows)
        queries = self._queries(run, apply, MOST_VALUES)
        with self._interpreting(run, name, [] if apply.changes is not None else queries):
            query = build(queries, names)
            return run.relations.compute(name, self._sql(query, run.relations))

    def _queries(self, run: _Run, apply: Apply, most: int) -> list[Node]:
        """What is applied to a target: its change relation, or its diffs, narrowed to so many values."""
        if apply.changes is not None:
            return [apply.changes]
        return [pruned(diff.query, run.relations.values, most) for diff in apply.diffs]

    def _counting(self, run: _Run, layout: log.Layout, target: str, name: str) -> Callable[[], int]:
        """How many rows the entries of this refresh stand for. It takes a search, so only who asks pays."""
        before, entries = _resolved(run.view.name, target, layout, run.state), run.relations.local.get(name)

        def count() -> int:
            counting = temporary("counted")
            local_frame(self._session, entries).createOrReplaceTempView(counting)
            query = log.reached(layout, before, exp.table_(counting, quoted=True))
            return int(self._sql(query).collect()[0][0])

        return count

    def _comparing(
        self, view: str, layout: log.Layout, before: delta.State, after: delta.State
    ) -> Callable[[], int]:
        """How many rows of a view differ between two states: nothing is left of the entries of a wide change.
        It takes a join of all rows, so only who asks pays."""

        def count() -> int:
            versions = (_resolved(view, delta.ROWS, layout, state) for state in (before, after))
            return int(self._sql(log.differing(layout, *versions)).collect()[0][0])

        return count

    def _render(self, run: _Run, node: Node, names: SparkNames) -> Any:
        return self._sql(Renderer(names).query(pruned(node, run.relations.values)), run.relations)


def _resolved(view: str, target: str, layout: log.Layout, state: delta.State) -> exp.Expr:
    """The rows of a target as of a state; it is read when someone asks, from Delta alone."""
    stored = delta.storage(view, target, state.version(target))
    waits = state.waits(target).entries
    return exp.Subquery(this=log.resolved(layout, stored, stored)) if waits else stored


def _storing_nothing(view: str) -> exp.Insert:
    table = delta.storage(view, delta.ROWS)
    return exp.Insert(this=table, expression=exp.select("*").from_(table.copy()).where(exp.false()))


def as_stored(apply: Apply, layout: log.Layout, born: exp.Expr, names: Names) -> exp.Query:
    """What a refresh stores for a target: changed rows whole, or diffs as they are, with no look at the rows
    that they change."""
    if apply.changes is not None:
        parts = log.replaced(layout, born, names.ref(apply.changes.name))
    else:
        parts = []
        for diff in apply.diffs:
            if diff.kind != "insert":
                query = passing(diff.query, [*diff.ids, *sorted(diff.changed)])
                parts.append(log.entries(layout, born, diff, Renderer(names).query(query)))
        inserts = [passing(d.query, apply.target.node.names) for d in apply.diffs if d.kind == "insert"]
        if inserts:
            parts.append(log.inserted(layout, born, Renderer(names).query(union_rows(inserts))))
    joined: exp.Query = parts[0]
    for part in parts[1:]:
        joined = exp.Union(this=joined, expression=part, distinct=False)
    return joined
