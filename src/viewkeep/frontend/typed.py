"""Expressions with a type, and the few that we make ourselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.frontend import functions

QUOTIENT = "viewkeep_decimal_quotient"


@dataclass(frozen=True)
class Typed:
    """An expression with its type, and whether it may be null."""

    expression: Expr
    type: Type
    nullable: bool


Rules = Mapping[type[Expr], Callable[[Any, Any], Typed]]
"""How to type a class of syntax nodes: a function of the Typing that asks, and the node."""


def said(node: Expr) -> str:
    """An expression as the user wrote it: plan columns under the names that they were called by."""

    def unbind(part: Expr) -> Expr:
        return part.meta["written"].copy() if "written" in part.meta else part

    return node.transform(unbind).sql("spark")


def made_call(name: str, arguments: Sequence[Expr], result: Type, nullable: bool) -> Typed:
    """A call that each engine's dialect spells; its arguments have the types that it takes."""
    made = exp.Anonymous(this=functions.PREFIX + name, expressions=list(arguments))
    made.meta["made"] = True  # by us: a user cannot call it
    made.meta["typed"] = (result, nullable)
    return Typed(made, result, nullable)


def decimal_quotient(
    numerator: Expr, numerator_type: Type, denominator: Expr, denominator_type: Type, result: Type
) -> Expr:
    """numerator / denominator, rounded half up to a decimal type once.

    Each engine spells it its own way: Spark's division cuts digits of large types first, DuckDB's
    answers a double. Arguments: the two values, then precision and scale of the result, of each value.
    """
    above, below = t.as_decimal(numerator_type), t.as_decimal(denominator_type)
    sizes = (result, above, below)
    numbers = [exp.Literal.number(n) for s in sizes for n in (s.precision, s.scale)]
    made = exp.Anonymous(this=QUOTIENT, expressions=[numerator.copy(), denominator.copy(), *numbers])
    made.meta["made"] = True  # by us: a user cannot call it
    return made


def mean(kind: Type, total: Expr, count: Expr) -> Expr:
    """AVG of values of a type, from their sum and how many there are; NULL where there is none."""
    if kind.kind == "decimal":
        result = decimal_quotient(total, t.sum_type(kind), count, t.BIGINT, t.avg_type(kind))
    else:
        sides = [exp.Cast(this=side.copy(), to=t.DOUBLE.sql()) for side in (total, count)]
        result = exp.Div(this=sides[0], expression=sides[1])
    some = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=result)])


def bracketed(node: Expr) -> Expr:
    return exp.Paren(this=node) if isinstance(node, (exp.Binary, exp.Unary)) else node
