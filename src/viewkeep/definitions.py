"""The views of a warehouse as they are defined: found by name, bound, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from viewkeep.catalog.models import Table, View, default_strategy, same_table
from viewkeep.chooser import POLICIES
from viewkeep.engines.contract import Engine
from viewkeep.errors import (
    CorruptCatalog,
    DependentViews,
    NoKey,
    UnknownFunction,
    UnknownView,
    Unsupported,
    ViewkeepError,
)
from viewkeep.frontend.binder import bind
from viewkeep.frontend.functions import UserFunction, registered
from viewkeep.frontend.statements import CreateView, parse_sql
from viewkeep.frontend.views import with_views_in_place
from viewkeep.passes.compiler import Compiled, compile_view
from viewkeep.reading import Reading, reading
from viewkeep.script.render import Names
from viewkeep.store.places import SCHEMA
from viewkeep.writing import Writer

_OPTIONS = {
    "strategy": ("id", "tuple"),
    "refresh_policy": POLICIES,
    "maintenance": ("deferred", "eager"),
    "view_tree": ("on", "off"),
}
# in which order the variables of a join are solved, as fivm/order.py reads it
VARIABLE_ORDER = "variable_order"
# the tables whose changes the view tree is kept for, by their names; changes of others recompute the view
UPDATABLE = "updatable"
# the ring view that a view is the anchor of (ring_views.py); nobody writes it
RING = "ring"
# the pipeline that a view belongs to: its name, which can be anything
PIPELINE = "pipeline"


class Definitions:
    """The views of one engine. What is compiled is kept; `functions` are those that views may call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._compiled: dict[tuple[str, str], Compiled] = {}
        self.functions: dict[str, UserFunction] = {}

    def register(self, function: UserFunction) -> None:
        """Lets views call a function; it may have had another type before."""
        self.functions[function.name] = function
        self._compiled.clear()

    def find(self, name: str) -> View | None:
        """The view of a name, if there is one."""
        full = self._engine.qualify(name).lower()
        return next((v for v in self._engine.views() if v.name.lower() in (full, name.lower())), None)

    def named(self, name: str) -> View:
        """The view of a name, which must be there."""
        view = self.find(name)
        if view is None:
            known = ", ".join(v.name for v in self._engine.views())
            raise UnknownView(
                f"there is no materialized view {name}",
                hint=f"there are: {known}" if known else "create one with CREATE MATERIALIZED VIEW",
            )
        return view

    def define(self, statement: CreateView) -> tuple[View, Compiled]:
        """Binds and compiles a new view against the tables as they are now."""
        used: dict[str, Table] = {}
        own = self._engine.qualify(statement.name).lower()
        read: dict[str, View] = {}

        def find(given: str) -> Table | None:
            name = self._engine.qualify(given)
            if name.lower().startswith(f"{SCHEMA}."):
                raise Unsupported(
                    f"{given} is viewkeep's own, and its changes are not told", hint="read it with SELECT"
                )
            if self._engine.is_plain_view(name):
                raise Unsupported(
                    f"{given} is a plain view, of which no change is told",
                    hint="make it a MATERIALIZED VIEW, or write its query in place of its name, as a CTE",
                )
            table = self._engine.find_table(name)
            if table is not None:
                used[table.name] = table
            return table

        def definition(given: str) -> exp.Expr | None:
            found = self.find(given)
            if found is None:
                return None
            if found.name.lower() == own or own in {v.name.lower() for v in self.below(found)}:
                raise Unsupported(f"view {statement.name} would read itself", hint="give it another name")
            read[found.name] = found
            return self.compile(found).query

        query = parse_sql(statement.query, start=statement.query_start, whole=statement.text)
        query = with_views_in_place(query, definition)
        with registered(self.functions):
            bound = bind(query, find, statement.text, statement.query_start)
        strategy = statement.options.get("strategy") or default_strategy(used.values())
        if strategy == "id" and (keyless := next((t.name for t in used.values() if not t.key), None)):
            raise NoKey(
                f"ID-based diffs name rows by their key, and table {keyless} has none",
                hint="leave the option out, and the view is kept by tuple-based diffs; or declare a key: "
                f"ALTER TABLE {keyless} ADD PRIMARY KEY (column, ...)",
            )
        compiled = compile_view(bound, used, strategy, self._engine.locates, query, statement.options)
        self._refuse_without_tree(compiled, statement)
        read_of: dict[str, set[str]] = {}
        for scan in compiled.scans:
            read_of.setdefault(scan.table, set()).update(base for _, base in scan.fields)
        tables = tuple(table.read_by(read_of.get(table.name, ())) for table in used.values())
        name = self._engine.qualify(statement.name)
        view = View(name, statement.query, statement.options, tables, tuple(read))
        self._compiled[view.name, view.to_json()] = compiled
        return view, compiled

    def reading(self, query: exp.Query, text: str) -> Reading | None:
        """A query of the user's own by its plan, where that can be had."""
        with registered(self.functions):
            return reading(query, self._find_table, text)

    def written(self, tree: exp.Expr, table: Table, names: Callable[[Sequence[Table]], Names]) -> exp.Expr:
        """A statement of the user's own that changes a table, in words that write what they do on Spark."""
        writer = Writer(
            self._find_table,
            lambda query: reading(query, self._find_table, ""),
            lambda found, casts: found.query(names(found.tables), casts),
        )
        with registered(self.functions):
            return writer.meant(tree, table)

    def _find_table(self, name: str) -> Table | None:
        return self._engine.find_table(self._engine.qualify(name))

    def compile(self, view: View) -> Compiled:
        """A stored view's definition, compiled against the tables as they were when it was made."""
        key = (view.name, view.to_json())
        if key not in self._compiled:
            tables = {table.name: table.at_create() for table in view.tables}
            try:
                below = {v.name: v for v in self.below(view)}

                def definition(given: str) -> exp.Expr | None:
                    found = same_table(given, [n for n in view.views if n in below])
                    return self.compile(below[found]).query if found is not None else None

                query = with_views_in_place(parse_sql(view.sql), definition)
                with registered(self.functions):
                    bound = bind(query, lambda n: tables.get(same_table(n, tables) or ""), view.sql)
            except UnknownFunction:
                raise  # nothing is broken: the function is not registered in this session, or not yet
            except ViewkeepError as problem:
                raise CorruptCatalog(
                    f"the stored definition of view {view.name} cannot be used: {problem.message}",
                    hint=f"drop view {view.name} and create it again; base tables are not affected",
                ) from problem
            locates = self._engine.locates
            self._compiled[key] = compile_view(bound, tables, view.strategy, locates, query, view.options)
        return self._compiled[key]

    def check_options(self, statement: CreateView) -> None:
        """Refuses options that do not exist, do not go together, or that the engine cannot keep."""
        options = statement.options
        for option, value in options.items():
            if option in (PIPELINE, VARIABLE_ORDER, UPDATABLE):
                continue
            if option not in _OPTIONS or value not in _OPTIONS[option]:
                allowed = "; ".join(f"{k} = {' | '.join(v)}" for k, v in _OPTIONS.items())
                raise Unsupported(f"there is no option {option} = {value}", hint=f"options: {allowed}")
        if options.get("refresh_policy") in ("auto", "full") and "strategy" in options:
            raise Unsupported(
                f"strategy = {options['strategy']} asks for diffs, and refresh_policy = "
                f"{options['refresh_policy']} lets a refresh recompute",
                hint="leave one of them out",
            )
        if VARIABLE_ORDER in options and options.get("view_tree") == "off":
            raise Unsupported(
                f"{VARIABLE_ORDER} is the order of a view tree, and view_tree = off wants none",
                hint="leave one of them out",
            )
        if UPDATABLE in options:
            others = {"maintenance": "eager", "refresh_policy": "incremental_strict"}
            if options.get("strategy") != "tuple":  # which can do without caches, too
                others["view_tree"] = "off"
            against = next((f"{k} = {v}" for k, v in others.items() if options.get(k) == v), None)
            if against is not None:
                raise Unsupported(
                    f"{UPDATABLE} has a view tree kept for changes of some tables, and recomputes the view "
                    f"when others change, which does not go with {against}",
                    hint="leave one of them out",
                )
        if options.get("maintenance") == "eager" and not self._engine.maintains_eagerly:
            raise Unsupported(
                "on this engine a table's change and a view's cannot be one transaction",
                hint="leave out maintenance = 'eager' and refresh the view after changes",
            )

    def _refuse_without_tree(self, compiled: Compiled, statement: CreateView) -> None:
        """Who asks for a view tree gets one, or the reason why not."""
        wanting = ("view_tree", VARIABLE_ORDER, UPDATABLE)
        asked = [f"{k} = {v}" for k, v in statement.options.items() if k in wanting]
        if compiled.no_tree and asked:
            raise Unsupported(
                f"view {statement.name} has no view tree: {compiled.no_tree}", hint=f"leave out {asked[0]}"
            )

    def below(self, view: View) -> list[View]:
        """The views that a view reads, and those that they read; a view comes after what it reads."""
        found: dict[str, View] = {}
        for name in view.views:
            read = self.find(name)
            if read is not None:
                found |= {v.name: v for v in (*self.below(read), read)}
        return list(found.values())

    def refuse_if_read(self, view: View, verb: str) -> None:
        """Refuses what would break views that read this one."""
        readers = [v.name for v in self._engine.views() if view.name.lower() in {n.lower() for n in v.views}]
        if readers:
            raise DependentViews(
                f"view {view.name} cannot be {verb}: {', '.join(readers)} reads it",
                hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
            )
