"""Functions of strings that have rules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.typed import Rules, Typed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _text_function(typing: Typing, node: Expr) -> Typed:
    inner = typing.type(node.this)
    typing.need(node.this, inner, t.STRING)
    return Typed(type(node)(this=inner.expression), t.STRING, inner.nullable)


def _concatws(typing: Typing, node: exp.ConcatWs) -> Typed:
    typed = [typing.type(part) for part in node.expressions]
    for part, its in zip(node.expressions, typed, strict=True):
        typing.need(part, its, t.STRING)
    parts = [cast_to(its, t.STRING) for its in typed]
    return made_call("concat_ws", parts, t.STRING, typed[0].nullable)


def _concat(typing: Typing, node: exp.Concat) -> Typed:
    return _concatenated(typing, node, node.expressions)


def _dpipe(typing: Typing, node: exp.DPipe) -> Typed:
    return _concatenated(typing, node, [node.left, node.right])


def _concatenated(typing: Typing, node: Expr, parts: list[Expr]) -> Typed:
    typed = [typing.type(part) for part in parts]
    for part, its in zip(parts, typed, strict=True):
        typing.need(part, its, t.STRING)
    joined = typed[0].expression
    for more in typed[1:]:  # || is NULL where a part is, on every engine; CONCAT is not
        joined = exp.DPipe(this=joined, expression=more.expression, safe=True)
    return Typed(joined, t.STRING, any(its.nullable for its in typed))


RULES: Rules = {
    exp.Lower: _text_function,
    exp.Upper: _text_function,
    exp.ConcatWs: _concatws,
    exp.Concat: _concat,
    exp.DPipe: _dpipe,
}
