"""Columns and literals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.errors import TypeMismatch
from viewkeep.frontend.typed import Rules, Typed

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _column(typing: Typing, node: exp.Column) -> Typed:
    kind, nullable = typing.column_type(node.name)
    return Typed(node, kind, nullable)


def _literal(typing: Typing, node: exp.Literal) -> Typed:
    if node.is_string:
        return Typed(node, t.STRING, False)
    digits = node.name
    if "e" in digits.lower():
        return Typed(node, t.DOUBLE, False)
    if "." in digits:
        whole, _, fraction = digits.partition(".")
        precision = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
        if precision > t.MAX_PRECISION:
            raise typing.fail(TypeMismatch, node, f"{digits} has more than 38 digits", "write fewer digits")
        return Typed(node, t.decimal(precision, len(fraction)), False)
    value = int(digits)
    if value < 2**31:
        return Typed(node, t.INT, False)
    if value < 2**63:
        return Typed(node, t.BIGINT, False)
    return Typed(node, t.decimal(len(digits), 0), False)


def _boolean(typing: Typing, node: exp.Boolean) -> Typed:
    return Typed(node, t.BOOLEAN, False)


def _null(typing: Typing, node: exp.Null) -> Typed:
    return Typed(node, t.NULL, True)


def _paren(typing: Typing, node: exp.Paren) -> Typed:
    inner = typing.type(node.this)
    return Typed(exp.Paren(this=inner.expression), inner.type, inner.nullable)


RULES: Rules = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
}
