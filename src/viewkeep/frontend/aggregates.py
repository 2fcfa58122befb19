"""Aggregate functions: what a group keeps for each, and how SQL's value is finished from that."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Column, Function, Item, Measure
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.scope import Scope
from viewkeep.frontend.typed import Typed, mean

AGGREGATES = (
    exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.LogicalAnd, exp.LogicalOr,
    exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Median,
    exp.CovarPop, exp.CovarSamp, exp.Corr, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat,
)  # fmt: skip
COUNTS = (exp.Count, exp.CountIf)  # 0 over no rows, where all others are NULL
# functions of numbers that are computed anew for the groups that change; their value is a double
_OF_NUMBERS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Median)
_OF_PAIRS = (exp.CovarPop, exp.CovarSamp, exp.Corr)


class Aggregates:
    """The aggregates of one SELECT: what they look at (`inputs`) and what is kept for them (`measures`)."""

    def __init__(self, binding: Binding, scope: Scope) -> None:
        self._fail = binding.fail
        self._fresh = binding.fresh
        self._item = binding.item
        self._scope = scope
        self._measures: dict[tuple[str, str | None], Measure] = {}
        self.inputs: list[Item] = []
        self._rows = self._measure("rows", None, t.BIGINT, "n")

    @property
    def measures(self) -> Sequence[Measure]:
        return tuple(self._measures.values())

    def input(self, typed: Typed, wanted: str) -> Column:
        """The column that a typed expression becomes below the aggregate."""
        typed = self._scope.own(typed)
        for item in self.inputs:
            if item.expression == typed.expression:
                return item.column
        item = self._item(wanted, typed)
        self.inputs.append(item)
        return item.column

    def finished(self, node: Expr) -> Expr:
        """An aggregate from what is kept: SQL's SUM and AVG over no non-null value are NULL."""
        if isinstance(node, exp.Filter):
            return self.finished(_filtered(node))
        if node.find(exp.Distinct):
            return self._of_distinct(node)
        if isinstance(node, exp.CountIf):
            one = exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))])
            return self.finished(exp.Count(this=one))
        if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
            return self._of_truth(node)
        if isinstance(node, (*_OF_NUMBERS, *_OF_PAIRS)):
            return self._of_numbers(node)
        if isinstance(node, (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat)):
            raise self._fail(
                Unsupported,
                node,
                f"{node.key.upper()} is not supported yet",
                "aggregate when you read the view",
            )
        if node.expressions:
            raise self._fail(Unsupported, node, f"{node.key.upper()} takes one argument", "use one column")
        argument = node.this
        if argument is None:
            raise self._fail(Unsupported, node, f"{node.key.upper()} needs an argument", "COUNT(*)")
        if isinstance(node, exp.Count) and isinstance(argument, (exp.Star, exp.Literal)):
            return column(self._rows.name)
        if list(aggregates_in(argument)):
            raise self._fail(
                Unsupported, node, "an aggregate of an aggregate", "aggregate in a derived table"
            )
        typed = self._scope.typing.type(argument)
        if isinstance(node, exp.Count):
            return column(self._values(self.input(typed, "value")).name)
        if isinstance(node, (exp.Min, exp.Max)):
            given = self.input(typed, "value")
            function: Function = "min" if isinstance(node, exp.Min) else "max"
            kept = self._measure(function, given.name, given.type, f"{given.name}_{function}", nullable=True)
            return column(kept.name)
        if not typed.type.is_numeric:
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs a number, not {typed.type}", "use CAST"
            )
        given = self.input(typed, "value")
        values, total = self._values(given), self._sum(given)
        if isinstance(node, exp.Avg):
            return self._mean(typed.type, total, values)
        some = exp.GT(this=column(values.name), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=column(total.name))])

    def _of_distinct(self, node: Expr) -> Expr:
        """An aggregate of distinct values, computed anew for groups that change."""
        if isinstance(node, (exp.Min, exp.Max)):  # which value is extreme does not depend on how often it is
            return self.finished(type(node)(this=node.this.expressions[0]))
        if not isinstance(node, (exp.Count, exp.Sum, exp.Avg)) or not isinstance(node.this, exp.Distinct):
            raise self._fail(Unsupported, node, f"DISTINCT in {node.key.upper()}", "use COUNT, SUM or AVG")
        typed = [self._scope.typing.type(e) for e in node.this.expressions]
        given = [self.input(one, "value") for one in typed]
        if isinstance(node, exp.Count):
            value: Expr = column(given[0].name)
            if len(given) > 1:  # a row with a null among them does not count
                value = exp.Case(
                    ifs=[exp.If(this=_none_is_null(given),
                                true=exp.Struct(expressions=[
                                    exp.PropertyEQ(this=exp.to_identifier(f"f{n}"), expression=column(c.name))
                                    for n, c in enumerate(given)
                                ]))]
                )  # fmt: skip
            call = exp.Count(this=exp.Distinct(expressions=[value]))
            return column(self._anew(call, t.BIGINT, "distinct_count", nullable=False).name)
        if len(given) > 1 or not given[0].type.is_numeric:
            raise self._fail(TypeMismatch, node, f"{node.key.upper()} needs one number", "use CAST")
        distinct = exp.Distinct(expressions=[column(given[0].name)])
        kind = t.sum_type(given[0].type)
        total = self._anew(exp.Sum(this=distinct), kind, "distinct_sum")
        if isinstance(node, exp.Sum):
            return column(total.name)
        count = self._anew(exp.Count(this=distinct.copy()), t.BIGINT, "distinct_count", nullable=False)
        return self._mean(given[0].type, total, count)

    def _of_truth(self, node: Expr) -> Expr:
        """bool_and, bool_or: from how many values there are, and how many are true."""
        typed = self._scope.typing.type(node.this)
        if typed.type not in (t.BOOLEAN, t.NULL):
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs true or false, not {typed.type}", "compare it"
            )
        wanted: Expr = node.this.copy()
        if isinstance(node, exp.LogicalAnd):
            wanted = exp.Not(this=exp.Paren(this=wanted))
        met = self.finished(exp.CountIf(this=wanted))
        known = self.finished(exp.Count(this=node.this.copy()))
        zero = exp.Literal.number(0)
        kind = exp.EQ if isinstance(node, exp.LogicalAnd) else exp.GT
        some = exp.GT(this=known, expression=zero)
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=some, true=kind(this=met, expression=zero.copy()))]))

    def _of_numbers(self, node: Expr) -> Expr:
        parts = [node.this, node.expression] if isinstance(node, _OF_PAIRS) else [node.this]
        doubles: list[Expr] = []
        for part in parts:
            typed = self._scope.typing.type(part)
            if not typed.type.is_numeric:
                raise self._fail(
                    TypeMismatch, node, f"{node.key.upper()} needs a number, not {typed.type}", "use CAST"
                )
            given = self.input(typed, "value")
            doubles.append(exp.Cast(this=column(given.name), to=t.DOUBLE.sql()))
        call = type(node)(this=doubles[0])
        if len(doubles) > 1:
            call.set("expression", doubles[1])
        return column(self._anew(call, t.DOUBLE, node.key).name)

    def _anew(self, call: Expr, kind: t.Type, wanted: str, nullable: bool = True) -> Measure:
        """A measure that is computed anew for the groups that change."""
        key = ("any", call.sql())
        if key not in self._measures:
            made = Column(self._fresh(wanted), kind, nullable)
            cast = exp.Cast(this=call, to=kind.sql())
            self._measures[key] = Measure(made, "any", None, cast)
        return self._measures[key]

    def _mean(self, kind: t.Type, total: Measure, count: Measure) -> Expr:
        return mean(kind, column(total.name), column(count.name))

    def _values(self, argument: Column) -> Measure:
        """How many non-null values; for a column that is never null, how many rows."""
        if not argument.nullable:
            return self._rows
        return self._measure("count", argument.name, t.BIGINT, f"{argument.name}_count")

    def _sum(self, argument: Column) -> Measure:
        kind = t.sum_type(argument.type)
        total = self._measure("sum", argument.name, kind, f"{argument.name}_sum")
        if kind == t.DOUBLE:
            self._measure("mass", argument.name, t.DOUBLE, f"{argument.name}_mass")
            self._measure("magnitude", argument.name, t.DOUBLE, f"{argument.name}_magnitude")
        return total

    def _measure(
        self, function: Function, argument: str | None, kind: t.Type, wanted: str, nullable: bool = False
    ) -> Measure:
        found = self._measures.get((function, argument))
        if found is None:
            made = Column(self._fresh(wanted), kind, nullable)
            found = Measure(made, function, argument)
            self._measures[function, argument] = found
        return found


def aggregates_in(tree: Expr) -> list[Expr]:
    """The aggregates of an expression; window functions and what is inside subqueries are none."""
    found: list[Expr] = []

    def look(node: Expr) -> None:
        if isinstance(node, exp.Query):
            return
        if isinstance(node, AGGREGATES):
            found.append(node)
            return
        for child in node.iter_expressions():
            if not (isinstance(node, exp.Window) and child is node.this):
                look(child)
            elif isinstance(child, AGGREGATES):
                for inner in child.iter_expressions():
                    look(inner)

    look(tree)
    return found


def _filtered(node: exp.Filter) -> Expr:
    """agg(x) FILTER (WHERE c) as agg(CASE WHEN c THEN x END): aggregates do not see nulls."""
    call: Expr = node.this.copy()
    condition = node.expression.this

    def kept(value: Expr) -> Expr:
        return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])

    if isinstance(call, exp.Count) and isinstance(call.this, (exp.Star, exp.Literal)):
        return exp.Count(this=kept(exp.Literal.number(1)))
    if isinstance(call.this, exp.Distinct):
        parts = call.this.expressions
        call.this.set("expressions", [kept(parts[0]), *parts[1:]])
    elif isinstance(call, exp.CountIf):
        return exp.CountIf(
            this=exp.And(this=exp.Paren(this=condition.copy()), expression=exp.Paren(this=call.this))
        )
    else:
        call.set("this", kept(call.this))
    return call


def _none_is_null(columns: list[Column]) -> Expr:
    terms: Expr = exp.true()
    for c in columns:
        there = exp.Not(this=exp.Paren(this=exp.Is(this=column(c.name), expression=exp.Null())))
        terms = exp.And(this=terms, expression=there)
    return terms
