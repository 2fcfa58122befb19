"""Recomputing: aggregates over the groups alone that a join will ask for.

    Join a.k = s.k (a, Aggregate by (k) (b))  ->  Join a.k = s.k (a, Aggregate by (k) (b semijoin a on k))

A correlated subquery becomes such a join, which computes its aggregate for every group there is, where the
query names a few of them. Only for computing a view without its caches: a cache has all groups, since the
next change may ask for any. Not where the other side has no condition of its own, since the semijoin would
then cost a pass and leave out nothing; and only with a part of the other side that is no join itself, since
it is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewkeep.algebra.expressions import Expr, equated_columns
from viewkeep.algebra.nodes import Aggregate, Join, MarkJoin, Node, OuterJoin, Project, Scan, Select, walk
from viewkeep.algebra.script_nodes import SemiJoin


def reduce_groups(node: Node) -> Node:
    """An equal plan whose aggregates leave out groups that no join asks for."""
    node = node.with_inputs([reduce_groups(child) for child in node.inputs])
    if isinstance(node, Join):
        left = _reduced(node.left, node.right, node.condition)
        return node.with_inputs([left, _reduced(node.right, node.left, node.condition)])
    if isinstance(node, OuterJoin) and not node.full:  # left rows stay, whether they have a partner or not
        return node.with_inputs([node.left, _reduced(node.right, node.left, node.condition)])
    return node


def _reduced(side: Node, other: Node, condition: Expr | None) -> Node:
    """One side of a join, without groups that the other side does not name."""
    named: dict[str, str] = {}
    for a, b in equated_columns(condition, or_both_null=True):
        mine, theirs = (a, b) if a in side.names else (b, a)
        if mine in side.names and theirs in other.names:
            named[mine] = theirs
    return _at_aggregate(side, named, other) if named else side


def _at_aggregate(node: Node, named: Mapping[str, str], other: Node) -> Node:
    if isinstance(node, Project):
        passed = {i.copies: named[i.name] for i in node.items if i.name in named and i.copies is not None}
        below = _at_aggregate(node.input, passed, other) if passed else node.input
        return node if below is node.input else node.with_inputs([below])
    if not isinstance(node, Aggregate):
        return node
    keys = {name: theirs for name, theirs in named.items() if name in node.keys}
    found = _source(other, tuple(keys.values())) if keys else None
    if found is None:
        return node
    source, columns = found
    return replace(node, input=SemiJoin(node.input, source, tuple(zip(keys, columns, strict=True))))


def _source(node: Node, columns: tuple[str, ...]) -> tuple[Node, tuple[str, ...]] | None:
    """The part of a join that has these columns, or columns that equal them, and a condition; and what it
    calls them."""
    if isinstance(node, Join):
        for side in node.inputs:
            equal = [next((n for n in side.names if n in node.equal_to(c)), None) for c in columns]
            known = tuple(name for name in equal if name is not None)
            if len(known) == len(columns) and (found := _source(side, known)) is not None:
                return found
        return None
    plain = all(isinstance(n, (Scan, Select, Project, MarkJoin)) for n in walk(node))
    return (node, columns) if plain and any(isinstance(n, Select) for n in walk(node)) else None
