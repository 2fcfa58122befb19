"""One refresh on Spark: read the feeds, compute the script's relations, commit the caches, then the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from sqlglot import exp

from viewkeep.algebra.nodes import Node, passing
from viewkeep.algebra.script_nodes import Ref, Stored
from viewkeep.capture.delta import last_of, net_of_feed, read_feed, summary_of, values_of_feed
from viewkeep.catalog.models import Table, View
from viewkeep.chooser import Choice
from viewkeep.engines.contract import Progress
from viewkeep.engines.report import Counts, kinds_present, told, total
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import first_line
from viewkeep.engines.spark.names import SparkNames, bare, temporary, versioned
from viewkeep.engines.spark.tables import BaseTables
from viewkeep.errors import BaseTableChanged, ConcurrentRefresh, DuplicateKey
from viewkeep.idiff.bags import occurrence_changes
from viewkeep.idiff.changes import KIND
from viewkeep.idiff.diff import Diff
from viewkeep.idiff.net import LAST, labels, summary
from viewkeep.passes.compiler import Compiled
from viewkeep.rules.overlay import expand
from viewkeep.script import dml
from viewkeep.script.model import Apply, Script
from viewkeep.script.render import Renderer
from viewkeep.store import delta

# Relations up to this size are brought to the driver and sent back as local data: Spark then knows their
# size, broadcasts them, and does not compute them again for each statement that reads them.
LOCAL_ROWS = 100_000
SMALL_JOBS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


@dataclass
class _Run:
    """What one refresh has found out so far."""

    view: View
    state: delta.State
    watermark: dict[str, int]
    sizes: dict[str, int] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    persisted: list[Any] = field(default_factory=list)
    commits: int = 0
    counts: Counts = field(default_factory=dict)
    report: delta.Report = field(default_factory=lambda: delta.Report("none", "", time.time()))

    def say(self, strategy: str) -> None:
        """Which strategy runs, and why."""
        reason = told(self.view, strategy, self.counts)
        self.report = replace(self.report, strategy=strategy, reason=reason, changes_in=total(self.counts))


@dataclass
class Together:
    """Views that are refreshed together: up to which versions, and the net changes read so far."""

    upto: Mapping[str, int]
    nets: dict[tuple[str, int], Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a refresh did: strategy and reason as they are reported, counts, and the view's state now."""

    strategy: str
    reason: str
    counts: Mapping[str, int]
    state: delta.State | None


class Refresher:
    """Refreshes views in one session, one at a time."""

    def __init__(self, session: Any, tables: BaseTables) -> None:
        self._session = session
        self._tables = tables
        self.together = Together({})

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    def refresh(
        self,
        view: View,
        compiled: Compiled,
        state: delta.State,
        choosing: Callable[[Script, Counts], Choice],
        progress: Progress,
    ) -> Outcome:
        """Computes and commits what changed since the state; the state that the view is in then. Where
        recomputing is chosen, nothing is done yet."""
        run = _Run(view, state, dict(state.watermark))
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
            names = SparkNames(
                view.name, state.watermark, run.watermark, {**state.caches, "rows": state.rows}
            )
            small = len(run.local) == len(run.sizes)
            with delta.settings(self._session, SMALL_JOBS if small else {}):
                changed, diff_rows = self._run(run, script, names, progress)
        finally:
            for frame in run.persisted:
                frame.unpersist()
        more = {
            "rows_changed": changed,
            "diff_rows": diff_rows,
            "statements": run.commits,
            "commits": run.commits,
        }
        report = run.report
        return Outcome(report.strategy, report.reason, {**more, "changes_in": report.changes_in}, run.state)

    def _net(
        self, run: _Run, progress: Progress
    ) -> tuple[dict[str, frozenset[str]], dict[str, dict[str, int]]]:
        """Reads each feed past the watermark into net changes; moves the watermark of the run."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in run.view.tables:
            after = run.state.watermark[table.name]
            upto = self.together.upto.get(table.name)
            if upto is not None and upto <= after:
                continue
            name = temporary(f"net_{table.name}")
            try:
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
        shared = self.together.nets.get((table.name, after))
        if shared is not None:
            self._register(run, name, shared)
            return int(shared.num_rows)
        progress(f"reading changes of {table.name}")
        feed = read_feed(self._session, table.name, after)
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
            self.together.nets[table.name, after] = run.local[name]
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

    def _register(self, run: _Run, name: str, rows: Any) -> None:
        self._session.createDataFrame(rows).createOrReplaceTempView(name)
        run.sizes[name], run.local[name] = rows.num_rows, rows

    def _run(self, run: _Run, script: Script, names: SparkNames, progress: Progress) -> tuple[int, int]:
        """Computes all relations, commits the caches, then the rows; rows changed, and diff rows."""
        for let in script.lets:
            if let.unless_empty is not None and not run.sizes[temporary(let.unless_empty)]:
                empty = self._session.createDataFrame([], self._render(let.query, names).schema)
                empty.createOrReplaceTempView(temporary(let.name))
                run.sizes[temporary(let.name)] = 0
                continue
            if let.unless_empty is not None:
                run.report = replace(
                    run.report, strategy="groups", reason=told(run.view, "groups", run.counts)
                )
            progress(f"computing {let.name}")
            self._materialize(run, temporary(let.name), self._render(let.query, names))
        ready = [self._ready(run, apply, names) for apply in script.applies]
        self._count_diffs(run, script, ready)
        versions = dict(run.state.caches)
        changed = diff_rows = 0
        committed = False
        for apply, (statement, size) in zip(script.applies, ready, strict=True):
            if apply.target.role != "view":
                if statement is not None:
                    progress(f"committing {apply.target.name} of {run.view.name}")
                    _, versions[apply.target.name] = self._commit(
                        run, apply.target.name, versions[apply.target.name], "", statement
                    )
                continue
            changed = self._commit_rows(run, versions, statement, progress)
            if isinstance(statement, exp.Insert):  # Spark does not say how many rows an append wrote
                changed = size
            diff_rows, committed = size, True
        if not committed:
            self._commit_rows(run, versions, None, progress)
        return changed, diff_rows

    def _count_diffs(self, run: _Run, script: Script, ready: Sequence[tuple[exp.Expr | None, int]]) -> None:
        """What the report can say before the commit that it is part of: the rows are always committed."""
        on_view = [apply.target.role == "view" for apply in script.applies]
        diff_rows = sum(size for (_, size), is_view in zip(ready, on_view, strict=True) if is_view)
        caches = sum(s is not None for (s, _), is_view in zip(ready, on_view, strict=True) if not is_view)
        run.report = replace(run.report, diff_rows=diff_rows, statements=caches + 1)

    def _commit_rows(
        self, run: _Run, caches: Mapping[str, int], statement: exp.Expr | None, progress: Progress
    ) -> int:
        """The commit that counts: rows and watermark in one."""
        progress(f"committing rows of {run.view.name}")
        state = delta.State(run.watermark, run.state.table_ids, caches, 0)
        if statement is None:
            statement = _nothing(delta.storage(run.view.name, "rows"))
        answer, version = self._commit(run, "rows", run.state.rows, state.metadata(run.report), statement)
        run.state = replace(state, rows=version, refreshed=datetime.now(UTC))
        progress(f"committed rows of {run.view.name}")
        return int(answer[0][0]) if answer and len(answer[0]) else 0

    def _commit(
        self, run: _Run, target: str, version: int, metadata: str, statement: exp.Expr
    ) -> tuple[list[Any], int]:
        name = delta.storage_name(run.view.name, target)
        done = delta.commit(self._session, name, version + 1, metadata, to_sql(statement))
        if done is None:
            raise ConcurrentRefresh(f"another refresh of {run.view.name} came first", hint="refresh again")
        run.commits += 1
        answer, made = done
        return answer, made

    def _ready(self, run: _Run, apply: Apply, names: SparkNames) -> tuple[exp.Expr | None, int]:
        """The one statement that applies all diffs of a target, and how many diff rows it takes."""
        node, target = apply.target.node, delta.storage(run.view.name, apply.target.name)
        if apply.changes is not None:
            name = apply.changes.name
            size = run.sizes[temporary(name)]
            return self._merged(run, target, node, name) if size else None, size
        diffs = []
        for number, diff in enumerate(apply.diffs, start=1):
            columns = list(node.names) if diff.kind == "insert" else [*diff.ids, *sorted(diff.changed)]
            query = passing(diff.query, columns)
            name = f"{diff.kind}_{apply.target.name}_{number}"
            if self._materialize(run, temporary(name), self._render(query, names)):
                diffs.append(replace(diff, query=Ref(name, query.columns)))
        size = sum(run.sizes[temporary(d.query.name)] for d in diffs if isinstance(d.query, Ref))
        if not diffs:
            return None, 0
        if len(diffs) == 1:
            return self._single(target, node, diffs[0], names), size
        stored = Stored(apply.target.name, node.columns, node.ids)
        changes = f"changes_{apply.target.name}"
        if not self._materialize(run, temporary(changes), self._render(expand(stored, diffs), names)):
            return None, size
        return self._merged(run, target, node, changes), size

    def _single(self, target: exp.Table, node: Node, diff: Diff, names: SparkNames) -> exp.Expr:
        """One diff alone needs no look at the rows first: a MERGE by its ids, or an append."""
        assert isinstance(diff.query, Ref)
        source = names.ref(diff.query.name)
        if diff.kind == "insert":
            return dml.insert(target, source, node.names)
        return dml.merge(target, node, source, frozenset({diff.kind}), diff.ids, sorted(diff.changed))

    def _merged(self, run: _Run, target: exp.Table, node: Node, changes: str) -> exp.Expr:
        name = temporary(changes)
        if name in run.local:
            kinds = set(run.local[name].column(KIND).unique().to_pylist())
        else:
            column = self._session.table(name).select(f"`{KIND}`")
            kinds = {row[0] for row in column.distinct().collect()}
        source = exp.table_(name, quoted=True)
        if kinds == {"insert"}:
            return dml.insert(target, source, node.names)
        return dml.merge(target, node, source, frozenset(kinds), node.ids)

    def _render(self, node: Node, names: SparkNames) -> Any:
        return self._sql(Renderer(names).query(node))


def _nothing(rows: exp.Table) -> exp.Expr:
    """A statement that changes no row, but commits: the watermark moves though the view does not."""
    source = exp.Subquery(
        this=exp.select(exp.alias_(exp.Literal.number(1), "x")).where(exp.false()), alias="d"
    )
    return exp.Merge(
        this=exp.alias_(rows, "v", table=True),
        using=source,
        on=exp.false(),
        whens=exp.Whens(expressions=[exp.When(matched=True, then=exp.Var(this="DELETE"))]),
    )
