"""The connection: SQL and Python calls in, engine calls out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewkeep.algebra import types as t
from viewkeep.algebra.printing import line, tree
from viewkeep.catalog.models import Table, View, default_strategy, same_table
from viewkeep.chooser import POLICIES, needs_everything
from viewkeep.engines.contract import Engine, Progress, silent
from viewkeep.engines.python_functions import exactly
from viewkeep.errors import (
    AlreadyExists,
    CorruptCatalog,
    DependentViews,
    NoKey,
    SyntaxProblem,
    UnknownColumn,
    UnknownFunction,
    UnknownTable,
    UnknownView,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.binder import bind
from viewkeep.frontend.create_table import added_key, table_of
from viewkeep.frontend.functions import UserFunction, is_built_in, registered
from viewkeep.frontend.statements import (
    CreateView,
    OnView,
    Plain,
    Statement,
    parse,
    parse_sql,
    place_of,
    split,
)
from viewkeep.frontend.views import with_views_in_place
from viewkeep.passes.compiler import Compiled, compile_view
from viewkeep.results import Explanation, Refresh, Result, Verification, ViewStatus

_OPTIONS = {
    "strategy": ("id", "tuple"),
    "refresh_policy": POLICIES,
    "maintenance": ("deferred", "eager"),
}
_DML = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


class Connection:
    """An open warehouse: tables, materialized views, and the engine that keeps them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.progress: Progress = silent
        self._compiled: dict[tuple[str, str], Compiled] = {}
        self._functions: dict[str, UserFunction] = {}

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the engine; a connection is not used after it."""
        self.engine.close()

    # --- SQL ---

    def sql(self, text: str) -> Result:
        """Runs one statement, or several separated by semicolons, and gives back the last one's result."""
        statements = list(split(text))
        if not statements:
            raise SyntaxProblem("there is no statement here", hint="write one SQL statement")
        result = None
        for statement in statements:
            result = self.run(statement)
        assert result is not None
        return result

    def run(self, statement: Statement) -> Result:
        """Runs one statement."""
        parsed = parse(statement)
        if isinstance(parsed, CreateView):
            return self._create_view(parsed)
        if isinstance(parsed, OnView):
            return self._on_view(parsed)
        assert isinstance(parsed, Plain)
        return self._plain(parsed)

    def _plain(self, statement: Plain) -> Result:
        node, text = statement.tree, statement.text
        if isinstance(node, exp.TruncateTable):  # a DELETE of every row, and logged as one
            node = exp.Delete(this=node.expressions[0])
            text = node.sql("spark")
        if isinstance(node, exp.Create) and (node.kind or "").upper() == "TABLE":
            return self._create_table(node, text)
        if isinstance(node, _DML):
            target = self._target(node, text)
            return self.engine.run_dml(node, text, self._eager(target))
        if isinstance(node, exp.Query):
            return self.engine.run_query(node, text)
        if isinstance(node, exp.Drop) and (node.args.get("kind") or "").upper() == "TABLE":
            return self._drop_table(node)
        if isinstance(node, exp.Drop) and (node.args.get("kind") or "").upper() == "VIEW":
            self._refuse_drop_view(node)
        if isinstance(node, (exp.Transaction, exp.Commit, exp.Rollback)):
            raise Unsupported(
                "each statement is a transaction of its own", hint="leave out BEGIN, COMMIT and ROLLBACK"
            )
        if isinstance(node, exp.Alter) and (key := added_key(node)) is not None:
            return self._declare_key(node, key)
        return self.engine.run_other(node, text)

    def _target(self, node: exp.Expr, text: str) -> str:
        """The base table that a statement changes."""
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        name = ".".join(part.name for part in target.parts) if isinstance(target, exp.Table) else ""
        name = self.engine.qualify(name)
        if any(view.name.lower() == name.lower() for view in self.engine.views()):
            raise Unsupported(
                f"{name} is a materialized view, which nobody writes to",
                hint="change its base tables and refresh it",
                place=place_of(target, text),
            )
        return name

    def _eager(self, table: str) -> list[tuple[View, Compiled]]:
        """The views that are maintained with a change of a table."""
        return [
            (view, self._compile(view))
            for view in self.engine.views()
            if view.is_eager and any(read.name.lower() == table.lower() for read in view.tables)
        ]

    # --- tables ---

    def _create_table(self, node: exp.Create, text: str) -> Result:
        table = table_of(node, text, self.engine.describe_query)
        if any(view.name.lower() == table.name.lower() for view in self.engine.views()):
            raise AlreadyExists(f"{table.name} is a materialized view", hint="use another name")
        self.engine.create_table(node, table)
        key = f" with key ({', '.join(table.key)})" if table.key else " without a key"
        return Result("create_table", message=f"created table {table.name}{key}")

    def _drop_table(self, node: exp.Drop) -> Result:
        name = self.engine.qualify(".".join(part.name for part in node.args["tables"][0].parts))
        readers = [
            view.name
            for view in self.engine.views()
            if any(table.name.lower() == name.lower() for table in view.tables)
        ]
        if readers:
            raise DependentViews(
                f"table {name} is read by {', '.join(readers)}",
                hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
            )
        self.engine.drop_table(name, bool(node.args.get("exists")))
        return Result("drop", message=f"dropped table {name}")

    def _refuse_drop_view(self, node: exp.Drop) -> None:
        name = ".".join(part.name for part in node.args["tables"][0].parts)
        if self._find(name) is not None:
            raise Unsupported(f"{name} is a materialized view", hint=f"DROP MATERIALIZED VIEW {name}")

    def _declare_key(self, node: exp.Alter, key: tuple[str, ...]) -> Result:
        name = self.engine.qualify(".".join(part.name for part in node.this.parts))
        table = self.engine.find_table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}", hint="check the spelling")
        exact = []
        for k in key:
            column = table.column(k)
            if column is None:
                known = ", ".join(c.name for c in table.columns)
                raise UnknownColumn(f"{name} has no column {k}", hint=f"there are: {known}")
            exact.append(column.name)
        readers = [
            view.name
            for view in self.engine.views()
            if any(t.name.lower() == name.lower() and t.key != tuple(exact) for t in view.tables)
        ]
        if readers:
            raise DependentViews(
                f"{', '.join(readers)} was made over {name} with another key, or without one",
                hint=f"DROP MATERIALIZED VIEW {readers[0]} first, and create it again afterwards",
            )
        self.engine.declare_key(table, exact)
        return Result("create_table", message=f"the key of {name} is ({', '.join(exact)})")

    # --- views ---

    def _create_view(self, statement: CreateView) -> Result:
        existing = self._find(statement.name)
        if existing is not None and statement.if_not_exists:
            return Result("create_view", message=f"{statement.name} exists already")
        if existing is not None and not statement.replace:
            raise AlreadyExists(
                f"{statement.name} exists already",
                hint=f"DROP MATERIALIZED VIEW {statement.name} first, or use CREATE OR REPLACE",
            )
        self._check_options(statement)
        view, compiled = self._define(statement)
        if view.policy == "incremental_strict" and (reason := needs_everything(compiled.plan)):
            raise Unsupported(
                f"view {view.name} cannot always be maintained incrementally: {reason}",
                hint="use refresh_policy = 'incremental', which computes again only what it must",
            )
        if existing is not None:
            self._refuse_if_read(existing, "replaced")
        old = (existing, self._compile(existing)) if existing is not None else None
        rows = self.engine.create_view(view, compiled, self.progress, replacing=old)
        return Result(
            "create_view", message=f"created materialized view {view.name}: {rows} rows", detail=rows
        )

    def _check_options(self, statement: CreateView) -> None:
        options = statement.options
        for option, value in options.items():
            if option not in _OPTIONS or value not in _OPTIONS[option]:
                allowed = "; ".join(f"{k} = {' | '.join(v)}" for k, v in _OPTIONS.items())
                raise Unsupported(f"there is no option {option} = {value}", hint=f"options: {allowed}")
        if options.get("refresh_policy") in ("auto", "full") and "strategy" in options:
            raise Unsupported(
                f"strategy = {options['strategy']} asks for diffs, and refresh_policy = "
                f"{options['refresh_policy']} lets a refresh recompute",
                hint="leave one of them out",
            )
        if options.get("maintenance") == "eager" and not self.engine.maintains_eagerly:
            raise Unsupported(
                "on this engine a table's change and a view's cannot be one transaction",
                hint="leave out maintenance = 'eager' and refresh the view after changes",
            )

    def _define(self, statement: CreateView) -> tuple[View, Compiled]:
        """Binds and compiles a new view against the tables as they are now."""
        used: dict[str, Table] = {}
        own = self.engine.qualify(statement.name).lower()
        read: dict[str, View] = {}

        def find(given: str) -> Table | None:
            table = self.engine.find_table(self.engine.qualify(given))
            if table is not None:
                used[table.name] = table
            return table

        def definition(given: str) -> exp.Expr | None:
            found = self._find(given)
            if found is None:
                return None
            if found.name.lower() == own or own in {v.name.lower() for v in self._below(found)}:
                raise Unsupported(f"view {statement.name} would read itself", hint="give it another name")
            read[found.name] = found
            return self._compile(found).query

        query = parse_sql(statement.query, start=statement.query_start, whole=statement.text)
        query = with_views_in_place(query, definition)
        with registered(self._functions):
            bound = bind(query, find, statement.text, statement.query_start)
        strategy = statement.options.get("strategy") or default_strategy(used.values())
        if strategy == "id" and (keyless := next((t.name for t in used.values() if not t.key), None)):
            raise NoKey(
                f"ID-based diffs name rows by their key, and table {keyless} has none",
                hint="leave the option out, and the view is kept by tuple-based diffs; or declare a key: "
                f"ALTER TABLE {keyless} ADD PRIMARY KEY (column, ...)",
            )
        compiled = compile_view(bound, used, strategy, self.engine.locates, query)
        self._refuse_functions_at_reading(compiled, statement)
        tables = tuple(_only_used(table, compiled) for table in used.values())
        name = self.engine.qualify(statement.name)
        view = View(name, statement.query, statement.options, tables, tuple(read))
        self._compiled[view.name, view.to_json()] = compiled
        return view, compiled

    def _compile(self, view: View) -> Compiled:
        """A stored view's definition, compiled against the tables as they were when it was made."""
        key = (view.name, view.to_json())
        if key not in self._compiled:
            tables = {table.name: table for table in view.tables}
            try:
                below = {v.name: v for v in self._below(view)}

                def definition(given: str) -> exp.Expr | None:
                    found = same_table(given, [n for n in view.views if n in below])
                    return self._compile(below[found]).query if found is not None else None

                query = with_views_in_place(parse_sql(view.sql), definition)
                with registered(self._functions):
                    bound = bind(query, lambda n: tables.get(same_table(n, tables) or ""), view.sql)
            except UnknownFunction:
                raise  # nothing is broken: the function is not registered in this session, or not yet
            except ViewkeepError as problem:
                raise CorruptCatalog(
                    f"the stored definition of view {view.name} cannot be used: {problem.message}",
                    hint=f"drop view {view.name} and create it again; base tables are not affected",
                ) from problem
            self._compiled[key] = compile_view(bound, tables, view.strategy, self.engine.locates, query)
        return self._compiled[key]

    def _refuse_functions_at_reading(self, compiled: Compiled, statement: CreateView) -> None:
        """What stands over a view's last aggregate is computed by whoever reads the view, whose session may
        not have the function."""
        if compiled.placement.root is compiled.plan:
            return
        for item in compiled.plan.items:
            for call in item.expression.find_all(exp.Anonymous):
                if call.name.lower() in self._functions:
                    raise Unsupported(
                        f"{call.name} cannot be called on aggregates and group keys of a view",
                        hint=f"call it on the columns of tables, or when you read the view: "
                        f"SELECT {call.name}(...) FROM view",
                        place=place_of(call, statement.text, statement.query_start),
                    )

    def _below(self, view: View) -> list[View]:
        """The views that a view reads, and those that they read; a view comes after what it reads."""
        found: dict[str, View] = {}
        for name in view.views:
            read = self._find(name)
            if read is not None:
                found |= {v.name: v for v in (*self._below(read), read)}
        return list(found.values())

    def _refuse_if_read(self, view: View, verb: str) -> None:
        readers = [v.name for v in self.engine.views() if view.name.lower() in {n.lower() for n in v.views}]
        if readers:
            raise DependentViews(
                f"view {view.name} cannot be {verb}: {', '.join(readers)} reads it",
                hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
            )

    def _find(self, name: str) -> View | None:
        full = self.engine.qualify(name).lower()
        return next((v for v in self.engine.views() if v.name.lower() in (full, name.lower())), None)

    def _view(self, name: str) -> View:
        view = self._find(name)
        if view is None:
            known = ", ".join(v.name for v in self.engine.views())
            raise UnknownView(
                f"there is no materialized view {name}",
                hint=f"there are: {known}" if known else "create one with CREATE MATERIALIZED VIEW",
            )
        return view

    def _on_view(self, statement: OnView) -> Result:
        if statement.verb == "refresh":
            names = [statement.name] if statement.name else []
            done = self.refresh(*names, full=statement.full)
            return Result("refresh", detail=done)
        if statement.verb == "show":
            return _shown(self.status())
        assert statement.name is not None
        if statement.verb == "explain":
            explanation = self.explain(statement.name)
            return Result("explain", message=str(explanation), detail=explanation)
        if statement.verb == "verify":
            verified = self.verify(statement.name)
            return Result("verify", message=str(verified), detail=verified)
        if statement.if_exists and self._find(statement.name) is None:
            return Result("drop", message=f"there is no view {statement.name}")
        self.drop(statement.name)
        return Result("drop", message=f"dropped materialized view {statement.name}")

    # --- Python ---

    def register_function(
        self,
        name: str,
        function: Callable[..., Any],
        returns: str,
        arguments: Sequence[str] = (),
        deterministic: bool = True,
    ) -> None:
        """Lets views call a Python function by name, as long as this connection is open.

        It must give the same result for the same arguments, always, and is called with None for NULL. A view
        that calls it can be refreshed only where it is registered.
        """
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise Unsupported(f"{name!r} is no name for a function", hint="use letters, digits and _")
        if is_built_in(name):
            raise AlreadyExists(f"{name} is a function of SQL already", hint="use another name")
        if not deterministic:
            raise Unsupported(
                f"{name} gives another value each time, so no stored view can equal it",
                hint="store its value in a column when the row is written",
            )
        kinds = [_type_named(kind) for kind in (*arguments, returns)]
        signature = UserFunction(name.lower(), tuple(kinds[:-1]), kinds[-1])
        self.engine.register_function(signature, exactly(function, signature.returns))
        self._functions[signature.name] = signature
        self._compiled.clear()  # it may have had another type before

    def refresh(self, *views: str, full: bool = False) -> list[Refresh]:
        """Brings the named views up to date, or all; together they show one version of the tables. Views that
        a named one reads come along."""
        asked = [self._view(name) for name in views] if views else self.engine.views()
        chosen: list[View] = []
        for view in asked:
            chosen += [v for v in self._below(view) if v.name not in {c.name for c in chosen}]
            if views or view.name not in {c.name for c in chosen}:
                chosen.append(view)
        pairs = [(view, self._compile(view)) for view in chosen]
        done = self.engine.refresh_together(pairs, full, self.progress)
        names = {view.name for view in asked}
        return sorted(done, key=lambda refresh: refresh.view not in names)  # those that were asked for first

    def explain(self, view: str) -> Explanation:
        """What a refresh of the view does."""
        found = self._view(view)
        compiled = self._compile(found)
        script, fired = compiled.instantiated(compiled.everything())
        caches = [
            f"{target.role} {target.name}: {', '.join(target.node.names)}  [{', '.join(target.node.ids)}]"
            for target in script.targets
        ]
        caches += compiled.placement.reasons
        diffs = [f"{node.alias}: {diff.schema()}" for node, diff in fired if hasattr(node, "alias")]
        rules = "\n".join(f"{diff.rule}: {diff.schema()}  at {line(node)}" for node, diff in fired)
        composed = "\n".join(f"{let.name} :=\n{tree(let.query, depth=1)}" for let in script.lets)
        for apply in script.applies:
            for diff in apply.diffs:
                composed += f"\napply {diff.schema()} to {apply.target.name} :=\n{tree(diff.query, depth=1)}"
        steps = [(name, tree(plan, ids=name == "infer_ids")) for name, plan in compiled.steps]
        steps += [
            ("place_caches", "\n".join(caches)),
            ("instantiate", rules),
            ("compose and minimize", composed.strip()),
        ]
        return Explanation(
            found.name,
            tree(compiled.plan, ids=True),
            caches,
            diffs,
            self.engine.explain(found, compiled),
            steps,
        )

    def verify(self, view: str) -> Verification:
        """Recomputes the view's query at the versions that the view shows, and compares."""
        found = self._view(view)
        return self.engine.verify(found, self._compile(found))

    def history(self) -> Result:
        """Every refresh of every view: when, to which versions, how, why, and what it took. The same rows
        are in the table viewkeep.history, for SQL."""
        return self.engine.history()

    def status(self) -> list[ViewStatus]:
        """All views, where each stands."""
        return [self._status(view) for view in self.engine.views()]

    def _status(self, view: View) -> ViewStatus:
        tables = tuple(table.name for table in view.tables)
        try:
            compiled = self._compile(view)
        except UnknownFunction as problem:
            return ViewStatus(view.name, 0, 0, True, view.strategy, None, {}, tables, (), problem.message)
        caches = tuple(x.name for x in compiled.placement.targets if x.role != "view")
        try:
            standing = self.engine.standing(view, compiled)
        except ViewkeepError as problem:
            return ViewStatus(view.name, 0, 0, True, view.strategy, None, {}, tables, caches, problem.message)
        return ViewStatus(
            view.name,
            standing.rows,
            standing.pending,
            standing.pending > 0,
            view.strategy,
            standing.refreshed,
            dict(standing.versions),
            tables,
            caches,
        )

    def drop(self, view: str) -> None:
        """Removes a materialized view and all that was stored for it."""
        found = self._view(view)
        self._refuse_if_read(found, "dropped")
        self.engine.drop_view(found, self._compile(found))


def _type_named(name: str) -> t.Type:
    try:
        kind = t.parse(name)
    except (SqlglotError, ValueError):  # for words that are no type
        kind = None
    if kind is None:
        raise Unsupported(
            f"viewkeep has no type {name}",
            hint="use BOOLEAN, an integer type, DOUBLE, DECIMAL(p,s), STRING, DATE or TIMESTAMP",
        )
    return kind


def _only_used(table: Table, compiled: Compiled) -> Table:
    """The table with the columns that the view reads: others may come, go and change."""
    used = {base for scan in compiled.scans if scan.table == table.name for _, base in scan.fields}
    columns = tuple(c for c in table.columns if c.name in used)
    return Table(table.name, columns, table.key, table.foreign_keys)


def _shown(statuses: Iterable[ViewStatus]) -> Result:
    columns = ("view", "rows", "pending", "strategy", "refreshed", "tables")
    rows: list[tuple[Any, ...]] = [
        (s.view, s.rows, s.pending, s.strategy, s.refreshed, ", ".join(s.tables)) for s in statuses
    ]
    return Result("show", columns, tuple(rows))
