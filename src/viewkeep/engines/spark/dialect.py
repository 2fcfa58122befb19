"""viewkeep's syntax trees in Spark's words."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.algebra.expressions import DIGITS_OF_A_NEGATIVE, EXACTLY, rewritten
from viewkeep.algebra.types import MAX_PRECISION
from viewkeep.errors import Unsupported
from viewkeep.frontend.functions import CAST, PREFIX, TRY_CAST
from viewkeep.frontend.signatures import SPARK_NAMES
from viewkeep.frontend.typed import QUOTIENT

# Spark rounds a quotient to the digits its result type has room for, then we cast. That is one rounding in
# effect while the count is below ten to the power of the digits that the first keeps more than the second.
_GUARD_DIGITS = 10
_LARGEST_SCALE = 14
# of a result of too many digits Spark keeps so many after the point
_KEPT_SCALE = 6


def to_sql(tree: exp.Expr, pretty: bool = False) -> str:
    """The tree as Spark SQL."""
    return rewritten(tree, _translate).sql(dialect="spark", pretty=pretty, copy=False)


def _translate(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() == QUOTIENT:
        return _quotient(node)
    if EXACTLY in node.meta:
        return _exactly(node, *node.meta[EXACTLY])
    if isinstance(node, exp.Anonymous) and node.name.startswith(PREFIX) and node.meta_get("made"):
        return _call(node.name.removeprefix(PREFIX), node.expressions)
    return node


_OPERATORS: dict[str, type[exp.Binary]] = {
    "bitand": exp.BitwiseAnd, "bitor": exp.BitwiseOr, "bitxor": exp.BitwiseXor, "div": exp.IntDiv,
    "mod_double": exp.Mod,
}  # fmt: skip


def _by_both(function: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """max_by and min_by, of equal ones by the value itself; rows with a null to go by do not count."""

    def made(given: list[exp.Expr]) -> exp.Expr:
        value, by = given
        pair = exp.Anonymous(this="struct", expressions=[by, value.copy()])
        known = exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))
        key = exp.Case(ifs=[exp.If(this=known, true=pair)])
        return exp.Anonymous(this=function, expressions=[value, key])

    return made


def _sorted_array(function: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    def made(given: list[exp.Expr]) -> exp.Expr:
        return exp.Anonymous(this="sort_array", expressions=[exp.Anonymous(this=function, expressions=given)])

    return made


def _percentile_disc(given: list[exp.Expr], descending: bool) -> exp.Expr:
    share = exp.Anonymous(this="percentile_disc", expressions=[given[1]])
    order = exp.Order(expressions=[exp.Ordered(this=given[0], desc=descending, nulls_first=not descending)])
    return exp.WithinGroup(this=share, expression=order)


_AGGREGATES: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    "collect_list": _sorted_array("collect_list"),
    "collect_set": _sorted_array("collect_set"),
    "max_by": _by_both("max_by"),
    "min_by": _by_both("min_by"),
    "mode": lambda given: exp.Anonymous(this="mode", expressions=[*given, exp.true()]),
    "percentile_disc": lambda given: _percentile_disc(given, descending=False),
    "percentile_disc_desc": lambda given: _percentile_disc(given, descending=True),
    "sort_array_desc": lambda given: exp.Anonymous(this="sort_array", expressions=[*given, exp.false()]),
    "at": lambda given: exp.Bracket(this=given[0], expressions=[given[1]]),
}


def _call(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """A function of a view as Spark calls it: nothing needs to be said in other words."""
    given = [a.copy() for a in arguments]
    if name in (CAST, TRY_CAST):
        # sqlglot writes a Cast as TRY_CAST where it is one that may fail
        kind = exp.TryCast if name == TRY_CAST else exp.Cast
        return kind(
            this=given[0], to=exp.DataType.build(given[2].name, dialect="spark"), safe=name == TRY_CAST
        )
    if name in _OPERATORS:
        left, right = (exp.Paren(this=a) for a in given)
        return exp.Paren(this=_OPERATORS[name](this=left, expression=right))
    if name.startswith("round_"):
        return exp.Anonymous(this="round", expressions=given[:2])
    if name == "rlike":
        return exp.Anonymous(this="rlike", expressions=given[:2])
    if name in ("regexp_replace", "regexp_extract", "regexp_count", "split"):
        # without RE2's words for the pattern
        return exp.Anonymous(this=name, expressions=[*given[:2], *given[4:]])
    if name == "second_fraction":
        return exp.Anonymous(this="date_part", expressions=[exp.Literal.string("SECOND"), *given])
    if name == "timestampdiff":
        return exp.Anonymous(this=name, expressions=[exp.Var(this=given[0].name), *given[1:]])
    if name in _AGGREGATES:
        return _AGGREGATES[name](given)
    if name.endswith("trim_of"):
        where = {"ltrim_of": "LEADING", "rtrim_of": "TRAILING"}.get(name, "BOTH")
        return exp.Trim(this=given[0], expression=given[1], position=where)
    return exp.Anonymous(this=SPARK_NAMES[name], expressions=given)


def _exactly(node: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """A sum or a negative of decimals without rounding.

    Spark rounds a negative to 34 digits. Of a sum or a difference that could have 39 it cuts the last digit
    after the point, unless there are six or fewer. One of 37 digits is exact, and a value that has
    38 fails rather than loses a digit.
    """
    cut = precision >= MAX_PRECISION and scale > _KEPT_SCALE
    if isinstance(node, exp.Add):
        if not cut:
            return node
        return exp.Add(this=_narrower(node.this, scale), expression=_narrower(node.expression, scale))
    if precision <= DIGITS_OF_A_NEGATIVE:
        return node
    value = _narrower(node.this, scale) if cut else node.this.copy()
    zero = exp.Cast(this=exp.Literal.number(0), to=_decimal(MAX_PRECISION - 1 if cut else precision, scale))
    return exp.Paren(this=exp.Sub(this=zero, expression=value))


def _narrower(value: exp.Expr, scale: int) -> exp.Expr:
    """A decimal of 38 digits as one of 37."""
    fitting = exp.TryCast(this=value.copy(), to=_decimal(MAX_PRECISION - 1, scale), safe=True)
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    lost = exp.And(this=there, expression=exp.Is(this=fitting.copy(), expression=exp.Null()))
    text = exp.Literal.string(f"a sum of decimals with {scale} digits after the point needs all 38 digits")
    failing = exp.Anonymous(this="raise_error", expressions=[text])
    return exp.Case(ifs=[exp.If(this=lost, true=failing)], default=fitting)


def _quotient(node: exp.Anonymous) -> exp.Expr:
    """Decimal division, half up, as Spark's own `/` and AVG round.

    A plain `/` is what the user wrote, so it is left to Spark. AVG divides a sum by a count to a scale of
    its own; n / d cast to that scale rounds twice, which is right while the first rounding keeps enough
    digits that no value can fall on a tie by it. Else the division is done by whole numbers: whole part and
    remainder are exact in decimals, whatever the size.
    """
    top, bottom = node.expressions[0], node.expressions[1]
    numbers = [int(e.name) for e in node.expressions[2:]]
    precision, scale, top_precision, top_scale, bottom_precision, bottom_scale = numbers
    quotient = exp.Div(this=exp.Paren(this=top.copy()), expression=exp.Paren(this=bottom.copy()))
    fraction = max(6, top_scale + bottom_precision + 1)
    whole = top_precision - top_scale + bottom_scale
    kept = fraction if whole + fraction <= 38 else max(38 - whole, min(fraction, 6))
    result = exp.DataType.build(f"DECIMAL({precision},{scale})", dialect="spark")
    if kept == scale:
        return exp.Cast(this=quotient, to=result)
    if kept - scale >= _GUARD_DIGITS:
        return exp.Cast(this=quotient, to=result)
    return _long_division(top, bottom, scale, result)


def _long_division(top: exp.Expr, bottom: exp.Expr, scale: int, result: exp.DataType) -> exp.Expr:
    """whole + round(rest * 10^scale / d) / 10^scale with d a count: every step is exact in decimals.

    Types are kept as narrow as values allow: Spark cuts the scale of a result that would pass 38 digits. A
    count of more than eleven digits, or a mean of more digits than its type has, fails rather than rounds.
    """
    if scale > _LARGEST_SCALE:
        raise Unsupported(
            "AVG over a decimal with more than ten digits after the point is not supported on Spark",
            hint="CAST the argument to DOUBLE or to fewer digits",
        )
    precision = int(result.expressions[0].name)
    count = exp.Cast(this=bottom.copy(), to=_decimal(11, 0))
    rest = exp.Paren(this=exp.Mod(this=exp.Paren(this=top.copy()), expression=count))
    whole = _exact_ratio(
        exp.Paren(this=exp.Sub(this=top.copy(), expression=rest.copy())),
        count,
        min(precision, 37) - scale,
    )
    power = exp.Literal.number(10**scale)
    scaled = exp.Cast(this=exp.Mul(this=rest.copy(), expression=power), to=_decimal(12 + scale, 0))
    left = exp.Paren(this=exp.Mod(this=scaled, expression=count.copy()))
    steps = _exact_ratio(
        exp.Paren(this=exp.Sub(this=scaled.copy(), expression=left.copy())), count, scale + 1
    )
    twice = exp.Mul(this=exp.Literal.number(2), expression=exp.Abs(this=left.copy()))
    up = exp.Case(
        ifs=[
            exp.If(
                this=exp.GTE(this=twice, expression=exp.Abs(this=count.copy())),
                true=exp.Sign(this=left.copy()),
            )
        ],
        default=exp.Literal.number(0),
    )
    nudged = exp.Add(this=steps, expression=exp.Cast(this=up, to=_decimal(1, 0)))
    unit = exp.Cast(this=exp.Literal.number(f"{10**-scale:.{scale}f}"), to=_decimal(scale + 1, scale))
    product = exp.Mul(this=exp.Cast(this=nudged, to=_decimal(scale + 1, 0)), expression=unit)
    fraction = exp.Cast(this=product, to=_decimal(scale + 1, scale))
    return exp.Cast(this=exp.Add(this=whole, expression=fraction), to=result)


def _exact_ratio(multiple: exp.Expr, divisor: exp.Expr, digits: int) -> exp.Expr:
    """A division without rest."""
    return exp.Cast(this=exp.Div(this=multiple, expression=divisor.copy()), to=_decimal(digits, 0))


def _decimal(precision: int, scale: int) -> exp.DataType:
    return exp.DataType.build(f"DECIMAL({precision},{scale})", dialect="spark")
