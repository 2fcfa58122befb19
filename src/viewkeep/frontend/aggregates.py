"""Aggregate functions: what a group keeps for each, and how SQL's value is finished from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Column, Function, Item, Measure
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.ordering import sort_key
from viewkeep.frontend.scope import Scope
from viewkeep.frontend.typed import Typed, made_call, mean, said

# a mark on SUM in COALESCE(SUM(x), 0): whether there is a value need not be kept for it
OR_ZERO = "or_zero"
COUNTS = (exp.Count, exp.CountIf, exp.RegrCount)
COLLECTED = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_EXTREMES = (exp.Min, exp.Max, exp.AnyValue)
_BY_OTHER = (exp.ArgMax, exp.ArgMin)
_OF_BITS = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)
# functions of numbers that are computed anew for the groups that change; their value is a double
_OF_NUMBERS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Median)
_OF_PAIRS = (
    exp.CovarPop, exp.CovarSamp, exp.Corr, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy,
    exp.RegrSlope, exp.RegrIntercept, exp.RegrR2,
)  # fmt: skip
_REFUSED: Mapping[type[Expr], tuple[str, str]] = {
    exp.First: ("which row is the first is left open", "use MIN_BY(x, column), or ANY_VALUE(x)"),
    exp.FirstValue: ("which row is the first is left open", "use MIN_BY(x, column), or ANY_VALUE(x)"),
    exp.Last: ("which row is the last is left open", "use MAX_BY(x, column)"),
    exp.LastValue: ("which row is the last is left open", "use MAX_BY(x, column)"),
    exp.ApproxDistinct: ("an approximate count depends on the engine", "use COUNT(DISTINCT x)"),
    exp.ApproxQuantile: ("an approximate percentile depends on the engine", "use PERCENTILE(x, p)"),
    exp.Skewness: ("SKEWNESS is not supported", "keep sums of x, x * x and x * x * x, and a count"),
    exp.Kurtosis: ("KURTOSIS is not supported", "keep sums of the powers of x, and a count"),
}
AGGREGATES: tuple[type[Expr], ...] = (
    exp.Sum, exp.Avg, exp.LogicalAnd, exp.LogicalOr, exp.GroupConcat, exp.Mode, exp.Quantile, exp.WithinGroup,
    *COUNTS, *COLLECTED, *_EXTREMES, *_BY_OTHER, *_OF_BITS, *_OF_NUMBERS, *_OF_PAIRS, *_REFUSED,
)  # fmt: skip
# names of aggregates that sqlglot has no class for
_SYNONYMS: Mapping[str, type[Expr]] = {
    "every": exp.LogicalAnd,
    "some": exp.LogicalOr,
    "std": exp.Stddev,
}


def canonical(tree: Expr) -> Expr:
    """The query with sqlglot's class for each aggregate that it knows under another name."""

    def swap(node: Expr) -> Expr:
        kind = _SYNONYMS.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
        if kind is None or len(node.expressions) != 1:
            return node
        made = kind(this=node.expressions[0])
        made.meta.update(node.meta)
        return made

    return tree.transform(swap)


class Aggregates:
    """The aggregates of one SELECT: what they look at (`inputs`) and what is kept for them (`measures`)."""

    def __init__(self, binding: Binding, scope: Scope) -> None:
        self._binding = binding
        self._fail = binding.fail
        self._fresh = binding.fresh
        self._item = binding.item
        self._scope = scope
        self._measures: dict[tuple[str, str | None], Measure] = {}
        self._inputs: dict[Expr, Item] = {}
        self._rows = self._measure("rows", None, t.BIGINT, "n")

    @property
    def inputs(self) -> Sequence[Item]:
        return tuple(self._inputs.values())

    @property
    def measures(self) -> Sequence[Measure]:
        return tuple(self._measures.values())

    def input(self, typed: Typed, wanted: str) -> Column:
        """The column that a typed expression becomes below the aggregate."""
        typed = self._scope.own(typed)
        found = self._inputs.get(typed.expression)
        if found is None:
            found = self._inputs[typed.expression] = self._item(wanted, typed)
        return found.column

    def finished(self, node: Expr) -> Expr:
        """An aggregate from what is kept."""
        if isinstance(node, exp.Filter):
            return self.finished(_filtered(node))
        self._check(node)
        for kinds, finish in (
            (COLLECTED, self._collected),
            (exp.GroupConcat, self._joined),
            ((exp.Quantile, exp.WithinGroup), self._percentile),
            (_BY_OTHER, self._by_other),
            (exp.Mode, self._mode),
        ):
            if isinstance(node, kinds):
                return finish(node)
        if node.find(exp.Distinct):
            return self._of_distinct(node)
        if isinstance(node, exp.CountIf):
            return self.finished(exp.Count(this=_where(node.this, exp.Literal.number(1))))
        if isinstance(node, exp.RegrCount):
            return self.finished(exp.Count(this=_where(_known(node.expression), node.this.copy())))
        if isinstance(node, (exp.LogicalAnd, exp.LogicalOr)):
            return self._of_truth(node)
        if isinstance(node, (*_OF_NUMBERS, *_OF_PAIRS)):
            return self._of_numbers(node)
        if isinstance(node, exp.Count) and isinstance(node.this, (exp.Star, exp.Literal)):
            return column(self._rows.name)
        return self._of_value(node)

    def _check(self, node: Expr) -> None:
        if type(node) in _REFUSED:
            raise self._fail(Unsupported, node, *_REFUSED[type(node)])
        if any(aggregates_in(part) for part in node.iter_expressions()):
            raise self._fail(
                Unsupported, node, "an aggregate of an aggregate", "aggregate in a derived table"
            )
        name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
        paired = isinstance(node, (*_OF_PAIRS, *_BY_OTHER, exp.RegrCount))
        if node.args.get("this") is None or (paired and node.args.get("expression") is None):
            count = "two arguments" if paired else "an argument"
            raise self._fail(Unsupported, node, f"{name} needs {count}", "as COUNT(*) or MAX_BY(x, y)")
        if node.expressions:
            raise self._fail(Unsupported, node, f"{name} takes one argument", "use one column")

    def _of_value(self, node: Expr) -> Expr:
        """COUNT, MIN, MAX, SUM, AVG and bits of one value. SUM and AVG over no non-null value are NULL."""
        typed = self._scope.typing.type(node.this)
        if not isinstance(node, (exp.Count, *_EXTREMES)):
            self._number(node, typed)
        if isinstance(node, exp.Avg) and typed.type == t.BIGINT:
            # a mean is in the range of its values, and their sum need not be in that of BIGINT
            wide = t.decimal(19, 0)
            given = self.input(replace(typed, expression=cast_to(typed, wide), type=wide), "value")
        else:
            given = self.input(typed, "value")
        if isinstance(node, exp.Count):
            return column(self._values(given).name)
        if isinstance(node, _EXTREMES):  # any value will do for ANY_VALUE: the least
            function: Function = "max" if isinstance(node, exp.Max) else "min"
            kept = self._measure(function, given.name, given.type, f"{given.name}_{function}", nullable=True)
            self._binding.by_plan_only |= isinstance(node, exp.AnyValue)
            return column(kept.name)
        if isinstance(node, _OF_BITS):
            if not typed.type.is_integer:
                raise self._fail(TypeMismatch, node, f"{typed.type} has no bits to combine", "use CAST")
            return self._anew(type(node)(this=column(given.name)), given.type, node.key)
        if node.meta_get(OR_ZERO):
            return column(self._sum(given).name)
        values, total = self._values(given), self._sum(given)
        if isinstance(node, exp.Avg):
            return mean(typed.type, column(total.name), column(values.name))
        some = exp.GT(this=column(values.name), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=column(total.name))])

    def _number(self, node: Expr, typed: Typed) -> None:
        if not typed.type.is_numeric:
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs a number, not {typed.type}", "use CAST"
            )

    # --- computed anew for the groups that change ---

    def _collected(self, node: Expr) -> Expr:
        """collect_list and collect_set: in ascending order, since SQL leaves the order open."""
        distinct = isinstance(node, exp.ArrayUniqueAgg) or isinstance(node.this, exp.Distinct)
        value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        if isinstance(value, exp.Order):
            raise self._fail(Unsupported, node, "ORDER BY in an aggregate is not Spark's", "leave it out")
        given = self.input(self._scope.typing.type(value), "value")
        name = "collect_set" if distinct else "collect_list"
        kind = t.array(given.type)
        self._binding.by_plan_only = True
        return self._anew(made_call(name, [column(given.name)], kind, False).expression, kind, name, False)

    def _joined(self, node: Expr) -> Expr:
        """listagg: in the order that WITHIN GROUP says, and else in ascending order; so are equal ones."""
        order = node.this if isinstance(node.this, exp.Order) else exp.Order(this=node.this, expressions=[])
        distinct = isinstance(order.this, exp.Distinct)
        value = order.this.expressions[0] if distinct else order.this
        typed = self._scope.typing.type(value)
        separator = node.args.get("separator") or exp.Literal.string("")
        if typed.type not in (t.STRING, t.NULL) or not separator.is_string:
            raise self._fail(
                TypeMismatch, node, "LISTAGG joins strings, by a literal separator", "use CAST(... AS STRING)"
            )
        if distinct and any(entry.this != value for entry in order.expressions):
            raise self._fail(
                Unsupported,
                node,
                "LISTAGG(DISTINCT x) can only be ordered by x",
                "ORDER BY the same expression",
            )
        given = column(self.input(typed, "value").name)
        entries = [*order.expressions, exp.Ordered(this=value, desc=False, nulls_first=True)]
        ordered = []
        for entry in entries[:1] if distinct else entries:
            key = self.input(self._scope.typing.type(entry.this), "value")
            sort = sort_key(entry, key.name)
            ordered.append(
                exp.Ordered(this=column(key.name), desc=sort.descending, nulls_first=sort.nulls_first)
            )
        what: Expr = exp.Distinct(expressions=[given]) if distinct else given
        call = exp.GroupConcat(this=exp.Order(this=what, expressions=ordered), separator=separator.copy())
        self._binding.by_plan_only = True
        return self._anew(call, t.STRING, "listagg")

    def _by_other(self, node: Expr) -> Expr:
        """max_by and min_by; of rows with an equal maximum the one with the greatest value, or the least."""
        given, by = (
            self.input(self._scope.typing.type(part), "value") for part in (node.this, node.expression)
        )
        name = "max_by" if isinstance(node, exp.ArgMax) else "min_by"
        self._binding.by_plan_only = True
        call = made_call(name, [column(given.name), column(by.name)], given.type, True)
        return self._anew(call.expression, given.type, name)

    def _mode(self, node: Expr) -> Expr:
        """The most frequent value; of several the least, as mode(x, TRUE) has it."""
        given = self.input(self._scope.typing.type(node.this), "value")
        self._binding.by_plan_only = True
        call = made_call("mode", [column(given.name)], given.type, True)
        return self._anew(call.expression, given.type, "mode")

    def _percentile(self, node: Expr) -> Expr:
        """percentile, percentile_cont and percentile_disc, of one literal share."""
        if isinstance(node, exp.Quantile):
            value, share, name, descending = node.this, node.args.get("quantile"), "percentile_cont", False
            if 3 in self._binding.argument_counts("percentile"):  # which sqlglot drops
                raise self._fail(
                    Unsupported, node, "PERCENTILE with frequencies is not supported", "leave them out"
                )
        elif isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc)):
            entry = node.expression.expressions[0]
            value, share, descending = entry.this, node.this.this, bool(entry.args.get("desc"))
            name = "percentile_cont" if isinstance(node.this, exp.PercentileCont) else "percentile_disc"
        else:
            raise self._fail(
                Unsupported, node, f"{said(node)} is not supported", "use PERCENTILE_CONT or LISTAGG"
            )
        typed = self._scope.typing.type(value)
        self._number(node, typed)
        if not (isinstance(share, exp.Literal) and not share.is_string and 0 <= Decimal(share.name) <= 1):
            raise self._fail(Unsupported, node, "a percentile needs a literal share from 0 to 1", "write 0.5")
        if name == "percentile_cont" and descending:  # from the other end
            share, descending = exp.Literal.number(format(1 - Decimal(share.name), "f")), False
        given = exp.Cast(this=column(self.input(typed, "value").name), to=t.DOUBLE.sql())
        call = made_call(name + "_desc" * descending, [given, share.copy()], t.DOUBLE, True)
        return self._anew(call.expression, t.DOUBLE, "percentile")

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
            return self._anew(call, t.BIGINT, "distinct_count", nullable=False)
        if len(given) > 1 or not given[0].type.is_numeric:
            raise self._fail(TypeMismatch, node, f"{node.key.upper()} needs one number", "use CAST")
        distinct = exp.Distinct(expressions=[column(given[0].name)])
        kind = t.sum_type(given[0].type)
        total = self._anew(exp.Sum(this=distinct), kind, "distinct_sum")
        if isinstance(node, exp.Sum):
            return total
        count = self._anew(exp.Count(this=distinct.copy()), t.BIGINT, "distinct_count", nullable=False)
        return mean(given[0].type, total, count)

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
            self._number(node, typed)
            given = self.input(typed, "value")
            doubles.append(exp.Cast(this=column(given.name), to=t.DOUBLE.sql()))
        call = type(node)(this=doubles[0])
        if len(doubles) > 1:
            call.set("expression", doubles[1])
        if isinstance(node, (exp.RegrSlope, exp.Corr)):  # null where all x, or y, are equal, and not NaN
            name = "corr" if isinstance(node, exp.Corr) else "regr_slope"
            call = made_call(name, doubles, t.DOUBLE, True).expression
        return self._anew(call, t.DOUBLE, node.key)

    def _anew(self, call: Expr, kind: t.Type, wanted: str, nullable: bool = True) -> Expr:
        """A measure that is computed anew for the groups that change."""
        key = ("any", call.sql())
        if key not in self._measures:
            made = Column(self._fresh(wanted), kind, nullable)
            cast = exp.Cast(this=call, to=kind.sql())
            self._measures[key] = Measure(made, "any", None, cast)
        return column(self._measures[key].name)

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
    if isinstance(call, exp.Count) and isinstance(call.this, (exp.Star, exp.Literal)):
        return exp.Count(this=_where(condition, exp.Literal.number(1)))
    if isinstance(call, exp.CountIf):
        both = exp.And(this=exp.Paren(this=condition.copy()), expression=exp.Paren(this=call.this))
        return exp.CountIf(this=both)
    holder, key = call, "this"
    if isinstance(call, _BY_OTHER):
        key = "expression"  # rows where it is null do not count
    elif isinstance(call, exp.WithinGroup):
        holder = call.expression.expressions[0]
    elif isinstance(call.this, exp.Order):
        holder = call.this
    if isinstance(holder.args[key], exp.Distinct):
        parts = holder.args[key].expressions
        holder.args[key].set("expressions", [_where(condition, parts[0]), *parts[1:]])
    else:
        holder.set(key, _where(condition, holder.args[key]))
    return call


def _where(condition: Expr, value: Expr) -> Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _known(value: Expr) -> Expr:
    return exp.Not(this=exp.Paren(this=exp.Is(this=value.copy(), expression=exp.Null())))


def _none_is_null(columns: list[Column]) -> Expr:
    terms: Expr = exp.true()
    for c in columns:
        terms = exp.And(this=terms, expression=_known(column(c.name)))
    return terms
