"""Which relations of a script have no rows, told from others that have none, without computing them."""

from __future__ import annotations

from collections.abc import Collection

from viewkeep.algebra.nodes import (
    Aggregate,
    Join,
    Limit,
    MarkJoin,
    Node,
    OuterJoin,
    Project,
    Select,
    UnionAll,
    Window,
    walk,
)
from viewkeep.algebra.script_nodes import Empty, LeftJoin, Ref, SemiJoin, Union


def is_empty(node: Node, empty: Collection[str]) -> bool:
    """Whether a query has no rows for sure. `empty`: the computed relations that have none."""
    if isinstance(node, Ref):
        return node.name in empty
    if isinstance(node, Empty):
        return True
    if isinstance(node, Aggregate) and not node.keys:
        return False  # one row, of nothing
    if isinstance(node, (Select, Project, Aggregate, Window, Limit)):
        return is_empty(node.input, empty)
    if isinstance(node, (LeftJoin, MarkJoin)) or (isinstance(node, SemiJoin) and node.anti):
        return is_empty(node.left, empty)
    if isinstance(node, (Join, SemiJoin)):
        return is_empty(node.left, empty) or is_empty(node.right, empty)
    if isinstance(node, OuterJoin):
        return is_empty(node.left, empty) and (not node.full or is_empty(node.right, empty))
    if isinstance(node, (Union, UnionAll)):
        return all(is_empty(part, empty) for part in node.parts)
    return False


def read_by(node: Node) -> frozenset[str]:
    """The computed relations that a query reads."""
    return frozenset(n.name for n in walk(node) if isinstance(n, Ref))
