"""Functions of strings that have rules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.frontend.expressions import arrays
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.typed import Rules, Typed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _text_function(typing: Typing, node: Expr) -> Typed:
    inner = typing.type(node.this)
    typing.need(node.this, inner, t.STRING)
    return Typed(type(node)(this=inner.expression), t.STRING, inner.nullable)


def _concatws(typing: Typing, node: exp.ConcatWs) -> Typed:
    separator = typing.type(node.expressions[0])
    parts: list[Expr] = []
    for part in node.expressions:
        its = typing.type(part)
        if its.type.kind == "array":  # its elements are parts of their own, and there may be none
            joined = arrays.elements(typing, part, separator).expression
            some = exp.GT(this=arrays.size(typing, part).expression, expression=exp.Literal.number(0))
            parts.append(exp.Case(ifs=[exp.If(this=some, true=joined)]))
            continue
        typing.need(part, its, t.STRING)
        parts.append(cast_to(its, t.STRING))
    return made_call("concat_ws", parts, t.STRING, separator.nullable)


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
