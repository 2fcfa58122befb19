"""One refresh on DuckDB, inside a transaction: net the log, choose, compute the script's relations, apply."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from viewkeep.algebra.bags import OCCURRENCE
from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.capture.duckdb import base_table
from viewkeep.catalog.models import View
from viewkeep.chooser import Choice, Kept
from viewkeep.engines.choosing import weigh
from viewkeep.engines.contract import Progress
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.names import DuckDBNames, bare, temporary
from viewkeep.engines.duckdb.netting import Nets, counted
from viewkeep.engines.initial import fill_queries, fill_view
from viewkeep.engines.report import Counts, refreshed, total
from viewkeep.idiff.changes import KIND
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh
from viewkeep.script.cost import Sizes, lookups
from viewkeep.script.model import Script
from viewkeep.script.plan import Change, Compute, statements
from viewkeep.store.duckdb import Log, Store, base_index, drop_target, index_on, target_table

# fewer rows are scanned faster than an index is kept
WORTH_AN_INDEX = 10_000
# a base table of so many rows is worth an index where a refresh looks rows up ...
LARGE_TABLE = 100_000
# ... by a column of which a value has at most so many rows on average
ROWS_A_VALUE = 100
# common_subplan computes what is wanted twice only once, but whole, not restricted to the few rows that are
# asked for. statistics_propagation fails on some scripts ("BindBuiltinScalarFunction did not return ..."),
# and small diffs do not need it.
MISGUIDED = "common_subplan,statistics_propagation"
# seconds that a statement takes however little it reads, most of them for planning it
STATEMENT = 0.004
# a relation is counted again when more rows of it have changed than this share of it, or these few
STALE, FEW = 0.1, 100
# how much of the log is kept that every view has seen: to delete after each refresh would cost each of them
SEEN_STATEMENTS, SEEN_ROWS = 64, 10_000


@dataclass(frozen=True)
class _Step:
    """A relation to compute: its statement, and the one that makes it empty where its guard has no rows."""

    compute: Compute
    sql: str
    empty: str


@dataclass(frozen=True)
class _Ready:
    """A script in DuckDB's words. It is kept with the script, whose identity is its key."""

    script: Script
    steps: tuple[_Step, ...]
    changes: tuple[tuple[str, Change], ...]
    lookups: frozenset[tuple[str, str]]
    """Base tables of which rows are looked up, and by which column."""


@dataclass(frozen=True)
class _Rows:
    """How many rows a relation had when it was counted, and how many changed since."""

    counted: int
    changed: int = 0

    @property
    def is_stale(self) -> bool:
        return self.changed > max(FEW, self.counted * STALE)


@dataclass(frozen=True)
class _Done:
    """What a script did: rows changed in the view, diff rows, DML statements, and whether it computed groups
    anew."""

    rows_changed: int
    diff_rows: int
    statements: int
    recomputed: bool


class Refresher:
    """Refreshes views of one database; the caller has begun a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.nets = Nets(store)
        self._ready: dict[tuple[str, int], _Ready] = {}
        self._selective: dict[tuple[str, str], bool] = {}
        self._indexed: set[tuple[str, str]] = set()
        self._rows: dict[str, _Rows] = {}
        self._seen_rows: dict[str, int] = {}
        self._trimmed: dict[str, int] = {}

    @property
    def _con(self) -> Any:
        return self._store.con

    def refresh(self, view: View, compiled: Compiled, full: str, log: Log, progress: Progress) -> Refresh:
        """Brings a view to the end of the log. `full`: why to recompute."""
        started = time.perf_counter()
        if full:
            for table in view.tables:  # nobody looks by how much it has changed
                self._rows.pop(table.name, None)
                self._seen_rows[table.name] = SEEN_ROWS
            choice = Choice(True, full, caches=view.policy != "full")
            return self._recomputed(view, compiled, choice, {}, log, started, progress, {})
        names = DuckDBNames(view.name, view.tables)
        present, counts = self.nets.of(view, names, log, log.watermark(view.name))
        self._note_changes(counts)
        if not any(present.values()):
            done = refreshed(view, "none", "no base table changed", started)
            self._record(view, done, log)
            return done
        planned = time.perf_counter()
        ready = self._prepare(view, compiled.script(present), names)
        sizes = self._sizes(view, compiled, log.is_bare(view))
        overhead = STATEMENT * (len(ready.steps) + len(ready.changes))
        past = partial(self._store.past, view.name)
        kept = Kept(len(compiled.placement.targets), log.is_bare(view), log.longest(view))
        choice = weigh(view, compiled, ready.script, counts, sizes, overhead, past, kept)
        phases = {"net": planned - started, "plan": time.perf_counter() - planned}
        if choice.full:
            return self._recomputed(view, compiled, choice, counts, log, started, progress, phases)
        unindexed = time.perf_counter()
        indexed = self._index_tables(view, ready, counts, sizes, progress)
        started += time.perf_counter() - unindexed  # done once, for all refreshes to come
        with self._con.without_optimizers(MISGUIDED):
            ran = self._run(view, ready, names)
        strategy = "groups" if ran.recomputed else compiled.strategy
        more = {
            "counted": ran.rows_changed,
            "diff_rows": ran.diff_rows,
            "statements": ran.statements,
        }
        done = refreshed(view, strategy, counts, started, phases=phases, **more)
        if indexed:
            done = replace(done, reason=f"{done.reason}; indexed first: {', '.join(indexed)}")
        self._record(view, done, log)
        return done

    def _record(self, view: View, done: Refresh, log: Log) -> None:
        self._store.move_watermark(view.name, log.upto)
        self._store.remember(done, {table.name: log.upto for table in view.tables})

    def _recomputed(
        self,
        view: View,
        compiled: Compiled,
        choice: Choice,
        counts: Counts,
        log: Log,
        started: float,
        progress: Progress,
        phases: Mapping[str, float],
    ) -> Refresh:
        rows, statements = self.fill(view, compiled, progress, caches=choice.caches)
        more = {"counted": rows, "statements": statements, "changes_in": total(counts)}
        done = refreshed(view, "full", choice.reason, started, phases=phases, **more)
        self._record(view, done, log)
        return done

    def fill(
        self, view: View, compiled: Compiled, progress: Progress, *, caches: bool = True
    ) -> tuple[int, int]:
        """Computes every target from scratch, or the view alone and drops its caches; the number of the
        view's rows, and of relations."""
        names = DuckDBNames(view.name, view.tables)
        rows, longest = 0, 0.0
        filled = list(fill_queries(compiled, names) if caches else fill_view(compiled, names))
        for target, query in filled:
            progress(f"computing {target.role} {target.name} of {view.name}")
            create = exp.Create(
                this=target_table(view.name, target.name), kind="TABLE", replace=True, expression=query
            )
            started = time.perf_counter()
            rows = self._count(to_sql(create))
            longest = max(longest, time.perf_counter() - started)
            self._rows[_target(view, target.name)] = _Rows(rows)
            for column in compiled.lookups()[target.name] if rows >= WORTH_AN_INDEX and caches else ():
                self._con.execute(to_sql(index_on(view.name, target.name, column)))
        others = [target for target in compiled.placement.targets if target.role != "view"]
        for target in others if not caches else ():
            self._con.execute(to_sql(drop_target(view.name, target.name)))
        if others:
            self._store.note_filled(view.name, longest if caches else None)
        return rows, len(filled)

    def _count(self, sql: str) -> int:
        return int(self._con.execute(sql).fetchone()[0])

    # --- what to run ---

    def _prepare(self, view: View, script: Script, names: DuckDBNames) -> _Ready:
        key = (view.name, id(script))
        if key not in self._ready:
            made = statements(script, names)
            steps = tuple(_step(compute, names.ref(compute.name)) for compute in made.computes)
            changes = tuple((to_sql(c.statement), c) for c in made.changes)
            self._ready[key] = _Ready(script, steps, changes, _base_lookups(script))
        return self._ready[key]

    def _sizes(self, view: View, compiled: Compiled, is_bare: bool) -> Sizes:
        """The rows of base tables and targets; a view that is bare has no caches."""
        places = {table.name: base_table(table.name) for table in view.tables}
        targets = [t.name for t in compiled.placement.targets]
        stored = [t.name for t in compiled.placement.targets if t.role == "view" or not is_bare]
        places |= {_target(view, name): target_table(view.name, name) for name in stored}
        unknown = [name for name in places if name not in self._rows or self._rows[name].is_stale]
        if unknown:
            counts = (counted(exp.select("*").from_(places[name])) for name in unknown)
            row = self._con.execute(to_sql(exp.select(*(exp.Subquery(this=c) for c in counts)))).fetchone()
            self._rows |= {name: _Rows(int(n)) for name, n in zip(unknown, row, strict=True)}
        rows = dict.fromkeys((_target(view, name) for name in targets), 0)
        rows |= {name: self._rows[name].counted for name in places}

        def is_looked_up(leaf: Scan | Stored, column: str) -> bool:
            if isinstance(leaf, Scan):
                return self._is_selective(leaf.table, leaf.base_name[column], rows[leaf.table])
            few = rows[_target(view, leaf.target)] < WORTH_AN_INDEX
            return few or column in compiled.lookups()[leaf.target]

        tables = {table.name: rows[table.name] for table in view.tables}
        return Sizes(tables, {name: rows[_target(view, name)] for name in targets}, is_looked_up)

    def _note_changes(self, counts: Counts) -> None:
        for table, kinds in counts.items():
            n = sum(kinds.values())
            self._seen_rows[table] = self._seen_rows.get(table, 0) + n
            self._note_change(table, n)

    def _note_change(self, name: str, n: int) -> None:
        if name in self._rows:
            self._rows[name] = replace(self._rows[name], changed=self._rows[name].changed + n)

    def _index_tables(
        self, view: View, ready: _Ready, counts: Counts, sizes: Sizes, progress: Progress
    ) -> list[str]:
        """Makes the indexes by which this script finds rows of base tables, unless the transaction has
        changed the table itself: DuckDB then refuses. Which it made."""
        made = []
        keys = {table.name: table.key for table in view.tables}
        for table, column in sorted(ready.lookups - self._indexed):
            rows = sizes.tables[table]
            few = rows >= LARGE_TABLE and total(counts) * ROWS_A_VALUE <= rows
            useful = few and keys[table] != (column,) and self._is_selective(table, column, rows)
            if useful and not view.is_eager:
                progress(f"indexing {table} by {column}")
                self._con.execute(to_sql(base_index(table, column)))
                self._indexed.add((table, column))
                made.append(f"{table} ({column})")
        return made

    def _is_selective(self, table: str, column: str, rows: int) -> bool:
        """Whether a value of the column names few rows."""
        if column == OCCURRENCE:
            return False
        if (table, column) not in self._selective:
            values = exp.ApproxDistinct(this=bare(column))
            found = self._count(to_sql(exp.select(values).from_(base_table(table))))
            self._selective[table, column] = found * ROWS_A_VALUE >= rows
        return self._selective[table, column]

    def forget(self) -> None:
        """A transaction was rolled back, or views are gone: what was noted may not be so any more."""
        self._ready.clear()
        self._selective.clear()
        self._indexed.clear()
        self._rows.clear()
        self._trimmed.clear()
        self.nets.forget()
        self._store.forget()

    # --- running ---

    def _run(self, view: View, ready: _Ready, names: DuckDBNames) -> _Done:
        """Computes all relations, then applies."""
        sizes: dict[str, int] = {}
        diff_rows = 0
        recomputed = ready.script.recomputes
        for step in ready.steps:
            guard = step.compute.unless_empty
            needed = guard is None or bool(sizes[guard])
            recomputed = recomputed or (guard is not None and needed)
            sizes[step.compute.name] = self._count(step.sql if needed else step.empty)
            diff_rows += sizes[step.compute.name] if step.compute.is_view_diff else 0
        kinds = {
            source: self._kinds(names.ref(source))
            for source in {change.source for _, change in ready.changes if change.among}
            if sizes[source]
        }
        changed = ran = 0
        for sql, change in ready.changes:
            if change.kind in kinds.get(change.source, ()) if change.among else sizes[change.source]:
                count = self._count(sql)
                self._note_change(_target(view, change.target.name), count)
                ran += 1
                changed += count if change.target.role == "view" else 0
        return _Done(changed, diff_rows, ran, recomputed)

    def _kinds(self, changes: exp.Expr) -> set[str]:
        """Which kinds of change a change relation holds."""
        query = exp.select(bare(KIND)).distinct().from_(changes)
        return {kind for (kind,) in self._con.execute(to_sql(query)).fetchall()}

    def trim(self, views: Sequence[View], log: Log) -> None:
        """Forgets the events of the views' tables that every view has seen, when they are worth it."""
        for table in sorted({table.name for view in views for table in view.tables}):
            seen, trimmed = log.seen_by_all(table), self._trimmed.get(table, 0)
            rows = self._seen_rows.get(table, 0)
            if seen - trimmed >= SEEN_STATEMENTS or (seen > trimmed and rows >= SEEN_ROWS):
                self._store.trim_log(table, seen)
                self._trimmed[table], self._seen_rows[table] = seen, 0


def _target(view: View, name: str) -> str:
    """What a target is called among relations whose sizes are known; no table's name has a colon."""
    return f"{view.name}:{name}"


def _base_lookups(script: Script) -> frozenset[tuple[str, str]]:
    found = {(leaf.table, leaf.base_name[name]) for leaf, name in lookups(script) if isinstance(leaf, Scan)}
    return frozenset((table, column) for table, column in found if column != OCCURRENCE)


def _step(compute: Compute, name: exp.Expr) -> _Step:
    sql = temporary(name, compute.query)
    if compute.unless_empty is None:
        return _Step(compute, sql, sql)
    none = exp.select("*").from_(exp.Subquery(this=compute.query.copy(), alias="q")).where(exp.false())
    return _Step(compute, sql, temporary(name, none))
