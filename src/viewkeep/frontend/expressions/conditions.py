"""What is true, false or null: logic, comparisons, IN, LIKE and RLIKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import COMPARISONS, Expr, conjunction, disjunction
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.regex import portable
from viewkeep.frontend.typed import Rules, Typed, bracketed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing

_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


def _logic(typing: Typing, node: exp.Binary) -> Typed:
    sides = [typing.type(node.left), typing.type(node.right)]
    for side, part in zip(sides, (node.left, node.right), strict=True):
        typing.need(part, side, t.BOOLEAN)
    made = type(node)(this=sides[0].expression, expression=sides[1].expression)
    return Typed(made, t.BOOLEAN, any(s.nullable for s in sides))


def _not(typing: Typing, node: exp.Not) -> Typed:
    inner = typing.type(node.this)
    typing.need(node.this, inner, t.BOOLEAN)
    return Typed(exp.Not(this=inner.expression), t.BOOLEAN, inner.nullable)


def _is(typing: Typing, node: exp.Is) -> Typed:
    inner = typing.type(node.this)
    if not isinstance(node.expression, (exp.Null, exp.Boolean)):
        raise typing.refusal(node)
    if isinstance(node.expression, exp.Boolean):
        typing.need(node.this, inner, t.BOOLEAN)
    made = exp.Is(this=inner.expression, expression=node.expression)
    return Typed(made, t.BOOLEAN, False)


def _comparison(typing: Typing, node: Expr) -> Typed:
    if isinstance(node, _EQUALITIES) and isinstance(node.this.unnest(), exp.Tuple):
        equal = _rows_equal(typing, node.this, node.expression)
        negated = isinstance(node, (exp.NEQ, exp.NullSafeNEQ))
        return typing.type(exp.Not(this=equal) if negated else equal)
    left, right = typing.aligned(node, [node.this, node.expression])
    ordering = isinstance(node, (exp.LT, exp.LTE, exp.GT, exp.GTE))
    if ordering and left.type.kind == "array":
        raise typing.refusal(node)
    null_safe = isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ))
    made = type(node)(this=left.expression, expression=right.expression)
    return Typed(made, t.BOOLEAN, not null_safe and (left.nullable or right.nullable))


def _between(typing: Typing, node: exp.Between) -> Typed:
    if node.args.get("symmetric"):
        raise typing.refusal(node)
    parts = typing.aligned(node, [node.this, node.args["low"], node.args["high"]])
    value, low, high = (p.expression for p in parts)
    made = exp.Between(this=value, low=low, high=high)
    return Typed(made, t.BOOLEAN, any(p.nullable for p in parts))


def _in(typing: Typing, node: exp.In) -> Typed:
    if node.args.get("query") or node.args.get("unnest") or not node.expressions:
        raise typing.fail(
            Unsupported, node, "IN with a subquery is not supported yet",
            "join with a derived table or a CTE instead",
        )  # fmt: skip
    if isinstance(node.this.unnest(), exp.Tuple):
        rows = disjunction(_rows_equal(typing, node.this, other) for other in node.expressions)
        return typing.type(exp.Paren(this=rows))
    parts = typing.aligned(node, [node.this, *node.expressions])
    made = exp.In(this=parts[0].expression, expressions=[p.expression for p in parts[1:]])
    return Typed(made, t.BOOLEAN, any(p.nullable for p in parts))


def _rows_equal(typing: Typing, one: Expr, other: Expr) -> Expr:
    """(a, b) = (c, d) is a <=> c AND b <=> d: a row is no null, and nulls in it are values like others."""
    left, right = one.unnest(), other.unnest()
    if (
        not isinstance(left, exp.Tuple)
        or not isinstance(right, exp.Tuple)
        or len(left.expressions) != len(right.expressions)
    ):
        raise typing.fail(
            TypeMismatch, other, "a row is compared with something else, or with a row of other columns",
            "compare rows of as many columns: (a, b) = (1, 2)",
        )  # fmt: skip
    pairs = zip(left.expressions, right.expressions, strict=True)
    made = conjunction(
        exp.NullSafeEQ(this=bracketed(a.copy()), expression=bracketed(b.copy())) for a, b in pairs
    )
    assert made is not None
    return exp.Paren(this=made)


def _like(typing: Typing, node: Expr, escape: str = "\\") -> Typed:
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _like_several(typing, node, escape)
    value, pattern = typing.type(node.this), typing.type(node.expression)
    typing.need(node.this, value, t.STRING)
    typing.need(node.expression, pattern, t.STRING)
    if not isinstance(node.expression, exp.Literal) or not _escapes_well(node.expression.name, escape):
        raise typing.fail(
            Unsupported, node, "LIKE needs a literal pattern, and only %, _ and \\ can be escaped in it",
            "write the pattern as a string with % and _",
        )  # fmt: skip
    sides: list[Expr] = [value.expression, pattern.expression]
    if isinstance(node, exp.ILike):  # as Spark defines it
        sides = [exp.Lower(this=side) for side in sides]
    made: Expr = exp.Like(this=bracketed(sides[0]), expression=sides[1])
    if escape in node.expression.name:
        made = exp.Escape(this=made, expression=exp.Literal.string(escape))
    if node.args.get("negate"):
        made = exp.Not(this=made)
    return Typed(made, t.BOOLEAN, value.nullable)


def _like_several(typing: Typing, node: Expr, escape: str) -> Typed:
    """LIKE ANY and LIKE ALL: one LIKE for each pattern."""
    patterns = node.expression.this.unnest()
    listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
    each = [_like(typing, type(node)(this=node.this.copy(), expression=one.copy()), escape) for one in listed]
    joined = each[0].expression
    kind = exp.Or if isinstance(node.expression, exp.Any) else exp.And
    for more in each[1:]:
        joined = kind(this=joined, expression=more.expression)
    made: Expr = exp.Paren(this=joined)
    if node.args.get("negate"):
        raise typing.fail(
            Unsupported, node, "NOT LIKE ANY and NOT LIKE ALL are easily misread",
            "write NOT (s LIKE ANY (...))",
        )  # fmt: skip
    return Typed(made, t.BOOLEAN, each[0].nullable)


def _escape(typing: Typing, node: exp.Escape) -> Typed:
    mark = node.expression
    if not isinstance(node.this, (exp.Like, exp.ILike)) or len(mark.name) != 1 or mark.name in "%_":
        raise typing.refusal(node)
    return _like(typing, node.this, mark.name)


def _regexplike(typing: Typing, node: exp.RegexpLike) -> Typed:
    value = typing.type(node.this)
    typing.need(node.this, value, t.STRING)
    pattern = node.expression
    ours = portable(pattern.name) if isinstance(pattern, exp.Literal) and pattern.is_string else None
    if ours is None:
        raise typing.fail(
            Unsupported, node, "this regular expression might mean different things on different engines",
            "use a literal pattern of letters, digits, . ^ $ | * + ? {n,m} ( ) [...], \\\\d \\\\w \\\\s",
        )  # fmt: skip
    return made_call(
        "rlike", [value.expression, pattern, exp.Literal.string(ours)], t.BOOLEAN, value.nullable
    )


def _escapes_well(pattern: str, escape: str) -> bool:
    """Spark fails for an escape before anything but %, _ and itself."""
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in ("%", "_", escape):
                return False
            at += 1
        at += 1
    return True


RULES: Rules = {
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.Is: _is,
    **dict.fromkeys(COMPARISONS, _comparison),
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _regexplike,
}
