"""Which update diffs each base table needs (idIVM section 5): the sets of conditional columns."""

from __future__ import annotations

from viewkeep.algebra.expressions import columns_of
from viewkeep.algebra.nodes import (
    Aggregate,
    Constant,
    Join,
    Limit,
    MarkJoin,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
)

Lineage = dict[str, frozenset[str]]


def update_sets(plan: Node) -> dict[Scan, tuple[frozenset[str], ...]]:
    """For each scan: one set of columns for each operator that conditions on some, and one for the rest.

    Key columns are in none: a changed key is a delete and an insert. Aggregates end the search: above
    them travel diffs of groups, not of base rows.
    """
    conditions: list[frozenset[str]] = []
    _lineage(plan, conditions)
    found: dict[Scan, tuple[frozenset[str], ...]] = {}
    for scan in _scans(plan):
        own = frozenset(scan.names) - frozenset(scan.key)
        sets = list(dict.fromkeys(c & own for c in conditions if c & own))
        rest = own - frozenset().union(*sets)
        found[scan] = (*sets, rest) if rest else tuple(sets)
    return found


def _scans(node: Node) -> list[Scan]:
    own = [node] if isinstance(node, Scan) else []
    return own + [scan for child in node.inputs for scan in _scans(child)]


def _lineage(node: Node, conditions: list[frozenset[str]]) -> Lineage:
    """Which scan columns each output is made of; what operators condition on is collected on the way."""
    below: Lineage = {}
    for child in node.inputs:
        below.update(_lineage(child, conditions))
    if isinstance(node, Scan):
        return {name: frozenset({name}) for name in node.names}
    if isinstance(node, Select):
        conditions.append(_origins(columns_of(node.predicate), below))
    elif isinstance(node, (Join, OuterJoin, MarkJoin)):
        if node.condition is not None:
            conditions.append(_origins(columns_of(node.condition), below))
        if isinstance(node, MarkJoin):
            below[node.mark.name] = frozenset()
    elif isinstance(node, Window):
        conditions.append(_origins(node.looked_at, below))
        below.update({item.name: _origins(node.looked_at, below) for item in node.items})
    elif isinstance(node, Limit):
        conditions.append(_origins(frozenset(o.column for o in node.order), below))
    elif isinstance(node, Constant):
        return {node.column.name: frozenset()}
    elif isinstance(node, UnionAll):
        parts = [[below[name] for name in part.names] for part in node.parts]
        return {
            name: frozenset().union(*origins)
            for name, origins in zip(node.names, zip(*parts, strict=True), strict=True)
        }
    elif isinstance(node, Project):
        return {i.name: _origins(columns_of(i.expression), below) for i in node.items}
    elif isinstance(node, Aggregate):
        conditions.append(_origins(frozenset(node.keys), below))
        return dict.fromkeys(node.names, frozenset())
    return below


def _origins(names: frozenset[str], below: Lineage) -> frozenset[str]:
    return frozenset().union(*(below[name] for name in names))
