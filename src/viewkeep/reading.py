"""A SELECT of the user's own, in the words of a plan: it means what it would mean in a view.

Engines read most of SQL as Spark does. They differ in divisions, in casts and in functions: on DuckDB the
quotient of two decimals is a double, in a view it is a decimal, as on Spark; CAST(1.5 AS INT) is 2, and not
1. Who compares a view with its query should not see that. So a query that has any of these is bound as a view
would be, and written from its plan.

    SELECT did, AVG(price) AS mean FROM parts GROUP BY did ORDER BY mean LIMIT 3
    ->  SELECT ... FROM (the plan of SELECT did, AVG(price) AS mean ... GROUP BY did) ORDER BY ... LIMIT 3

A query that cannot be bound, as views take less than engines do, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sqlglot import exp

from viewkeep.algebra.bags import is_bag, occurrence_of, plain
from viewkeep.algebra.expressions import columns_of
from viewkeep.algebra.nodes import Limit, Node, Project, Window, rebuild, walk
from viewkeep.algebra.types import Type
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.errors import ViewkeepError
from viewkeep.frontend.binder import Bound, bind, expressions_of
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.normalize import normalize
from viewkeep.frontend.typed import Typed
from viewkeep.passes.infer_ids import infer_ids
from viewkeep.script.render import Names, Renderer

# what every engine computes as Spark does
_ALIKE = (exp.Count, exp.Sum, exp.Min, exp.Max, exp.Coalesce, exp.Case, exp.If, exp.Connector)
# what not every engine does: a date and an interval are a timestamp on DuckDB, which has a total over no
# rows, counts what PIVOT does not find as zero, and shifts no negative number
_OPERATORS = (exp.Div, exp.IntDiv, exp.Mod, exp.Like, exp.ILike, exp.Interval)
_SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
_OTHERWISE = (*_OPERATORS, *_SHIFTS, exp.Pivot, exp.Rollup, exp.Cube, exp.GroupingSets)
_ENDS = ("order", "limit", "offset")
_ROWS = "viewkeep_rows"


@dataclass(frozen=True)
class Reading:
    """A bound query, the tables that it reads, and how its rows are ordered and cut."""

    bound: Bound
    plan: Node
    tables: tuple[Table, ...]
    order: tuple[exp.Ordered, ...]
    limit: exp.Expr | None
    offset: exp.Expr | None

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """What a table of the query's rows has."""
        own = zip(self.plan.columns, self.bound.names, strict=False)
        return tuple(TableColumn(name, c.type) for c, name in own)

    def query(self, names: Names, casts: Sequence[Type | None] = ()) -> exp.Query:
        """The query over an engine's tables, with its first columns cast to these types."""
        rows = exp.Subquery(this=Renderer(names).query(self.plan), alias=exp.TableAlias(this=_id(_ROWS)))
        shown = []
        for c, name, kind in zip_longest(self.plan.columns[: len(self.bound.names)], self.bound.names, casts):
            value: exp.Expr = _of_rows(c.name)
            if kind is not None:
                value = cast_to(Typed(value, c.type, c.nullable), kind)
            shown.append(exp.alias_(value, name, quoted=True))
        made = exp.select(*shown).from_(rows)
        if self.order:
            made.set("order", exp.Order(expressions=[term.copy() for term in self.order]))
        for key, cut in (("limit", self.limit), ("offset", self.offset)):
            if cut is not None:
                made.set(key, cut.copy())
        return made


def reading(tree: exp.Query, find_table: Callable[[str], Table | None], text: str) -> Reading | None:
    """A query by its plan, where that can be had."""
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        return None
    read: dict[str, Table] = {}

    def find(name: str) -> Table | None:
        table = find_table(name)
        if table is not None:
            read[table.name] = table
        return table

    body = tree.copy()
    ends = {key: body.args.pop(key, None) for key in _ENDS}
    try:
        bound = bind(body, find, text, needs_table=False)
    except ViewkeepError:  # it may be wrong, which the engine will tell, or more than a view can be
        return None
    order = _ordered(tree, bound, ends["order"])
    if order is None:
        return None
    plan = _by_ids(bound.plan) if any(map(_is_open, walk(bound.plan))) else _without_numbers(bound.plan)
    return Reading(bound, plan, tuple(read.values()), order, ends["limit"], ends["offset"])


def may_differ(tree: exp.Expr) -> bool:
    """Whether an engine may take a query or an expression otherwise than Spark does, or not at all."""
    return any(
        isinstance(node, _OTHERWISE)
        or (isinstance(node, exp.Func) and not isinstance(node, _ALIKE))
        or _is_only_sparks(node)
        for node in tree.walk()
    )


def _is_only_sparks(node: exp.Expr) -> bool:
    """Whether a part of a query is one that some engine does not have, or takes otherwise."""
    if isinstance(node, exp.Join):  # on Spark, the columns of USING come first in *
        shares = bool(node.args.get("using")) or node.method == "NATURAL"
        return shares or node.kind in ("SEMI", "ANTI") or node.side == "FULL"
    if isinstance(node, exp.Subquery):
        return isinstance(node.parent, (exp.From, exp.Join)) and not node.alias
    if isinstance(node, exp.In):  # rows, by a query that looks outside
        return isinstance(node.this, exp.Tuple)
    return bool(
        (isinstance(node, exp.Group) and node.args.get("all"))
        or (isinstance(node, exp.Star) and node.args.get("except_"))
    )


def _is_open(node: Node) -> bool:
    """Whether SQL leaves open which rows come first."""
    return isinstance(node, Limit) or (isinstance(node, Window) and node.ties)


def _by_ids(plan: Project) -> Node:
    """The plan with the IDs of its rows, which decide in a view what SQL leaves open."""
    return infer_ids(normalize(plan))


def _without_numbers(plan: Node) -> Node:
    """The plan over tables as they are: rows without a key are not numbered for whoever only reads them,
    unless the plan counts by these numbers."""
    numbers = {occurrence_of(n) for n in walk(plan) if is_bag(n)}
    used = {name for n in walk(plan) for e in expressions_of(n) for name in columns_of(e)}
    used |= {name for n in walk(plan) if isinstance(n, Window) for name in n.partition}
    return plan if numbers & used else rebuild(plan, lambda node: plain(node) if is_bag(node) else node)


def _ordered(tree: exp.Query, bound: Bound, order: exp.Expr | None) -> tuple[exp.Ordered, ...] | None:
    """ORDER BY over the columns of the result; None where it looks at anything else."""
    made = []
    for term in order.expressions if order is not None else ():
        if not isinstance(term, exp.Ordered) or (at := _place_of(term.this, tree, bound.names)) is None:
            return None
        moved = term.copy()
        moved.set("this", _of_rows(bound.plan.columns[at].name))
        made.append(moved)
    return tuple(made)


def _place_of(value: exp.Expr, tree: exp.Query, names: Sequence[str]) -> int | None:
    """Which column of the result a value is: by its number, its name, or as it is written there."""
    if isinstance(value, exp.Literal) and not value.is_string:
        return int(value.name) - 1 if value.is_int and 0 < int(value.name) <= len(names) else None
    if isinstance(value, exp.Column) and not value.table:
        named = [n for n, name in enumerate(names) if name.lower() == value.name.lower()]
        if len(named) == 1:
            return named[0]
    written = [entry.unalias() for entry in tree.selects]
    same = [n for n, entry in enumerate(written) if entry == value]
    return same[0] if same and len(written) == len(names) else None


def _of_rows(name: str) -> exp.Column:
    return exp.Column(this=_id(name), table=_id(_ROWS))


def _id(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
