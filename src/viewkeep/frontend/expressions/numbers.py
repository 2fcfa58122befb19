"""Arithmetic, bits, ROUND and ABS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import AS_ITS_ENGINE_DOES, DIGITS_OF_A_NEGATIVE, Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend import signatures
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.expressions.dates import days, shifted
from viewkeep.frontend.typed import Rules, Typed, bracketed, decimal_quotient, made_call, said

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)


def _arithmetic(typing: Typing, node: Expr) -> Typed:
    if isinstance(node, (exp.Add, exp.Sub)) and node.find(exp.Interval):
        return shifted(typing, node)
    left, right = typing.type(node.this), typing.type(node.expression)
    if t.DATE in (left.type, right.type):
        return days(typing, node, left, right)
    kinds = [_beside_decimal(p, other) for p, other in ((left, right), (right, left))]
    result = t.arithmetic(type(node), *kinds)
    if result is None:
        moments = t.TIMESTAMP in (left.type, right.type)
        raise typing.fail(
            TypeMismatch, node,
            f"{said(node)} combines {left.type} with {right.type}",
            "use TIMESTAMPDIFF for the time between two, an INTERVAL to move one" if moments
            else "use CAST(... AS type) to make both numbers",
        )  # fmt: skip
    made = type(node)(this=left.expression, expression=right.expression)
    if isinstance(node, exp.Div) and result.kind == "decimal":
        made = decimal_quotient(left.expression, kinds[0], right.expression, kinds[1], result)
    if isinstance(node, exp.Mod) and result == t.DOUBLE:  # by zero it fails, which is not so everywhere
        sides = [cast_to(side, t.DOUBLE) for side in (left, right)]
        made = made_call("mod_double", sides, result, True).expression
    return Typed(made, result, left.nullable or right.nullable)


def _try_divide(typing: Typing, node: exp.SafeDivide) -> Typed:
    zero = exp.EQ(this=node.expression.copy(), expression=exp.Literal.number(0))
    divided = exp.Div(this=bracketed(node.this.copy()), expression=bracketed(node.expression.copy()))
    return typing.type(exp.Case(ifs=[exp.If(this=zero, true=exp.Null())], default=divided))


def _intdiv(typing: Typing, node: exp.IntDiv) -> Typed:
    left, right = typing.type(node.this), typing.type(node.expression)
    for part, side in ((node.this, left), (node.expression, right)):
        if not signatures.fits("bigint", side.type):
            raise typing.fail(
                TypeMismatch, part, f"DIV needs integers, not {side.type}", "use CAST, or FLOOR and /"
            )
    sides = [cast_to(side, t.BIGINT) for side in (left, right)]
    return made_call("div", sides, t.BIGINT, left.nullable or right.nullable)


def _refuse_unclear(typing: Typing, node: Expr, others: tuple[type[Expr], ...]) -> None:
    """sqlglot reads a | b & c and a & b << c from left to right; Spark reads & and << first. A call is
    clear, and has a place: SHIFTLEFT(a & b, c)."""
    for part in (node.this, node.expression):
        called = part.meta_get("start") is not None or node.meta_get("start") is not None
        if isinstance(part, others) and type(part) is not type(node) and not called:
            raise typing.fail(
                Unsupported, node, "which of &, ^, | and shifts comes first is not clear here",
                "put brackets around one of them",
            )  # fmt: skip


def _bitwise(typing: Typing, node: Expr) -> Typed:
    _refuse_unclear(typing, node, (*BITWISE, *SHIFTS))
    left, right = _integers(typing, node, [node.this, node.expression])
    result = t.widest(left.type, right.type)
    assert result is not None  # both are integers
    sides = [exp.Cast(this=side.expression, to=result.sql()) for side in (left, right)]
    name = f"bit{node.key.removeprefix('bitwise')}"
    return made_call(name, sides, result, left.nullable or right.nullable)


def _bitwisenot(typing: Typing, node: exp.BitwiseNot) -> Typed:
    (inner,) = _integers(typing, node, [node.this])
    return Typed(exp.BitwiseNot(this=bracketed(inner.expression)), inner.type, inner.nullable)


def _shift(typing: Typing, node: Expr) -> Typed:
    _refuse_unclear(typing, node, BITWISE)
    value, count = _integers(typing, node, [node.this, node.expression])
    if count.type == t.BIGINT:
        raise typing.fail(TypeMismatch, node, "a shift is by an INT, not BIGINT", "use CAST")
    result = t.BIGINT if value.type == t.BIGINT else t.INT
    name = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
    sides = [cast_to(value, result), cast_to(count, t.INT)]
    return made_call(f"{name}_{result.kind}", sides, result, value.nullable or count.nullable)


def _integers(typing: Typing, whole: Expr, parts: list[Expr]) -> list[Typed]:
    typed = [typing.type(part) for part in parts]
    for part, its in zip(parts, typed, strict=True):
        if not its.type.is_integer:
            raise typing.fail(TypeMismatch, part, f"{said(whole)} needs integers, not {its.type}", "use CAST")
    return typed


def _neg(typing: Typing, node: exp.Neg) -> Typed:
    inner = typing.type(node.this)
    if not inner.type.is_numeric:
        raise typing.fail(TypeMismatch, node, f"- needs a number, not {inner.type}", "use CAST")
    made: Expr = exp.Neg(this=bracketed(inner.expression))
    if isinstance(node.this, exp.Literal):  # Spark reads the minus as a part of the number
        for digits, narrow in (("2147483648", t.INT), ("9223372036854775808", t.BIGINT)):
            if node.this.name == digits:
                return Typed(exp.Cast(this=made, to=narrow.sql()), narrow, False)
    return Typed(_as_spark_does(made, inner), inner.type, inner.nullable)


def _as_spark_does(made: Expr, inner: Typed) -> Expr:
    """A negative, or an absolute value, which Spark rounds where it has many digits: nobody else should
    compute it for Spark."""
    if inner.type.kind == "decimal" and inner.type.precision > DIGITS_OF_A_NEGATIVE:
        made.meta[AS_ITS_ENGINE_DOES] = True
    return made


def _round(typing: Typing, node: exp.Round) -> Typed:
    inner, places = typing.type(node.this), node.args.get("decimals")
    scale = whole_number(places) if places is not None else 0
    if not inner.type.is_numeric:
        raise typing.fail(TypeMismatch, node, f"ROUND needs a number, not {inner.type}", "use CAST")
    if scale is None or not -18 <= scale <= 18:
        raise typing.fail(
            Unsupported, node, "ROUND needs a literal number of digits, from -18 to 18", "ROUND(x, 2)"
        )
    digits = exp.Literal.number(scale)
    if inner.type.is_integer:
        if scale >= 0:
            return inner
        kind = exp.Literal.string(str(inner.type))
        return made_call("round_integer", [inner.expression, digits, kind], inner.type, inner.nullable)
    if inner.type == t.DOUBLE:
        return made_call("round_double", [inner.expression, digits], t.DOUBLE, inner.nullable)
    result = signatures.rounded(inner.type, scale)
    kind = exp.Literal.string(str(result))
    return made_call("round_decimal", [inner.expression, digits, kind], result, inner.nullable)


def _abs(typing: Typing, node: exp.Abs) -> Typed:
    inner = typing.type(node.this)
    if not inner.type.is_numeric:
        raise typing.fail(TypeMismatch, node, f"ABS needs a number, not {inner.type}", "use CAST")
    made = _as_spark_does(exp.Abs(this=inner.expression), inner)
    return Typed(made, inner.type, inner.nullable)


def _beside_decimal(part: Typed, other: Typed) -> Type:
    """An integer literal next to a decimal counts only the digits that it has, as Spark sees it."""
    bare = part.expression.unnest()
    literal = bare.this if isinstance(bare, exp.Neg) else bare
    if other.type.kind == "decimal" and part.type.is_integer and isinstance(literal, exp.Literal):
        return t.decimal(len(literal.name), 0)
    return part.type


def whole_number(node: Expr) -> int | None:
    """A whole number that is written out."""
    bare = node.unnest()
    sign = -1 if isinstance(bare, exp.Neg) else 1
    digits = (bare.this if isinstance(bare, exp.Neg) else bare).name
    return sign * int(digits) if digits.isdigit() else None


RULES: Rules = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    exp.IntDiv: _intdiv,
    exp.SafeDivide: _try_divide,
    **dict.fromkeys(BITWISE, _bitwise),
    exp.BitwiseNot: _bitwisenot,
    **dict.fromkeys(SHIFTS, _shift),
    exp.Neg: _neg,
    exp.Negative: _neg,
    exp.Round: _round,
    exp.Abs: _abs,
}
