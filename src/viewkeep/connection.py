"""The connection: SQL and Python calls in, engine calls out."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewkeep.algebra import types as t
from viewkeep.algebra.nodes import Join, walk
from viewkeep.algebra.printing import line, tree
from viewkeep.catalog.models import Table, View
from viewkeep.chooser import needs_everything
from viewkeep.definitions import RING, Definitions
from viewkeep.engines.contract import Engine, Progress, silent
from viewkeep.engines.python_functions import exactly
from viewkeep.errors import (
    AlreadyExists,
    DependentViews,
    Place,
    SyntaxProblem,
    UnknownColumn,
    UnknownFunction,
    UnknownTable,
    UnknownView,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.create_table import added_key, table_of
from viewkeep.frontend.functions import UserFunction, is_built_in
from viewkeep.frontend.statements import (
    CreateView,
    OnView,
    Plain,
    Statement,
    parse,
    place_of,
    split,
)
from viewkeep.guards import refuse_what_breaks_views
from viewkeep.linear_models import Group, regression
from viewkeep.passes.compiler import Compiled
from viewkeep.reading import may_differ
from viewkeep.results import Explanation, Refresh, Regression, Result, Verification, ViewStatus
from viewkeep.streaming import sink
from viewkeep.watching import Stop, watch

if TYPE_CHECKING:
    from viewkeep.fivm.query import Relation
    from viewkeep.ring_views import RingView

_DML = (exp.Insert, exp.Update, exp.Delete, exp.Merge)


class Connection:
    """An open warehouse: tables, materialized views, and the engine that keeps them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.progress: Progress = silent
        self._views = Definitions(engine)

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
        refuse_what_breaks_views(node, text, self.engine, self._views.find)
        if isinstance(node, exp.TruncateTable):  # a DELETE of every row, and logged as one
            node = exp.Delete(this=node.expressions[0])
            text = node.sql("spark")
        if isinstance(node, exp.Create) and (node.kind or "").upper() == "TABLE":
            return self._create_table(node, text)
        if isinstance(node, _DML):
            target = self._target(node, text)
            return self.engine.run_dml(self._written(node, target), text, self._eager(target))
        if isinstance(node, exp.Query):
            return self.engine.run_query(self._meant(node, text), text)
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

    def _meant(self, query: exp.Query, text: str) -> exp.Query:
        """The query in words that mean to the engine what the user's mean in a view."""
        names = self.engine.reading_names
        found = self._views.reading(query, text) if names is not None and may_differ(query) else None
        return query if names is None or found is None else found.query(names(found.tables))

    def _written(self, node: exp.Expr, target: str) -> exp.Expr:
        """The statement in words that write to the table what the user's write on Spark."""
        names, table = self.engine.reading_names, self.engine.find_table(target)
        return node if names is None or table is None else self._views.written(node, table, names)

    def _target(self, node: exp.Expr, text: str) -> str:
        """The base table that a statement changes."""
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        name = ".".join(part.name for part in target.parts) if isinstance(target, exp.Table) else ""
        return self._writable(name, place_of(target, text))

    def _writable(self, name: str, place: Place | None = None) -> str:
        """A table's full name, if it is none of a view."""
        name = self.engine.qualify(name)
        if any(view.name.lower() == name.lower() for view in self.engine.views()):
            raise Unsupported(
                f"{name} is a materialized view, which nobody writes to",
                hint="change its base tables and refresh it",
                place=place,
            )
        return name

    def _eager(self, table: str) -> list[tuple[View, Compiled]]:
        """The views that are maintained with a change of a table."""
        return [
            (view, self._views.compile(view))
            for view in self.engine.views()
            if view.is_eager and any(read.name.lower() == table.lower() for read in view.tables)
        ]

    # --- tables ---

    def _create_table(self, node: exp.Create, text: str) -> Result:
        names, query = self.engine.reading_names, node.expression
        found = self._views.reading(query, text) if names is not None and query is not None else None
        if found is None or names is None:
            table = table_of(node, text, self.engine.describe_query)
        else:
            node = node.copy()
            node.set("expression", found.query(names(found.tables)))
            table = table_of(node, text, lambda _: found.columns)
        if any(view.name.lower() == table.name.lower() for view in self.engine.views()):
            raise AlreadyExists(f"{table.name} is a materialized view", hint="use another name")
        if node.args.get("exists") and self.engine.find_table(self.engine.qualify(table.name)) is not None:
            return Result("create_table", message=f"{table.name} exists already")
        self.engine.create_table(node, table)
        key = f" with key ({', '.join(table.key)})" if table.key else " without a key"
        return Result("create_table", message=f"created table {table.name}{key}")

    def _drop_table(self, node: exp.Drop) -> Result:
        self._refuse_drop_view(node)
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
        if node.args.get("exists") and self.engine.find_table(name) is None:
            return Result("drop", message=f"there is no table {name}")
        self.engine.drop_table(name, bool(node.args.get("exists")))
        return Result("drop", message=f"dropped table {name}")

    def _refuse_drop_view(self, node: exp.Drop) -> None:
        name = ".".join(part.name for part in node.args["tables"][0].parts)
        if self._views.find(name) is not None:
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
        existing = self._views.find(statement.name)
        if existing is not None and statement.if_not_exists:
            return Result("create_view", message=f"{statement.name} exists already")
        if existing is not None and not statement.replace:
            raise AlreadyExists(
                f"{statement.name} exists already",
                hint=f"DROP MATERIALIZED VIEW {statement.name} first, or use CREATE OR REPLACE",
            )
        view, compiled = self._defined(statement)
        if existing is not None:
            self._views.refuse_if_read(existing, "replaced")
        old = (existing, self._views.compile(existing)) if existing is not None else None
        rows = self.engine.create_view(view, compiled, self.progress, replacing=old)
        return Result(
            "create_view", message=f"created materialized view {view.name}: {rows} rows", detail=rows
        )

    def _defined(self, statement: CreateView) -> tuple[View, Compiled]:
        """A view as it would be made, or the reason why it cannot be."""
        self._views.check_options(statement)
        view, compiled = self._views.define(statement)
        if view.policy == "incremental_strict" and (reason := needs_everything(compiled.plan)):
            raise Unsupported(
                f"view {view.name} cannot always be maintained incrementally: {reason}",
                hint="use refresh_policy = 'incremental', which computes again only what it must",
            )
        return view, compiled

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
        if statement.verb == "optimize":
            return Result("dml", message=self.optimize(statement.name))
        if statement.if_exists and self._views.find(statement.name) is None:
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
        self._views.register(signature)

    def check(self, statement: Statement | str) -> None:
        """Raises what CREATE MATERIALIZED VIEW would raise for its definition; makes nothing."""
        parsed = parse(statement)
        if not isinstance(parsed, CreateView):
            raise SyntaxProblem(
                "this defines no view", hint="write CREATE MATERIALIZED VIEW name AS SELECT ..."
            )
        self._defined(parsed)

    def refresh(self, *views: str, full: bool = False) -> list[Refresh]:
        """Brings the named views up to date, or all; together they show one version of the tables. Views that
        a named one reads come along."""
        asked = [self._views.named(name) for name in views] if views else self.engine.views()
        asked = [view for view in asked if views or RING not in view.options]
        chosen: list[View] = []
        for view in asked:
            chosen += [v for v in self._views.below(view) if v.name not in {c.name for c in chosen}]
            if views or view.name not in {c.name for c in chosen}:
                chosen.append(view)
        pairs = [(view, self._views.compile(view)) for view in chosen]
        done = self.engine.refresh_together(pairs, full, self.progress)
        names = {view.name for view in asked}
        return sorted(done, key=lambda refresh: refresh.view not in names)  # those that were asked for first

    def watch(
        self,
        interval: float,
        views: Sequence[str] = (),
        *,
        times: int | None = None,
        stop: Stop | None = None,
        on_refresh: Callable[[Sequence[Refresh]], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> int:
        """Refreshes the named views, or all, every `interval` seconds, until `stop` is set or `times` rounds
        are over; how many there were. `on_refresh` gets each round's refreshes; `on_error` gets a round's
        error, which else ends the watch."""
        return watch(lambda: self.refresh(*views), interval, times, stop, on_refresh, on_error)

    def stream_into(
        self, table: str, views: Sequence[str] = (), mode: str = "append", *, name: str
    ) -> Callable[[Any, int], None]:
        """A function for a stream's batches: `(batch, number)`. Each is written to the table once, and the
        named views, or all that read the table, are refreshed. See streaming.py."""
        return sink(self.engine, self._writable(table), mode, name, views, self.refresh)

    def explain(self, view: str) -> Explanation:
        """What a refresh of the view does."""
        found = self._views.named(view)
        compiled = self._views.compile(found)
        script, fired = compiled.instantiated(compiled.everything())
        caches = [
            f"{target.role} {target.name}: {', '.join(target.node.names)}  [{', '.join(target.node.ids)}]"
            for target in script.targets
        ]
        caches += compiled.placement.reasons
        if compiled.updatable is not None:
            declared = ", ".join(compiled.updatable)
            caches.append(f"updatable: {declared}; changes of other tables recompute the view")
        if compiled.no_tree and any(isinstance(node, Join) for node in walk(compiled.plan)):
            caches.append(f"no view tree: {compiled.no_tree}")
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
            str(compiled.tree.order) if compiled.tree is not None else "",
            str(compiled.tree) if compiled.tree is not None else "",
        )

    def regression(
        self,
        view: str,
        label: str,
        features: Sequence[str] | None = None,
        *,
        ridge: float = 0.0,
        group: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Regression | dict[Group, Regression]:
        """The linear model of a column by others, from the COFACTOR that the view keeps.

        `features`: arguments of COFACTOR, all but the label by default. `group` chooses one group of a view
        with GROUP BY; without it there is a model for each, by the values of its group columns. `name` is
        the COFACTOR's alias, where the view has several.
        """
        found = self._views.named(view)
        compiled = self._views.compile(found)
        return regression(self.engine, found.name, compiled, label, features, ridge, group, name)

    def ring_view(
        self,
        name: str,
        relations: Sequence[Relation | str] | str,
        ring: Any = None,
        lifts: Mapping[str, Callable[[Any], Any]] | None = None,
        *,
        free: Sequence[str] = (),
        order: str | None = None,
        samples: Sequence[Any] = (),
    ) -> RingView:
        """A view in a ring over a natural join of tables, kept in memory, that follows the tables.

        `relations`: a query, which selects what groups are told apart by; or tables by name, all columns
        being variables, or `viewkeep.fivm.Relation`s. `ring`: `Sums` or `Cofactor`, which are compiled, or a
        ring of one's own, whose laws are tried on `samples`, or else on values of the tables. A query that
        selects sums of products, or COFACTOR, needs none.
        """
        from viewkeep import ring_views

        before = {view.name for view in self.engine.views()} if self.engine.logs_for_views else set()
        try:
            return ring_views.ring_view(
                name, self.engine, relations, ring, lifts, free, order, samples, self._anchors
            )
        except BaseException:
            for view in self.engine.views() if self.engine.logs_for_views else ():
                if view.options.get(RING) == name and view.name not in before:
                    self.engine.drop_view(view, self._views.compile(view))
            raise

    def restore_ring_view(self, path: str | Path) -> RingView:
        """A ring view that was saved, as it was then; `refresh` takes in what has changed since."""
        from viewkeep import ring_views

        return ring_views.restored(path, self.engine, self._anchors)

    def drop_ring_view(self, name: str) -> None:
        """Has the log of its tables no longer kept for a ring view. Nothing else of it is stored here."""
        own = [v for v in self.engine.views() if v.options.get(RING) == name]
        if not own and self.engine.logs_for_views:
            raise UnknownView(f"there is no ring view {name}", hint="check the spelling")
        for view in own:
            self.engine.drop_view(view, self._views.compile(view))

    def _anchors(self, name: str, tables: Sequence[Table]) -> dict[str, str]:
        """The views for which the log of tables is kept, made where there are none: each has no rows."""
        if not self.engine.logs_for_views:
            return {}
        found: dict[str, str] = {}
        own = [v for v in self.engine.views() if v.options.get(RING) == name]
        for table in tables:
            there = next((v for v in own if v.tables[0].name == table.name), None)
            if there is not None:
                if {c.name for c in there.tables[0].columns} >= {c.name for c in table.columns}:
                    found[table.name] = there.name
                    continue
                self.engine.drop_view(there, self._views.compile(there))
            # a name that no other has ever had: who knows an anchor knows what it was kept for
            anchor = f"ring_{uuid.uuid4().hex[:12]}"
            source = exp.to_table(table.name)
            for part in source.parts:
                part.set("quoted", True)
            names = [exp.column(c.name, quoted=True) for c in table.columns]
            query = exp.select(*names).from_(source).where(exp.false()).sql("spark")
            statement = CreateView(text=query, name=anchor, query=query, options={RING: name})
            view = replace(self._views.define(statement)[0], tables=(table,))
            self.engine.create_view(view, self._views.compile(view), self.progress)
            found[table.name] = view.name
        return found

    def verify(self, view: str) -> Verification:
        """Recomputes the view's query at the versions that the view shows, and compares."""
        found = self._views.named(view)
        return self.engine.verify(found, self._views.compile(found))

    def optimize(self, view: str) -> str:
        """Folds diffs that wait in the view's tables into their rows, where the engine lets them wait, and
        packs small files together; what was done, in words."""
        found = self._views.named(view)
        return self.engine.optimize(found, self._views.compile(found), self.progress)

    def history(self) -> Result:
        """Every refresh of every view: when, to which versions, how, why, and what it took. The same rows
        are in the table viewkeep.history, for SQL."""
        return self.engine.history()

    def status(self) -> list[ViewStatus]:
        """All views, where each stands; also ring views, where the log of their tables is kept for them."""
        found: list[ViewStatus] = []
        rings: dict[str, list[ViewStatus]] = {}
        for view in self.engine.views():
            own = rings.setdefault(view.options[RING], []) if RING in view.options else found
            own.append(self._status(view))
        return [*found, *(_of_ring_view(name, anchors) for name, anchors in rings.items())]

    def _status(self, view: View) -> ViewStatus:
        tables = tuple(table.name for table in view.tables)
        try:
            compiled = self._views.compile(view)
        except UnknownFunction as problem:
            return ViewStatus(view.name, 0, 0, True, view.strategy, None, {}, tables, (), problem.message)
        caches = compiled.caches
        try:
            standing = self.engine.standing(view, compiled)
        except ViewkeepError as problem:
            return ViewStatus(view.name, 0, 0, True, view.strategy, None, {}, tables, caches, problem.message)
        return ViewStatus(
            view.name,
            standing.rows,
            standing.pending,
            standing.pending > 0 or bool(standing.problem),
            view.strategy,
            standing.refreshed,
            dict(standing.versions),
            tables,
            caches,
            standing.problem,
        )

    def drop(self, view: str) -> None:
        """Removes a materialized view and all that was stored for it."""
        found = self._views.named(view)
        self._views.refuse_if_read(found, "dropped")
        self.engine.drop_view(found, self._views.compile(found))


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


def _of_ring_view(name: str, anchors: Sequence[ViewStatus]) -> ViewStatus:
    """A ring view by what is kept of it here: an anchor for each of its tables."""
    moments = [s.refreshed for s in anchors if s.refreshed is not None]
    return ViewStatus(
        name,
        0,
        sum(s.pending for s in anchors),
        any(s.stale for s in anchors),
        RING,
        min(moments, default=None),
        {table: version for s in anchors for table, version in s.versions.items()},
        tuple(table for s in anchors for table in s.tables),
        tuple(s.view for s in anchors),
        next((s.problem for s in anchors if s.problem), ""),
    )


def _shown(statuses: Iterable[ViewStatus]) -> Result:
    columns = ("view", "rows", "pending", "strategy", "refreshed", "tables")
    rows: list[tuple[Any, ...]] = [
        (s.view, s.rows, s.pending, s.strategy, s.refreshed, ", ".join(s.tables)) for s in statuses
    ]
    return Result("show", columns, tuple(rows))
