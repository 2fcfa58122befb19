"""The values of rows in a view tree, and their types (see view_tree.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, conjunction
from viewkeep.passes.products import NotApplicable, Product

# from so many digits on an engine that holds fewer in 64 bits has more for a product, too
_WIDE = 19
# the digits that a count must have beside a decimal
_COUNT_DIGITS = 10


@dataclass(frozen=True)
class Payload:
    """A value of each row of a part of the join: an expression over its columns; None is 1."""

    value: Expr | None
    type: t.Type
    is_count: bool = False


ONE = Payload(None, t.BIGINT, is_count=True)


def of_row(product: Product) -> Payload:
    """A product of one table's columns, as it is for a row."""
    made = times([Payload(f.typed.expression, f.typed.type) for f in product.factors])
    condition = conjunction(c.typed.expression for c in product.conditions)
    if condition is None:
        return made
    value = made.value
    if value is None:
        value = exp.Cast(this=exp.Literal.number(1), to=t.BIGINT.sql())
    return replace(made, value=exp.Case(ifs=[exp.If(this=condition, true=value)]))


def times(given: Sequence[Payload]) -> Payload:
    """The product of payloads, counts first: they are multiplied as integers."""
    parts = sorted((p for p in given if p.value is not None), key=lambda p: not p.is_count)
    if not parts:
        return ONE
    made = parts[0]
    if any(p.type == t.DOUBLE for p in parts):
        made = replace(made, value=_as(made, t.DOUBLE), type=t.DOUBLE, is_count=False)
    for part in parts[1:]:
        made = _multiplied(made, part)
    return made


def _multiplied(left: Payload, right: Payload) -> Payload:
    """Integers are multiplied as BIGINT where any product of two of their type is one, and counts are; others
    as decimals, which hold the product of any two."""
    both = (left.type, right.type)
    if t.DOUBLE in both:
        kinds, kind = (t.DOUBLE, t.DOUBLE), t.DOUBLE
    elif (left.is_count and right.is_count) or all(k.is_integer and k != t.BIGINT for k in both):
        kinds, kind = (t.BIGINT, t.BIGINT), t.BIGINT
    else:
        kinds = (_digits(left, right), _digits(right, left))
        scale = kinds[0].scale + kinds[1].scale
        kind = t.decimal(kinds[0].precision + kinds[1].precision + 1, scale)
        if kind.scale != scale:
            raise NotApplicable("a product of decimals has more than 38 digits, and would be rounded")
        if max(k.precision for k in kinds) < _WIDE <= kind.precision:
            kinds = (t.decimal(_WIDE, kinds[0].scale), kinds[1])
    value: Expr = exp.Mul(this=_as(left, kinds[0]), expression=_as(right, kinds[1]))
    if kind.kind == "decimal":
        value = exp.Cast(this=value, to=kind.sql())
    return Payload(value, kind, left.is_count and right.is_count)


def _digits(payload: Payload, other: Payload) -> t.Type:
    """A payload's type as a decimal. A count takes fewer digits where the other's scale would else be cut."""
    own, beside = t.as_decimal(payload.type), t.as_decimal(other.type)
    fits = t.decimal(own.precision + beside.precision + 1, beside.scale).scale == beside.scale
    if fits or not payload.is_count:
        return own
    return t.decimal(max(_COUNT_DIGITS, t.MAX_PRECISION - 1 - beside.precision), 0)


def _as(payload: Payload, kind: t.Type) -> Expr:
    assert payload.value is not None
    value = payload.value.copy()
    if payload.type != kind:
        return exp.Cast(this=value, to=kind.sql())
    return exp.Paren(this=value) if isinstance(value, (exp.Add, exp.Sub, exp.Neg)) else value


def sum_type(payload: Payload) -> t.Type:
    """The type of a sum of one part of the join: no number of its rows makes it overflow."""
    if payload.is_count or payload.type == t.DOUBLE:
        return payload.type
    if payload.type.is_integer and payload.type != t.BIGINT:
        return t.BIGINT
    digits = t.as_decimal(payload.type)
    return t.Type("decimal", min(t.MAX_PRECISION, digits.precision + 10), digits.scale)
