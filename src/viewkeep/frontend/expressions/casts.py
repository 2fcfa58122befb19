"""Casts, and which of them mean the same on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import Unsupported
from viewkeep.frontend import functions
from viewkeep.frontend.typed import Rules, Typed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _trycast(typing: Typing, node: exp.TryCast) -> Typed:
    # sqlglot reads CAST as this too; `safe` tells TRY_CAST, which is NULL where CAST fails
    return cast(typing, node, attempt=bool(node.args.get("safe")))


def cast(typing: Typing, node: exp.Cast, attempt: bool = False) -> Typed:
    inner = typing.type(node.this)
    target = t.from_sql(node.to)
    if target is None:
        raise typing.fail(
            Unsupported, node, f"viewkeep has no type {node.to.sql('spark')}",
            "use BOOLEAN, an integer type, DOUBLE, DECIMAL, STRING, DATE or TIMESTAMP",
        )  # fmt: skip
    literal = isinstance(node.this, exp.Literal) and target in (t.DATE, t.TIMESTAMP)
    if literal and inner.type == t.STRING and not attempt:
        typing.moment(node.this, target)
        return Typed(exp.Cast(this=inner.expression, to=target.sql()), target, False)
    if not castable(inner.type, target) or (attempt and target == t.TIMESTAMP and inner.type == t.STRING):
        raise typing.fail(
            Unsupported, node,
            f"{'TRY_' if attempt else ''}CAST from {inner.type} to {target} differs between engines",
            "ROUND or CAST to DECIMAL first" if inner.type == t.DOUBLE else "store the column so",
        )  # fmt: skip
    if attempt and inner.type not in (t.NULL, target):
        kinds = [exp.Literal.string(str(kind)) for kind in (inner.type, target)]
        return made_call(functions.TRY_CAST, [inner.expression, *kinds], target, True)
    nullable = inner.nullable or (inner.type == t.DOUBLE and target.kind == "decimal")  # of NaN
    return Typed(cast_to(inner, target), target, nullable)


def cast_to(value: Typed, target: Type) -> Expr:
    """The value in another type that it can be cast to."""
    if value.type == target:
        return value.expression
    if value.type == t.NULL or _same_on_every_engine(value.type, target):
        return exp.Cast(this=value.expression, to=target.sql())
    kinds = [exp.Literal.string(str(kind)) for kind in (value.type, target)]
    return made_call(functions.CAST, [value.expression, *kinds], target, value.nullable).expression


def castable(source: Type, target: Type) -> bool:
    """Whether the cast gives the same value everywhere, spelled right. Not: the text of a double, of which
    engines print different forms, and timestamps from numbers."""
    if source == t.NULL or source == target:
        return True
    if "array" in (source.kind, target.kind):
        return False
    if target == t.STRING:
        return source != t.DOUBLE
    if source.is_numeric or source == t.BOOLEAN:
        return target.is_numeric or target == t.BOOLEAN
    return source == t.STRING or {source, target} == {t.DATE, t.TIMESTAMP}


def _same_on_every_engine(source: Type, target: Type) -> bool:
    """Whether a plain CAST will do."""
    if source.is_exact and target == t.DOUBLE:
        return source.is_integer or source.precision <= 15  # more digits are divided in doubles by DuckDB
    if source.is_integer and target.is_integer:
        return True
    if source.is_exact and target.kind == "decimal":
        return True
    if target == t.STRING:
        return source.is_integer or source in (t.STRING, t.DATE, t.BOOLEAN)
    return {source, target} == {t.DATE, t.TIMESTAMP}


RULES: Rules = {exp.TryCast: _trycast, exp.Cast: cast}
