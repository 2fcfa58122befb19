"""Pass 1: every subview carries its IDs (idIVM section 4, table 1; retouching as in FORWARD appendix B).

    before: Project(name)        over Scan(devices, key did)
    after:  Project(name, did)   over Scan(devices, key did)      did is hidden from the user

A projection is the only operator that can lose an ID. An equal column that it keeps will do in its place.
"""

from __future__ import annotations

from viewkeep.algebra.expressions import column
from viewkeep.algebra.nodes import Item, Node, Project, rebuild


def infer_ids(plan: Node) -> Node:
    """The plan with the missing ID columns added to its projections."""
    return rebuild(plan, _retouch)


def _retouch(node: Node) -> Node:
    if not isinstance(node, Project):
        return node
    missing = [name for name in node.input.ids if name not in node.kept]
    added = tuple(Item(node.input.by_name[name], column(name)) for name in missing)
    return Project(node.input, node.items + added) if added else node
