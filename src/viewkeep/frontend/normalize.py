"""The bound plan, made ready for the passes: conditions pushed down, projections merged, columns pruned.

Conditions that sit next to their table matter more here than in an ordinary optimizer: an update diff that
knows all columns of a condition passes it without reading anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viewkeep.algebra.expressions import (
    Expr,
    columns_of,
    conjunction,
    conjuncts,
    substitute,
)
from viewkeep.algebra.nodes import Aggregate, Item, Join, Node, Project, Scan, Select


def normalize(plan: Project) -> Project:
    """An equal plan in the form that the passes expect."""
    pushed = merge_projections(push_conditions(plan, []))
    assert isinstance(pushed, Project)
    pruned = prune(pushed, frozenset(pushed.names))
    assert isinstance(pruned, Project)
    return pruned


def push_conditions(node: Node, terms: list[Expr]) -> Node:
    """Each conjunct as far down as its columns allow: WHERE a.x = b.y becomes the join's condition."""
    if isinstance(node, Select):
        return push_conditions(node.input, conjuncts(node.predicate) + terms)
    if isinstance(node, Project):
        made = {item.name: item.expression for item in node.items}
        below = [substitute(term, made) for term in terms]
        return node.with_inputs([push_conditions(node.input, below)])
    if isinstance(node, Join):
        terms = conjuncts(node.condition) + terms
        left = [c for c in terms if columns_of(c) <= set(node.left.names)]
        right = [c for c in terms if c not in left and columns_of(c) <= set(node.right.names)]
        here = [c for c in terms if c not in left and c not in right]
        return Join(
            push_conditions(node.left, left),
            push_conditions(node.right, right),
            conjunction(here),
        )
    if isinstance(node, Aggregate):
        # a condition on keys alone keeps or drops whole groups, so it may go first; without keys there
        # is one group, and it exists even over no rows
        below = [c for c in terms if columns_of(c) and columns_of(c) <= set(node.keys)]
        node = node.with_inputs([push_conditions(node.input, below)])
        terms = [c for c in terms if c not in below]
    condition = conjunction(terms)
    return node if condition is None else Select(node, condition)


def merge_projections(node: Node) -> Node:
    """Project(Project(x)) -> Project(x)."""
    node = node.with_inputs([merge_projections(child) for child in node.inputs])
    if isinstance(node, Project) and isinstance(node.input, Project):
        inner = {item.name: item.expression for item in node.input.items}
        items = (replace(i, expression=substitute(i.expression, inner)) for i in node.items)
        return Project(node.input.input, tuple(items))
    return node


def prune(node: Node, needed: frozenset[str]) -> Node:
    """The plan without columns that nothing above looks at. Keys stay: they are the IDs."""
    if isinstance(node, Scan):
        fields = tuple(f for f in node.fields if f[0].name in needed or f[0].name in node.key)
        return replace(node, fields=fields)
    if isinstance(node, Select):
        return node.with_inputs([prune(node.input, needed | columns_of(node.predicate))])
    if isinstance(node, Project):
        items = tuple(item for item in node.items if item.name in needed)
        return Project(prune(node.input, _columns_in(items)), items)
    if isinstance(node, Join):
        wanted = needed | (columns_of(node.condition) if node.condition is not None else frozenset())
        sides = [prune(side, wanted & frozenset(side.names)) for side in node.inputs]
        return node.with_inputs(sides)
    assert isinstance(node, Aggregate)
    kept = {m.argument for m in node.measures if m.name in needed and m.function == "sum"}
    measures = tuple(
        m
        for m in node.measures
        if m.name in needed
        or m.function == "rows"
        or (m.function in ("mass", "magnitude") and m.argument in kept)
    )
    arguments = frozenset(m.argument for m in measures if m.argument is not None)
    below = prune(node.input, frozenset(node.keys) | arguments)
    return replace(node, input=below, measures=measures)


def _columns_in(items: Iterable[Item]) -> frozenset[str]:
    return frozenset().union(*(columns_of(item.expression) for item in items))
