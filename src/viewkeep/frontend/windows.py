"""Window functions: each becomes a column of a Window operator, over a projection of what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, over_parts
from viewkeep.algebra.nodes import Column, Item, Node, Order, Project, Window, passing
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.expressions.dates import interval
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
_DOUBLES = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop)
_TRUTH = (exp.LogicalAnd, exp.LogicalOr)
_UNITS = {"timestamp": ("MONTH", "DAY", "HOUR", "MINUTE", "SECOND")}
# these look at the rows of a frame one by one; LAG and LEAD at those of the partition
_IN_FRAME = (exp.FirstValue, exp.LastValue, exp.NthValue, exp.First, exp.Last)
# these depend on the order of rows that are equal in the window's order
_BY_POSITION = (exp.RowNumber, exp.Ntile, *_VALUES)


@dataclass(frozen=True)
class _Over:
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    frame: Expr | None
    ties: bool
    ignores_nulls: bool = False
    after: _Over | None = None
    """The window whose results this one reads."""


def _range_of(frame: Expr | None) -> tuple[str, str] | None:
    """Where a frame by RANGE begins and ends; by default it begins with the partition, and ends with the rows
    that are equal to the current one in the window's order."""
    if frame is None:
        return "UNBOUNDED", "CURRENT ROW"
    if str(frame.args.get("kind")).upper() != "RANGE":
        return None
    return str(frame.args.get("start")).upper(), str(frame.args.get("end") or "CURRENT ROW").upper()


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
        return over_parts(tree, self.lift)

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
        call = tree.this.this if isinstance(tree.this, exp.RespectNulls) else tree.this
        ignores_nulls = isinstance(call, exp.IgnoreNulls)
        if ignores_nulls:
            call = call.this
        if isinstance(call, exp.Filter) or (ignores_nulls and not isinstance(call, _VALUES)):
            raise self._fail(
                Unsupported, call, f"{tree.this.key.upper()} in this window function is not supported",
                "use CASE in its argument, or filter in a derived table",
            )  # fmt: skip
        whole = self._whole(tree)
        partition = tuple(self._column(p).name for p in whole.args.get("partition_by") or [])
        entries = whole.args["order"].expressions if whole.args.get("order") else []
        sorts = [self._column(entry.this) for entry in entries]
        order = tuple(sort_key(entry, c.name) for entry, c in zip(entries, sorts, strict=True))
        frame = self._frame(whole.args.get("spec"), sorts, tree)
        by_rows = frame is not None and str(frame.args.get("kind")).upper() == "ROWS"
        over = _Over(partition, order, frame, isinstance(call, _BY_POSITION) or by_rows, ignores_nulls)
        return self._call(call, over)

    def _whole(self, tree: exp.Window) -> exp.Window:
        """The window that says all: the one that is named, which may name another one before it."""
        seen: set[str] = set()
        while tree.alias:
            if any(tree.args.get(key) for key in ("partition_by", "order", "spec")):
                raise self._fail(
                    Unsupported, tree, f"a window that adds to {tree.alias} is not supported",
                    "write the whole of it",
                )  # fmt: skip
            name = tree.alias.lower()
            if name not in self._named or name in seen:
                raise self._fail(Unsupported, tree, f"there is no window {tree.alias}", "define it in WINDOW")
            seen.add(name)
            tree = self._named[name]
        return tree

    def _frame(self, spec: Expr | None, sorts: Sequence[Column], tree: Expr) -> Expr | None:
        if spec is None:
            return None
        made = spec.copy()
        kind = str(spec.args.get("kind")).upper()
        for key in ("start", "end"):
            bound = spec.args.get(key)
            if not isinstance(bound, exp.Expr):  # UNBOUNDED, CURRENT ROW
                continue
            number = int(bound.name) if isinstance(bound, exp.Literal) and bound.name.isdigit() else None
            if kind == "ROWS" and number is not None:
                continue
            distance = self._distance(bound, number, sorts) if kind == "RANGE" else None
            if distance is None:
                raise self._fail(
                    Unsupported, tree, f"this bound of a {kind} frame is not supported",
                    "ROWS with whole numbers; RANGE with one for an integer, or an INTERVAL for a date",
                )  # fmt: skip
            made.set(key, distance)
        if spec.args.get("exclude"):
            raise self._fail(Unsupported, tree, "EXCLUDE in a frame is not supported", "leave it out")
        return made

    def _distance(self, bound: Expr, number: int | None, sorts: Sequence[Column]) -> Expr | None:
        """How far a RANGE goes from the one column that it is ordered by; None where it makes no sense."""
        if len(sorts) != 1:
            return None
        kind = sorts[0].type
        if number is not None and kind.is_integer:
            return bound.copy()
        unit, count = interval(bound) if isinstance(bound, exp.Interval) else ("", 0)
        if number is not None and kind == t.DATE:
            unit, count = "DAY", number
        if count < 0 or unit not in (("MONTH", "DAY") if kind == t.DATE else _UNITS.get(kind.kind, ())):
            return None
        return exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this=unit))

    def _column(self, tree: Expr) -> Column:
        """The plan column of an expression, computed below the window where it is not one already."""
        return self._computed(self._stage.finish(tree))

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
        if isinstance(call, exp.CountIf):
            call = exp.Count(this=exp.Case(ifs=[exp.If(this=call.this, true=exp.Literal.number(1))]))
        if isinstance(call, (*_AGGREGATES, *_DOUBLES, *_TRUTH)):
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
        if over.ignores_nulls:
            made = exp.IgnoreNulls(this=made)
        found = self._kept(made, given.type, over)
        return self._of_peers(call, found, given.type, over) if isinstance(call, _IN_FRAME) else found

    def _of_peers(self, call: Expr, found: Expr, kind: t.Type, over: _Over) -> Expr:
        """A frame by RANGE that ends or begins at the current row has all rows that are equal to it in the
        window's order: they have one result, that of the last or first of them. Told apart by their IDs, of
        (0), (0) only the second would have a second value."""
        bounds = _range_of(over.frame)
        if bounds is None or bounds == ("UNBOUNDED", "UNBOUNDED"):
            return found
        if bounds not in (("UNBOUNDED", "CURRENT ROW"), ("CURRENT ROW", "UNBOUNDED")):
            raise self._fail(
                Unsupported, call, f"{call.sql('spark')} over a part of the rows by RANGE is not supported",
                "use ROWS, or an aggregate",
            )  # fmt: skip
        peers = (*over.partition, *(key.column for key in over.order))
        everything = exp.WindowSpec(
            kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
        )
        whole = _Over(tuple(dict.fromkeys(peers)), over.order, everything, ties=True, after=over)
        one = exp.LastValue if bounds[1] == "CURRENT ROW" else exp.FirstValue
        return self._kept(one(this=column(found.name)), kind, whole)

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
        if isinstance(call, _TRUTH) and given.type == t.BOOLEAN:
            return self._kept(type(call)(this=value), t.BOOLEAN, over)
        if not given.type.is_numeric:
            raise self._fail(
                TypeMismatch, call, f"{call.key.upper()} needs a number, not {given.type}", "use CAST"
            )
        if isinstance(call, _DOUBLES):
            double = exp.Cast(this=value, to=t.DOUBLE.sql())
            return self._kept(type(call)(this=double), t.DOUBLE, over)
        total = self._kept(exp.Sum(this=value), t.sum_type(given.type), over)
        if isinstance(call, exp.Sum):
            return total
        count = self._kept(exp.Count(this=value.copy()), t.BIGINT, over, nullable=False)
        return mean(given.type, total, count)

    def _kept(self, call: Expr, kind: t.Type, over: _Over, nullable: bool = True) -> Expr:
        for item in self._calls.get(over, []):
            if item.expression == call:
                return self._stage.add(item.column)
        bare = call.this if isinstance(call, exp.IgnoreNulls) else call
        made = Column(self._binding.fresh(bare.key), kind, nullable)
        self._calls.setdefault(over, []).append(Item(made, call))
        return self._stage.add(made)
