"""PostgreSQL: a server with many clients. A refresh is one transaction, and sees one moment of all tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow
from sqlglot import exp

from viewkeep.algebra.types import STRING
from viewkeep.capture.postgres import AFTER, PLACES, quoted
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.engines.contract import Progress, Standing
from viewkeep.engines.following import Followed, Following
from viewkeep.engines.initial import shown
from viewkeep.engines.postgres.database import WITHOUT_LOOPS, PostgresDatabase
from viewkeep.engines.postgres.dialect import collated
from viewkeep.engines.postgres.eager import follow, forget
from viewkeep.engines.postgres.session import RETRY, Failure, Session
from viewkeep.engines.postgres.tables import (
    columns_of_temporary,
    find_table,
    forms,
    has_index,
    is_plain_view,
    qualified,
)
from viewkeep.engines.report import check_tables, problem_with, refreshed
from viewkeep.engines.transactional.following import follow as follow_tables
from viewkeep.engines.transactional.merging import expanded
from viewkeep.engines.transactional.names import TableNames
from viewkeep.engines.transactional.netting import waiting_rows
from viewkeep.engines.transactional.refresh import Refresher
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    CorruptCatalog,
    DependentViews,
    DuplicateKey,
    EngineError,
    UnknownTable,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.functions import UserFunction
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.store.places import SCHEMA
from viewkeep.store.postgres import Store, version

# all statements of such a transaction see the tables as they were when it began to look
ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
# how tables are locked before that: against TRUNCATE, or against everybody who writes
SHARED, EXCLUSIVE = "ACCESS SHARE", "SHARE ROW EXCLUSIVE"
# how often something is tried again that others were in the way of
ATTEMPTS = 10
# what this session has not yet reported to the server's statistics, so only differences mean anything
_ACCESSES = """
    SELECT coalesce(sum(i.lookups), 0)::bigint, coalesce(sum(
        pg_stat_get_xact_tuples_returned(r) + pg_stat_get_xact_tuples_fetched(r) + coalesce(i.rows, 0)
    ), 0)::bigint
    FROM (SELECT CAST(to_regclass(name) AS oid) AS r FROM unnest(CAST($1 AS text[])) AS name) AS relations,
    LATERAL (
        SELECT sum(pg_stat_get_xact_numscans(indexrelid)) AS lookups,
               sum(pg_stat_get_xact_tuples_fetched(indexrelid)) AS rows
        FROM pg_index WHERE indrelid = r
    ) AS i
"""
_SOURCE = exp.table_("viewkeep:source", quoted=True)
T = TypeVar("T")


class PostgresEngine:
    """One connection to a database."""

    name = "postgres"
    dialect = "postgres"
    locates = True
    maintains_eagerly = True
    logs_for_views = True

    def __init__(self, address: str) -> None:
        self._session = Session(address)
        try:
            self._store = Store(self._session)
        except Failure as problem:
            self._session.close()
            raise self._translated(problem) from problem
        except ViewkeepError:
            self._session.close()
            raise
        self._database = PostgresDatabase(self._session)
        # a role called viewkeep would find viewkeep's own tables first, and make its own among them
        self._session.rows(
            "SELECT set_config('search_path', (SELECT string_agg(quote_ident(s), ', ') "
            "FROM unnest(current_schemas(false)) AS s WHERE s <> $1), false) "
            "WHERE $1 = ANY (current_schemas(false))",
            SCHEMA,
        )
        self._refresher = Refresher(self._database, self._store)
        self._checked: dict[str, list[Any]] = {}
        """For a view, what its tables looked like when they were last found to be in order."""

    def close(self) -> None:
        self._session.close()

    # --- what the server answers ---

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Failures of the server, as errors of viewkeep."""
        try:
            yield
        except Failure as problem:
            raise self._translated(problem) from problem

    def _translated(self, problem: Failure) -> ViewkeepError:
        if problem.code == "23505":
            detail = f": {problem.detail}" if problem.detail else ""
            return DuplicateKey(
                problem.message + detail, hint="a key names one row: update that row, or use another key"
            )
        if problem.code == "42P01" and '"viewkeep' in problem.message:
            return CorruptCatalog(
                f"what viewkeep stored is not there any more: {problem.message}",
                hint="drop the view and create it again; base tables are not affected",
            )
        if problem.code == "42P01":
            return UnknownTable(problem.message, hint="create it first, or check the spelling")
        if problem.code == "2BP01" and "reads:" in problem.detail:
            return DependentViews(
                f"{problem.message}: views read it", hint="drop the views that read it first"
            )
        return EngineError(problem.message, hint=problem.detail or "correct the statement and run it again")

    def _persistently(self, act: Callable[[], T]) -> T:
        """Tries again where others were in the way, which is no fault of the user's."""
        for attempt in range(ATTEMPTS):
            try:
                return act()
            except Failure as problem:
                self._refresher.forget()
                if problem.code not in RETRY or attempt == ATTEMPTS - 1:
                    raise
            except BaseException:
                self._refresher.forget()
                raise
        raise AssertionError("the last attempt returns or raises")

    # --- base tables ---

    def qualify(self, name: str) -> str:
        with self._told():
            return qualified(self._session, name)

    def find_table(self, name: str) -> Table | None:
        with self._told():
            return find_table(self._session, self._store, name)

    def is_plain_view(self, name: str) -> bool:
        with self._told():
            return is_plain_view(self._session, name)

    def create_table(self, tree: exp.Create, table: Table) -> None:
        if self.find_table(table.name) is not None:
            if tree.args.get("exists"):
                return
            raise AlreadyExists(
                f"table {table.name} exists already", hint="drop it first, or use IF NOT EXISTS"
            )
        table = replace(_folded(table), name=self.qualify(table.name))
        definitions: list[exp.Expr] = []
        for c in table.columns:
            required = not c.nullable or c.name in table.key
            rules = [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else []
            definitions.append(exp.ColumnDef(this=_identifier(c.name), kind=c.type.sql(), constraints=rules))
        if table.key:
            definitions.append(exp.PrimaryKey(expressions=[_identifier(k) for k in table.key]))
        schema = exp.Schema(this=PLACES.base(table.name), expressions=definitions)
        with self._told(), self._session.transaction():
            self._session.run(self.sql(exp.Create(this=schema, kind="TABLE")))
            if tree.expression is not None:
                rows = self._resolved(tree.expression)
                self._session.run(self.sql(exp.Insert(this=PLACES.base(table.name), expression=rows)))
            self._store.save_table(table)

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query: of a table that is made of no row of it, and gone again."""
        none = exp.select("*").from_(exp.Subquery(this=self._resolved(tree), alias="q")).limit(0)
        with self._told(), self._session.transaction():
            self._session.run(self._database.temporary(_SOURCE, none))
            made = columns_of_temporary(self._session, _SOURCE.name)
            self._session.run(self.sql(exp.Drop(tables=[_SOURCE.copy()], kind="TABLE")))
        return made

    def declare_key(self, table: Table, key: Sequence[str]) -> None:
        columns = [_identifier(k) for k in key]
        action = exp.AddConstraint(expressions=[exp.PrimaryKey(expressions=columns)])
        alter = exp.Alter(this=PLACES.base(table.name), kind="TABLE", actions=[action])
        with self._told():
            self._session.run(self.sql(alter))

    def drop_table(self, name: str, if_exists: bool) -> None:
        name = self.qualify(name)
        with self._told(), self._session.transaction():
            self._session.run(self.sql(exp.Drop(tables=[PLACES.base(name)], kind="TABLE", exists=if_exists)))
            self._store.remove_table(name)

    # --- the user's statements ---

    def run_dml(self, tree: exp.Expr, text: str, eager: Sequence[tuple[View, Compiled]] = ()) -> Result:
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        name = self.qualify(".".join(part.name for part in target.parts))
        table = self.find_table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}", hint="create it first; views are read-only")
        made = self._resolved(tree)
        with self._told():
            if isinstance(made, exp.Insert) and made.args.get("overwrite"):
                count = self._overwrite(made, table)
            else:
                if isinstance(made, exp.Merge):
                    made = expanded(made, [*(c.name for c in table.columns), *table.refused])
                count = self._session.run(self.sql(made))
        return Result("dml", message=f"{count} rows", detail=count)

    def _overwrite(self, tree: exp.Insert, table: Table) -> int:
        """All rows replaced, by what may be read from them."""
        rows, plain = tree.expression, tree.copy()
        if ctes := plain.args.pop("with_", None):
            rows.set("with_", ctes)
        plain.set("overwrite", False)
        plain.set("expression", exp.select("*").from_(_SOURCE.copy()))
        with self._session.transaction():
            self._session.run(self._database.temporary(_SOURCE, rows))
            self._session.run(self.sql(exp.Delete(this=PLACES.base(table.name))))
            return self._session.run(self.sql(plain))

    def write_batch(self, table: str, batch: Any, mode: str, stream: str, number: int) -> None:
        raise Unsupported(
            "batches of streams are written on Spark alone", hint="INSERT or MERGE the rows, and refresh"
        )

    def reading_names(self, tables: Sequence[Table]) -> TableNames:
        return TableNames(self._database, "", tables)

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        with self._told():
            columns, rows, _ = self._session.answer(self.sql(self._resolved(tree)))
        return Result("select", columns, rows, frame=lambda: _frame(columns, rows))

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        with self._told():
            sql = text if isinstance(tree, exp.Command) else self.sql(self._resolved(tree))
            columns, rows, _ = self._session.answer(sql)
        return Result("show" if columns else "dml", columns, rows, "done")

    def _resolved(self, tree: exp.Expr) -> exp.Expr:
        """The statement with tables under the names that the catalog has: Spark's names have no case."""
        made = tree.copy()
        local = {cte.alias.lower() for cte in made.find_all(exp.CTE)}
        for node in list(made.find_all(exp.Table)):
            name = ".".join(part.name for part in node.parts)
            if not isinstance(node.this, exp.Identifier) or name.lower() in local:
                continue
            known = PLACES.base(self.qualify(name))
            if known.name != node.name and not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name)))
            if known.name.lower() == node.name.lower():
                node.set("this", known.this)
                node.set("db", known.args.get("db"))
        for update in made.find_all(exp.Update):  # SET x = ..., not SET t.x = ...
            for assignment in update.expressions:
                if isinstance(assignment, exp.EQ) and isinstance(assignment.this, exp.Column):
                    assignment.set("this", exp.Column(this=assignment.this.this.copy()))
        return made

    def register_function(self, signature: UserFunction, function: Callable[..., Any]) -> None:
        raise Unsupported(
            "a PostgreSQL server does not call functions of this process",
            hint="write it in SQL in the view, or keep the view on DuckDB or Spark",
        )

    # --- views ---

    def views(self) -> list[View]:
        with self._told():
            return [entry.view for entry in self._store.entries()]

    def create_view(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        replacing: tuple[View, Compiled] | None = None,
    ) -> int:
        if replacing is None and self._exists(view.name):
            raise AlreadyExists(
                f"{view.name} exists already", hint="DROP MATERIALIZED VIEW or DROP TABLE it first"
            )
        with self._told(), self._session.holding([view.name]):
            self._persistently(lambda: self._announce(view))
            try:
                self._index_tables(view, compiled, progress)
                return self._persistently(lambda: self._fill(view, compiled, progress, replacing))
            except BaseException:
                with self._session.transaction():
                    self._store.withdraw(view.name)
                    self._stop_logs(view.tables)
                raise

    def _exists(self, name: str) -> bool:
        found = "SELECT to_regclass($1) IS NOT NULL"
        with self._told():
            return bool(self._session.rows(found, PLACES.base(name).sql(dialect="postgres"))[0][0])

    def _announce(self, view: View) -> None:
        """From here on the tables are logged for the view. Who writes to them waits for no longer than this
        takes; the view is computed afterwards."""
        with self._session.transaction():
            for table in view.tables:
                self._store.start_log(table)
            self._store.announce(view)

    def _fill(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        replacing: tuple[View, Compiled] | None,
    ) -> int:
        started = time.perf_counter()
        # an eager view follows its tables from this moment on: nobody may write to them in between
        with self._at_one_moment([view], EXCLUSIVE if view.is_eager else SHARED):
            log = self._store.log()
            if replacing is not None:
                self._drop(*replacing)
            caches = view.policy != "full"
            rows, filled = self._refresher.fill(view, compiled, progress, caches=caches)
            self._session.run(self.sql(_readable(view, shown(compiled, self._refresher.names(view)))))
            self._store.add_view(view, log.upto)
            created = refreshed(view, "full", "created", started, counted=rows, statements=filled)
            self._store.remember(created, {table.name: log.upto for table in view.tables})
            if view.is_eager:
                follow(self._session, self._database, view, compiled)
            self._note_eager([view, *([replacing[0]] if replacing else [])])
        if replacing is not None:
            with self._session.transaction():
                self._stop_logs(replacing[0].tables)
        return rows

    def _note_eager(self, views: Sequence[View]) -> None:
        """An eager view has come or gone: triggers of its tables know which there are."""
        if any(view.is_eager for view in views):
            for table in {table.name: table for view in views for table in view.tables}.values():
                if self._store.readers(table.name):
                    self._store.capture(table)

    @contextmanager
    def _at_one_moment(self, views: Sequence[View], mode: str = SHARED) -> Iterator[None]:
        """A transaction that sees base tables and log as they are at one moment. TRUNCATE and ALTER are not
        versioned: who comes with them waits until it is over."""
        tables = sorted({quoted(table.name) for view in views for table in view.tables})
        with self._session.transaction(ONE_MOMENT):
            lock = exp.Command(this="LOCK TABLE", expression=f"{', '.join(tables)} IN {mode} MODE")
            self._session.run(self.sql(lock))
            yield

    def _index_tables(self, view: View, compiled: Compiled, progress: Progress) -> None:
        """Indexes by which scripts find rows of base tables, made while others write to them."""
        for table, column in self._refresher.lookups(view, compiled):
            key: exp.Expr = exp.column(column, quoted=True)
            kind = next(c.type for x in view.tables if x.name == table for c in x.columns if c.name == column)
            if kind == STRING:
                key = collated(key)
            if not has_index(self._session, table, self.sql(key)):
                progress(f"indexing {table} by {column}")
                create = PLACES.base_index(table, column, key)
                create.set("concurrently", True)
                self._session.run(self.sql(create))

    def drop_view(self, view: View, compiled: Compiled) -> None:
        with self._told(), self._session.holding([view.name]):
            self._persistently(lambda: self._drop_all(view, compiled))

    def _drop_all(self, view: View, compiled: Compiled) -> None:
        with self._session.transaction():
            self._drop(view, compiled)
            self._note_eager([view])
            self._stop_logs(view.tables)

    def _drop(self, view: View, compiled: Compiled) -> None:
        self._session.run(self.sql(exp.Drop(tables=[PLACES.base(view.name)], kind="VIEW", exists=True)))
        for target in compiled.placement.targets:
            self._session.run(self.sql(PLACES.drop_target(view.name, target.name)))
        self._store.remove_view(view.name)
        if view.is_eager:
            forget(self._session, view)
        self._refresher.forget()

    def _stop_logs(self, tables: Sequence[Table]) -> None:
        for table in tables:
            if not self._store.readers(table.name):
                self._store.stop_log(table.name)

    # --- refresh ---

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        return self.refresh_together([(view, compiled)], full, progress)[0]

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        if full:
            self._log_again([view for view, _ in views])
        else:
            self._check_tables([view for view, _ in views])
        with self._told(), self._session.holding([view.name for view, _ in views]):
            done = self._persistently(lambda: self._maintain(views, full, progress))
            self._store.trim_logs({table.name for view, _ in views for table in view.tables})
        return done

    def follow(self, followed: Sequence[Followed]) -> Following:
        anchors = {one.anchor.lower() for one in followed}

        def read() -> Following:
            with self._at_one_moment([v for v in self.views() if v.name.lower() in anchors]):
                return follow_tables(self._database, self._store.log(), followed)

        self._check_tables([view for view in self.views() if view.name.lower() in anchors])
        with self._told(), self._session.holding(sorted(one.anchor for one in followed)):
            return self._persistently(read)

    def hold(self, points: Mapping[str, Any]) -> None:
        with self._told(), self._session.holding(sorted(points)):
            with self._session.transaction():
                for anchor, point in points.items():
                    self._store.move_watermark(anchor, point)
            anchors = {anchor.lower() for anchor in points}
            own = (v for v in self.views() if v.name.lower() in anchors)
            self._store.trim_logs({table.name for view in own for table in view.tables})

    def _check_tables(self, views: Sequence[View]) -> None:
        """The base tables must still be what views were made over. Where they are what they were when that
        was last looked at, it still holds."""
        with self._told():
            found = forms(self._session, sorted({table.name for view in views for table in view.tables}))
        for view in views:
            key, form = view.to_json(), [found[table.name] for table in view.tables]
            if self._checked.get(key) != form:
                check_tables(view, self.find_table)
                if missed := self._unlogged(view):
                    raise BaseTableChanged(missed, hint=f"REFRESH MATERIALIZED VIEW {view.name} FULL")
                self._checked[key] = form

    def _unlogged(self, view: View) -> str:
        """What is to be said of a view whose log has a gap."""
        with self._told():
            missed = [table.name for table in self._store.unlogged(view)]
        if not missed:
            return ""
        return (
            f"changes of {', '.join(missed)}, which view {view.name} reads, may not have been logged: "
            "triggers of viewkeep were dropped or switched off, or another table has the name now"
        )

    def _log_again(self, views: Sequence[View]) -> None:
        """Views that are computed anew follow their tables from then on, whatever was lost before."""
        for view in views:
            check_tables(view, self.find_table)
            if self._unlogged(view):
                with self._told(), self._session.transaction():
                    for table in view.tables:
                        self._store.start_log(table)

    def _maintain(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        done = []
        # eager views are computed anew between two transactions of those who write
        mode = EXCLUSIVE if full and any(view.is_eager for view, _ in views) else SHARED
        with self._at_one_moment([view for view, _ in views], mode):
            log = self._store.log()
            for view, compiled in views:
                if view.is_eager and not full:
                    reason = "maintained by the transactions that changed its tables"
                    done.append(refreshed(view, "none", reason, time.perf_counter()))
                else:
                    asked = "asked for" if full else ""
                    before = self._accesses(view, compiled)
                    made = self._refresher.refresh(view, compiled, asked, log, progress)
                    after = self._accesses(view, compiled)
                    lookups, rows = (b - a for a, b in zip(before, after, strict=True))
                    done.append(replace(made, lookups=lookups, rows_read=rows))
        return done

    def _accesses(self, view: View, compiled: Compiled) -> tuple[int, int]:
        """What this session has done so far with the tables of a view and what it stores: how often it looked
        something up in an index, and how many rows it has read. The server counts both."""
        places = [PLACES.base(table.name) for table in view.tables]
        places += [PLACES.target(view.name, target.name) for target in compiled.placement.targets]
        ((lookups, rows),) = self._session.rows(_ACCESSES, [p.sql(dialect="postgres") for p in places])
        return int(lookups), int(rows)

    # --- telling ---

    def optimize(self, view: View, compiled: Compiled, progress: Progress) -> str:
        for target in compiled.placement.targets:
            progress(f"vacuuming {target.role} {target.name} of {view.name}")
            place = self.sql(PLACES.target(view.name, target.name))
            with self._told():
                self._session.run(self.sql(exp.Command(this="VACUUM ANALYZE", expression=place)))
        return f"{view.name}: vacuumed; no diffs wait, since refreshes apply them at once"

    def verify(self, view: View, compiled: Compiled) -> Verification:
        check_tables(view, self.find_table)
        with self._told():
            whole = []
            for table in view.tables:
                now, logged = self.find_table(table.name) or table, self._store.logged(table.name)
                whole.append(replace(now, columns=tuple(c for c in now.columns if c.name in logged)))
            with self._at_one_moment([view]):
                log = self._store.log()
                if view.is_eager:  # it shows what is committed
                    log = replace(log, entries=[replace(e, watermark=log.upto) for e in log.entries])
                return self._refresher.verify(view, compiled, whole, log)

    def standing(self, view: View, compiled: Compiled) -> Standing:
        with self._told(), self._session.transaction(ONE_MOMENT):
            entry = next(e for e in self._store.entries() if e.view.name == view.name)
            count = exp.select(exp.Count(this=exp.Star())).from_(PLACES.base(view.name))
            rows = int(self._session.rows(self.sql(count))[0][0])
            self._session.rows(f"{WITHOUT_LOOPS}, set_config($1, $2, true)", AFTER, entry.watermark)
            pending = 0
            for table in view.tables if not view.is_eager else ():
                events = self._database.events(table.name)
                waiting = waiting_rows(table, events, self._database.unordered)
                pending += int(self._session.rows(self.sql(waiting))[0][0])
            versions = {table.name: version(entry.watermark) for table in view.tables}
            problem = problem_with(view, self.find_table) or self._unlogged(view)
            return Standing(rows, pending, entry.refreshed, versions, problem)

    def history(self) -> Result:
        names = ("view", "refreshed", "versions", "strategy", "reason", "changes_in", "rows_changed")
        columns = [exp.column(n, quoted=True) for n in (*names, "diff_rows", "statements", "seconds")]
        query = exp.select(*columns).from_(exp.table_("history", db="viewkeep")).order_by("id")
        with self._told():
            found, rows, _ = self._session.answer(self.sql(query))
        return Result("select", found, rows)

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        return self._database.sql(tree, pretty)

    def explain(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        return self._refresher.explain(view, compiled, lambda tree: self.sql(tree, pretty=True))


def _readable(view: View, body: exp.Select) -> exp.Create:
    """The user's view. Its rows come from a WITH: PostgreSQL lets nobody write through such a view."""
    rows = exp.select("*").from_(body.args["from_"].this.copy())
    query = body.copy()
    query.set("from_", exp.From(this=exp.table_("rows")))
    return exp.Create(this=PLACES.base(view.name), kind="VIEW", expression=query.with_("rows", as_=rows))


def _folded(table: Table) -> Table:
    """Names in lower case, as PostgreSQL takes every name that is not in quotes."""
    columns = tuple(replace(c, name=c.name.lower()) for c in table.columns)
    references = tuple(
        replace(
            f,
            columns=tuple(c.lower() for c in f.columns),
            table=f.table.lower(),
            references=tuple(c.lower() for c in f.references),
        )
        for f in table.foreign_keys
    )
    return replace(
        table,
        name=table.name.lower(),
        columns=columns,
        key=tuple(k.lower() for k in table.key),
        foreign_keys=references,
    )


def _frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pyarrow.table([pyarrow.array(list(v)) for v in values], names=list(columns))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
