"""viewkeep's syntax trees in DuckDB's words, with Spark's meaning."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from viewkeep.algebra.expressions import COMPARISONS, rewritten, unchained
from viewkeep.algebra.types import MAX_PRECISION
from viewkeep.engines.duckdb.functions import spell
from viewkeep.frontend.typed import QUOTIENT

# decimals with so few digits behind the point are multiplied to be whole, which is quicker than by text
FEW_DIGITS = 9
# decimals of so many digits take 128 bits
WIDE = 19


def to_sql(tree: exp.Expr, pretty: bool = False) -> str:
    """The tree as DuckDB SQL."""
    return rewritten(tree, _translate).sql(dialect="duckdb", pretty=pretty, copy=False)


def _translate(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, (exp.Anonymous, exp.DataType, exp.Div, *COMPARISONS)):  # most are none of these
        return node
    if isinstance(node, COMPARISONS):
        return unchained(node)
    if isinstance(node, exp.DataType) and node.this in (
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
    ):
        return exp.DataType(this=exp.DataType.Type.TIMESTAMP)
    if isinstance(node, exp.Div) and not node.meta_get("checked"):
        return _checked_division(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == QUOTIENT:
        return _quotient(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "raise_error":
        return exp.Anonymous(this="error", expressions=node.expressions)
    if isinstance(node, exp.Anonymous) and (spelled := spell(node)) is not None:
        return spelled
    return node


def _checked_division(node: exp.Div) -> exp.Expr:
    """a / b that fails for b = 0 as Spark's does; DuckDB's answers infinity."""
    divided = exp.Div(this=node.this, expression=node.expression)
    divided.meta["checked"] = True
    if node.expression.is_number and float(node.expression.name or 1) != 0:
        return divided
    zero = exp.EQ(this=node.expression.copy(), expression=exp.Literal.number(0))
    failed = exp.Anonymous(this="error", expressions=[exp.Literal.string("division by zero")])
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=zero, true=failed)], default=divided))


def _quotient(node: exp.Anonymous) -> exp.Expr:
    """Exact decimal division, half up, in 128-bit integers: DuckDB's own `/` answers a double.

    n / d at scale s is (2 N 10^k + D) // (2 D), where N and D are n and d without their decimal points and
    k = s - scale(n) + scale(d); or 2 N 10^k - D where the quotient is negative. `//` cuts towards zero: what
    is half up for 5 / 2, (10 + 2) // 4 = 3, is half down for -5 / 2, (-10 - 2) // 4 = -3.
    """
    top, bottom = node.expressions[0], node.expressions[1]
    precision, scale, top_precision, top_scale, bottom_precision, bottom_scale = (
        int(e.name) for e in node.expressions[2:]
    )
    shift = scale - top_scale + bottom_scale
    whole_top = _unscaled(top, top_precision, top_scale)
    whole_bottom = _unscaled(bottom, bottom_precision, bottom_scale)
    factor = exp.Mul(this=whole_top, expression=_hugeint(2 * 10 ** max(shift, 0)))
    if shift < 0:
        whole_bottom = exp.Mul(this=whole_bottom, expression=_hugeint(10**-shift))
    negative = exp.NEQ(
        this=exp.Paren(this=exp.LT(this=top.copy(), expression=exp.Literal.number(0))),
        expression=exp.Paren(this=exp.LT(this=bottom.copy(), expression=exp.Literal.number(0))),
    )
    half = exp.Case(
        ifs=[exp.If(this=negative, true=exp.Neg(this=exp.Paren(this=whole_bottom)))],
        default=whole_bottom.copy(),
    )
    rounded = exp.Paren(this=exp.Add(this=factor, expression=half))
    divisor = exp.Paren(this=exp.Mul(this=_hugeint(2), expression=whole_bottom.copy()))
    size = exp.IntDiv(this=rounded, expression=divisor)
    return _with_point(size, precision, scale)


def _with_point(digits: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """A decimal by its digits, a whole number: 150 is 1.50."""
    if not scale:
        return exp.Cast(this=digits, to=_decimal(precision, 0))
    if precision + scale + 1 <= MAX_PRECISION:
        whole = exp.Cast(this=exp.Paren(this=digits), to=_decimal(precision, 0))
        unit = exp.Literal.number(f"{Decimal(1).scaleb(-scale):f}")  # of scale + 1 digits
        return exp.Cast(this=exp.Mul(this=whole, expression=unit), to=_decimal(precision, scale))
    # as text with a point put in: DuckDB multiplies no decimals of more than 38 digits
    padded = exp.Anonymous(
        this="lpad",
        expressions=[
            exp.Cast(this=exp.Abs(this=digits), to=exp.DataType.build("VARCHAR")),
            exp.Literal.number(39),
            exp.Literal.string("0"),
        ],
    )
    is_negative = exp.LT(this=exp.Paren(this=digits.copy()), expression=exp.Literal.number(0))
    sign = exp.Case(
        ifs=[exp.If(this=is_negative, true=exp.Literal.string("-"))], default=exp.Literal.string("")
    )
    text: exp.Expr = sign
    for part in (
        exp.Anonymous(this="left", expressions=[padded, exp.Literal.number(39 - scale)]),
        exp.Literal.string("."),
        exp.Anonymous(this="right", expressions=[padded.copy(), exp.Literal.number(scale)]),
    ):
        text = exp.DPipe(this=text, expression=part, safe=True)
    return exp.Cast(this=text, to=_decimal(precision, scale))


def _unscaled(value: exp.Expr, precision: int, scale: int) -> exp.Expr:
    """The digits of a decimal as a whole number: 1.50 is 150."""
    if not scale:
        return exp.Cast(this=value.copy(), to=exp.DataType.build("HUGEINT", dialect="duckdb"))
    if scale > FEW_DIGITS:  # as text: times 10^20 it would have more than 38 digits
        exact = exp.Cast(this=exp.Paren(this=value.copy()), to=_decimal(MAX_PRECISION, scale))
        text = exp.Cast(this=exact, to=exp.DataType.build("VARCHAR"))
        point, nothing = exp.Literal.string("."), exp.Literal.string("")
        digits = exp.Anonymous(this="replace", expressions=[text, point, nothing])
        return exp.Cast(this=digits, to=exp.DataType.build("HUGEINT", dialect="duckdb"))
    value = exp.Paren(this=value.copy())
    if precision < WIDE <= precision + scale:  # DuckDB's product of two that fit 64 bits must fit them, too
        value = exp.Cast(this=value, to=_decimal(WIDE, scale))
    shifted = exp.Mul(this=value, expression=exp.Literal.number(10**scale))
    return exp.Cast(this=shifted, to=exp.DataType.build("HUGEINT", dialect="duckdb"))


def _hugeint(value: int) -> exp.Expr:
    return exp.Cast(this=exp.Literal.number(value), to=exp.DataType.build("HUGEINT", dialect="duckdb"))


def _decimal(precision: int, scale: int) -> exp.DataType:
    return exp.DataType.build(f"DECIMAL({precision},{scale})", dialect="duckdb")
