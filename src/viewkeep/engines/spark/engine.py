"""Spark on Delta Lake, through public PySpark API, so that Spark Connect sessions work too. How many jobs a
refresh ran, and how many rows they read, is told where there is a JVM to ask (counters.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from pyspark.errors import AnalysisException
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.capture.delta import net_of_feed, read_feed, values_of_feed
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.engines.contract import Progress, Standing
from viewkeep.engines.following import Followed, Following, as_arrow, cast, cast_sums, summed
from viewkeep.engines.report import check_tables, verification
from viewkeep.engines.spark.batches import append, upsert
from viewkeep.engines.spark.delta_package import DELTA_PACKAGE
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import FAILURES, first_line, translated
from viewkeep.engines.spark.feeds import SMALL_JOBS, Together
from viewkeep.engines.spark.history import History, reads_history, with_history
from viewkeep.engines.spark.keeper import Keeper, Known, shown_query, shown_sql
from viewkeep.engines.spark.names import SparkNames, bare, pinned, temporary, versioned
from viewkeep.engines.spark.refresh import as_stored
from viewkeep.engines.spark.tables import BaseTables, type_of
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    CorruptCatalog,
    EngineError,
    UnknownTable,
    Unsupported,
    ViewkeepError,
    ViewReplaced,
)
from viewkeep.frontend.functions import UserFunction
from viewkeep.frontend.statements import parse_sql
from viewkeep.idiff.bags import TIMES, changed_rows
from viewkeep.idiff.net import NET_KIND
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.script.prune import MOST_VALUES
from viewkeep.script.render import Renderer
from viewkeep.store import delta

# settings of the user's that give a query its meaning
_MEANING = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive",
            "spark.sql.decimalOperations.allowPrecisionLoss")  # fmt: skip
# settings of viewkeep's own sessions
_OWN = {
    # a feed that is asked for past its end is empty
    "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true",
    # Delta hands the rows of a feed on as Java's values, of which the older have no 5 to 14 October 1582
    "spark.sql.datetime.java8API.enabled": "true",
    # Delta answers MAX(day) of a whole table from its statistics, as one of the older, which then fails
    "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
    # so many values are looked for one by one in the statistics of pages, not as one range from first to last
    "spark.sql.parquet.pushdown.inFilterThreshold": str(MOST_VALUES),
}

# the engines of this process, which has one Spark
OPEN: WeakSet[SparkEngine] = WeakSet()
# so many tables are looked at side by side
SIDE_BY_SIDE = 4
# so many changes of a table are fetched row by row; of more, sums
FETCHED = 100_000
# so many views are refreshed side by side: what takes time is planning, in which most of Spark is idle
KEEPERS = 4


class SparkEngine:
    """The tables and views of a Spark session. Work of viewkeep's own runs in a sister session, so that its
    settings and temporary views never show in the user's."""

    name = "spark"
    dialect = "spark"
    locates = False
    maintains_eagerly = False
    logs_for_views = False
    reading_names = None

    def __init__(self, session: Any) -> None:
        self._user = session
        self._session = _sister(session)
        self._lock = threading.RLock()
        self._history = History(self._session)
        self._views: dict[str, View] | None = None
        self._tables = BaseTables(self._session)
        self._known = Known(self._history, {}, set(), lambda: self.is_alone())
        self._keepers: list[Keeper] = []
        self._keeper_of: dict[str, int] = {}
        self._functions: dict[str, tuple[Callable[..., Any], str]] = {}
        self._settings: Mapping[str, str] = {}
        self._check_delta()
        OPEN.add(self)

    def _check_delta(self) -> None:
        extensions = self._session.conf.get("spark.sql.extensions", None) or ""
        if "DeltaSparkSessionExtension" not in extensions:
            raise EngineError(
                "the Spark session has no Delta Lake",
                hint="start it with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, "
                "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
                f"and the package {DELTA_PACKAGE}",
            )

    def is_alone(self) -> bool:
        """Whether nobody else can be refreshing the same views: other sessions of a cluster can."""
        return False

    def close(self) -> None:
        """The session is the user's: it stays."""
        OPEN.discard(self)

    @property
    def session(self) -> Any:
        """The user's session."""
        return self._user

    @contextmanager
    def within(
        self, catalog: str | None, database: str | None, settings: Mapping[str, str]
    ) -> Iterator[None]:
        """A while with another current catalog and database, and with settings in every session that runs
        queries; then all is as before."""
        here = self._user.catalog
        before = here.currentCatalog(), here.currentDatabase()
        kept, self._settings = self._settings, {**self._settings, **settings}
        if settings:  # keepers have sessions of their own: these get the settings as they are made
            self._keepers = []
        try:
            with delta.settings(self._user, settings), delta.settings(self._session, settings):
                if catalog is not None:
                    here.setCurrentCatalog(catalog)
                if database is not None:
                    here.setCurrentDatabase(database)
                yield
        except FAILURES as problem:
            raise translated(problem) from problem
        finally:
            self._settings = kept
            if settings:
                self._keepers = []
            if (here.currentCatalog(), here.currentDatabase()) != before:
                here.setCurrentCatalog(before[0])
                here.setCurrentDatabase(before[1])

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    # --- base tables ---

    def find_table(self, name: str) -> Table | None:
        return self._tables.find(name)

    def is_plain_view(self, name: str) -> bool:
        here = self._user.catalog  # where a temporary view is seen, too
        return here.tableExists(name) and str(here.getTable(name).tableType) in ("VIEW", "TEMPORARY")

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

    def write_batch(self, table: str, batch: Any, mode: str, stream: str, number: int) -> None:
        found = self.find_table(table)
        if found is None:
            raise UnknownTable(f"there is no table {table}", hint="create it before the stream starts")
        try:
            if mode == "append":
                append(batch, found, stream, number)
            else:
                upsert(batch, found, stream, number)
        except FAILURES as problem:
            raise translated(problem) from problem

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        if reads_history(tree):
            text = to_sql(with_history(tree, self.history().rows))
        frame = self._checked(text)
        try:
            rows = tuple(tuple(row) for row in frame.collect())
        except FAILURES as problem:
            raise translated(problem) from problem
        return Result("select", tuple(frame.columns), rows, frame=lambda: frame)

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        frame = self._checked(text)
        rows = tuple(tuple(r) for r in frame.collect())
        return Result("show" if frame.columns else "dml", tuple(frame.columns), rows, "done")

    def _checked(self, text: str) -> Any:
        try:
            return self._user.sql(text)
        except FAILURES as problem:
            raise translated(problem) from problem

    def register_function(self, signature: UserFunction, function: Callable[..., Any]) -> None:
        if signature.name in {row[0].lower() for row in self._user.sql("SHOW SYSTEM FUNCTIONS").collect()}:
            raise AlreadyExists(f"Spark has a function {signature.name}", hint="use another name")
        self._functions[signature.name] = function, str(signature.returns)
        for session in (self._user, self._session, *(keeper.session for keeper in self._keepers)):
            session.udf.register(signature.name, function, str(signature.returns))

    # --- views ---

    def views(self) -> list[View]:
        if self._views is None:
            self._views = {view.name: view for view, _ in self._registered()}
        return list(self._views.values())

    def _registered(self) -> list[tuple[View, str]]:
        """Every view with the SQL that shows it, from the properties of the tables of rows."""
        if not self._session.catalog.databaseExists(delta.DATABASE):
            return []
        found = []
        for entry in self._session.sql(f"SHOW TABLES IN {delta.DATABASE}").collect():
            if entry.isTemporary or not entry.tableName.endswith(f"__{delta.ROWS}"):
                continue
            table = exp.table_(entry.tableName, db=delta.DATABASE, quoted=True)
            properties = self._tables.properties(table) or {}
            doc = properties.get(delta.VIEW_PROPERTY)
            if doc is None:
                raise CorruptCatalog(
                    f"table {delta.DATABASE}.{entry.tableName} does not say which view it belongs to",
                    hint=f"restore its property {delta.VIEW_PROPERTY}, or drop the table and create "
                    "the view again",
                )
            found.append((View.from_json(doc), properties.get(delta.SHOWN_PROPERTY, "")))
        return found

    def _keeper(self, view: View) -> Keeper:
        """The keeper that a view stays with: they take turns."""
        if view.name not in self._keeper_of:
            self._keeper_of[view.name] = len(self._keeper_of) % KEEPERS
        while len(self._keepers) <= self._keeper_of[view.name]:
            session = _sister(self._session)
            for key, value in self._settings.items():
                session.conf.set(key, value)
            for name, (function, returns) in self._functions.items():
                session.udf.register(name, function, returns)
            self._keepers.append(Keeper(session, self._known))
        return self._keepers[self._keeper_of[view.name]]

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
        with self._lock:
            try:
                report, again = delta.Report("full", "created", time.time()), replacing is not None
                caches = view.policy != "full"
                rows, _ = self._keeper(view).fill(view, compiled, report, progress, again, caches=caches)
                self.show(view, shown_sql(view, compiled))
            except BaseException as problem:
                self._keeper(view).forget(view)
                if replacing is None:
                    self._forget_remains(view, compiled)
                if isinstance(problem, FAILURES):
                    raise translated(problem) from problem
                raise
            if self._views is not None:
                self._views = {**self._views, view.name: view}
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

    def show(self, view: View, body: str) -> None:
        """Puts what the user sees under the view's name."""
        create = exp.Create(
            this=versioned(view.name, None), kind="VIEW", replace=True, expression=parse_sql(body)
        )
        self._sql(create)

    def follow(self, followed: Sequence[Followed]) -> Following:
        """A point is the identity of a table, and a version: each table is read at its newest, and the feed
        from there on. Tables do not share a moment; a change of one is seen with the others as they are. They
        are read side by side; whole tables and very many changes are summed up by Spark, where sums do."""

        def newest(one: Followed) -> list[Any]:
            return [self._tables.start_feed(one.table), self._tables.newest(one.table.name)]

        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            try:
                points = list(pool.map(newest, followed))
            except FAILURES as problem:
                raise translated(problem) from problem
        upto = {one.table.name: point for one, point in zip(followed, points, strict=True)}
        whole = ""
        for one in followed:
            if one.point is None:
                whole = whole or "not loaded yet"
            elif one.point[0] != upto[one.table.name][0]:
                whole = whole or f"{one.table.name} is another table now"
        read = self._read_side_by_side
        try:
            found = [] if whole else read(self._changes_of, followed, upto)
        except FAILURES as problem:
            whole = f"a change feed cannot be read from there on: {first_line(problem)}"
        try:
            found = read(self._rows_of, followed, upto) if whole else found
        except FAILURES as problem:
            raise translated(problem) from problem
        rows = {one.table.name: own for one, (own, _) in zip(followed, found, strict=True) if own is not None}
        return Following(rows, upto, whole, {name: own for _, sums in found for name, own in sums.items()})

    def _read_side_by_side(
        self,
        reading: Callable[[int, Followed, int], tuple[Any, dict[str, Any]]],
        followed: Sequence[Followed],
        upto: Mapping[str, Any],
    ) -> list[tuple[Any, dict[str, Any]]]:
        versions = [int(upto[one.table.name][1]) for one in followed]
        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            return list(pool.map(reading, range(len(followed)), followed, versions))

    def _rows_of(self, _: int, one: Followed, upto: int) -> tuple[Any, dict[str, Any]]:
        """All rows of a table, or sums of them."""
        names = [bare(c.name) for c in one.table.columns]
        times = exp.alias_(exp.Cast(this=exp.Literal.number(1), to=t.BIGINT.sql()), TIMES, quoted=True)
        query = exp.select(*names, times).from_(versioned(one.table.name, upto))
        if one.sums:
            return None, self._sums_of(one, query)
        return cast(one.table.columns, self._sql(query).toArrow()), {}

    def _changes_of(self, number: int, one: Followed, upto: int) -> tuple[Any, dict[str, Any]]:
        """The rows that came and went, or sums of them, where they are very many."""
        after = int(one.point[1])
        if upto <= after:
            return as_arrow(one.table.columns, []), {}
        feed = read_feed(self._session, one.table.name, after).where(f"_commit_version <= {upto:d}")
        name = temporary(f"followed{number}")
        feed.createOrReplaceTempView(name)
        changes = exp.Subquery(this=values_of_feed(one.table, name), alias="changes")
        moved = exp.NEQ(this=bare(TIMES), expression=exp.Literal.number(0))
        query = (
            exp.select(*(bare(c.name) for c in one.table.columns), bare(TIMES)).from_(changes).where(moved)
        )
        found = self._sql(query.limit(FETCHED + 1) if one.sums else query).toArrow()
        if one.sums and found.num_rows > FETCHED:
            return None, self._sums_of(one, query)
        return cast(one.table.columns, found), {}

    def _sums_of(self, one: Followed, rows: exp.Select) -> dict[str, Any]:
        source = exp.Subquery(this=rows, alias="rows_to_sum")
        return {
            name: cast_sums(one.table, summing, self._sql(summed(source.copy(), summing)).toArrow())
            for name, summing in one.sums.items()
        }

    def hold(self, points: Mapping[str, Any]) -> None:
        """Delta keeps its feed as long as the table's properties say, whoever reads it."""

    def drop_view(self, view: View, compiled: Compiled) -> None:
        with self._lock:
            drop = exp.Drop(tables=[versioned(view.name, None)], kind="VIEW", exists=True)
            self._session.sql(to_sql(drop))
            rows_last = sorted(compiled.placement.targets, key=lambda x: x.role == "view", reverse=True)
            for target in rows_last:
                table = delta.storage(view.name, target.name)
                self._session.sql(to_sql(exp.Drop(tables=[table], kind="TABLE", exists=True)))
                self._dropped(delta.DATABASE, delta.storage_name(view.name, target.name))
            self._keeper(view).forget(view)
            self._history.forget(view)
            if self._views is not None:
                self._views = {name: other for name, other in self._views.items() if name != view.name}

    # --- refresh ---

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        with self._lock:
            tables = self._looked_at([table.name for table in view.tables])
            return self._refresh(view, compiled, full, Together({}, tables), progress)

    def _looked_at(self, names: Sequence[str]) -> dict[str, tuple[Table | None, str]]:
        """Base tables with their identities, side by side: of each Spark's catalog is asked several things,
        one after the other."""

        def look(name: str) -> tuple[Table | None, str] | None:
            try:
                return self._tables.find_with_identity(name)
            except ViewkeepError:
                return None  # which the views that read it will tell

        with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
            found = dict(zip(names, pool.map(look, names), strict=True))
        return {name: table for name, table in found.items() if table is not None}

    def _refresh(
        self, view: View, compiled: Compiled, full: bool, together: Together, progress: Progress
    ) -> Refresh:
        known = together.tables
        check_tables(view, lambda name: known[name][0] if name in known else self.find_table(name))
        try:
            done = self._keeper(view).refresh(view, compiled, full, together, progress)
        except ViewReplaced:
            self._views = None  # as it is now, it is read the next time
            raise
        if done.strategy == "full":
            self.show(view, shown_sql(view, compiled))
        return done

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        if len(views) == 1:
            return [self.refresh(*views[0], full, progress)]
        with self._lock:
            read = dict.fromkeys(table.name for view, _ in views for table in view.tables)
            tables = self._looked_at(list(read))
            there = [name for name, (found, _) in tables.items() if found is not None]
            upto = {name: self._tables.newest(name) for name in there}
            together = Together(upto, tables)
            turns: dict[Keeper, list[tuple[View, Compiled]]] = {}
            for pair in views:
                turns.setdefault(self._keeper(pair[0]), []).append(pair)
            done: dict[str, Refresh] = {}
            failed: dict[str, Exception] = {}

            def keep(turn: Sequence[tuple[View, Compiled]]) -> None:
                for view, compiled in turn:
                    try:
                        done[view.name] = self._refresh(view, compiled, full, together, progress)
                    except Exception as problem:  # told below: one view that fails does not stop the others
                        failed[view.name] = problem

            with ThreadPoolExecutor(max_workers=len(turns)) as pool:
                for future in [pool.submit(keep, turn) for turn in turns.values()]:
                    future.result()
            names = [view.name for view, _ in views]
            if failed:
                problem = _all_of([(name, failed[name]) for name in names if name in failed], len(names))
                if isinstance(problem, ViewkeepError):
                    problem.refreshed = tuple(done[name] for name in names if name in done)
                    problem.failures = failed
                raise problem
            return [done[name] for name in names]

    def optimize(self, view: View, compiled: Compiled, progress: Progress) -> str:
        with self._lock:
            return self._keeper(view).optimize(view, compiled, progress)

    def history(self) -> Result:
        return Result("select", tuple(delta.HISTORY), self._history.rows(self.views()))

    # --- telling ---

    def verify(self, view: View, compiled: Compiled) -> Verification:
        """Recomputes the user's own text by Spark alone, over the versions that the view shows."""
        with self._lock:
            check_tables(view, self.find_table)
            state = self._keeper(view).shown(view, as_it_is=True)
            read = {table.name: self._kept_columns(table) for table in view.tables}
            query: exp.Query = pinned(compiled.query or parse_sql(view.sql), state.watermark, read)
            # Spark has no ANY and ALL of its own
            if compiled.verified_by_plan or query.find(exp.Any, exp.All):
                names = SparkNames(view.name, state.watermark, state.watermark)
                query = Renderer(names).query(compiled.to_verify())
            maintained, name = shown_query(view, compiled, state.rows), temporary("recomputed")
            try:
                # computed once, for both sides, and kept apart: Spark cannot plan EXCEPT ALL of a query that
                # has a correlated scalar subquery
                recomputed = self._sql(query).persist()
                try:
                    recomputed.createOrReplaceTempView(name)
                    kept = exp.select("*").from_(exp.table_(name, quoted=True))
                    return verification(
                        view.name, compiled, maintained, kept, lambda q: self._sql(q).collect()
                    )
                finally:
                    recomputed.unpersist()
            except FAILURES as problem:
                raise translated(problem) from problem

    def _kept_columns(self, table: Table) -> list[str]:
        """The columns that a table had when a view was made over it, and has still."""
        now = self.find_table(table.name) or table
        return [c.name for c in table.at_create().columns if now.column(c.name) is not None]

    def standing(self, view: View, compiled: Compiled) -> Standing:
        for table in view.tables:
            if not self._session.catalog.tableExists(table.name):
                raise BaseTableChanged(f"table {table.name} does not exist any more", hint="create it again")
        state = self._keeper(view).shown(view)
        pending, trouble = 0, ""
        for table in view.tables:
            try:
                pending += self._waiting(table, state.watermark[table.name])
            except AnalysisException:
                continue
            except FAILURES as problem:  # the feed is there and cannot be read, as after RESTORE
                trouble = f"the changes of {table.name} cannot be read: {first_line(problem)}"
        rows = self._session.table(view.name).count()
        return Standing(rows, pending, state.refreshed, state.watermark, trouble)

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
        script = compiled.script(compiled.everything())
        steps = [
            (f"compute {let.name}", to_sql(Renderer(names).query(let.query), pretty=True))
            for let in script.lets
        ]
        number = exp.Placeholder(this="refresh")  # the number that the refresh will have
        for apply in script.applies:
            layout = compiled.layouts()[apply.target.name]
            stored = as_stored(apply, layout, number, names)
            tree = exp.Insert(this=delta.storage(view.name, apply.target.name), expression=stored)
            title = f"store the diffs of {apply.target.role} {apply.target.name}"
            steps.append((title, to_sql(tree, pretty=True)))
        return steps


def _all_of(failed: Sequence[tuple[str, Exception]], views: int) -> Exception:
    """What to raise where some views of several failed: the first problem, with the others' first lines."""
    (name, first), *others = failed
    if isinstance(first, ViewkeepError):
        told = "".join(f"; {other}: {str(problem).splitlines()[0]}" for other, problem in others)
        count = f"{len(failed)} of {views} views failed, the others are refreshed"
        first.message = f"{name}: {first.message}{told} ({count})"
        first.args = (first.message,)
    return first


def _sister(session: Any) -> Any:
    """A session beside the user's, with the settings of the user's that give queries their meaning."""
    for way in ("newSession", "cloneSession"):  # the second is what Spark Connect has
        if hasattr(session, way):
            sister = getattr(session, way)()
            for key in _MEANING:
                if (value := session.conf.get(key, None)) is not None:
                    sister.conf.set(key, value)
            for key, value in _OWN.items():
                sister.conf.set(key, value)
            return sister
    raise EngineError("the Spark session can open no other beside it", hint="use a SparkSession")
