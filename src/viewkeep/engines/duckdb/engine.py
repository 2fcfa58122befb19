"""DuckDB: embedded, in one process. A refresh is one transaction."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb
from sqlglot import exp

from viewkeep.capture.duckdb import PLACES, run_captured, run_plain
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.engines.contract import Progress, Standing, silent
from viewkeep.engines.duckdb.catalog import Catalog
from viewkeep.engines.duckdb.database import DuckDBDatabase, events_after
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.errors import SUM_A_DECIMAL, translated
from viewkeep.engines.duckdb.session import Session
from viewkeep.engines.following import Followed, Following
from viewkeep.engines.initial import shown
from viewkeep.engines.report import check_tables, problem_with, refreshed
from viewkeep.engines.transactional.following import follow
from viewkeep.engines.transactional.names import TableNames
from viewkeep.engines.transactional.netting import waiting_rows
from viewkeep.engines.transactional.refresh import Refresher
from viewkeep.errors import (
    AlreadyExists,
    DependentViews,
    EngineError,
    Unavailable,
    UnknownTable,
    Unsupported,
    ViewkeepError,
    WarehouseHeld,
)
from viewkeep.frontend.functions import UserFunction
from viewkeep.frontend.statements import altered_by
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.store.duckdb import Log, Store
from viewkeep.store.places import SCHEMA, base_table

# how much of the log is kept that every view has seen: to delete after each refresh would cost each of them
SEEN_STATEMENTS, SEEN_ROWS = 64, 10_000
# statements that change tables, or run others that do, and are no DML that is logged
_UNLOGGED = ("INSERT", "UPDATE", "DELETE", "MERGE", "EXECUTE", "IMPORT")
_WRITE = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE|COPY|EXECUTE)\b", re.IGNORECASE)
# what DuckDB answers to statements that have no rows to show
_TELL_NOTHING = ((), ("Count",), ("Success",))


class DuckDBEngine:
    """One DuckDB database, opened by this process."""

    name = "duckdb"
    dialect = "duckdb"
    locates = True
    maintains_eagerly = True
    logs_for_views = True

    def __init__(self, path: str) -> None:
        try:
            self._con: Any = Session(path or ":memory:")
        except duckdb.IOException as problem:
            if "lock" in str(problem).lower():
                raise WarehouseHeld(
                    f"{path} is open in another process",
                    hint="close it there, or wait until it is done",
                ) from problem
            raise EngineError(f"{path} cannot be opened: {problem}", hint="check the path") from problem
        self._lock = threading.RLock()
        try:
            self._store = Store(self._con, path)
        except ViewkeepError:
            self._con.close()
            raise
        self._database = DuckDBDatabase(self._con)
        self._refresher = Refresher(self._database, self._store)
        self._trimmed: dict[str, int] = {}
        self._checked_at: dict[str, int] = {}
        self._catalog = Catalog(self._con, self._store, self._lock)

    def close(self) -> None:
        try:
            with suppress(duckdb.Error):  # what is lost says that nothing was done, and maybe why
                self._write_down()
        finally:
            self._con.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._store.begun()
            try:
                self._con.execute("BEGIN")
                yield
                self._store.settle()
                self._con.execute("COMMIT")
            except BaseException:
                try:
                    with suppress(duckdb.TransactionException):  # a COMMIT that failed may have ended it
                        self._con.execute("ROLLBACK")
                finally:
                    self._refresher.forget()
                    self._trimmed.clear()
                    self._store.ended(committed=False)
                raise
            self._store.ended(committed=True)

    def _write_down(self) -> None:
        """Has the history tell all refreshes, for someone who reads it."""
        with self._lock:
            if self._store.is_behind:
                with self._transaction():
                    self._store.write_down()

    # --- base tables ---

    def qualify(self, name: str) -> str:
        return self._catalog.qualify(name)

    def find_table(self, name: str) -> Table | None:
        return self._catalog.table(name)

    def is_plain_view(self, name: str) -> bool:
        return self._catalog.is_plain_view(name)

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        return self._catalog.columns_of(tree)

    def create_table(self, tree: exp.Create, table: Table) -> None:
        if self.find_table(table.name) is not None:
            if tree.args.get("exists"):
                return
            raise AlreadyExists(
                f"table {table.name} exists already", hint="drop it first, or use IF NOT EXISTS"
            )
        definitions: list[exp.Expr] = []
        for c in table.columns:
            required = not c.nullable or c.name in table.key
            constraints = [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else []
            definitions.append(
                exp.ColumnDef(this=_identifier(c.name), kind=c.type.sql(), constraints=constraints)
            )
        if table.key:
            definitions.append(exp.PrimaryKey(expressions=[_identifier(k) for k in table.key]))
        create = exp.Create(
            this=exp.Schema(this=base_table(table.name), expressions=definitions), kind="TABLE"
        )
        query = tree.expression
        with self._transaction():
            self._checked(to_sql(create))
            if query is not None:
                insert = exp.Insert(this=base_table(table.name), expression=query.copy())
                self._checked(to_sql(insert))
            self._store.save_table(table)

    def declare_key(self, table: Table, key: Sequence[str]) -> None:
        columns = [_identifier(k) for k in key]
        alter = exp.Alter(
            this=base_table(table.name),
            kind="TABLE",
            actions=[exp.AddConstraint(expressions=[exp.PrimaryKey(expressions=columns)])],
        )
        self._checked(to_sql(alter))

    def drop_table(self, name: str, if_exists: bool) -> None:
        with self._transaction():
            self._checked(to_sql(exp.Drop(tables=[base_table(name)], kind="TABLE", exists=if_exists)))
            self._store.remove_table(name)

    # --- the user's statements ---

    def run_dml(self, tree: exp.Expr, text: str, eager: Sequence[tuple[View, Compiled]] = ()) -> Result:
        self._check_tables([view for view, _ in eager])
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        name = self.qualify(".".join(part.name for part in target.parts))
        table = self.find_table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}", hint="create it first; views are read-only")
        with self._transaction():
            try:
                if self._is_tracked(table.name):
                    logged = self._store.logged(table)
                    count = run_captured(self._con, tree, logged, self._store.next_seq(table.name))
                    if eager:
                        self._maintain(eager, "", silent)
                else:
                    count = run_plain(self._con, tree, table)
            except duckdb.Error as problem:
                raise translated(problem) from problem
        return Result("dml", message=f"{count} rows", detail=count)

    def _is_tracked(self, name: str) -> bool:
        """Whether a view reads the table, so that its changes are logged."""
        return name.lower() in self._tracked()

    def _tracked(self) -> set[str]:
        """The tables that views read, in lower case."""
        return {table.name.lower() for view in self.views() for table in view.tables}

    def write_batch(self, table: str, batch: Any, mode: str, stream: str, number: int) -> None:
        raise Unsupported(
            "batches of streams are written on Spark alone", hint="INSERT or MERGE the rows, and refresh"
        )

    def reading_names(self, tables: Sequence[Table]) -> TableNames:
        return TableNames(self._database, "", tables)

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        try:
            with self._lock:
                if any(table.db.lower() == SCHEMA for table in tree.find_all(exp.Table)):
                    self._write_down()
                frame = self._con.answer(to_sql(tree))
        except duckdb.Error as problem:
            raise translated(problem) from problem
        except ValueError as problem:  # from Arrow
            raise EngineError(
                f"a sum is out of the range of BIGINT: {problem}",
                hint=SUM_A_DECIMAL,
            ) from problem
        columns = tuple(frame.column_names)
        rows = tuple(zip(*(c.to_pylist() for c in frame.columns), strict=True)) if columns else ()
        return Result("select", columns, rows, frame=lambda: frame)

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        if isinstance(tree, exp.Use) and tree.this.name.lower() != "main":
            # a name without a schema is one of main, in what is stored and in other sessions
            raise Unsupported("USE is not supported on DuckDB", hint="write schema.table")
        altered = altered_by(tree, text)
        if altered is not None and self._is_tracked(self.qualify(altered)) and not _adds_columns(tree):
            raise DependentViews(
                f"table {altered} is read by a view", hint="drop the views that read it first"
            )
        self._refuse_unlogged(tree, text)
        if _adds_columns(tree):
            return self._add_columns(tree)
        with self._lock:
            cursor = self._checked(text if isinstance(tree, exp.Command) else to_sql(tree))
            columns = tuple(d[0] for d in cursor.description or ())
            rows = tuple(map(tuple, cursor.fetchall()))
        if columns in _TELL_NOTHING:
            return Result("dml", message="done")
        if "name" in columns and text.upper().startswith("SHOW"):  # without what is there for one refresh
            at = columns.index("name")
            rows = tuple(row for row in rows if not str(row[at]).startswith("viewkeep:"))
        return Result("show", columns, rows, "done")

    def _add_columns(self, tree: exp.Expr) -> Result:
        """One after the other: DuckDB takes one at a time."""
        with self._transaction():
            for column in _added(tree):
                one = tree.copy()
                one.set("actions", [column.copy()])
                self._checked(to_sql(one))
        return Result("dml", message="done")

    def _refuse_unlogged(self, tree: exp.Expr, text: str) -> None:
        """Refuses what may write to a table that a view reads, by other words than those that are logged."""
        if isinstance(tree, exp.Copy):
            into = ".".join(part.name for part in tree.this.parts) if isinstance(tree.this, exp.Table) else ""
            unlogged = bool(tree.args.get("kind")) and self._is_tracked(self.qualify(into))
        else:
            first = text.split(maxsplit=1)[0].upper()
            analyzes = first == "EXPLAIN" and "ANALYZE" in text.upper() and _WRITE.search(text) is not None
            unlogged = bool(self._tracked()) and (analyzes or first in _UNLOGGED)
        if unlogged:
            raise Unsupported(
                f"{text.split(maxsplit=1)[0].upper()} may change tables, and views would not see it",
                hint="write INSERT, UPDATE, DELETE or MERGE: INSERT INTO t SELECT * FROM read_csv('file')",
            )

    def _checked(self, sql: str, parameters: Sequence[Any] | None = None) -> Any:
        try:
            with self._lock:
                return self._con.execute(sql, parameters)
        except duckdb.Error as problem:
            raise translated(problem) from problem

    def register_function(self, signature: UserFunction, function: Callable[..., Any]) -> None:
        known = "SELECT count(*) FROM duckdb_functions() WHERE internal AND lower(function_name) = ?"
        if self._con.execute(known, [signature.name]).fetchone()[0]:
            raise AlreadyExists(f"DuckDB has a function {signature.name}", hint="use another name")
        kinds = [to_sql(kind.sql()) for kind in (*signature.arguments, signature.returns)]
        try:
            self._con.create_function(signature.name, function, kinds[:-1], kinds[-1])
        except duckdb.Error as problem:
            if "numpy" in str(problem):
                raise Unavailable(
                    "DuckDB calls Python functions only where NumPy is installed",
                    hint='pip install "viewkeep[functions]"',
                ) from problem
            raise translated(problem) from problem

    # --- views ---

    def views(self) -> list[View]:
        with self._lock:
            return [entry.view for entry in self._store.entries()]

    def create_view(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        replacing: tuple[View, Compiled] | None = None,
    ) -> int:
        if replacing is None and self._catalog.found(view.name):
            raise AlreadyExists(
                f"{view.name} exists already", hint="DROP MATERIALIZED VIEW or DROP TABLE it first"
            )
        names = self._refresher.names(view)
        started = time.perf_counter()
        with self._catalog.changing_view(view.name, made=True), self._transaction():
            try:
                if replacing is not None:
                    self._drop(*replacing)
                tracked = self._tracked()
                for table in view.tables:
                    whole = self.find_table(table.name)
                    assert whole is not None  # the view was bound to it just now
                    if table.name.lower() not in tracked:
                        self._store.start_log(whole)
                    self._store.widen_log(whole)  # all columns: the next view may use others
                caches = view.policy != "full"
                rows, filled = self._refresher.fill(view, compiled, progress, caches=caches)
                body = shown(compiled, names)
                self._con.execute(
                    to_sql(exp.Create(this=base_table(view.name), kind="VIEW", expression=body))
                )
            except duckdb.Error as problem:
                raise translated(problem) from problem
            now = self._store.last_seq()
            self._store.add_view(view, now)
            created = refreshed(view, "full", "created", started, counted=rows, statements=filled)
            self._store.record(created, None, {table.name: now for table in view.tables})
        return rows

    def drop_view(self, view: View, compiled: Compiled) -> None:
        with self._catalog.changing_view(view.name, made=False), self._transaction():
            self._drop(view, compiled)

    def _drop(self, view: View, compiled: Compiled) -> None:
        self._con.execute(to_sql(exp.Drop(tables=[base_table(view.name)], kind="VIEW", exists=True)))
        for target in compiled.placement.targets:
            self._con.execute(to_sql(PLACES.drop_target(view.name, target.name)))
        self._store.remove_view(view.name)
        self._refresher.forget()
        for table_ in view.tables:
            if not self._is_tracked(table_.name):
                self._store.stop_log(table_.name)

    # --- refresh ---

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        return self.refresh_together([(view, compiled)], full, progress)[0]

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        self._check_tables([view for view, _ in views])
        try:
            with self._transaction():
                return self._maintain(views, "asked for" if full else "", progress)
        except duckdb.Error as problem:
            raise translated(problem) from problem

    def _maintain(
        self, views: Sequence[tuple[View, Compiled]], full: str, progress: Progress
    ) -> list[Refresh]:
        """Brings views to the end of the log, in the transaction that is open."""
        log = self._store.log()
        done = []
        for view, compiled in views:
            done.append(self._refresher.refresh(view, compiled, full, log, progress))
            log = log.moved(view)
        self._trim([view for view, _ in views], log)
        return done

    def follow(self, followed: Sequence[Followed]) -> Following:
        try:
            with self._transaction():
                return follow(self._database, self._store.log(), followed)
        except duckdb.Error as problem:
            raise translated(problem) from problem

    def hold(self, points: Mapping[str, Any]) -> None:
        with self._transaction():
            for anchor, point in points.items():
                self._store.move_watermark(anchor, point)
            anchors = {anchor.lower() for anchor in points}
            self._trim([v for v in self.views() if v.name.lower() in anchors], self._store.log())

    def _trim(self, views: Sequence[View], log: Log) -> None:
        """Forgets the events of the views' tables that every view has seen, when they are worth it."""
        for table in sorted({table.name for view in views for table in view.tables}):
            seen, trimmed = log.seen_by_all(table), self._trimmed.get(table, 0)
            rows = self._refresher.rows_seen.get(table, 0)
            if seen - trimmed >= SEEN_STATEMENTS or (seen > trimmed and rows >= SEEN_ROWS):
                self._store.trim_log(table, seen)
                self._trimmed[table], self._refresher.rows_seen[table] = seen, 0

    def _check_tables(self, views: Sequence[View]) -> None:
        """Once after each change of the catalog."""
        for view in views:
            if self._checked_at.get(view.name) != self._con.catalog_version:
                check_tables(view, self.find_table)
                self._checked_at[view.name] = self._con.catalog_version

    # --- telling ---

    def optimize(self, view: View, compiled: Compiled, progress: Progress) -> str:
        return f"{view.name}: no diffs wait, since refreshes apply them at once"

    def verify(self, view: View, compiled: Compiled) -> Verification:
        check_tables(view, self.find_table)
        with self._transaction():
            whole = [self._store.logged(self.find_table(x.name) or x) for x in view.tables]
            return self._refresher.verify(view, compiled, whole, self._store.log())

    def standing(self, view: View, compiled: Compiled) -> Standing:
        try:
            with self._lock:
                return self._standing(view)
        except duckdb.Error as problem:
            raise translated(problem) from problem

    def _standing(self, view: View) -> Standing:
        self._write_down()
        entry = next(e for e in self._store.entries() if e.view.name == view.name)
        count = exp.select(exp.Count(this=exp.Star())).from_(base_table(view.name))
        rows = int(self._con.execute(to_sql(count)).fetchone()[0])
        after = exp.Literal.number(entry.watermark)
        pending = sum(
            self._database.run(
                to_sql(waiting_rows(table, events_after(table.name, after), self._database.unordered))
            )
            for table in view.tables
        )
        versions = {table.name: entry.watermark for table in view.tables}
        refreshed_at = self._store.refreshed(view.name)
        return Standing(rows, pending, refreshed_at, versions, problem_with(view, self.find_table))

    def history(self) -> Result:
        self._write_down()
        columns = "view, refreshed, versions, strategy, reason, changes_in, rows_changed, diff_rows, "
        cursor = self._checked(
            f"SELECT {columns}statements, seconds FROM viewkeep.history ORDER BY refreshed, rowid"
        )
        return Result("select", tuple(d[0] for d in cursor.description), tuple(cursor.fetchall()))

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        return to_sql(tree, pretty)

    def explain(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        return self._refresher.explain(view, compiled, lambda tree: to_sql(tree, pretty=True))


def _adds_columns(tree: exp.Expr) -> bool:
    """Whether ALTER TABLE only adds columns, which no view reads yet."""
    columns = _added(tree)
    return bool(columns) and all(isinstance(c, exp.ColumnDef) for c in columns)


def _added(tree: exp.Expr) -> list[exp.Expr]:
    """The columns of ADD COLUMN and ADD COLUMNS (...)."""
    actions = tree.args.get("actions") or [] if isinstance(tree, exp.Alter) else []
    return [c for a in actions for c in (a.expressions if isinstance(a, exp.Schema) else [a])]


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
