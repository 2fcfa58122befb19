"""Functions of arrays, as COLLECT_LIST and COLLECT_SET make them: no element of these is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import TypeMismatch
from viewkeep.frontend import signatures
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.typed import Rules, Typed, made_call, said

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _array(typing: Typing, node: Expr) -> tuple[Typed, Type]:
    """An array, and what it is of."""
    typed = typing.type(node)
    if typed.type.element is None:
        raise typing.fail(
            TypeMismatch, node, f"{said(node)} is {typed.type} where an array is needed", "COLLECT_LIST(x)"
        )
    return typed, typed.type.element


def size(typing: Typing, node: Expr) -> Typed:
    """How many elements there are."""
    whole, _ = _array(typing, node)
    return made_call("size", [whole.expression], t.INT, whole.nullable)


def get(typing: Typing, node: Expr, position: Expr, name: str) -> Typed:
    """An element: `get` counts from 0 and is null outside, `at` fails there, `element_at` counts from 1."""
    whole, of = _array(typing, node)
    at = typing.type(position)
    if not signatures.fits("int", at.type):
        raise typing.fail(TypeMismatch, position, f"a position is an INT, not {at.type}", "use CAST")
    return made_call(name, [whole.expression, cast_to(at, t.INT)], of, True)


def _contains(typing: Typing, node: exp.ArrayContains) -> Typed:
    whole, of = _array(typing, node.this)
    value = typing.type(node.expression)
    if t.widest(of, value.type) != of:
        raise typing.fail(
            TypeMismatch, node, f"an array of {of} has no {value.type}", f"use CAST(... AS {of})"
        )
    parts = [whole.expression, cast_to(value, of)]
    return made_call("array_contains", parts, t.BOOLEAN, whole.nullable or value.nullable)


def _sorted(typing: Typing, node: exp.ArraySort) -> Typed:
    whole, _ = _array(typing, node.this)
    ascending = node.args.get("asc") or exp.true()
    if not isinstance(ascending, exp.Boolean):
        raise typing.refusal(node)
    name = "sort_array" if ascending.this else "sort_array_desc"
    return made_call(name, [whole.expression], whole.type, whole.nullable)


def _joined(typing: Typing, node: exp.ArrayToString) -> Typed:
    separator = typing.type(node.expression)
    typing.need(node.expression, separator, t.STRING)
    return elements(typing, node.this, separator)


def elements(typing: Typing, node: Expr, separator: Typed) -> Typed:
    """An array of strings as one, with something between them."""
    whole, of = _array(typing, node)
    if of != t.STRING:
        raise typing.fail(
            TypeMismatch, node, f"an array of {of} is no array of strings", "COLLECT_LIST(CAST(x AS STRING))"
        )
    parts = [whole.expression, separator.expression]
    return made_call("array_join", parts, t.STRING, whole.nullable or separator.nullable)


def _extreme(typing: Typing, node: exp.ArrayMin | exp.ArrayMax) -> Typed:
    whole, of = _array(typing, node.this)
    name = "array_min" if isinstance(node, exp.ArrayMin) else "array_max"
    return made_call(name, [whole.expression], of, True)


def _bracket(typing: Typing, node: exp.Bracket) -> Typed:
    if len(node.expressions) != 1:
        raise typing.refusal(node)
    return get(typing, node.this, node.expressions[0], "element_at" if node.args.get("offset") else "at")


RULES: Rules = {
    exp.ArraySize: lambda typing, node: size(typing, node.this),
    exp.ArrayContains: _contains,
    exp.ArraySort: _sorted,
    exp.ArrayToString: _joined,
    exp.ArrayMin: _extreme,
    exp.ArrayMax: _extreme,
    exp.Bracket: _bracket,
}
