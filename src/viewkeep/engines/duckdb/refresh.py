"""One refresh on DuckDB, inside a transaction: net the log, choose, compute the script's relations, apply."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from viewkeep.algebra.bags import OCCURRENCE
from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.capture.duckdb import base_table, log_table
from viewkeep.catalog.models import Table, View
from viewkeep.engines.choosing import weigh
from viewkeep.engines.contract import Progress
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.names import DuckDBNames, bare
from viewkeep.engines.initial import fill_queries
from viewkeep.engines.report import Counts, kinds_present, refreshed, total
from viewkeep.idiff.bags import changed_rows, occurrence_changes, value_changes
from viewkeep.idiff.changes import KIND
from viewkeep.idiff.net import SEQ, labels, net_changes, summary
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh
from viewkeep.script.cost import Sizes, lookups
from viewkeep.script.model import Script
from viewkeep.script.plan import Change, Compute, statements
from viewkeep.store.duckdb import Store, base_index, index_on, target_table

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
_TEMPORARY = exp.Properties(expressions=[exp.TemporaryProperty()])

Present = Mapping[str, frozenset[str]]


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
        self._ready: dict[tuple[str, int], _Ready] = {}
        self._selective: dict[tuple[str, str], bool] = {}
        self._indexed: set[tuple[str, str]] = set()

    @property
    def _con(self) -> Any:
        return self._store.con

    def refresh(
        self, view: View, compiled: Compiled, full: str, upto: int, progress: Progress
    ) -> tuple[Refresh, set[str]]:
        """Brings a view to a version of the log; also which tables had changes. `full`: why to recompute."""
        started = time.perf_counter()
        names = DuckDBNames(view.name, view.tables)
        if full:
            done = self._recomputed(view, compiled, full, {}, upto, started, progress)
            return done, {table.name for table in view.tables}
        after = self._store.watermark(view.name)
        waiting = self._waiting(view, after, upto)
        seen = {name for name, n in waiting.items() if n}
        present, counts = self.net(view, names, after, waiting)
        if not any(present.values()):
            done = refreshed(view, "none", "no base table changed", started)
            self._record(view, done, upto)
            return done, seen
        planned = time.perf_counter()
        ready = self._prepare(view, compiled.script(present), names)
        sizes = self._sizes(view, compiled)
        overhead = STATEMENT * (len(ready.steps) + len(ready.changes))
        past = partial(self._store.past, view.name)
        choice = weigh(view, compiled, ready.script, counts, sizes, overhead, past)
        phases = {"net": planned - started, "plan": time.perf_counter() - planned}
        if choice.full:
            done = self._recomputed(view, compiled, choice.reason, counts, upto, started, progress)
            return replace(done, phases=phases), seen
        unindexed = time.perf_counter()
        indexed = self._index_tables(view, ready, counts, sizes, progress)
        started += time.perf_counter() - unindexed  # done once, for all refreshes to come
        with self._con.without_optimizers(MISGUIDED):
            ran = self._run(ready, names)
        strategy = "groups" if ran.recomputed else compiled.strategy
        more = {
            "rows_changed": ran.rows_changed,
            "diff_rows": ran.diff_rows,
            "statements": ran.statements,
        }
        done = refreshed(view, strategy, counts, started, phases=phases, **more)
        if indexed:
            done = replace(done, reason=f"{done.reason}; indexed first: {', '.join(indexed)}")
        self._record(view, done, upto)
        return done, seen

    def _record(self, view: View, done: Refresh, upto: int) -> None:
        self._store.move_watermark(view.name, upto)
        self._store.remember(done, {table.name: upto for table in view.tables})

    def _recomputed(
        self,
        view: View,
        compiled: Compiled,
        reason: str,
        counts: Counts,
        upto: int,
        started: float,
        progress: Progress,
    ) -> Refresh:
        rows = self.fill(view, compiled, progress)
        more = {"rows_changed": rows, "statements": 1, "changes_in": total(counts)}
        done = refreshed(view, "full", reason, started, **more)
        self._record(view, done, upto)
        return done

    def fill(self, view: View, compiled: Compiled, progress: Progress) -> int:
        """Computes every target from scratch; the number of the view's rows."""
        names = DuckDBNames(view.name, view.tables)
        rows = 0
        for target, query in fill_queries(compiled, names):
            progress(f"computing {target.role} {target.name} of {view.name}")
            create = exp.Create(
                this=target_table(view.name, target.name), kind="TABLE", replace=True, expression=query
            )
            rows = self._count(to_sql(create))
            for column in compiled.lookups()[target.name] if rows >= WORTH_AN_INDEX else ():
                self._con.execute(to_sql(index_on(view.name, target.name, column)))
        return rows

    def _count(self, sql: str) -> int:
        return int(self._con.execute(sql).fetchone()[0])

    # --- what changed ---

    def _waiting(self, view: View, after: int, upto: int) -> dict[str, int]:
        """How many events of each table lie past a watermark."""
        if after == upto:
            return {}
        past = [exp.Subquery(this=_counted(_events(t.name, after))) for t in view.tables]
        counts = self._con.execute(to_sql(exp.select(*past))).fetchone()
        return {table.name: int(n) for table, n in zip(view.tables, counts, strict=True)}

    def net(
        self, view: View, names: DuckDBNames, after: int, waiting: Mapping[str, int]
    ) -> tuple[Present, Counts]:
        """Combines the log of each table into net changes; which kinds of change there are, and how many."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in view.tables:
            if waiting.get(table.name):
                self._con.execute(_created(names.net(table.name), self._net_of(table, after)))
                row = self._con.execute(to_sql(summary(table, names.net(table.name)))).fetchone()
                found = {label: int(n) for label, n in zip(labels(table), row, strict=True) if n}
                present[table.name], counts[table.name] = kinds_present(found)
        return present, counts

    def _net_of(self, table: Table, after: int) -> exp.Query:
        events = _events(table.name, after)
        if table.key:
            return net_changes(table, events)
        values = exp.table_(f"viewkeep:values:{table.name.lower()}", quoted=True)
        self._con.execute(_created(values, value_changes(table, events)))
        return occurrence_changes(table, values, base_table(table.name))

    def pending(self, view: View, after: int, upto: int) -> tuple[Present, Counts]:
        """The net changes past a watermark, as relations that `as of` reads."""
        names = DuckDBNames(view.name, view.tables)
        return self.net(view, names, after, self._waiting(view, after, upto))

    # --- what to run ---

    def _prepare(self, view: View, script: Script, names: DuckDBNames) -> _Ready:
        key = (view.name, id(script))
        if key not in self._ready:
            made = statements(script, names)
            steps = tuple(_step(compute, names.ref(compute.name)) for compute in made.computes)
            changes = tuple((to_sql(c.statement), c) for c in made.changes)
            self._ready[key] = _Ready(script, steps, changes, _base_lookups(script))
        return self._ready[key]

    def _sizes(self, view: View, compiled: Compiled) -> Sizes:
        """The rows of base tables and targets, which DuckDB knows without reading them."""
        tables = {table.name: base_table(table.name) for table in view.tables}
        targets = {t.name: target_table(view.name, t.name) for t in compiled.placement.targets}
        counts = [_counted(exp.select("*").from_(t)) for t in (*tables.values(), *targets.values())]
        found = self._con.execute(to_sql(exp.select(*(exp.Subquery(this=c) for c in counts)))).fetchone()
        rows = dict(zip((*tables, *(f":{t}" for t in targets)), map(int, found), strict=True))

        def is_looked_up(leaf: Scan | Stored, column: str) -> bool:
            if isinstance(leaf, Scan):
                return self._is_selective(leaf.table, leaf.base_name[column], rows[leaf.table])
            return rows[f":{leaf.target}"] < WORTH_AN_INDEX or column in compiled.lookups()[leaf.target]

        return Sizes({t: rows[t] for t in tables}, {t: rows[f":{t}"] for t in targets}, is_looked_up)

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
        self._store.forget()

    # --- running ---

    def _run(self, ready: _Ready, names: DuckDBNames) -> _Done:
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
                ran += 1
                changed += count if change.target.role == "view" else 0
        return _Done(changed, diff_rows, ran, recomputed)

    def _kinds(self, changes: exp.Expr) -> set[str]:
        """Which kinds of change a change relation holds."""
        query = exp.select(bare(KIND)).distinct().from_(changes)
        return {kind for (kind,) in self._con.execute(to_sql(query)).fetchall()}

    def trim(self, tables: set[str]) -> None:
        """Forgets the events of tables that every view has seen."""
        entries = self._store.entries() if tables else []
        for table in tables:
            marks = [e.watermark for e in entries if any(x.name == table for x in e.view.tables)]
            if marks:
                self._store.trim_log(table, min(marks))


def waiting_rows(con: Any, table: Table, after: int) -> int:
    """How many rows of a table changed past a watermark, each counted once."""
    events = _events(table.name, after)
    if table.key:
        query = _counted(net_changes(table, events))
    else:
        query = changed_rows(exp.Subquery(this=value_changes(table, events), alias="net"))
    return int(con.execute(to_sql(query)).fetchone()[0])


def _counted(query: exp.Query) -> exp.Select:
    return exp.select(exp.Count(this=exp.Star())).from_(exp.Subquery(this=query, alias="counted"))


def _events(table: str, after: int) -> exp.Select:
    past = exp.GT(this=bare(SEQ), expression=exp.Literal.number(after))
    return exp.select("*").from_(log_table(table)).where(past)


def _base_lookups(script: Script) -> frozenset[tuple[str, str]]:
    found = {(leaf.table, leaf.base_name[name]) for leaf, name in lookups(script) if isinstance(leaf, Scan)}
    return frozenset((table, column) for table, column in found if column != OCCURRENCE)


def _step(compute: Compute, name: exp.Expr) -> _Step:
    sql = _created(name, compute.query)
    if compute.unless_empty is None:
        return _Step(compute, sql, sql)
    none = exp.select("*").from_(exp.Subquery(this=compute.query.copy(), alias="q")).where(exp.false())
    return _Step(compute, sql, _created(name, none))


def _created(name: exp.Expr, query: exp.Query) -> str:
    return to_sql(
        exp.Create(this=name, kind="TABLE", replace=True, properties=_TEMPORARY.copy(), expression=query)
    )
