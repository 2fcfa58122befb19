"""CASE and its kin, and the greatest and least of several values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.frontend.typed import Rules, Typed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing


def _case(typing: Typing, node: exp.Case) -> Typed:
    conditions = []
    for branch in node.args["ifs"]:
        test = branch.this
        if node.this is not None:
            test = exp.EQ(this=node.this.copy(), expression=test.copy())
        conditions.append(typing.condition(test, "WHEN"))
    default = node.args.get("default")
    results = [branch.args["true"] for branch in node.args["ifs"]]
    parts = typing.aligned(node, results + ([default] if default is not None else []))
    made = exp.Case(
        ifs=[exp.If(this=test, true=part.expression) for test, part in zip(conditions, parts, strict=False)],
        default=parts[-1].expression if default is not None else None,
    )
    nullable = default is None or any(p.nullable for p in parts)
    return Typed(made, typing.common(parts), nullable)


def _if(typing: Typing, node: exp.If) -> Typed:
    branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
    default = node.args.get("false")
    return _case(typing, exp.Case(ifs=[branch], default=default.copy() if default else None))


def _coalesce(typing: Typing, node: exp.Coalesce) -> Typed:
    parts = typing.aligned(node, [node.this, *node.expressions])
    made = exp.Coalesce(this=parts[0].expression, expressions=[p.expression for p in parts[1:]])
    return Typed(made, typing.common(parts), all(p.nullable for p in parts))


def _nullif(typing: Typing, node: exp.Nullif) -> Typed:
    left, right = typing.aligned(node, [node.this, node.expression])
    made = exp.Nullif(this=left.expression, expression=right.expression)
    return Typed(made, left.type, True)


def _nvl2(typing: Typing, node: exp.Nvl2) -> Typed:
    test = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
    branch = exp.If(this=test, true=node.args["true"].copy())
    return _case(typing, exp.Case(ifs=[branch], default=node.args["false"].copy()))


def _extreme(typing: Typing, node: Expr) -> Typed:
    if not node.expressions:
        raise typing.refusal(node)
    parts = typing.aligned(node, [node.this, *node.expressions])
    return made_call(
        node.key, [p.expression for p in parts], typing.common(parts), all(p.nullable for p in parts)
    )


RULES: Rules = {
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Nvl2: _nvl2,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
}
