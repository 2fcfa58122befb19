"""One refresh on Spark: read the feeds, compute the script's relations, commit the caches, then the rows.

What is committed are the diffs themselves, as they come out of the script, where they are few: see
idiff/log.py.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from sqlglot import exp

from viewkeep.algebra.expressions import PRE, pre_name
from viewkeep.algebra.nodes import Node, passing
from viewkeep.algebra.script_nodes import BaseDiff, Images, Ref, Stored
from viewkeep.capture.delta import is_empty, last_of, net_of_feed, read_feed, summary_of, values_of_feed
from viewkeep.catalog.models import Table, View
from viewkeep.chooser import Choice
from viewkeep.engines.contract import Progress
from viewkeep.engines.report import Counts, kinds_present, told, total
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import first_line
from viewkeep.engines.spark.names import LOCAL_ROWS, SparkNames, bare, local_frame, temporary, versioned
from viewkeep.engines.spark.tables import BaseTables
from viewkeep.engines.spark.waiting import WaitingDiffs
from viewkeep.errors import BaseTableChanged, DuplicateKey
from viewkeep.idiff import log
from viewkeep.idiff.bags import occurrence_changes
from viewkeep.idiff.net import LAST, labels, summary
from viewkeep.passes.compiler import Compiled
from viewkeep.rules.overlay import expand, union_rows
from viewkeep.script import dml
from viewkeep.script.model import Apply, Script
from viewkeep.script.prune import pruned, reads_little
from viewkeep.script.render import Renderer
from viewkeep.store import delta

# Of relations up to this size it is found out which values they look for.
FEW_ROWS = 10_000
# To compile a query takes longer than to interpret it for few rows.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Seconds: a query that was interpreted for longer read more than was thought, and is compiled from then on.
LONG = 3.0
SMALL_JOBS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


@dataclass
class _Run:
    """What one refresh has found out so far."""

    view: View
    layouts: Mapping[str, log.Layout]
    state: delta.State
    together: Together
    watermark: dict[str, int]
    sizes: dict[str, int] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    persisted: list[Any] = field(default_factory=list)
    commits: int = 0
    changed: int | Callable[[], int] = 0
    counts: Counts = field(default_factory=dict)
    report: delta.Report = field(default_factory=lambda: delta.Report("none", "", time.time()))

    def values(self, small: Ref | BaseDiff | Images, name: str) -> frozenset[Any] | None:
        """All that a relation has in a column, where it is local data and not much."""
        if isinstance(small, Ref):
            rows, names = self.local.get(temporary(small.name)), [name]
        else:
            rows = self.local.get(temporary(f"net_{small.scan.table}"))
            base = small.scan.base_name.get(name.removeprefix(PRE), "")
            names = [n for n in (base, pre_name(base)) if rows is not None and n in rows.column_names]
        if rows is None or not names or rows.num_rows > FEW_ROWS:
            return None
        return frozenset().union(*(rows.column(n).unique().to_pylist() for n in names))


@dataclass(frozen=True)
class _ToStore:
    """What one refresh stores for a target: by which statement, how many rows and entries (`size`), from how
    many diff rows, how many rows change by it, how many are entries; and all of it where it is local."""

    statement: exp.Expr | None
    size: int
    diffs: int
    changed: int | Callable[[], int]
    entries: int
    rows: Any
    is_wide: bool = False


NOTHING = _ToStore(None, 0, 0, 0, 0, None)


@dataclass
class Together:
    """Views that are refreshed together: up to which versions, and the net changes read so far."""

    upto: Mapping[str, int]
    nets: dict[tuple[str, int], Any] = field(default_factory=dict)
    reading: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    """Held by the view that reads a table's feed, so that others wait for what it finds."""


@dataclass(frozen=True)
class Outcome:
    """What a refresh did: strategy and reason as they are reported, counts, and the view's state now."""

    strategy: str
    reason: str
    counts: Mapping[str, Any]
    state: delta.State | None


class Refresher:
    """Refreshes views in one session, one at a time."""

    def __init__(self, session: Any, tables: BaseTables) -> None:
        self._session = session
        self._tables = tables
        self.waiting = WaitingDiffs(session)
        self._long: set[tuple[str, str]] = set()

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    def refresh(
        self,
        view: View,
        compiled: Compiled,
        state: delta.State,
        together: Together,
        choosing: Callable[[Script, Counts], Choice],
        progress: Progress,
    ) -> Outcome:
        """Computes and commits what changed since the state; the state that the view is in then. Where
        recomputing is chosen, nothing is done yet."""
        run = _Run(view, compiled.layouts(), state, together, dict(state.watermark))
        try:
            present, counts = self._net(run, progress)
            run.counts = counts
            if not any(present.values()) and run.watermark == dict(state.watermark):
                return Outcome("none", "no base table changed", {"commits": 0}, state)
            script = compiled.script(present)
            if any(present.values()):
                choice = choosing(script, counts)
                if choice.full:
                    return Outcome("full", choice.reason, {"changes_in": total(counts)}, state)
                strategy = "groups" if script.recomputes else compiled.strategy
                run.report = replace(
                    run.report,
                    strategy=strategy,
                    reason=told(view, strategy, counts),
                    changes_in=total(counts),
                )
            else:
                run.report = replace(run.report, reason="the changes of the base tables cancel out")
            targets = self.waiting.readable(view.name, run.layouts, state)
            names = SparkNames(view.name, state.watermark, run.watermark, targets)
            small = len(run.local) == len(run.sizes)
            with delta.settings(self._session, SMALL_JOBS if small else {}):
                self._run(run, script, names, progress)
        finally:
            for frame in run.persisted:
                frame.unpersist()
        report = run.report
        more = {
            "counted": run.changed,
            "diff_rows": report.diff_rows,
            "statements": run.commits,
            "commits": run.commits,
            "changes_in": report.changes_in,
        }
        return Outcome(report.strategy, report.reason, more, run.state)

    def _net(
        self, run: _Run, progress: Progress
    ) -> tuple[dict[str, frozenset[str]], dict[str, dict[str, int]]]:
        """Reads each feed past the watermark into net changes; moves the watermark of the run."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in run.view.tables:
            after = run.state.watermark[table.name]
            upto = run.together.upto.get(table.name)
            if upto is not None and upto <= after:
                continue
            name = temporary(f"net_{table.name}")
            try:
                with run.together.reading[table.name] if upto is not None else nullcontext():
                    rows = self._read_net(run, table, name, after, upto, progress)
            except PySparkException as problem:
                raise BaseTableChanged(
                    f"the change feed of {table.name} past version {after} cannot be read: "
                    f"{first_line(problem)}",
                    hint=f"REFRESH MATERIALIZED VIEW {run.view.name} FULL starts from the table as it is",
                ) from problem
            if rows:
                found = self._summary(run, table, name)
                present[table.name], counts[table.name] = kinds_present(found)
        return present, counts

    def _read_net(
        self, run: _Run, table: Table, name: str, after: int, upto: int | None, progress: Progress
    ) -> int:
        """The net changes of one table, registered; views refreshed together read a feed once."""
        shared = run.together.nets.get((table.name, after))
        if shared is not None:
            self._register(run, name, shared)
            return int(shared.num_rows)
        progress(f"reading changes of {table.name}")
        feed = read_feed(self._session, table.name, after)
        if is_empty(feed):
            return 0
        if upto is not None:
            feed = feed.where(f"_commit_version <= {upto:d}")
        feed.createOrReplaceTempView(temporary("feed"))
        if not table.key:
            return self._read_values(run, table, name)
        # for several views all columns are read, since each may use others
        read = table if upto is None else self._tables.find(table.name) or table
        with delta.settings(self._session, SMALL_JOBS):
            rows = self._materialize(run, name, self._sql(net_of_feed(read, temporary("feed"))))
        if rows:
            self._check_inserted(run, table, name)
        if upto is not None and name in run.local:
            run.together.nets[table.name, after] = run.local[name]
        return rows

    def _read_values(self, run: _Run, table: Table, name: str) -> int:
        """The net changes of a table without a key, by the columns that this view uses."""
        values = temporary(f"values_{table.name}")
        relation = exp.table_(values, quoted=True)
        with delta.settings(self._session, SMALL_JOBS):
            if not self._materialize(run, values, self._sql(values_of_feed(table, temporary("feed")))):
                return 0
        small = values in run.local
        with delta.settings(self._session, SMALL_JOBS if small else {}):
            if small:
                last = last_of(run.local[values])
            else:
                last = int(self._sql(exp.select(exp.Max(this=bare(LAST))).from_(relation)).collect()[0][0])
            changes = occurrence_changes(table, relation, versioned(table.name, last))
            return self._materialize(run, name, self._sql(changes))

    def _summary(self, run: _Run, table: Table, name: str) -> dict[str, int]:
        """What the net changes hold of the columns that the view uses; moves the watermark of the run."""
        if name in run.local:
            found, run.watermark[table.name] = summary_of(table, run.local[name])
            return found
        query = summary(table, exp.table_(name, quoted=True))
        newest = exp.alias_(exp.Max(this=bare(LAST)), LAST, quoted=True)
        row = tuple(self._sql(query.select(newest)).collect()[0])
        run.watermark[table.name] = int(row[-1])
        return {label: int(n) for label, n in zip(labels(table), row[:-1], strict=True) if n}

    def _check_inserted(self, run: _Run, table: Table, name: str) -> None:
        """Delta does not enforce keys: what a batch inserts must not share one."""
        found = self._summary(run, table, name)
        if found.get("duplicate"):
            self._tables.check_unique(table, run.watermark[table.name])
            raise DuplicateKey(
                f"a key of {table.name} was there more than once since version "
                f"{run.state.watermark[table.name]}, and is not any more",
                hint=f"REFRESH MATERIALIZED VIEW {run.view.name} FULL starts from the table as it is",
            )
        if found.get("insert"):
            self._tables.check_unique(table, run.watermark[table.name], among=name)

    def _materialize(self, run: _Run, name: str, frame: Any) -> int:
        """Computes a relation once and registers it; its number of rows."""
        small = frame.limit(LOCAL_ROWS + 1).toArrow()
        if small.num_rows <= LOCAL_ROWS:
            self._register(run, name, small)
        else:
            kept = frame.persist()
            run.persisted.append(kept)
            kept.createOrReplaceTempView(name)
            run.sizes[name] = kept.count()
        return run.sizes[name]

    def _compute(self, run: _Run, name: str, query: Node, names: SparkNames) -> None:
        """Computes a relation of the script."""
        query = pruned(query, run.values)
        with self._interpreting(run, name, [query]):
            self._materialize(run, temporary(name), self._sql(Renderer(names).query(query)))

    @contextmanager
    def _interpreting(self, run: _Run, name: str, queries: Sequence[Node]) -> Iterator[None]:
        """Queries of few rows, by what they read, are not compiled in the block."""
        key = (run.view.name, name)
        few = len(run.local) == len(run.sizes) and key not in self._long
        few = few and all(reads_little(query, run.state.caches) for query in queries)
        started = time.perf_counter()
        with delta.settings(self._session, INTERPRETED if few else {}):
            yield
        if few and time.perf_counter() - started > LONG:
            self._long.add(key)

    def _register(self, run: _Run, name: str, rows: Any) -> None:
        local_frame(self._session, rows).createOrReplaceTempView(name)
        run.sizes[name], run.local[name] = rows.num_rows, rows

    def _run(self, run: _Run, script: Script, names: SparkNames, progress: Progress) -> None:
        """Computes all relations, commits the caches, then the rows."""
        for let in script.lets:
            if let.unless_empty is not None and not run.sizes[temporary(let.unless_empty)]:
                empty = self._session.createDataFrame([], self._render(run, let.query, names).schema)
                empty.createOrReplaceTempView(temporary(let.name))
                run.sizes[temporary(let.name)] = 0
                continue
            if let.unless_empty is not None:
                run.report = replace(
                    run.report, strategy="groups", reason=told(run.view, "groups", run.counts)
                )
            progress(f"computing {let.name}")
            self._compute(run, let.name, let.query, names)
        stored = {apply.target.name: self._to_store(run, apply, names) for apply in script.applies}
        on_view = stored.get(delta.ROWS, NOTHING)
        changed_caches = sum(bool(made.size) for made in stored.values()) - bool(on_view.size)
        changed = on_view.changed if isinstance(on_view.changed, int) and not on_view.is_wide else None
        run.report = replace(
            run.report, diff_rows=on_view.diffs, statements=changed_caches + 1, rows_changed=changed
        )
        if on_view.size and on_view.is_wide:
            reason = f"{run.report.reason}; merged into the rows, since the change is wide"
            run.report = replace(run.report, reason=reason)
        for target, made in stored.items():
            if target != delta.ROWS and made.size:
                progress(f"committing {target} of {run.view.name}")
                self._commit(run, target, made)
        progress(f"committing rows of {run.view.name}")
        run.changed = on_view.changed
        if not on_view.size:  # the commit that counts, with the watermark, is made though no row changes
            on_view = replace(on_view, statement=_storing_nothing(run.view.name))
        self._commit(run, delta.ROWS, on_view)
        progress(f"committed rows of {run.view.name}")

    def _commit(self, run: _Run, target: str, made: _ToStore) -> None:
        """Commits what is stored for a target, and with the rows the watermark; the run's state then names
        the version that it made."""
        assert made.statement is not None
        view, before = run.view.name, run.state
        waited = before.waits(target)
        entries = 0 if made.is_wide else waited.entries + made.entries
        after, metadata = before.waits_for(target, self.waiting.after_refresh(entries, waited)), ""
        if target == delta.ROWS:
            after = replace(after, watermark=run.watermark, refreshed=datetime.now(UTC))
            metadata = after.metadata(run.report)
        with delta.settings(self._session, INTERPRETED if made.rows is not None else {}):
            answer, version = delta.commit(
                self._session, view, target, before.version(target), metadata, to_sql(made.statement)
            )
        run.commits += 1
        if made.is_wide and target == delta.ROWS:  # what waited is among the rows that MERGE removed
            run.changed = int(answer[0][0]) - waited.entries
        if made.rows is not None:
            self.waiting.added(view, target, before, version, made.rows)
        run.state = after.moved(target, version)

    def _to_store(self, run: _Run, apply: Apply, names: SparkNames) -> _ToStore:
        """What a refresh stores for a target: its diffs as they are where they are few, else the rows that
        they change."""
        target, node = apply.target.name, apply.target.node
        layout = run.layouts[target]
        if apply.changes is None and not layout.has_room_for(apply.diffs):
            changes = expand(Stored(target, node.columns, node.ids), apply.diffs)
            ref = Ref(f"changes_{target}", changes.columns)
            self._compute(run, ref.name, changes, names)
            apply = replace(apply, changes=ref)
        name = temporary(f"stored_{target}")
        born = exp.Literal.number(run.state.version(target) + 1)
        changed = run.sizes[temporary(apply.changes.name)] if apply.changes is not None else None
        size = 0
        if changed != 0:
            apply = self._pruned(run, apply)
            with self._interpreting(run, name, [] if changed else [diff.query for diff in apply.diffs]):
                size = self._materialize(run, name, self._sql(as_stored(apply, layout, born, names)))
        if not size:
            return NOTHING
        relation, table = exp.table_(name, quoted=True), delta.storage(run.view.name, target)
        diffs = size if changed is None else changed
        columns = [log.BORN, log.IDS, log.SETS, *node.names]
        if name not in run.local:
            if self._session.table(name).where(to_sql(log.is_entry())).isEmpty():
                return _ToStore(dml.insert(table, relation, columns), size, diffs, size, 0, None)
            statement = self._merge(run, layout, target, relation)
            return _ToStore(statement, size, diffs, 0, 0, None, is_wide=True)
        rows = run.local[name]
        entries = rows.num_rows - rows.column(log.IDS).null_count
        told = self._counting(run, layout, target, name) if changed is None else changed
        one_file = dml.insert(table, relation, columns)
        one_file.expression.hint("COALESCE(1)", copy=False)
        return _ToStore(one_file, size, diffs, told, entries, rows)

    def _pruned(self, run: _Run, apply: Apply) -> Apply:
        diffs = (replace(diff, query=pruned(diff.query, run.values)) for diff in apply.diffs)
        return replace(apply, diffs=tuple(diffs))

    def _merge(self, run: _Run, layout: log.Layout, target: str, new: exp.Expr) -> exp.Expr:
        """A wide change is folded in at once, with all that waits."""
        view, version = run.view.name, run.state.version(target)
        entries: exp.Expr = new
        if run.state.waits(target).entries:
            waiting = exp.select("*").from_(self.waiting.entries(view, target, run.state))
            entries = exp.Subquery(
                this=exp.Union(this=waiting, expression=exp.select("*").from_(new.copy()), distinct=False)
            )
        born, stored = exp.Literal.number(version + 1), delta.storage(view, target, version)
        changes = log.to_fold(layout, born, stored, entries, new)
        return log.fold(layout, delta.storage(view, target), changes, brings_rows=True)

    def _counting(self, run: _Run, layout: log.Layout, target: str, name: str) -> Callable[[], int]:
        """How many rows the entries of this refresh stand for. It takes a search, so only who asks pays."""
        stored = delta.storage(run.view.name, target, run.state.version(target))
        waits, entries = run.state.waits(target).entries, run.local.get(name)
        before = exp.Subquery(this=log.resolved(layout, stored, stored)) if waits else stored

        def count() -> int:
            counting = temporary("counted")
            local_frame(self._session, entries).createOrReplaceTempView(counting)
            query = log.reached(layout, before, exp.table_(counting, quoted=True))
            return int(self._sql(query).collect()[0][0])

        return count

    def _render(self, run: _Run, node: Node, names: SparkNames) -> Any:
        return self._sql(Renderer(names).query(pruned(node, run.values)))


def _storing_nothing(view: str) -> exp.Insert:
    table = delta.storage(view, delta.ROWS)
    return exp.Insert(this=table, expression=exp.select("*").from_(table.copy()).where(exp.false()))


def as_stored(apply: Apply, layout: log.Layout, born: exp.Expr, names: SparkNames) -> exp.Query:
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
