"""UNION ALL (idIVM table 5): a diff of a part is a diff of the union, under the union's names."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import PRE, column, pre_name
from viewkeep.algebra.nodes import Item, Project, UnionAll, pre_column
from viewkeep.idiff.diff import Diff


def propagate(node: UnionAll, inputs: Sequence[Sequence[Diff]]) -> list[Diff]:
    """Each part's diffs; every one names the part's tag, so none reaches rows of another part."""
    return [_of_union(node, number, diff) for number, diffs in enumerate(inputs) for diff in diffs]


def _of_union(node: UnionAll, number: int, diff: Diff) -> Diff:
    calls = node.calls(number)
    items = []
    for c in diff.query.columns:
        if c.name in calls:
            items.append(Item(node.by_name[calls[c.name]], column(c.name)))
        elif c.name.startswith(PRE) and c.name.removeprefix(PRE) in calls:
            old = calls[c.name.removeprefix(PRE)]
            items.append(Item(pre_column(node.by_name[old]), column(pre_name(c.name.removeprefix(PRE)))))
    query = Project(diff.query, tuple(items))
    if diff.kind == "insert":
        ids, known = node.ids, tuple(n for n in node.names if n not in node.ids)
    else:
        ids, known = tuple(calls[i] for i in diff.ids), tuple(calls[k] for k in diff.known)
    changed = frozenset(calls[c] for c in diff.changed)
    return Diff(diff.kind, ids, known, query, changed, diff.exact, "PassThroughUnion")
