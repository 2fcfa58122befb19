"""DuckDB: embedded, in one process. A refresh is one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import duckdb
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import pre_name
from viewkeep.algebra.nodes import Scan, State
from viewkeep.capture.duckdb import base_table, log_table, run_captured, run_plain
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.engines.contract import Progress, Standing
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.session import Session
from viewkeep.engines.initial import fill_queries, shown
from viewkeep.engines.report import check_tables, kinds_present, refreshed, verification
from viewkeep.errors import (
    AlreadyExists,
    CorruptCatalog,
    DependentViews,
    DuplicateKey,
    EngineError,
    Unavailable,
    UnknownTable,
    ViewkeepError,
    WarehouseHeld,
)
from viewkeep.frontend.functions import UserFunction
from viewkeep.idiff.bags import changed_rows, occurrence_changes, rows_before, value_changes
from viewkeep.idiff.changes import KIND
from viewkeep.idiff.net import NET_KIND, SEQ, labels, net_changes, summary
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.script.model import Script
from viewkeep.script.plan import Statements, statements
from viewkeep.script.render import Renderer
from viewkeep.store.duckdb import Store, index_on, target_table

# aliases that no column has: in a subquery b.k would be taken for a field of a column b
BASE, NET = "viewkeep_base", "viewkeep_net"
# fewer rows are scanned faster than an index is kept
WORTH_AN_INDEX = 10_000
_TEMPORARY = exp.Properties(expressions=[exp.TemporaryProperty()])


class DuckDBNames:
    """Where the leaves of a plan are, for one view."""

    row = "rowid"

    def __init__(self, view: str, tables: Sequence[Table]) -> None:
        self._view = view
        self._tables = {table.name: table for table in tables}

    def table(self, scan: Scan) -> exp.Expr:
        """The table as it is, or as it was: without the rows that changed, with what they were."""
        if scan.state == "post":
            return base_table(scan.table)
        table = self._tables[scan.table]
        if not table.key:
            return exp.Subquery(this=rows_before(table, base_table(scan.table), self.net(scan.table)))
        same = exp.select(exp.Literal.number(1)).from_(exp.alias_(self.net(scan.table), NET, table=True))
        for key in table.key:
            same = same.where(exp.EQ(this=_of(NET, key), expression=_of(BASE, key)))
        names = [base for _, base in scan.fields]
        kept = (
            exp.select(*(_of(BASE, n) for n in names))
            .from_(exp.alias_(base_table(scan.table), BASE, table=True))
            .where(exp.Not(this=exp.Exists(this=same)))
        )
        old = exp.select(
            *(exp.alias_(_bare(n if n in table.key else pre_name(n)), n, quoted=True) for n in names)
        )
        old = old.from_(self.net(scan.table)).where(
            exp.NEQ(this=_bare(NET_KIND), expression=exp.Literal.string("insert"))
        )
        return exp.Subquery(this=exp.Union(this=kept, expression=old, distinct=False))

    def net(self, table: str) -> exp.Expr:
        return exp.table_(f"viewkeep:net:{table.lower()}", quoted=True)

    def ref(self, name: str) -> exp.Expr:
        return exp.table_(f"viewkeep:{name}", quoted=True)

    def stored(self, target: str) -> exp.Expr:
        return target_table(self._view, target)


class DuckDBEngine:
    """One DuckDB database, opened by this process."""

    name = "duckdb"
    dialect = "duckdb"
    locates = True

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
        self._prepared: dict[
            tuple[str, int], tuple[Script, list[tuple[str, Any]], list[tuple[str, Any]]]
        ] = {}
        try:
            self._store = Store(self._con)
        except ViewkeepError:
            self._con.close()
            raise

    def close(self) -> None:
        self._con.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._con.execute("BEGIN")
            try:
                yield
                self._con.execute("COMMIT")
            except BaseException:
                with suppress(duckdb.TransactionException):  # a COMMIT that failed may have ended it
                    self._con.execute("ROLLBACK")
                raise

    # --- base tables ---

    def qualify(self, name: str) -> str:
        """The name as the catalog has it: R, r and main.r may be one table."""
        parts = name.split(".")
        with self._lock:
            found = self._con.execute(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE lower(table_name) = lower(?) AND table_catalog = current_database() "
                "AND lower(table_schema) = lower(?)",
                [parts[-1], parts[-2] if len(parts) > 1 else "main"],
            ).fetchone()
        if found is None:
            return name
        return str(found[1]) if found[0] == "main" else f"{found[0]}.{found[1]}"

    def find_table(self, name: str) -> Table | None:
        try:
            with self._lock:
                found = self._con.execute(
                    'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', [name]
                ).fetchall()
        except duckdb.CatalogException:
            return None
        columns, refused, key = [], {}, []
        for column_name, type_name, required, in_key in found:
            kind = _parse_type(type_name)
            if kind is None or ":" in column_name:  # such names are viewkeep's own, next to the user's
                refused[column_name] = type_name
                continue
            columns.append(TableColumn(column_name, kind, not required))
            if in_key:
                key.append(column_name)
        with self._lock:
            doc = self._store.table_doc(name)
        return Table(name, tuple(columns), tuple(key), doc.foreign_keys if doc else (), refused)

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
            self._con.execute(to_sql(create))
            if query is not None:
                insert = exp.Insert(this=base_table(table.name), expression=query.copy())
                self._checked(to_sql(insert))
            self._store.save_table(table)

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query, for CREATE TABLE ... AS."""
        rows = self._checked(f"DESCRIBE {to_sql(tree)}").fetchall()
        return tuple(TableColumn(r[0], _parse_type(r[1]) or t.STRING) for r in rows)

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

    def run_dml(self, tree: exp.Expr, text: str) -> Result:
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        name = self.qualify(".".join(part.name for part in target.parts))
        table = self.find_table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}", hint="create it first; views are read-only")
        with self._transaction():
            try:
                if self._is_tracked(table.name):
                    logged = self._store.logged(table)
                    count = run_captured(self._con, tree, logged, self._store.next_seq())
                else:
                    count = run_plain(self._con, tree, table)
            except duckdb.Error as problem:
                raise self._translated(problem) from problem
        return Result("dml", message=f"{count} rows", detail=count)

    def _is_tracked(self, name: str) -> bool:
        """Whether a view reads the table, so that its changes are logged."""
        return any(table.name.lower() == name.lower() for view in self.views() for table in view.tables)

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        try:
            with self._lock:
                frame = self._con.arrow(to_sql(tree))
        except duckdb.Error as problem:
            raise self._translated(problem) from problem
        columns = tuple(frame.column_names)
        rows = tuple(zip(*(c.to_pylist() for c in frame.columns), strict=True)) if columns else ()
        return Result("select", columns, rows, frame=lambda: frame)

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        if isinstance(tree, exp.Alter):
            name = ".".join(part.name for part in tree.this.parts)
            if self._is_tracked(name):
                raise DependentViews(
                    f"table {name} is read by a view", hint="drop the views that read it first"
                )
        with self._lock:
            cursor = self._checked(text if isinstance(tree, exp.Command) else to_sql(tree))
            columns = tuple(d[0] for d in cursor.description or ())
            return Result("dml", columns, tuple(map(tuple, cursor.fetchall())), "done")

    def _checked(self, sql: str) -> Any:
        try:
            with self._lock:
                return self._con.execute(sql)
        except duckdb.Error as problem:
            raise self._translated(problem) from problem

    def _translated(self, problem: duckdb.Error) -> ViewkeepError:
        text = str(problem).strip()
        if isinstance(problem, duckdb.ConstraintException) and "uplicate key" in text:
            return DuplicateKey(
                text.splitlines()[0], hint="a key names one row: update that row, or use another key"
            )
        first, _, rest = text.partition("\n")
        if isinstance(problem, duckdb.CatalogException) and ("name view:" in first or "name log:" in first):
            return CorruptCatalog(
                f"what viewkeep stored is not there any more: {first}",
                hint="drop the view and create it again; base tables are not affected",
            )
        if isinstance(problem, duckdb.CatalogException) and "does not exist" in first:
            return UnknownTable(first, hint="create it first, or check the spelling")
        return EngineError(first, hint=rest.strip() or "correct the statement and run it again")

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
            raise self._translated(problem) from problem

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
        if replacing is None and self._exists(view.name):
            raise AlreadyExists(
                f"{view.name} exists already", hint="DROP MATERIALIZED VIEW or DROP TABLE it first"
            )
        names = DuckDBNames(view.name, view.tables)
        with self._transaction():
            try:
                if replacing is not None:
                    self._drop(*replacing)
                for table in view.tables:
                    whole = self.find_table(table.name)
                    assert whole is not None  # the view was bound to it just now
                    self._store.start_log(whole)  # all columns: the next view may use others
                rows = self._fill(view, compiled, names, progress)
                body = shown(compiled, names)
                self._con.execute(
                    to_sql(exp.Create(this=base_table(view.name), kind="VIEW", expression=body))
                )
            except duckdb.Error as problem:
                raise self._translated(problem) from problem
            self._store.add_view(view, self._store.last_seq())
        return rows

    def _exists(self, name: str) -> bool:
        with self._lock:
            row = self._con.execute(
                "SELECT count(*) FROM information_schema.tables WHERE lower(table_name) = lower(?) "
                "AND table_catalog = current_database() AND table_schema = current_schema()",
                [name.rpartition(".")[2]],
            ).fetchone()
        return bool(row[0])

    def _fill(self, view: View, compiled: Compiled, names: DuckDBNames, progress: Progress) -> int:
        """Computes every target from scratch; the number of the view's rows."""
        rows = 0
        for target, query in fill_queries(compiled, names):
            progress(f"computing {target.role} {target.name} of {view.name}")
            create = exp.Create(
                this=target_table(view.name, target.name), kind="TABLE", replace=True, expression=query
            )
            rows = int(self._con.execute(to_sql(create)).fetchone()[0])
            for column in compiled.lookups()[target.name] if rows >= WORTH_AN_INDEX else ():
                self._con.execute(to_sql(index_on(view.name, target.name, column)))
        return rows

    def drop_view(self, view: View, compiled: Compiled) -> None:
        with self._transaction():
            self._drop(view, compiled)

    def _drop(self, view: View, compiled: Compiled) -> None:
        self._con.execute(to_sql(exp.Drop(tables=[base_table(view.name)], kind="VIEW", exists=True)))
        for target in compiled.placement.targets:
            table = target_table(view.name, target.name)
            self._con.execute(to_sql(exp.Drop(tables=[table], kind="TABLE", exists=True)))
        self._store.remove_view(view.name)
        for table_ in view.tables:
            if not self._is_tracked(table_.name):
                self._store.stop_log(table_.name)

    # --- refresh ---

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        return self.refresh_together([(view, compiled)], full, progress)[0]

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        for view, _ in views:
            check_tables(view, self.find_table)
        try:
            with self._transaction():
                upto = self._store.last_seq()
                done = [self._refresh(view, made, full, upto, progress) for view, made in views]
                self._trim({table.name for view, _ in views for table in view.tables})
        except duckdb.Error as problem:
            raise self._translated(problem) from problem
        return done

    def _refresh(self, view: View, compiled: Compiled, full: bool, upto: int, progress: Progress) -> Refresh:
        started = time.perf_counter()
        names = DuckDBNames(view.name, view.tables)
        if full:
            rows = self._fill(view, compiled, names, progress)
            self._store.move_watermark(view.name, upto)
            return refreshed(view, "full", "asked for", started, rows_changed=rows, statements=1)
        present, counts = self._net(view, names, self._store.watermark(view.name), upto)
        self._store.move_watermark(view.name, upto)
        if not any(present.values()):
            return refreshed(view, "none", "no base table changed", started)
        script = compiled.script(present)
        changed, diff_rows, ran = self._run(view, script, names)
        return refreshed(
            view, compiled.strategy, counts, started,
            rows_changed=changed, diff_rows=diff_rows, statements=ran,
        )  # fmt: skip

    def _net(
        self, view: View, names: DuckDBNames, after: int, upto: int
    ) -> tuple[dict[str, frozenset[str]], dict[str, dict[str, int]]]:
        """Combines the log of each table into net changes; which kinds of change there are, and how many."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in view.tables:
            if after == upto or not self._store.pending(table.name, after):
                continue
            self._temporary(names.net(table.name), self._net_of(table, after))
            row = self._con.execute(to_sql(summary(table, names.net(table.name)))).fetchone()
            found = {label: int(n) for label, n in zip(labels(table), row, strict=True) if n}
            present[table.name], counts[table.name] = kinds_present(found)
        return present, counts

    def _net_of(self, table: Table, after: int) -> exp.Query:
        events = _events(table.name, after)
        if table.key:
            return net_changes(table, events)
        values = exp.table_(f"viewkeep:values:{table.name.lower()}", quoted=True)
        self._temporary(values, value_changes(table, events))
        return occurrence_changes(table, values, base_table(table.name))

    def _temporary(self, name: exp.Expr, query: exp.Query) -> int:
        create = exp.Create(
            this=name, kind="TABLE", replace=True, properties=_TEMPORARY.copy(), expression=query
        )
        return int(self._con.execute(to_sql(create)).fetchone()[0])

    def _run(self, view: View, script: Script, names: DuckDBNames) -> tuple[int, int, int]:
        """Computes all relations, then applies; rows changed in the view, its diff rows, DML statements."""
        computes, changes = self._prepare(view, script, names)
        sizes: dict[str, int] = {}
        diff_rows = 0
        for sql, compute in computes:
            if compute.unless_empty is not None and not sizes[compute.unless_empty]:
                sql = compute.empty
            sizes[compute.name] = int(self._con.execute(sql).fetchone()[0])
            diff_rows += sizes[compute.name] if compute.is_view_diff else 0
        kinds = {
            source: self._kinds(names.ref(source))
            for source in {change.source for _, change in changes if change.among}
            if sizes[source]
        }
        changed = ran = 0
        for sql, change in changes:
            if change.kind in kinds.get(change.source, ()) if change.among else sizes[change.source]:
                count = int(self._con.execute(sql).fetchone()[0])
                ran += 1
                changed += count if change.target.role == "view" else 0
        return changed, diff_rows, ran

    def _kinds(self, changes: exp.Expr) -> set[str]:
        """Which kinds of change a change relation holds."""
        query = exp.select(_bare(KIND)).distinct().from_(changes)
        return {kind for (kind,) in self._con.execute(to_sql(query)).fetchall()}

    def _prepare(self, view: View, script: Script, names: DuckDBNames) -> Any:
        key = (view.name, id(script))
        if key not in self._prepared:
            made = statements(script, names)
            computes = [(_create_sql(names, c.name, c.query), _Step(c, names)) for c in made.computes]
            changes = [(to_sql(c.statement), c) for c in made.changes]
            self._prepared[key] = script, computes, changes
        return self._prepared[key][1:]

    def _trim(self, tables: set[str]) -> None:
        entries = self._store.entries()
        for table in tables:
            marks = [e.watermark for e in entries if any(x.name == table for x in e.view.tables)]
            if marks:
                self._store.trim_log(table, min(marks))

    # --- telling ---

    def verify(self, view: View, compiled: Compiled) -> Verification:
        check_tables(view, self.find_table)
        with self._transaction():
            whole = tuple(self._store.logged(self.find_table(x.name) or x) for x in view.tables)
            names = DuckDBNames(view.name, whole)
            after, upto = self._store.watermark(view.name), self._store.last_seq()
            # the query as the user wrote it may name columns that the maintained plan has pruned
            present, _ = self._net(replace(view, tables=whole), names, after, upto)
            changed = frozenset(name for name, kinds in present.items() if kinds)
            recomputed = Renderer(_AsOf(names, changed)).query(compiled.to_verify())
            return verification(
                view.name,
                compiled,
                exp.select("*").from_(base_table(view.name)),
                recomputed,
                lambda query: self._con.execute(to_sql(query)).fetchall(),
            )

    def standing(self, view: View, compiled: Compiled) -> Standing:
        with self._lock:
            return self._standing(view)

    def _standing(self, view: View) -> Standing:
        entry = next(e for e in self._store.entries() if e.view.name == view.name)
        count = exp.select(exp.Count(this=exp.Star())).from_(base_table(view.name))
        rows = int(self._con.execute(to_sql(count)).fetchone()[0])
        pending = sum(self._waiting(table, entry.watermark) for table in view.tables)
        versions = {table.name: entry.watermark for table in view.tables}
        return Standing(rows, pending, entry.refreshed, versions)

    def _waiting(self, table: Table, after: int) -> int:
        """How many rows of a table changed past a watermark, each counted once."""
        events = _events(table.name, after)
        if table.key:
            net = exp.Subquery(this=net_changes(table, events), alias="net")
            count = exp.select(exp.Count(this=exp.Star())).from_(net)
        else:
            count = changed_rows(exp.Subquery(this=value_changes(table, events), alias="net"))
        return int(self._con.execute(to_sql(count)).fetchone()[0])

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        return to_sql(tree, pretty)

    def explain(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        names = DuckDBNames(view.name, view.tables)
        made: Statements = statements(compiled.script(compiled.everything()), names)
        steps = [(f"compute {c.name}", to_sql(c.query, pretty=True)) for c in made.computes]
        steps += [
            (f"apply {c.source} to {c.target.role} {c.target.name}", to_sql(c.statement, pretty=True))
            for c in made.changes
        ]
        return steps


def _events(table: str, after: int) -> exp.Select:
    past = exp.GT(this=_bare(SEQ), expression=exp.Literal.number(after))
    return exp.select("*").from_(log_table(table)).where(past)


class _Step:
    """What the runner needs to know of a compute step."""

    def __init__(self, compute: Any, names: DuckDBNames) -> None:
        self.name = compute.name
        self.unless_empty = compute.unless_empty
        self.is_view_diff = compute.is_view_diff
        none = exp.select("*").from_(exp.Subquery(this=compute.query.copy(), alias="q"))
        self.empty = (
            _create_sql(names, compute.name, none.where(exp.false()))
            if compute.unless_empty is not None
            else ""
        )


class _AsOf:
    """Base tables as a view shows them: where they changed since, as they were."""

    row = DuckDBNames.row

    def __init__(self, names: DuckDBNames, changed: frozenset[str]) -> None:
        self._names = names
        self._changed = changed

    def table(self, scan: Scan) -> exp.Expr:
        state: State = "pre" if scan.table in self._changed else "post"
        return self._names.table(replace(scan, state=state))

    def net(self, table: str) -> exp.Expr:
        return self._names.net(table)

    def ref(self, name: str) -> exp.Expr:
        return self._names.ref(name)

    def stored(self, target: str) -> exp.Expr:
        return self._names.stored(target)


def _create_sql(names: DuckDBNames, name: str, query: exp.Query) -> str:
    return to_sql(
        exp.Create(
            this=names.ref(name), kind="TABLE", replace=True, properties=_TEMPORARY.copy(), expression=query
        )
    )


def _parse_type(name: str) -> t.Type | None:
    if name in ("HUGEINT", "UHUGEINT", "FLOAT") or name.startswith(("U", "STRUCT", "MAP")) or "[" in name:
        return None
    if name.startswith("TIMESTAMP"):
        return t.TIMESTAMP if name == "TIMESTAMP" else None
    return t.parse(name, "duckdb")


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _bare(name: str) -> exp.Column:
    return exp.Column(this=_identifier(name))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=_identifier(name), table=exp.to_identifier(alias))
