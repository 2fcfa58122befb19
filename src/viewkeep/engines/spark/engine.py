"""Spark on Delta Lake, through public PySpark API only, so that Spark Connect sessions work too."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.capture.delta import net_of_feed, read_feed, values_of_feed
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.chooser import Choice
from viewkeep.engines.choosing import weigh
from viewkeep.engines.contract import Progress, Standing
from viewkeep.engines.initial import fill_queries, shown
from viewkeep.engines.report import Counts, check_tables, refreshed, verification
from viewkeep.engines.spark.delta_package import DELTA_PACKAGE
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import translated
from viewkeep.engines.spark.history import History, reads_history, with_history
from viewkeep.engines.spark.names import SparkNames, pinned, temporary, versioned
from viewkeep.engines.spark.refresh import SMALL_JOBS, Outcome, Refresher, Together
from viewkeep.engines.spark.tables import BaseTables, type_of
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    ConcurrentRefresh,
    CorruptCatalog,
    EngineError,
    Unsupported,
)
from viewkeep.frontend.functions import UserFunction
from viewkeep.frontend.statements import parse_sql
from viewkeep.idiff.bags import changed_rows
from viewkeep.idiff.net import NET_KIND
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.script import dml
from viewkeep.script.cost import Sizes
from viewkeep.script.model import Script
from viewkeep.script.plan import statements
from viewkeep.script.render import Renderer
from viewkeep.store import delta

# settings of the user's that give a query its meaning
_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive",
            "spark.sql.decimalOperations.allowPrecisionLoss")  # fmt: skip


# seconds that a statement takes however little it reads: planning it, and Delta's commit
STATEMENT = 0.3


class SparkEngine:
    """The tables and views of a Spark session. Work of viewkeep's own runs in a sister session, so that its
    settings and temporary views never show in the user's."""

    name = "spark"
    dialect = "spark"
    locates = False
    maintains_eagerly = False

    def __init__(self, session: Any) -> None:
        self._user = session
        self._session = _sister(session)
        self._lock = threading.RLock()
        self._states: dict[str, delta.State] = {}
        self._seen: dict[str, str] = {}
        self._history = History(self._session)
        self._sizes: dict[str, int] = {}
        self._views: list[View] | None = None
        self._tables = BaseTables(self._session)
        self._refresher = Refresher(self._session, self._tables)
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
                f"and the package {DELTA_PACKAGE}",
            )

    def close(self) -> None:
        """The session is the user's: it stays."""

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    # --- base tables ---

    def find_table(self, name: str) -> Table | None:
        return self._tables.find(name)

    def create_table(self, tree: exp.Create, table: Table) -> None:
        self._checked(self._tables.create_sql(tree, table))

    def qualify(self, name: str) -> str:
        catalog = self._user.catalog.currentCatalog()
        database = self._user.catalog.currentDatabase()
        if name.count(".") == 1 and catalog != "spark_catalog":
            return f"{catalog}.{name}"
        if "." in name or (catalog, database) == ("spark_catalog", "default"):
            return name.removeprefix("default.")
        return f"{database}.{name}" if catalog == "spark_catalog" else f"{catalog}.{database}.{name}"

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query, for CREATE TABLE ... AS."""
        schema = self._checked(to_sql(tree)).schema
        return tuple(TableColumn(f.name, type_of(f.dataType) or t.STRING, f.nullable) for f in schema)

    def declare_key(self, table: Table, key: Sequence[str]) -> None:
        self._tables.check_unique(replace(table, key=tuple(key)))
        self._tables.set_properties(table.name, {delta.KEY_PROPERTY: ",".join(key)})

    def drop_table(self, name: str, if_exists: bool) -> None:
        drop = exp.Drop(tables=[versioned(name, None)], kind="TABLE", exists=if_exists)
        self._checked(to_sql(drop))

    # --- the user's statements ---

    def run_dml(self, tree: exp.Expr, text: str, eager: Sequence[tuple[View, Compiled]] = ()) -> Result:
        rows = self._checked(text).collect()
        count = rows[0][0] if rows and len(rows[0]) else None
        return Result("dml", message=f"{count} rows" if count is not None else "done", detail=count)

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        if reads_history(tree):
            text = to_sql(with_history(tree, self.history().rows))
        frame = self._checked(text)
        try:
            rows = tuple(tuple(row) for row in frame.collect())
        except PySparkException as problem:
            raise translated(problem) from problem
        return Result("select", tuple(frame.columns), rows, frame=lambda: frame)

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        frame = self._checked(text)
        return Result("dml", tuple(frame.columns), tuple(tuple(r) for r in frame.collect()), "done")

    def _checked(self, text: str) -> Any:
        try:
            return self._user.sql(text)
        except PySparkException as problem:
            raise translated(problem) from problem

    def register_function(self, signature: UserFunction, function: Callable[..., Any]) -> None:
        if signature.name in {row[0].lower() for row in self._user.sql("SHOW SYSTEM FUNCTIONS").collect()}:
            raise AlreadyExists(f"Spark has a function {signature.name}", hint="use another name")
        for session in (self._user, self._session):
            session.udf.register(signature.name, function, str(signature.returns))

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
            properties = self._tables.properties(table) or {}
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
        if compiled.tells_null_from_false:
            raise Unsupported(
                "IN with a subquery that may compare nulls stands outside of WHERE: Spark answers false "
                "there where SQL says null",
                hint="use it as a condition in WHERE, or make both sides NOT NULL with COALESCE",
            )
        if replacing is None and self._session.catalog.tableExists(view.name):
            raise AlreadyExists(
                f"{view.name} exists already", hint="DROP MATERIALIZED VIEW or DROP TABLE it first"
            )
        self._session.sql(f"CREATE DATABASE IF NOT EXISTS {delta.DATABASE}")
        if replacing is None:
            self._forget_remains(view, compiled)
        for table in view.tables:
            self._tables.start_feed(table)
            checked = (table.name, ",".join(table.key), self._tables.newest(table.name))
            if table.key and checked not in self._unique:
                progress(f"checking the key of {table.name}")
                self._tables.check_unique(table)
                self._unique.add(checked)
        with self._lock:
            try:
                report = delta.Report("full", "created", time.time(), 0, 0, len(compiled.placement.targets))
                rows = self._fill(view, compiled, report, progress, replacing=replacing is not None)
            except BaseException as problem:
                self._states.pop(view.name, None)
                if replacing is None:
                    self._forget_remains(view, compiled)
                if isinstance(problem, PySparkException):
                    raise translated(problem) from problem
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

    def _fill(
        self, view: View, compiled: Compiled, report: delta.Report, progress: Progress, replacing: bool
    ) -> int:
        """Computes every target at the newest versions, caches first; the rows' commit registers all."""
        ids = {table.name: self._tables.identity(table.name) for table in view.tables}
        watermark = {table.name: self._tables.newest(table.name) for table in view.tables}
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
            with delta.creating(self._session, state.metadata(report) if is_view else ""):
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
            self._history.forget(view)
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
            upto = {
                name: self._tables.newest(name) for name in tables if self._session.catalog.tableExists(name)
            }
            self._refresher.together = Together(upto)
            try:
                return [self.refresh(view, compiled, full, progress) for view, compiled in views]
            finally:
                self._refresher.together = Together({})

    def _try_refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        started = time.perf_counter()
        try:
            with self._counting() as jobs:
                if full:
                    outcome = Outcome("full", "asked for", {}, None)
                else:
                    progress(f"reading where {view.name} stands")
                    state = self._state(view, compiled)
                    self._check_identity(view, state)
                    choosing = partial(self._choose, view, compiled)
                    outcome = self._refresher.refresh(view, compiled, state, choosing, progress)
                if outcome.strategy == "full":
                    outcome = self._recompute(view, compiled, outcome, progress)
                elif outcome.state is not None:
                    self._remember(view, outcome.state)
            done = refreshed(view, outcome.strategy, outcome.reason, started, jobs=jobs(), **outcome.counts)
            self._history.note(done)
            return done
        except PySparkException as problem:
            self._states.pop(view.name, None)
            raise translated(problem) from problem
        except BaseException:
            self._states.pop(view.name, None)  # what was committed is read back next time
            raise

    def _recompute(self, view: View, compiled: Compiled, asked: Outcome, progress: Progress) -> Outcome:
        for table in view.tables:
            self._tables.start_feed(table)
            self._tables.check_unique(table)
        commits = len(compiled.placement.targets)
        changes = asked.counts.get("changes_in", 0)
        report = delta.Report("full", asked.reason, time.time(), changes, 0, commits)
        rows = self._fill(view, compiled, report, progress, replacing=True)
        counts = {"rows_changed": rows, "statements": commits, "commits": commits, "changes_in": changes}
        return replace(asked, counts=counts)

    # --- choosing ---

    def _choose(self, view: View, compiled: Compiled, script: Script, counts: Counts) -> Choice:
        tables = {}
        for table in view.tables if view.policy == "auto" else ():
            tables[table.name] = self._rows_of(table.name, sum(counts.get(table.name, {}).values()))
        sizes = Sizes(tables, {}, lambda leaf, column: False)  # files are scanned, whatever is looked for
        overhead = STATEMENT * (len(script.lets) + len(script.applies))
        past = partial(self._history.past, view)
        return weigh(view, compiled, script, counts, sizes, overhead, past)

    def _rows_of(self, table: str, changed: int) -> int:
        """About how many rows a table has. Delta knows without reading them, but it takes a while to ask: not
        again before a change is large."""
        if changed * 10 >= self._sizes.get(table, 0):
            self._sizes[table] = int(self._session.table(table).count())
        return self._sizes[table]

    def history(self) -> Result:
        return Result("select", tuple(delta.HISTORY), self._history.rows(self.views()))

    def _check_identity(self, view: View, state: delta.State) -> None:
        for table in view.tables:
            if self._tables.identity(table.name) != state.table_ids[table.name]:
                raise BaseTableChanged(
                    f"table {table.name} is not the one that view {view.name} was made over",
                    hint=f"REFRESH MATERIALIZED VIEW {view.name} FULL takes the new one",
                )

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
        properties = self._tables.properties(delta.storage(view.name, "rows")) or {}
        return properties.get(delta.ID_PROPERTY, "")

    def verify(self, view: View, compiled: Compiled) -> Verification:
        """Recomputes the user's own text by Spark alone, over the versions that the view shows."""
        with self._lock:
            check_tables(view, self.find_table)
            state = self._state(view, compiled)
            self._check_identity(view, state)
            query: exp.Query = pinned(compiled.query or parse_sql(view.sql), state.watermark)
            # Spark has no ANY and ALL of its own
            if compiled.verified_by_plan or query.find(exp.Any, exp.All):
                names = SparkNames(view.name, state.watermark, state.watermark)
                query = Renderer(names).query(compiled.to_verify())
            maintained = exp.select("*").from_(versioned(view.name, None))
            try:
                return verification(view.name, compiled, maintained, query, lambda q: self._sql(q).collect())
            except PySparkException as problem:
                raise translated(problem) from problem

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
        read_feed(self._session, table.name, after).createOrReplaceTempView(temporary("feed"))
        with delta.settings(self._session, SMALL_JOBS):
            if not table.key:
                values = exp.Subquery(this=values_of_feed(table, temporary("feed")), alias="net")
                return int(self._sql(changed_rows(values)).collect()[0][0])
            net = self._sql(net_of_feed(table, temporary("feed")))
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
