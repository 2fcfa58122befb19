"""GROUP BY and aggregates: what a group keeps, and the SELECT list over it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, columns_of, substitute
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Constant,
    Function,
    Item,
    Join,
    Measure,
    Node,
    Project,
)
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.scope import Fail, PlanTyping, Scope, bound
from viewkeep.frontend.typing import Typed, decimal_quotient

AGGREGATES = (
    exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max, exp.CountIf, exp.LogicalAnd, exp.LogicalOr,
    exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Median,
    exp.CovarPop, exp.CovarSamp, exp.Corr, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat,
)  # fmt: skip
# functions of numbers that are computed anew for the groups that change; their value is a double
_OF_NUMBERS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Median)
_OF_PAIRS = (exp.CovarPop, exp.CovarSamp, exp.Corr)


class Grouping:
    """Collects the keys and measures of one GROUP BY, and rewrites expressions over them."""

    def __init__(
        self,
        scope: Scope,
        node: Node,
        fail: Fail,
        fresh: Callable[[str], str],
        item: Callable[[str, Typed], tuple[str, Item]],
    ) -> None:
        """`fresh` and `item` make plan names and projection items that are not taken yet."""
        self._fail = fail
        self._fresh = fresh
        self._item = item
        self._scope = scope
        self._node = node
        self._inputs: list[Item] = []
        self._keys: dict[Expr, Column] = {}
        self._measures: dict[tuple[str, str | None], Measure] = {}
        self._others: dict[str, Column] = {}
        self._rows = self._measure("rows", None, t.BIGINT, "n")
        self._entries: list[Expr] = []
        self._set_of: tuple[str, list[list[int]]] = ("", [])

    def key(self, entry: Expr) -> None:
        """A grouping expression."""
        resolved = self._scope.resolve(entry)
        if resolved in self._keys:
            return
        typed = self._scope.typing.type(resolved)
        self._keys[resolved] = self._input(typed, entry.name or "key")

    def own_key(self, tree: Expr) -> Column:
        """A grouping expression over plan columns, that the SELECT list does not name."""
        if tree not in self._keys:
            self._keys[tree] = self._input(self._scope.typing.type(tree), "key")
        return self._keys[tree]

    def sets(self, entries: list[Expr], sets: list[list[int]]) -> None:
        """GROUPING SETS: every row once for each set, with the keys that are not in the set null.

        The number of the set is a key of its own, or a null in the data would join the total.
        """
        number = Column(self._fresh("grouping_set"), t.INT, nullable=False)
        self._node = Join(self._node, Constant(number, tuple(range(len(sets)))), None)
        self._scope.add(number)
        self._set_of = number.name, sets
        for at, entry in enumerate(entries):
            resolved = self._scope.resolve(entry)
            self._entries.append(resolved)
            if resolved in self._keys:
                continue
            typed = self._scope.typing.type(resolved)
            here = [n for n, members in enumerate(sets) if at in members]
            shown = exp.Case(ifs=[exp.If(this=_among(number.name, here), true=typed.expression)])
            self._keys[resolved] = self._input(Typed(shown, typed.type, True), entry.name or "key")
        self._keys[column(number.name)] = self._input(Typed(column(number.name), t.INT, False), number.name)

    def _grouping(self, node: Expr) -> Expr:
        """GROUPING(key): 1 where the row is a total over the key; GROUPING_ID: all of them as bits."""
        name, sets = self._set_of
        entries = node.expressions or self._entries
        total: Expr | None = None
        for position, entry in enumerate(reversed(entries)):
            at = next((n for n, e in enumerate(self._entries) if e == entry), None)
            if at is None:
                raise self._fail(Unsupported, node, "GROUPING takes a grouping column", "name one of them")
            aggregated = [n for n, members in enumerate(sets) if at not in members]
            bit = exp.Case(
                ifs=[exp.If(this=_among(self._keys[column(name)].name, aggregated),
                            true=exp.Literal.number(2**position))],
                default=exp.Literal.number(0),
            )  # fmt: skip
            total = bit if total is None else exp.Add(this=total, expression=bit)
        assert total is not None
        kind = t.TINYINT if isinstance(node, exp.Grouping) else t.BIGINT
        return exp.Cast(this=exp.Paren(this=total), to=kind.sql())

    def add(self, made: Column) -> exp.Column:
        """A column that is joined to the groups; a reference to it."""
        self._others[made.name] = made
        return bound(made.name)

    def rewrite(self, resolved: Expr) -> Expr:
        """An expression over the input, over keys and measures instead."""
        return self._rewrite(resolved)

    def empty(self, tree: Expr) -> Expr | None:
        """What an expression of the SELECT list is over no rows; None where that is NULL anyway."""
        if not any(isinstance(a, (exp.Count, exp.CountIf)) for a in aggregates_in(tree)):
            return None
        nothing: dict[str, Expr] = {}
        for m in self._measures.values():
            zero: Expr = exp.Literal.number(0) if m.is_additive or not m.column.nullable else exp.Null()
            nothing[m.name] = exp.Cast(this=zero, to=m.column.type.sql())
        made = substitute(self.finish(tree).expression, nothing)
        return None if columns_of(made) else exp.Paren(this=made)

    def aggregate(self) -> Aggregate:
        """The operator, over a projection of what it needs."""
        below = Project(self._node, tuple(self._inputs))
        keys = tuple(c.name for c in self._keys.values())
        return Aggregate(below, keys, tuple(self._measures.values()))

    def finish(self, tree: Expr) -> Typed:
        """An expression of the SELECT list, over keys and measures."""
        made = self._rewrite(self._scope.resolve(tree))
        columns = {c.name: c for c in self._keys.values()}
        columns.update({m.name: m.column for m in self._measures.values()})
        columns.update(self._others)

        def column_type(name: str) -> tuple[t.Type, bool]:
            if name not in columns:
                raise self._fail(
                    Unsupported, tree,
                    f"{tree.sql('spark')} is neither grouped nor aggregated",
                    "add it to GROUP BY, or wrap it in SUM, COUNT or AVG",
                )  # fmt: skip
            return columns[name].type, columns[name].nullable

        typing = PlanTyping(column_type, self._fail)
        return typing.type(made)

    def _rewrite(self, node: Expr) -> Expr:
        if node in self._keys:
            grouped = column(self._keys[node].name)
            grouped.meta.update(node.meta)
            return grouped
        if isinstance(node, exp.Filter):
            return self._finished(_filtered(node))
        if isinstance(node, AGGREGATES):
            return self._finished(node)
        if self._set_of[1] and isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping(node)
        made = node.copy()
        for key, value in list(made.args.items()):
            if isinstance(value, exp.Expr):
                made.set(key, self._rewrite(value))
            elif isinstance(value, list):
                made.set(
                    key,
                    [self._rewrite(v) if isinstance(v, exp.Expr) else v for v in value],
                )
        return made

    def _finished(self, node: Expr) -> Expr:
        """An aggregate from what is kept: SQL's SUM and AVG over no non-null value are NULL."""
        if node.find(exp.Distinct):
            return self._of_distinct(node)
        if isinstance(node, exp.CountIf):
            one = exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))])
            return self._finished(exp.Count(this=one))
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
            return column(self._values(self._input(typed, "value")).name)
        if isinstance(node, (exp.Min, exp.Max)):
            given = self._input(typed, "value")
            function: Function = "min" if isinstance(node, exp.Min) else "max"
            kept = self._measure(function, given.name, given.type, f"{given.name}_{function}", nullable=True)
            return column(kept.name)
        if not typed.type.is_numeric:
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs a number, not {typed.type}", "use CAST"
            )
        given = self._input(typed, "value")
        values, total = self._values(given), self._sum(given)
        if isinstance(node, exp.Avg):
            return self._quotient(typed.type, total, values)
        some = exp.GT(this=column(values.name), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=column(total.name))])

    def _of_distinct(self, node: Expr) -> Expr:
        """An aggregate of distinct values, computed anew for groups that change."""
        if isinstance(node, (exp.Min, exp.Max)):  # which value is extreme does not depend on how often it is
            return self._finished(type(node)(this=node.this.expressions[0]))
        if not isinstance(node, (exp.Count, exp.Sum, exp.Avg)) or not isinstance(node.this, exp.Distinct):
            raise self._fail(Unsupported, node, f"DISTINCT in {node.key.upper()}", "use COUNT, SUM or AVG")
        typed = [self._scope.typing.type(e) for e in node.this.expressions]
        given = [self._input(one, "value") for one in typed]
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
        return self._quotient(given[0].type, total, count)

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
        met = self._finished(exp.CountIf(this=wanted))
        known = self._finished(exp.Count(this=node.this.copy()))
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
            given = self._input(typed, "value")
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

    def _quotient(self, kind: t.Type, total: Measure, values: Measure) -> Expr:
        """A mean, from a sum and how many values there are."""
        if kind.kind == "decimal":
            result = decimal_quotient(
                column(total.name), total.column.type, column(values.name), t.BIGINT, t.avg_type(kind)
            )
        else:
            double = t.DOUBLE.sql()
            result = exp.Div(
                this=exp.Cast(this=column(total.name), to=double),
                expression=exp.Cast(this=column(values.name), to=double),
            )
        some = exp.GT(this=column(values.name), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=result)])

    def _input(self, typed: Typed, wanted: str) -> Column:
        for item in self._inputs:
            if item.expression == typed.expression:
                return item.column
        _, item = self._item(wanted, typed)
        self._inputs.append(item)
        return item.column

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


def _among(name: str, numbers: list[int]) -> Expr:
    if not numbers:
        return exp.false()
    return exp.In(this=column(name), expressions=[exp.Literal.number(n) for n in numbers])


def _none_is_null(columns: list[Column]) -> Expr:
    terms: Expr = exp.true()
    for c in columns:
        there = exp.Not(this=exp.Paren(this=exp.Is(this=column(c.name), expression=exp.Null())))
        terms = exp.And(this=terms, expression=there)
    return terms
