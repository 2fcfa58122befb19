"""Window functions: each becomes a column of a Window operator, over a projection of what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Column, Item, Node, Order, Project, Window, passing
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.ordering import sort_key
from viewkeep.frontend.scope import NeedsDomain
from viewkeep.frontend.stages import Stage
from viewkeep.frontend.typed import Typed, mean

RANKS: Mapping[type[Expr], t.Type] = {
    exp.RowNumber: t.INT,
    exp.Rank: t.INT,
    exp.DenseRank: t.INT,
    exp.PercentRank: t.DOUBLE,
    exp.CumeDist: t.DOUBLE,
    exp.Ntile: t.INT,
}
_VALUES = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.First, exp.Last)
_AGGREGATES = (exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max)
# these depend on the order of rows that are equal in the window's order
_BY_POSITION = (exp.RowNumber, exp.Ntile, *_VALUES)


@dataclass(frozen=True)
class _Over:
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    frame: Expr | None
    ties: bool


class Windows:
    """The window functions of one SELECT, over its rows or groups. `named` are those of the WINDOW clause."""

    def __init__(self, binding: Binding, stage: Stage, named: Mapping[str, exp.Window]) -> None:
        self._binding = binding
        self._fail = binding.fail
        self._stage = stage
        self._named = named
        self._items: list[Item] = []
        self._calls: dict[_Over, list[Item]] = {}

    def lift(self, tree: Expr) -> Expr:
        """The expression with a column in place of each window function."""
        if isinstance(tree, exp.Window):
            return self._lifted(tree)
        if tree.find(exp.Window) is None:
            return tree
        made = tree.copy()
        for key, value in list(made.args.items()):
            if isinstance(value, exp.Expr):
                made.set(key, self.lift(value))
            elif isinstance(value, list):
                made.set(key, [self.lift(v) if isinstance(v, exp.Expr) else v for v in value])
        made.meta.update(tree.meta)
        return made

    def attach(self, node: Node, within: tuple[str, ...] | None = ()) -> Node:
        """The node with the columns that the window functions became. In a correlated subquery a partition is
        `within` some columns: WHERE, which looks at the outer row, comes before the window."""
        if self._calls and within is None:
            raise NeedsDomain
        if self._items:
            node = Project(node, (*passing(node, node.names).items, *self._items))
        for over, calls in self._calls.items():
            partition = tuple(dict.fromkeys((*(within or ()), *over.partition)))
            node = Window(node, partition, over.order, tuple(calls), over.frame, over.ties)
        return node

    def _lifted(self, tree: exp.Window) -> Expr:
        call = tree.this
        if isinstance(call, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
            raise self._fail(
                Unsupported, call, f"{call.key.upper()} in a window function is not supported",
                "use CASE in its argument, or filter in a derived table",
            )  # fmt: skip
        base = self._named.get(tree.alias.lower()) if tree.alias else None
        if tree.alias and base is None:
            raise self._fail(Unsupported, tree, f"there is no window {tree.alias}", "define it in WINDOW")
        whole = base if base is not None else tree
        partition = tuple(self._column(p) for p in whole.args.get("partition_by") or [])
        entries = whole.args["order"].expressions if whole.args.get("order") else []
        order = tuple(sort_key(entry, self._column(entry.this)) for entry in entries)
        frame = self._frame(whole.args.get("spec"), tree)
        by_rows = frame is not None and str(frame.args.get("kind")).upper() == "ROWS"
        over = _Over(partition, order, frame, isinstance(call, _BY_POSITION) or by_rows)
        return self._call(call, over)

    def _frame(self, spec: Expr | None, tree: Expr) -> Expr | None:
        if spec is None:
            return None
        for key in ("start", "end"):
            bound = spec.args.get(key)
            literal = isinstance(bound, exp.Literal) and bound.name.isdigit()
            if isinstance(bound, exp.Expr) and not literal:
                raise self._fail(
                    Unsupported, tree, "a frame has bounds that are whole numbers", "write them out"
                )
            if literal and str(spec.args.get("kind")).upper() != "ROWS":
                raise self._fail(
                    Unsupported, tree, "RANGE and GROUPS with offsets are not supported", "use ROWS"
                )
        if spec.args.get("exclude"):
            raise self._fail(Unsupported, tree, "EXCLUDE in a frame is not supported", "leave it out")
        return spec.copy()

    def _column(self, tree: Expr) -> str:
        """The plan column of an expression, computed below the window where it is not one already."""
        return self._computed(self._stage.finish(tree)).name

    def _computed(self, typed: Typed) -> Column:
        bare = typed.expression.unnest()
        if isinstance(bare, exp.Column):
            return Column(bare.name, typed.type, typed.nullable)
        for item in self._items:
            if item.expression == typed.expression:
                return item.column
        made = self._binding.item("w", typed)
        self._items.append(made)
        return made.column

    def _call(self, call: Expr, over: _Over) -> Expr:
        if type(call) in RANKS:
            made = type(call)(this=call.this.copy()) if isinstance(call, exp.Ntile) else type(call)()
            if not over.order:
                raise self._fail(
                    Unsupported, call, f"{call.sql('spark')} needs an order", "OVER (ORDER BY ...)"
                )
            return self._kept(made, RANKS[type(call)], over, nullable=False)
        if isinstance(call, _VALUES):
            return self._by_position(call, over)
        if isinstance(call, _AGGREGATES):
            return self._aggregate(call, over)
        raise self._fail(
            Unsupported, call, f"{call.sql('spark')} is not supported as a window function",
            "use a ranking function, LAG, LEAD, FIRST_VALUE, LAST_VALUE, SUM, COUNT, AVG, MIN or MAX",
        )  # fmt: skip

    def _by_position(self, call: Expr, over: _Over) -> Expr:
        if not over.order:
            raise self._fail(Unsupported, call, f"{call.sql('spark')} needs an order", "OVER (ORDER BY ...)")
        given = self._computed(self._stage.finish(call.this))
        synonyms: dict[type[Expr], type[Expr]] = {exp.First: exp.FirstValue, exp.Last: exp.LastValue}
        kind = synonyms.get(type(call), type(call))
        made = kind(this=column(given.name))
        if isinstance(call, (exp.Lag, exp.Lead, exp.NthValue)):
            offset = call.args.get("offset")
            if offset is not None and not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
                raise self._fail(Unsupported, call, "an offset is a whole number", "write it out")
            if offset is not None:
                made.set("offset", offset.copy())
            default = call.args.get("default")
            if default is not None:
                typed = self._stage.finish(default)
                if t.widest(typed.type, given.type) != given.type and typed.type != t.NULL:
                    raise self._fail(
                        TypeMismatch, call, f"the default is {typed.type} and the value {given.type}",
                        "use CAST on the default",
                    )  # fmt: skip
                made.set("default", exp.Cast(this=typed.expression, to=given.type.sql()))
        return self._kept(made, given.type, over)

    def _aggregate(self, call: Expr, over: _Over) -> Expr:
        if call.find(exp.Distinct) or call.expressions:
            raise self._fail(
                Unsupported, call, "DISTINCT in a window function is not supported", "aggregate, then join"
            )
        if isinstance(call, exp.Count) and isinstance(call.this, (exp.Star, exp.Literal)):
            return self._kept(exp.Count(this=exp.Star()), t.BIGINT, over, nullable=False)
        given = self._computed(self._stage.finish(call.this))
        value = column(given.name)
        if isinstance(call, exp.Count):
            return self._kept(exp.Count(this=value), t.BIGINT, over, nullable=False)
        if isinstance(call, (exp.Min, exp.Max)):
            return self._kept(type(call)(this=value), given.type, over)
        if not given.type.is_numeric:
            raise self._fail(
                TypeMismatch, call, f"{call.key.upper()} needs a number, not {given.type}", "use CAST"
            )
        total = self._kept(exp.Sum(this=value), t.sum_type(given.type), over)
        if isinstance(call, exp.Sum):
            return total
        count = self._kept(exp.Count(this=value.copy()), t.BIGINT, over, nullable=False)
        return mean(given.type, total, count)

    def _kept(self, call: Expr, kind: t.Type, over: _Over, nullable: bool = True) -> Expr:
        for item in self._calls.get(over, []):
            if item.expression == call:
                return self._stage.add(item.column)
        made = Column(self._binding.fresh(call.key), kind, nullable)
        self._calls.setdefault(over, []).append(Item(made, call))
        return self._stage.add(made)
