"""Spark on Delta Lake, through public PySpark API only, so that Spark Connect sessions work too."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.nodes import Node, Ref, Scan, Stored, passing
from viewkeep.capture.delta import FEED, net_of_feed, read_feed, summary_of
from viewkeep.catalog.models import ForeignKey, Table, TableColumn, View, same_table
from viewkeep.engines.contract import Progress, Standing
from viewkeep.engines.initial import fill_queries, shown
from viewkeep.engines.report import check_tables, kinds_present, refreshed, verification
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    ConcurrentRefresh,
    CorruptCatalog,
    DuplicateKey,
    EngineError,
    UnknownTable,
    ViewkeepError,
)
from viewkeep.frontend.statements import parse_sql
from viewkeep.idiff.changes import KIND
from viewkeep.idiff.diff import Diff
from viewkeep.idiff.net import LAST, NET_KIND, labels, summary
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.rules.overlay import expand
from viewkeep.script import dml
from viewkeep.script.model import Apply, Script
from viewkeep.script.plan import statements
from viewkeep.script.render import Renderer
from viewkeep.store import delta

# Relations up to this size are brought to the driver and sent back as local data: Spark then knows their
# size, broadcasts them, and does not compute them again for each statement that reads them.
LOCAL_ROWS = 100_000
_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive",
            "spark.sql.decimalOperations.allowPrecisionLoss")  # fmt: skip
_SMALL_JOBS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


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


@dataclass
class _Together:
    """Views that are refreshed together: up to which versions, and the net changes read so far."""

    upto: Mapping[str, int]
    nets: dict[tuple[str, int], Any] = field(default_factory=dict)


class SparkNames:
    """Where the leaves of a plan are: base tables and targets, each pinned to a version."""

    def __init__(
        self,
        view: str,
        before: Mapping[str, int],
        after: Mapping[str, int],
        targets: Mapping[str, int | None] | None = None,
    ) -> None:
        self._view = view
        self._before = before
        self._after = after
        self._targets = targets or {}

    def table(self, scan: Scan) -> exp.Expr:
        versions = self._before if scan.state == "pre" else self._after
        return versioned(scan.table, versions.get(scan.table))

    def net(self, table: str) -> exp.Expr:
        return exp.table_(_temporary(f"net_{table}"), quoted=True)

    def ref(self, name: str) -> exp.Expr:
        return exp.table_(_temporary(name), quoted=True)

    def stored(self, target: str) -> exp.Expr:
        return delta.storage(self._view, target, self._targets.get(target))


def versioned(name: str, version: int | None) -> exp.Table:
    """A base table by its name, as of a version."""
    parts = name.split(".")
    padded = [None] * (3 - len(parts)) + list(parts)
    table = exp.table_(padded[2] or "", db=padded[1], catalog=padded[0], quoted=True)
    return delta.at_version(table, version) if version is not None else table


def _temporary(name: str) -> str:
    return "viewkeep_" + "".join(c if c.isalnum() else "_" for c in name)


class SparkEngine:
    """The tables and views of a Spark session. Work of viewkeep's own runs in a sister session, so that its
    settings and temporary views never show in the user's."""

    name = "spark"
    dialect = "spark"

    def __init__(self, session: Any) -> None:
        self._user = session
        self._session = _sister(session)
        self._lock = threading.RLock()
        self._states: dict[str, delta.State] = {}
        self._seen: dict[str, str] = {}
        self._views: list[View] | None = None
        self._together = _Together({})
        self._unique: set[tuple[str, str, int]] = set()
        self._check_delta()
        self._session.conf.set("spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled", "true")

    def _check_delta(self) -> None:
        extensions = self._session.conf.get("spark.sql.extensions", None) or ""
        if "DeltaSparkSessionExtension" not in extensions:
            raise EngineError(
                "the Spark session has no Delta Lake",
                hint="start it with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, "
                "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
                "and the package io.delta:delta-spark_4.2_2.13:4.4.0",
            )

    def close(self) -> None:
        """The session is the user's: it stays."""

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    # --- base tables ---

    def qualify(self, name: str) -> str:
        catalog = self._user.catalog.currentCatalog()
        database = self._user.catalog.currentDatabase()
        if name.count(".") == 1 and catalog != "spark_catalog":
            return f"{catalog}.{name}"
        if "." in name or (catalog, database) == ("spark_catalog", "default"):
            return name.removeprefix("default.")
        return f"{database}.{name}" if catalog == "spark_catalog" else f"{catalog}.{database}.{name}"

    def find_table(self, name: str) -> Table | None:
        if not self._session.catalog.tableExists(name):
            return None
        properties = self._properties(versioned(name, None))
        if properties is None:
            return None
        columns, refused = [], {}
        for part in self._session.table(name).schema.fields:
            kind = _type_of(part.dataType)
            if kind is None:
                refused[part.name] = part.dataType.simpleString()
            else:
                columns.append(TableColumn(part.name, kind, part.nullable))
        exact = {c.name.lower(): c.name for c in columns}
        declared = [k.strip() for k in properties.get(delta.KEY_PROPERTY, "").split(",") if k.strip()]
        for k in declared:
            if k.lower() not in exact:
                raise CorruptCatalog(
                    f"property {delta.KEY_PROPERTY} of {name} names {k}, which is no column",
                    hint=f"ALTER TABLE {name} ADD PRIMARY KEY (column, ...) declares it again",
                )
        foreign = tuple(
            ForeignKey(tuple(f["columns"]), f["table"], tuple(f["references"]))
            for f in json.loads(properties.get(delta.FOREIGN_PROPERTY, "[]"))
        )
        return Table(name, tuple(columns), tuple(exact[k.lower()] for k in declared), foreign, refused)

    def _properties(self, table: exp.Table) -> dict[str, str] | None:
        """The properties of a Delta table; None for anything else, such as a view."""
        try:
            rows = self._session.sql(f"SHOW TBLPROPERTIES {to_sql(table)}").collect()
        except AnalysisException:
            return None
        return {row.key: row.value for row in rows}

    def _detail(self, name: str) -> Any:
        try:
            return self._session.sql(f"DESCRIBE DETAIL {to_sql(versioned(name, None))}").collect()[0]
        except (AnalysisException, IndexError) as problem:
            raise BaseTableChanged(
                f"table {name} cannot be read: {_first_line(problem)}",
                hint="views need Delta tables; was it dropped?",
            ) from problem

    def create_table(self, tree: exp.Create, table: Table) -> None:
        if self._session.catalog.tableExists(table.name) and not tree.args.get("exists"):
            raise AlreadyExists(
                f"table {table.name} exists already", hint="drop it first, or use IF NOT EXISTS"
            )
        made = tree.copy()
        if isinstance(made.this, exp.Schema):
            kept = []
            for part in made.this.expressions:
                if isinstance(part, exp.ColumnDef):
                    required = part.name in table.key or not _nullable(table, part.name)
                    rule = [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else []
                    part.set("constraints", rule)
                    kept.append(part)
            made.this.set("expressions", kept)
        given = made.args.get("properties")
        properties = list(given.expressions) if given else []
        if not any(isinstance(p, exp.FileFormatProperty) for p in properties):
            properties.append(exp.FileFormatProperty(this=exp.Var(this="DELTA")))
        if table.key:
            properties.append(_property(delta.KEY_PROPERTY, ",".join(table.key)))
            properties.append(_property(FEED, "true"))
        if table.foreign_keys:
            docs = [
                {"columns": f.columns, "table": f.table, "references": f.references}
                for f in table.foreign_keys
            ]
            properties.append(_property(delta.FOREIGN_PROPERTY, json.dumps(docs)))
        made.set("properties", exp.Properties(expressions=properties))
        self._checked(to_sql(made))

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query, for CREATE TABLE ... AS."""
        schema = self._checked(to_sql(tree)).schema
        return tuple(TableColumn(f.name, _type_of(f.dataType) or t.STRING, f.nullable) for f in schema)

    def declare_key(self, table: Table, key: Sequence[str]) -> None:
        self._check_unique(replace(table, key=tuple(key)))
        self._set_properties(table.name, {delta.KEY_PROPERTY: ",".join(key)})

    def _set_properties(self, name: str, values: Mapping[str, str]) -> None:
        pairs = [
            exp.EQ(this=exp.Literal.string(k), expression=exp.Literal.string(v)) for k, v in values.items()
        ]
        listed = ", ".join(to_sql(pair) for pair in pairs)
        self._session.sql(f"ALTER TABLE {to_sql(versioned(name, None))} SET TBLPROPERTIES ({listed})")

    def _check_unique(self, table: Table, version: int | None = None, among: str | None = None) -> None:
        """Every key must be there once, in the whole table or among the keys of a temporary view."""
        keys = [_bare(k) for k in table.key]
        source = exp.alias_(versioned(table.name, version), "b", table=True)
        query = exp.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "times")).from_(source)
        if among is not None:
            same = exp.select(exp.Literal.number(1)).from_(
                exp.alias_(exp.table_(among, quoted=True), "n", table=True)
            )
            same = same.where(exp.EQ(this=_of("n", NET_KIND), expression=exp.Literal.string("insert")))
            for k in table.key:
                same = same.where(exp.EQ(this=_of("n", k), expression=_of("b", k)))
            query = query.where(exp.Exists(this=same))
        query = query.group_by(*(k.copy() for k in keys))
        nulls = [exp.Is(this=k.copy(), expression=exp.Null()) for k in keys]
        bad: exp.Expr = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        for null in nulls:
            bad = exp.Or(this=bad, expression=null)
        rows = self._sql(query.having(bad).limit(5)).collect()
        if rows:
            shown_keys = ", ".join(str(tuple(row)[:-1]) for row in rows)
            raise DuplicateKey(
                f"({', '.join(table.key)}) is no key of {table.name}: null or more than once: {shown_keys}",
                hint="delete or change the rows that share a key, then try again",
            )

    def drop_table(self, name: str, if_exists: bool) -> None:
        drop = exp.Drop(tables=[versioned(name, None)], kind="TABLE", exists=if_exists)
        self._checked(to_sql(drop))

    # --- the user's statements ---

    def run_dml(self, tree: exp.Expr, text: str) -> Result:
        rows = self._checked(text).collect()
        count = rows[0][0] if rows and len(rows[0]) else None
        return Result("dml", message=f"{count} rows" if count is not None else "done", detail=count)

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        frame = self._checked(text)
        try:
            rows = tuple(tuple(row) for row in frame.collect())
        except PySparkException as problem:
            raise _translated(problem) from problem
        return Result("select", tuple(frame.columns), rows, frame=lambda: frame)

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        frame = self._checked(text)
        return Result("dml", tuple(frame.columns), tuple(tuple(r) for r in frame.collect()), "done")

    def _checked(self, text: str) -> Any:
        try:
            return self._user.sql(text)
        except PySparkException as problem:
            raise _translated(problem) from problem

    # --- views ---

    def views(self) -> list[View]:
        if self._views is None:
            self._views = [view for view, _ in self._registered()]
        return list(self._views)

    def _registered(self) -> list[tuple[View, str]]:
        """Every view with the SQL that shows it, from the properties of the tables of rows."""
        if not self._session.catalog.databaseExists(delta.DATABASE):
            return []
        found = []
        for entry in self._session.catalog.listTables(delta.DATABASE):
            if not entry.name.endswith("__rows"):
                continue
            table = exp.table_(entry.name, db=delta.DATABASE, quoted=True)
            properties = self._properties(table) or {}
            doc = properties.get(delta.VIEW_PROPERTY)
            if doc is None:
                raise CorruptCatalog(
                    f"table {delta.DATABASE}.{entry.name} does not say which view it belongs to",
                    hint=f"restore its property {delta.VIEW_PROPERTY}, or drop the table and create "
                    "the view again",
                )
            found.append((View.from_json(doc), properties.get(delta.SHOWN_PROPERTY, "")))
        return found

    def create_view(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        replacing: tuple[View, Compiled] | None = None,
    ) -> int:
        if replacing is None and self._session.catalog.tableExists(view.name):
            raise AlreadyExists(
                f"{view.name} exists already", hint="DROP MATERIALIZED VIEW or DROP TABLE it first"
            )
        self._session.sql(f"CREATE DATABASE IF NOT EXISTS {delta.DATABASE}")
        if replacing is None:
            self._forget_remains(view, compiled)
        for table in view.tables:
            self._start_feed(table)
            checked = (table.name, ",".join(table.key), self._newest(table.name))
            if checked not in self._unique:
                progress(f"checking the key of {table.name}")
                self._check_unique(table)
                self._unique.add(checked)
        with self._lock:
            try:
                rows = self._fill(view, compiled, progress, replacing=replacing is not None)
            except BaseException as problem:
                self._states.pop(view.name, None)
                if replacing is None:
                    self._forget_remains(view, compiled)
                if isinstance(problem, PySparkException):
                    raise _translated(problem) from problem
                raise
            finally:
                self._views = None
            if replacing is not None:
                self._forget_caches(*replacing, keep=compiled)
        return rows

    def _forget_remains(self, view: View, compiled: Compiled) -> None:
        """Drops what a CREATE that did not finish left: without its rows' table a view does not exist."""
        for target in compiled.placement.targets:
            drop = exp.Drop(tables=[delta.storage(view.name, target.name)], kind="TABLE", exists=True)
            self._session.sql(to_sql(drop))
            self._dropped(delta.DATABASE, delta.storage_name(view.name, target.name))

    def _forget_caches(self, view: View, old: Compiled, keep: Compiled) -> None:
        """Drops the caches of a replaced view that the new one has no use for."""
        kept = {target.name for target in keep.placement.targets}
        for target in old.placement.targets:
            if target.name not in kept:
                table = delta.storage(view.name, target.name)
                self._session.sql(to_sql(exp.Drop(tables=[table], kind="TABLE", exists=True)))
                self._dropped(delta.DATABASE, delta.storage_name(view.name, target.name))

    def _dropped(self, database: str, table: str) -> None:
        """A table of viewkeep's is gone from the catalog; engines that own its files remove them."""

    def _start_feed(self, table: Table) -> None:
        """Sees to it that a table has a change feed and an identity that a new table would not have."""
        detail = self._detail(table.name)
        if (detail.format or "").lower() != "delta":
            raise EngineError(
                f"table {table.name} is {detail.format}, not Delta", hint="CONVERT TO DELTA, or copy it"
            )
        missing = {}
        if (detail.properties or {}).get(FEED) != "true":
            missing[FEED] = "true"
        if delta.ID_PROPERTY not in (detail.properties or {}):
            missing[delta.ID_PROPERTY] = str(uuid.uuid4())
        if missing:
            self._set_properties(table.name, missing)

    def _fill(self, view: View, compiled: Compiled, progress: Progress, replacing: bool) -> int:
        """Computes every target at the newest versions, caches first; the rows' commit registers all."""
        ids = {table.name: self._identity(table.name) for table in view.tables}
        watermark = {table.name: self._newest(table.name) for table in view.tables}
        caches: dict[str, int] = {}
        names = SparkNames(view.name, watermark, watermark, {})
        for target, query in fill_queries(compiled, names):
            progress(f"computing {target.role} {target.name} of {view.name}")
            is_view = target.role == "view"
            state = delta.State(watermark, ids, caches, 0)
            table = f"{delta.DATABASE}.{delta.storage_name(view.name, target.name)}"
            writer = self._sql(query).writeTo(table).using("delta")
            for key, value in delta.TABLE_PROPERTIES.items():
                writer = writer.tableProperty(key, value)
            if is_view:
                writer = writer.tableProperty(delta.VIEW_PROPERTY, view.to_json())
                writer = writer.tableProperty(delta.SHOWN_PROPERTY, self._shown_sql(view, compiled))
                writer = writer.tableProperty(delta.ID_PROPERTY, str(uuid.uuid4()))
            with delta.creating(self._session, state.metadata() if is_view else ""):
                (writer.createOrReplace if replacing else writer.create)()
            if not is_view:
                caches[target.name] = delta.last_version(self._session)
        version = delta.last_version(self._session)
        self._remember(view, delta.State(watermark, ids, caches, version, datetime.now(UTC)))
        self.show(view, self._shown_sql(view, compiled))
        return int(self._session.table(f"{delta.DATABASE}.{delta.storage_name(view.name, 'rows')}").count())

    def _shown_sql(self, view: View, compiled: Compiled) -> str:
        return to_sql(shown(compiled, SparkNames(view.name, {}, {})))

    def show(self, view: View, body: str) -> None:
        """Puts what the user sees under the view's name."""
        create = exp.Create(
            this=versioned(view.name, None), kind="VIEW", replace=True, expression=parse_sql(body)
        )
        self._sql(create)

    def _newest(self, name: str) -> int:
        return int(delta.history(self._session, versioned(name, None), limit=1)[0].version)

    def drop_view(self, view: View, compiled: Compiled) -> None:
        with self._lock:
            drop = exp.Drop(tables=[versioned(view.name, None)], kind="VIEW", exists=True)
            self._session.sql(to_sql(drop))
            rows_last = sorted(compiled.placement.targets, key=lambda x: x.role == "view", reverse=True)
            for target in rows_last:
                table = delta.storage(view.name, target.name)
                self._session.sql(to_sql(exp.Drop(tables=[table], kind="TABLE", exists=True)))
                self._dropped(delta.DATABASE, delta.storage_name(view.name, target.name))
            self._states.pop(view.name, None)
            self._views = None

    # --- refresh ---

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        with self._lock:
            check_tables(view, self.find_table)
            try:
                return self._try_refresh(view, compiled, full, progress)
            except ConcurrentRefresh:
                progress(f"another refresh of {view.name} came first; starting over")
                return self._try_refresh(view, compiled, full, progress)

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        if len(views) == 1:
            return [self.refresh(*views[0], full, progress)]
        with self._lock:
            tables = dict.fromkeys(table.name for view, _ in views for table in view.tables)
            upto = {name: self._newest(name) for name in tables if self._session.catalog.tableExists(name)}
            self._together = _Together(upto)
            try:
                return [self.refresh(view, compiled, full, progress) for view, compiled in views]
            finally:
                self._together = _Together({})

    def _try_refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        started = time.perf_counter()
        try:
            with self._counting() as jobs:
                if full:
                    for table in view.tables:
                        self._start_feed(table)
                        self._check_unique(table)
                    rows = self._fill(view, compiled, progress, replacing=True)
                    commits = len(compiled.placement.targets)
                    more: dict[str, Any] = {"rows_changed": rows, "statements": commits, "commits": commits}
                    strategy: str = "full"
                    reason: Any = "asked for"
                else:
                    strategy, reason, more = self._incremental(view, compiled, progress)
            return refreshed(view, strategy, reason, started, jobs=jobs(), **more)
        except PySparkException as problem:
            self._states.pop(view.name, None)
            raise _translated(problem) from problem
        except BaseException:
            self._states.pop(view.name, None)  # what was committed is read back next time
            raise

    def _incremental(
        self, view: View, compiled: Compiled, progress: Progress
    ) -> tuple[str, Any, dict[str, Any]]:
        progress(f"reading where {view.name} stands")
        state = self._state(view, compiled)
        self._check_identity(view, state)
        run = _Run(view, state, dict(state.watermark))
        try:
            present, counts = self._net(run, progress)
            if not any(present.values()) and run.watermark == dict(state.watermark):
                return "none", "no base table changed", {"commits": 0}
            script = compiled.script(present)
            names = SparkNames(
                view.name, state.watermark, run.watermark, {**state.caches, "rows": state.rows}
            )
            small = len(run.local) == len(run.sizes)
            with delta.settings(self._session, _SMALL_JOBS if small else {}):
                changed, diff_rows = self._run(run, compiled, script, names, progress)
        finally:
            for frame in run.persisted:
                frame.unpersist()
        more = {
            "rows_changed": changed,
            "diff_rows": diff_rows,
            "statements": run.commits,
            "commits": run.commits,
        }
        if not any(present.values()):
            return "none", "the changes of the base tables cancel out", more
        return compiled.strategy, counts, more

    def _identity(self, name: str) -> str:
        return (self._properties(versioned(name, None)) or {}).get(delta.ID_PROPERTY, "")

    def _check_identity(self, view: View, state: delta.State) -> None:
        for table in view.tables:
            if self._identity(table.name) != state.table_ids[table.name]:
                raise BaseTableChanged(
                    f"table {table.name} is not the one that view {view.name} was made over",
                    hint=f"REFRESH MATERIALIZED VIEW {view.name} FULL takes the new one",
                )

    def _net(
        self, run: _Run, progress: Progress
    ) -> tuple[dict[str, frozenset[str]], dict[str, dict[str, int]]]:
        """Reads each feed past the watermark into net changes; moves the watermark of the run."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in run.view.tables:
            after = run.state.watermark[table.name]
            upto = self._together.upto.get(table.name)
            if upto is not None and upto <= after:
                continue
            name = _temporary(f"net_{table.name}")
            try:
                rows = self._read_net(run, table, name, after, upto, progress)
            except PySparkException as problem:
                raise BaseTableChanged(
                    f"the change feed of {table.name} past version {after} cannot be read: "
                    f"{_first_line(problem)}",
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
        shared = self._together.nets.get((table.name, after))
        if shared is not None:
            self._register(run, name, shared)
            return int(shared.num_rows)
        progress(f"reading changes of {table.name}")
        feed = read_feed(self._session, table.name, after)
        if upto is not None:
            feed = feed.where(f"_commit_version <= {upto:d}")
        feed.createOrReplaceTempView(_temporary("feed"))
        # for several views all columns are read, since each may use others
        read = table if upto is None else self.find_table(table.name) or table
        with delta.settings(self._session, _SMALL_JOBS):
            rows = self._materialize(run, name, self._sql(net_of_feed(read, _temporary("feed"))))
        if rows:
            self._check_inserted(run, table, name)
        if upto is not None and name in run.local:
            self._together.nets[table.name, after] = run.local[name]
        return rows

    def _summary(self, run: _Run, table: Table, name: str) -> dict[str, int]:
        """What the net changes hold of the columns that the view uses; moves the watermark of the run."""
        if name in run.local:
            found, run.watermark[table.name] = summary_of(table, run.local[name])
            return found
        query = summary(table, exp.table_(name, quoted=True))
        newest = exp.alias_(exp.Max(this=_bare(LAST)), LAST, quoted=True)
        row = tuple(self._sql(query.select(newest)).collect()[0])
        run.watermark[table.name] = int(row[-1])
        return {label: int(n) for label, n in zip(labels(table), row[:-1], strict=True) if n}

    def _check_inserted(self, run: _Run, table: Table, name: str) -> None:
        """Delta does not enforce keys: what a batch inserts must not share one."""
        found = self._summary(run, table, name)
        if found.get("duplicate"):
            self._check_unique(table, run.watermark[table.name])
            raise DuplicateKey(
                f"a key of {table.name} was there more than once since version "
                f"{run.state.watermark[table.name]}, and is not any more",
                hint=f"REFRESH MATERIALIZED VIEW {run.view.name} FULL starts from the table as it is",
            )
        if found.get("insert"):
            self._check_unique(table, run.watermark[table.name], among=name)

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

    def _run(
        self, run: _Run, compiled: Compiled, script: Script, names: SparkNames, progress: Progress
    ) -> tuple[int, int]:
        """Computes all relations, commits the caches, then the rows; rows changed, and diff rows."""
        for let in script.lets:
            if let.unless_empty is not None and not run.sizes[_temporary(let.unless_empty)]:
                empty = self._session.createDataFrame([], self._render(let.query, names).schema)
                empty.createOrReplaceTempView(_temporary(let.name))
                run.sizes[_temporary(let.name)] = 0
                continue
            progress(f"computing {let.name}")
            self._materialize(run, _temporary(let.name), self._render(let.query, names))
        ready = [self._ready(run, apply, names) for apply in script.applies]
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

    def _commit_rows(
        self, run: _Run, caches: Mapping[str, int], statement: exp.Expr | None, progress: Progress
    ) -> int:
        """The commit that counts: rows and watermark in one."""
        progress(f"committing rows of {run.view.name}")
        state = delta.State(run.watermark, run.state.table_ids, caches, 0)
        if statement is None:
            statement = _nothing(delta.storage(run.view.name, "rows"))
        answer, version = self._commit(run, "rows", run.state.rows, state.metadata(), statement)
        self._remember(run.view, replace(state, rows=version, refreshed=datetime.now(UTC)))
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
            size = run.sizes[_temporary(name)]
            return self._merged(run, target, node, name) if size else None, size
        diffs = []
        for number, diff in enumerate(apply.diffs, start=1):
            columns = list(node.names) if diff.kind == "insert" else [*diff.ids, *sorted(diff.changed)]
            query = passing(diff.query, columns)
            name = f"{diff.kind}_{apply.target.name}_{number}"
            if self._materialize(run, _temporary(name), self._render(query, names)):
                diffs.append(replace(diff, query=Ref(name, query.columns)))
        size = sum(run.sizes[_temporary(d.query.name)] for d in diffs if isinstance(d.query, Ref))
        if not diffs:
            return None, 0
        if len(diffs) == 1:
            return self._single(target, node, diffs[0], names), size
        stored = Stored(apply.target.name, node.columns, node.ids)
        changes = f"changes_{apply.target.name}"
        if not self._materialize(run, _temporary(changes), self._render(expand(stored, diffs), names)):
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
        name = _temporary(changes)
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

    @contextmanager
    def _counting(self) -> Iterator[Any]:
        """Counts the Spark jobs of a block, where the session can tell: Spark Connect cannot."""
        try:
            context = self._user.sparkContext
            group = f"viewkeep-{uuid.uuid4()}"
            before = context.getLocalProperty("spark.jobGroup.id")
        except (PySparkException, AttributeError):
            yield lambda: None
            return
        context.setLocalProperty("spark.jobGroup.id", group)
        try:
            yield lambda: len(context.statusTracker().getJobIdsForGroup(group))
        finally:
            context.setLocalProperty("spark.jobGroup.id", before)

    # --- telling ---

    def _state(self, view: View, compiled: Compiled) -> delta.State:
        """Where a view stands: as this session left it, unless others have touched its tables since."""
        known = self._states.get(view.name)
        if known is not None and self._fill_id(view) == self._seen.get(view.name):
            return known
        caches = tuple(x.name for x in compiled.placement.targets if x.role != "view")
        return self._remember(view, delta.load_state(self._session, view.name, caches))

    def _remember(self, view: View, state: delta.State) -> delta.State:
        self._states[view.name] = state
        self._seen[view.name] = self._fill_id(view)
        return state

    def _fill_id(self, view: View) -> str:
        """Which filling of the view its tables hold. A property, since that is cheap to ask; refreshes by
        others in between show when a commit's transaction number is taken."""
        properties = self._properties(delta.storage(view.name, "rows")) or {}
        return properties.get(delta.ID_PROPERTY, "")

    def verify(self, view: View, compiled: Compiled) -> Verification:
        """Recomputes the user's own text by Spark alone, over the versions that the view shows."""
        with self._lock:
            check_tables(view, self.find_table)
            state = self._state(view, compiled)
            self._check_identity(view, state)
            query = pinned(parse_sql(view.sql), state.watermark)
            maintained = exp.select("*").from_(versioned(view.name, None))
            try:
                return verification(view.name, compiled, maintained, query, lambda q: self._sql(q).collect())
            except PySparkException as problem:
                raise _translated(problem) from problem

    def standing(self, view: View, compiled: Compiled) -> Standing:
        state = self._state(view, compiled)
        pending = 0
        for table in view.tables:
            if self._session.catalog.tableExists(table.name):
                with suppress(AnalysisException):
                    pending += self._waiting(table, state.watermark[table.name])
            else:
                raise BaseTableChanged(f"table {table.name} does not exist any more", hint="create it again")
        rows = self._session.table(f"{delta.DATABASE}.{delta.storage_name(view.name, 'rows')}").count()
        return Standing(rows, pending, state.refreshed, state.watermark)

    def _waiting(self, table: Table, after: int) -> int:
        """How many rows of a table changed past a version, each counted once."""
        read_feed(self._session, table.name, after).createOrReplaceTempView(_temporary("feed"))
        with delta.settings(self._session, _SMALL_JOBS):
            net = self._sql(net_of_feed(table, _temporary("feed")))
            return int(net.where(f"`{NET_KIND}` <> 'none'").count())

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        return to_sql(tree, pretty)

    def explain(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        names = SparkNames(view.name, {}, {})
        made = statements(compiled.script(compiled.everything()), names)
        steps = [(f"compute {c.name}", to_sql(c.query, pretty=True)) for c in made.computes]
        for change in made.changes:
            node = change.target.node
            target = delta.storage(view.name, change.target.name)
            source = names.ref(change.source)
            if change.kind == "insert":
                tree: exp.Expr = dml.insert(target, source, node.names)
            else:
                tree = dml.merge(target, node, source, frozenset({change.kind}), change.ids, change.changed)
            steps.append(
                (
                    f"apply {change.source} to {change.target.role} {change.target.name}",
                    to_sql(tree, pretty=True),
                )
            )
        return steps


def pinned(query: exp.Expr, versions: Mapping[str, int]) -> exp.Query:
    """The user's query with each base table as of a version. CTE names are not tables."""

    copied = query.copy()
    ctes = {id(node) for node in copied.find_all(exp.Table) if _means_cte(node)}

    def pin(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and id(node) not in ctes:
            name = same_table(".".join(part.name for part in node.parts), versions)
            if name is not None:
                made = versioned(name, versions[name])
                made.set("alias", node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name)))
                return made
        return node

    made = copied.transform(pin, copy=False)
    assert isinstance(made, exp.Query)
    return made


def _means_cte(table: exp.Table) -> bool:
    """Whether a name means a CTE. In the body of a CTE its own name, and later ones, mean tables."""
    inside: exp.Expr | None = table
    while inside is not None and not table.db:
        clause = inside.args.get("with_")
        if clause is not None:
            names = [cte.alias.lower() for cte in clause.expressions]
            at = next((n for n, cte in enumerate(clause.expressions) if _within(table, cte)), len(names))
            if table.name.lower() in names[:at]:
                return True
        inside = inside.parent
    return False


def _within(node: exp.Expr, whole: exp.Expr) -> bool:
    at: exp.Expr | None = node
    while at is not None and at is not whole:
        at = at.parent
    return at is whole


def _sister(session: Any) -> Any:
    """A session beside the user's, with the settings of the user's that give queries their meaning."""
    for way in ("newSession", "cloneSession"):  # the second is what Spark Connect has
        if hasattr(session, way):
            sister = getattr(session, way)()
            for key in _MEANING:
                if (value := session.conf.get(key, None)) is not None:
                    sister.conf.set(key, value)
            return sister
    return session


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


def _property(key: str, value: str) -> exp.Property:
    return exp.Property(this=exp.Literal.string(key), value=exp.Literal.string(value))


def _nullable(table: Table, name: str) -> bool:
    found = table.column(name)
    return found is None or found.nullable


def _type_of(data_type: Any) -> t.Type | None:
    name = data_type.simpleString()
    if name == "float" or name.startswith(("array", "map", "struct", "interval", "varchar", "char")):
        return None
    if name in ("timestamp_ntz", "binary", "variant", "void", "time"):
        return None
    return t.parse(name, "spark")


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().splitlines()[0][:300]


def _translated(problem: PySparkException) -> ViewkeepError:
    text = _first_line(problem)
    if "TABLE_OR_VIEW_NOT_FOUND" in text:
        return UnknownTable(text, hint="create the table first, or check the spelling and the database")
    return EngineError(text, hint="correct the statement and run it again")


def _bare(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))
