"""SELECTs under construction, and the small trees that they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, substitute
from viewkeep.algebra.nodes import Column, Constant, Join, Measure, Order
from viewkeep.algebra.script_nodes import LeftJoin, SemiJoin
from viewkeep.algebra.types import BOOLEAN


@dataclass
class Source:
    relation: Expr
    on: Expr | None = None
    left: bool = False
    full: bool = False


@dataclass
class Block:
    """One SELECT under construction: FROM, WHERE, and what each plan column is in its terms."""

    sources: list[Source]
    columns: dict[str, Expr]
    where: list[Expr] = field(default_factory=list)
    is_restricted: bool = False
    """Whether a semijoin restricts it: engines do not move that below a join, so it is a subquery there."""


def numbers(node: Constant) -> exp.Query:
    rows: list[exp.Query] = [
        exp.select(
            exp.alias_(
                exp.Cast(this=exp.Literal.number(n), to=node.column.type.sql()), node.column.name, quoted=True
            )
        )
        for n in node.numbers
    ]
    joined = rows[0]
    for row in rows[1:]:
        joined = exp.Union(this=joined, expression=row, distinct=False)
    return joined


def computes(block: Block) -> bool:
    return any(not isinstance(e, exp.Column) for e in block.columns.values())


def ordered(order: Sequence[Order], columns: Mapping[str, Expr]) -> list[Expr]:
    # where nulls go is always written: engines disagree on what goes without saying
    return [
        exp.Ordered(this=columns[o.column].copy(), desc=o.descending, nulls_first=o.nulls_first)
        for o in order
    ]


def with_ties(order: Sequence[Order], ids: Sequence[str]) -> tuple[Order, ...]:
    named = {o.column for o in order}
    return (*order, *(Order(i) for i in ids if i not in named))


def copied(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: [e.copy() for e in v] if isinstance(v, list) else (v.copy() if v is not None else None)
        for k, v in parts.items()
    }


def measured(measure: Measure, columns: dict[str, Expr]) -> Expr:
    """The aggregate function that computes a measure from its rows."""
    if measure.call is not None:
        return substitute(measure.call, columns)
    if measure.function == "rows" or measure.argument is None:
        return exp.Count(this=exp.Star())
    value: Expr = columns[measure.argument].copy()
    if measure.function == "count":
        return exp.Count(this=value)
    if measure.function in ("min", "max") and measure.column.type == BOOLEAN:  # not every engine orders them
        return exp.LogicalAnd(this=value) if measure.function == "min" else exp.LogicalOr(this=value)
    if measure.function in ("min", "max"):
        return exp.Min(this=value) if measure.function == "min" else exp.Max(this=value)
    if measure.function in ("mass", "magnitude"):
        value = exp.Abs(this=exp.Cast(this=value, to=measure.column.type.sql()))
    total = exp.Coalesce(this=exp.Sum(this=value), expressions=[exp.Literal.number(0)])
    return exp.Cast(this=total, to=measure.column.type.sql())


def of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def named(value: Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def selected(block: Block, columns: tuple[Column, ...]) -> exp.Select:
    outputs = [named(block.columns[c.name].copy(), c.name) for c in columns]
    if not outputs:  # a diff over a node without IDs: that it has a row is all it says
        outputs = [named(exp.Literal.number(1), "one")]
    return reading(exp.Select(expressions=outputs), block)


def reading(query: exp.Select, block: Block) -> exp.Select:
    query.set("from_", exp.From(this=block.sources[0].relation))
    for source in block.sources[1:]:
        always = isinstance(source.on, exp.Boolean)
        join = exp.Join(this=source.relation)
        if source.left:
            join.set("side", "FULL" if source.full else "LEFT")
        elif always:
            join.set("kind", "CROSS")
        if source.left or not always:
            join.set("on", source.on)
        query.append("joins", join)
    if block.where:
        query.set("where", exp.Where(this=all_of(block.where)))
    return query


def all_of(terms: Sequence[Expr]) -> Expr:
    """All terms joined by AND; the terms stand nowhere else, so they need no copy."""
    wrapped = [exp.Paren(this=term) if isinstance(term, exp.Or) else term for term in terms]
    joined = wrapped[0]
    for term in wrapped[1:]:
        joined = exp.And(this=joined, expression=term)
    return joined


def matches(node: SemiJoin | LeftJoin, left: dict[str, Expr], right: dict[str, Expr]) -> list[Expr]:
    """Equality of the paired columns, null-safe where both may be null: engines hash `=` best."""
    terms: list[Expr] = []
    for a, b in node.on:
        nullable = node.left.by_name[a].nullable and node.right.by_name[b].nullable
        kind = exp.NullSafeEQ if nullable else exp.EQ
        terms.append(kind(this=left[a].copy(), expression=right[b].copy()))
    return terms


def plain_where_not_null(condition: Expr, node: Join) -> Expr:
    """Null-safe equalities of columns of which one is never null, as plain ones."""

    def relax(part: Expr) -> Expr:
        if isinstance(part, exp.NullSafeEQ):
            sides = [part.this, part.expression]
            if all(isinstance(s, exp.Column) for s in sides) and not all(
                node.by_name[s.name].nullable for s in sides
            ):
                return exp.EQ(this=part.this, expression=part.expression)
        return part

    return condition.transform(relax)  # of a copy
