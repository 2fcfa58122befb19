"""One refresh inside a transaction: net the log, choose, compute the script's relations, apply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from sqlglot import exp

from viewkeep.algebra.bags import OCCURRENCE
from viewkeep.algebra.nodes import Column, Scan, walk
from viewkeep.algebra.script_nodes import Empty, Images, Stored
from viewkeep.catalog.models import Table, View
from viewkeep.chooser import ALWAYS, SMALL_TABLES, Choice, Kept, Netting
from viewkeep.engines.choosing import weigh
from viewkeep.engines.contract import Progress
from viewkeep.engines.initial import fill_queries
from viewkeep.engines.report import Counts, refreshed, total, verification
from viewkeep.engines.transactional.database import Database, Log, Notes
from viewkeep.engines.transactional.names import AsOf, TableNames
from viewkeep.engines.transactional.netting import Nets, Present, Waiting
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Verification
from viewkeep.rules.context import Target
from viewkeep.script.cost import Sizes, lookups
from viewkeep.script.emptiness import is_empty, read_by
from viewkeep.script.model import Script
from viewkeep.script.plan import Change, Compute, statements
from viewkeep.script.render import Renderer

# a stored relation of fewer rows is scanned faster than an index is kept, unless the database says otherwise
WORTH_AN_INDEX = 10_000
# a base table of so many rows is worth an index where a refresh looks rows up ...
LARGE_TABLE = 100_000
# ... by a column of which a value has at most so many rows on average
ROWS_A_VALUE = 100
# how many rows of a table may have changed where nobody looked
UNKNOWN = 1_000_000
# a relation is counted again when more rows of it have changed than this share of it, or these few
STALE, FEW = 0.1, 100


@dataclass(frozen=True)
class _Step:
    """A relation to compute: its statement, how to write the one that makes it empty, which few refreshes
    need, and the relations that it reads."""

    compute: Compute
    sql: str
    empty: Callable[[], str]
    reads: frozenset[str]


@dataclass(frozen=True)
class _Ready:
    """A script in the database's words. It is kept with the script, whose identity is its key."""

    script: Script
    steps: tuple[_Step, ...]
    changes: tuple[tuple[str, Change], ...]
    lookups: frozenset[tuple[str, str]]
    """Base tables of which rows are looked up, and by which column."""
    imaged: tuple[str, ...] = ()
    """Base tables of which changed rows are read in both states."""


@dataclass(frozen=True)
class _Ways:
    """The scripts for one kind of batch: with the view's caches, and without, where that can be."""

    ready: _Ready
    lean: Callable[[], _Ready | None]


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
    """What a script did: rows changed in the view, diff rows, DML statements, whether it computed groups
    anew; the seconds for computing diffs, changing caches and changing the view; and the rows of caches that
    it changed, and how many of them are new."""

    rows_changed: int
    diff_rows: int
    statements: int
    recomputed: bool
    phases: Mapping[str, float]
    cache_rows: int
    cache_inserts: int


class Refresher:
    """Refreshes views of one database; the caller has begun a transaction."""

    def __init__(self, database: Database, notes: Notes) -> None:
        self._database = database
        self._notes = notes
        self.nets = Nets(database)
        self.rows_seen: dict[str, int] = {}
        """How many changed rows of each base table were read."""
        self._ready: dict[tuple[str, int, bool], _Ready] = {}
        self._distinct: dict[tuple[str, str], int] = {}
        self._indexed: set[tuple[str, str]] = set()
        self._rows: dict[str, _Rows] = {}
        self._usual: dict[str, _Ways] = {}
        """The scripts that a view ran, or would have run, last."""

    def names(self, view: View) -> TableNames:
        """Where the leaves of the view's plan are."""
        return TableNames(self._database, view.name, view.tables)

    def refresh(self, view: View, compiled: Compiled, full: str, log: Log, progress: Progress) -> Refresh:
        """Brings a view to the end of the log. `full`: why to recompute."""
        started = time.perf_counter()
        if full:
            for table in view.tables:  # nobody looks by how much it has changed
                self._rows.pop(table.name, None)
                self.rows_seen[table.name] = UNKNOWN
            choice = Choice(True, full, caches=view.policy != "full")
            return self._recomputed(view, compiled, choice, {}, log, started, progress, {})
        names = self.names(view)
        after = log.watermark(view.name)
        may = self._may_be_full(view)
        waiting = self.nets.waiting(view, log, after, self._propagates) if may else None
        if waiting is not None and waiting.moved:
            early = self._chosen_early(view, compiled, waiting, log)
            if early.full:
                counts = self._counts(waiting)
                return self._recomputed(view, compiled, early, counts, log, started, progress, {})
        present, counts = self.nets.of(view, names, log, after)
        self._note_changes(counts)
        if not any(present.values()):
            done = refreshed(view, "none", "no base table changed", started)
            self._record(view, done, log)
            return done
        undeclared = compiled.not_updatable(present)
        if undeclared:
            choice = Choice(True, undeclared)
            return self._recomputed(view, compiled, choice, counts, log, started, progress, {})
        planned = time.perf_counter()
        sizes = self._sizes(view, compiled, log.is_bare(view))
        few = total(counts) <= self._database.looked_up
        ways = self._usual[view.name] = self._ways(view, compiled, present, names, sizes if few else None)
        choice = self._choose(view, compiled, ways, counts, sizes, log)
        phases = {"net": planned - started, "plan": time.perf_counter() - planned}
        if choice.full:
            return self._recomputed(view, compiled, choice, counts, log, started, progress, phases)
        ready, strategy = ways.ready, compiled.strategy
        if not choice.caches:
            found = ways.lean()
            assert found is not None  # it was chosen
            ready, strategy = found, "tuple"
            if not log.is_bare(view):
                self._drop_caches(view, compiled)
        unindexed = time.perf_counter()
        indexed = self._index_tables(view, ready, counts, sizes, progress)
        started += time.perf_counter() - unindexed  # done once, for all refreshes to come
        self.nets.image(ready.imaged, names)
        with self._database.planning():
            ran = self._run(view, ready)
        strategy = "groups" if ran.recomputed else strategy
        more = {
            "counted": ran.rows_changed,
            "diff_rows": ran.diff_rows,
            "statements": ran.statements,
        }
        if len(compiled.placement.targets) > 1 and choice.caches:
            more |= {"cache_rows": ran.cache_rows, "cache_inserts": ran.cache_inserts}
        done = refreshed(view, strategy, counts, started, phases={**phases, **ran.phases}, **more)
        if not choice.caches and choice.reason:
            done = replace(done, reason=f"{done.reason}, {choice.reason}")
        if indexed:
            done = replace(done, reason=f"{done.reason}; indexed first: {', '.join(indexed)}")
        self._record(view, done, log)
        return done

    def _choose(
        self,
        view: View,
        compiled: Compiled,
        ways: _Ways,
        counts: Counts,
        sizes: Sizes,
        log: Log,
        **more: Any,
    ) -> Choice:
        past = partial(self._notes.past, view.name)
        kept = Kept(len(compiled.placement.targets), log.is_bare(view), log.longest(view))

        def lean() -> tuple[Script, float] | None:
            found = ways.lean()
            return (found.script, self._overhead(found)) if found is not None else None

        script, overhead = ways.ready.script, self._overhead(ways.ready)
        return weigh(view, compiled, script, counts, sizes, overhead, past, kept, lean=lean, **more)

    def _overhead(self, ready: _Ready) -> float:
        """The seconds that a script's statements take at least."""
        texts = [*(step.sql for step in ready.steps), *(sql for sql, _ in ready.changes)]
        return sum(map(self._database.at_least, texts))

    def _may_be_full(self, view: View) -> bool:
        """Whether recomputing may be chosen before the log is combined. Not before it is known what the
        view's script is like, which takes a while to be made, nor for tables that are not recomputed."""
        if view.policy != "auto" or view.is_eager:
            return view.policy == "full"
        rows = [self._rows[table.name].counted for table in view.tables if table.name in self._rows]
        return view.name in self._usual and sum(rows) >= SMALL_TABLES

    def _propagates(self, view: View) -> bool:
        """Whether a view was not recomputed the last time."""
        past = self._notes.past(view.name)
        return not past or past[-1].strategy != "full" or not past[-1].changes

    def _chosen_early(self, view: View, compiled: Compiled, waiting: Waiting, log: Log) -> Choice:
        """The choice before the log is combined, which recomputing does not need. Rows that were updated are
        not counted, and not enough to recompute: the view need not read the columns that changed."""
        if view.policy == "full":
            return ALWAYS
        ways = self._usual[view.name]
        sizes = self._sizes(view, compiled, log.is_bare(view))
        counts = {"": {"insert": waiting.moved}}
        netting = Netting(waiting.share, waiting.seconds)
        return self._choose(view, compiled, ways, counts, sizes, log, netting=netting)

    def _counts(self, waiting: Waiting) -> Counts:
        """About how many rows changed where nobody has combined the log."""
        counts = {table: {"insert": moved, "update": n} for table, (moved, n) in waiting.rows.items()}
        self._note_changes(counts)
        return counts

    def _record(self, view: View, done: Refresh, log: Log) -> None:
        self._notes.record(done, log.upto, {table.name: log.upto for table in view.tables})

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
        rows, statements = self.fill(
            view, compiled, progress, caches=choice.caches, was_bare=log.is_bare(view)
        )
        more = {"counted": rows, "statements": statements, "changes_in": total(counts)}
        done = refreshed(view, "full", choice.reason, started, phases=phases, **more)
        self._record(view, done, log)
        return done

    def fill(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        *,
        caches: bool = True,
        was_bare: bool = False,
    ) -> tuple[int, int]:
        """Computes every target from scratch, or the view alone and drops its caches; the number of the
        view's rows, and of relations."""
        names, places = self.names(view), self._database.places
        rows, longest = 0, 0.0
        filled = list(fill_queries(compiled, names, caches=caches))
        # for small tables nobody asks what scripts look up: to make the script takes longer than all else
        form = compiled if caches else compiled.lean
        large = form is not None and self._reads_large_tables(view)
        for target, query in filled:
            progress(f"computing {target.role} {target.name} of {view.name}")
            started = time.perf_counter()
            by = self._stored_by(form, target) if form is not None and large else []
            rows = self._database.fill(places.target(view.name, target.name), query, by)
            longest = max(longest, time.perf_counter() - started)
            self._rows[_target(view, target.name)] = _Rows(rows)
            for key in (
                self._keys(form, target.name) if form is not None and rows >= self._indexed_from else ()
            ):
                self._database.run(self._database.sql(places.index_on(view.name, target.name, *key)))
        if not caches and not was_bare:
            self._drop_caches(view, compiled)
        elif caches and len(compiled.placement.targets) > 1:
            self._notes.note_filled(view.name, longest)
        return rows, len(filled)

    def _drop_caches(self, view: View, compiled: Compiled) -> None:
        """The view is bare from now on, if it ever had a cache."""
        others = [target for target in compiled.placement.targets if target.role != "view"]
        for target in others:
            self._database.run(self._database.sql(self._database.places.drop_target(view.name, target.name)))
        if others:
            self._notes.note_filled(view.name, None)

    def _reads_large_tables(self, view: View) -> bool:
        rows = self._counted({t.name: self._database.places.base(t.name) for t in view.tables})
        return max(rows.values(), default=0) >= self._indexed_from

    def _stored_by(self, compiled: Compiled, target: Target) -> list[Column]:
        """The columns by which scripts look rows of a target up together. One that is the ID finds one row,
        wherever that is."""
        keys = self._keys(compiled, target.name)
        together = next((key for key in keys if not set(target.node.ids) <= set(key)), ())
        return [target.node.by_name[name] for name in together]

    @property
    def _indexed_from(self) -> int:
        """How many rows a stored relation must have to be worth an index."""
        return min(WORTH_AN_INDEX, self._database.worth_an_index)

    def _keys(self, compiled: Compiled, target: str) -> Iterable[tuple[str, ...]]:
        """What to index of a target."""
        if self._database.indexes_several:
            return compiled.lookup_keys()[target]
        return ((column,) for column in compiled.lookups()[target])

    # --- what to run ---

    def _ways(
        self, view: View, compiled: Compiled, present: Present, names: TableNames, looking: Sizes | None
    ) -> _Ways:
        """The scripts for a batch. The one that needs no caches is made when it is first asked for."""
        lean = compiled.lean

        def of_lean() -> _Ready | None:
            if lean is None or view.is_eager:
                return None
            return self._prepare(view, lean.script(present), names, looking)

        return _Ways(self._prepare(view, compiled.script(present), names, looking), of_lean)

    def _prepare(self, view: View, script: Script, names: TableNames, looking: Sizes | None) -> _Ready:
        """The statements of a script. `looking`: the relations, where rows of them are looked up."""
        key = (view.name, id(script), looking is not None)
        if key not in self._ready:
            made = statements(script, names, self._sought(view, script, looking) if looking else ())
            steps = tuple(self._step(compute, names) for compute in made.computes)
            changes = tuple((self._database.sql(c.statement), c) for c in made.changes)
            self._ready[key] = _Ready(script, steps, changes, _base_lookups(script), _imaged(script))
        return self._ready[key]

    def _sought(self, view: View, script: Script, sizes: Sizes) -> list[tuple[Scan, str]]:
        """The scans of base tables that have an index to look rows up by, or will get one, and by which
        column."""
        if not self._database.indexes_in_refreshes:
            return []
        keys = {table.name: table.key for table in view.tables}
        found: list[tuple[Scan, str]] = []
        for leaf, name in lookups(script):
            if isinstance(leaf, Scan):
                by, rows = leaf.base_name[name], sizes.tables[leaf.table]
                worth = rows >= LARGE_TABLE and not view.is_eager and self._is_selective(leaf.table, by, rows)
                if worth or keys[leaf.table] == (by,):
                    found.append((leaf, name))
        # the column first of which a value has the fewest rows
        return sorted(found, key=lambda one: -self._distinct.get((one[0].table, one[0].base_name[one[1]]), 0))

    def _step(self, compute: Compute, names: TableNames) -> _Step:
        name = names.ref(compute.name)

        def empty() -> str:
            return self._database.temporary(name, Renderer(names).query(Empty(compute.node.columns)))

        sql = self._database.temporary(name, compute.query)
        return _Step(compute, sql, cache(empty), read_by(compute.node))

    def _sizes(self, view: View, compiled: Compiled, is_bare: bool) -> Sizes:
        """The rows of base tables and targets; a view that is bare has no caches."""
        places = {table.name: self._database.places.base(table.name) for table in view.tables}
        targets = [t.name for t in compiled.placement.targets]
        stored = [t.name for t in compiled.placement.targets if t.role == "view" or not is_bare]
        if view.policy != "auto":  # nothing is chosen, so nobody asks
            stored = []
        places |= {_target(view, name): self._database.places.target(view.name, name) for name in stored}
        rows = dict.fromkeys((_target(view, name) for name in targets), 0) | self._counted(places)

        def is_looked_up(leaf: Scan | Stored, column: str) -> bool:
            if isinstance(leaf, Scan):
                return self._is_selective(leaf.table, leaf.base_name[column], rows[leaf.table])
            few = rows[_target(view, leaf.target)] < self._indexed_from
            return few or column in compiled.lookups()[leaf.target]

        def rows_a_value(leaf: Scan | Stored, column: str) -> float:
            if isinstance(leaf, Stored) or leaf.base_name[column] == OCCURRENCE:
                return 1.0
            values = self._distinct_values(leaf.table, leaf.base_name[column])
            return rows[leaf.table] / max(values, 1)

        tables = {table.name: rows[table.name] for table in view.tables}
        stored_rows = {name: rows[_target(view, name)] for name in targets}
        return Sizes(tables, stored_rows, is_looked_up, rows_a_value, self._database.looked_up)

    def _counted(self, places: Mapping[str, exp.Table]) -> dict[str, int]:
        """About how many rows relations have. They are counted again only when many have changed: DuckDB
        takes 20 ms to count a large table of which a few rows were deleted."""
        unknown = [name for name in places if name not in self._rows or self._rows[name].is_stale]
        if unknown:
            counts = self._database.sizes([places[name] for name in unknown])
            self._rows |= {name: _Rows(n) for name, n in zip(unknown, counts, strict=True)}
        return {name: self._rows[name].counted for name in places}

    def _note_changes(self, counts: Counts) -> None:
        for table, kinds in counts.items():
            n = sum(kinds.values())
            self.rows_seen[table] = self.rows_seen.get(table, 0) + n
            self._note_change(table, n)

    def _note_change(self, name: str, n: int) -> None:
        if name in self._rows:
            self._rows[name] = replace(self._rows[name], changed=self._rows[name].changed + n)

    def lookups(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        """The large base tables, and the columns of few rows a value, by which a script may look rows up."""
        script = compiled.script(compiled.everything())
        rows = self._counted({t.name: self._database.places.base(t.name) for t in view.tables})
        return [
            (table, column)
            for table, column in sorted(_base_lookups(script))
            if rows[table] >= LARGE_TABLE and self._is_selective(table, column, rows[table])
        ]

    def _index_tables(
        self, view: View, ready: _Ready, counts: Counts, sizes: Sizes, progress: Progress
    ) -> list[str]:
        """Makes the indexes by which this script finds rows of base tables, unless the transaction has
        changed the table itself: DuckDB then refuses. Which it made."""
        made: list[str] = []
        if view.is_eager or not self._database.indexes_in_refreshes:
            return made
        keys = {table.name: table.key for table in view.tables}
        for table, column in sorted(ready.lookups - self._indexed):
            rows = sizes.tables[table]
            few = rows >= LARGE_TABLE and total(counts) * ROWS_A_VALUE <= rows
            if few and keys[table] != (column,) and self._is_selective(table, column, rows):
                progress(f"indexing {table} by {column}")
                self._database.run(self._database.sql(self._database.places.base_index(table, column)))
                self._indexed.add((table, column))
                made.append(f"{table} ({column})")
        return made

    def _is_selective(self, table: str, column: str, rows: int) -> bool:
        """Whether a value of the column names few rows."""
        if column == OCCURRENCE:
            return False
        return self._distinct_values(table, column) * ROWS_A_VALUE >= rows

    def _distinct_values(self, table: str, column: str) -> int:
        if (table, column) not in self._distinct:
            self._distinct[table, column] = self._database.distinct_values(table, column)
        return self._distinct[table, column]

    def forget(self) -> None:
        """A transaction was rolled back, or views are gone: what was noted may not be so any more."""
        self._ready.clear()
        self._usual.clear()
        self._distinct.clear()
        self._indexed.clear()
        self._rows.clear()
        self.nets.forget()
        self._notes.forget()

    # --- telling ---

    def verify(self, view: View, compiled: Compiled, whole: Sequence[Table], log: Log) -> Verification:
        """Compares a view with its query over the tables as the view shows them. `whole`: the tables with all
        columns that are logged, since the query as the user wrote it may name some that the maintained plan
        does not read."""
        names = TableNames(self._database, view.name, whole)
        after = log.watermark(view.name)
        present, _ = self.nets.of(replace(view, tables=tuple(whole)), names, log, after)
        changed = frozenset(name for name, kinds in present.items() if kinds)
        recomputed = Renderer(AsOf(names, changed)).query(compiled.to_verify())
        shown = exp.select("*").from_(self._database.places.base(view.name))
        database = self._database
        return verification(
            view.name,
            compiled,
            shown,
            recomputed,
            lambda query: [tuple(row) for row in database.rows(database.sql(query))],
        )

    def explain(
        self, view: View, compiled: Compiled, to_sql: Callable[[exp.Expr], str]
    ) -> list[tuple[str, str]]:
        """The delta script for every kind of change: a title and SQL for each step."""
        made = statements(compiled.script(compiled.everything()), self.names(view))
        steps = [(f"compute {c.name}", to_sql(c.query)) for c in made.computes]
        return steps + [
            (f"apply {c.source} to {c.target.role} {c.target.name}", to_sql(c.statement))
            for c in made.changes
        ]

    # --- running ---

    def _run(self, view: View, ready: _Ready) -> _Done:
        """Computes all relations, then applies. A relation that has no rows because those that it is made of
        have none is not computed, and made only for one that reads it along with others."""
        sizes: dict[str, int] = {}
        empty: set[str] = set()
        absent: dict[str, _Step] = {}
        diff_rows = 0
        recomputed = ready.script.recomputes
        started = time.perf_counter()
        for step in ready.steps:
            name, guard = step.compute.name, step.compute.unless_empty
            if guard in empty or is_empty(step.compute.node, empty):
                sizes[name], absent[name] = 0, step
                empty.add(name)
                continue
            for other in sorted(step.reads & absent.keys()):
                self._database.run(absent.pop(other).empty())
            recomputed = recomputed or guard is not None
            sizes[name] = self._database.run(step.sql)
            if not sizes[name]:
                empty.add(name)
            diff_rows += sizes[name] if step.compute.is_view_diff else 0
        changed = ran = cache_rows = cache_inserts = 0
        applied = time.perf_counter()
        phases = {"diff": applied - started, "caches": 0.0, "view": 0.0}
        left = {(c.target.name, c.source): sizes[c.source] for _, c in ready.changes}
        for sql, change in ready.changes:
            if left[change.target.name, change.source]:
                count = self._database.run(sql)
                self._note_change(_target(view, change.target.name), count)
                if change.among:  # what the statements before this one have not changed is left to it
                    left[change.target.name, change.source] -= count
                ran += bool(count) or not change.among
                if change.target.role == "view":
                    changed += count
                else:
                    cache_rows += count
                    cache_inserts += count if change.kind == "insert" else 0
                before, applied = applied, time.perf_counter()
                phases["view" if change.target.role == "view" else "caches"] += applied - before
        return _Done(changed, diff_rows, ran, recomputed, phases, cache_rows, cache_inserts)


def _target(view: View, name: str) -> str:
    """What a target is called among relations whose sizes are known; no table's name has a colon."""
    return f"{view.name}:{name}"


def _imaged(script: Script) -> tuple[str, ...]:
    queries = [let.query for let in script.lets]
    queries += [diff.query for apply in script.applies for diff in apply.diffs]
    found = {n.scan.table for query in queries for n in walk(query) if isinstance(n, Images)}
    return tuple(sorted(found))


def _base_lookups(script: Script) -> frozenset[tuple[str, str]]:
    found = {(leaf.table, leaf.base_name[name]) for leaf, name in lookups(script) if isinstance(leaf, Scan)}
    return frozenset((table, column) for table, column in found if column != OCCURRENCE)
