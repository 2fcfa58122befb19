"""Generalized projection (idIVM table 8). Items that an update does not reach do not change."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import column, columns_of, differs, disjunction, pre_name
from viewkeep.algebra.nodes import Item, Node, Project, Select, pre_column
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import reexamine, rename_ids
from viewkeep.rules.context import Context


def propagate(node: Project, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """All diffs of the input, through the projection; tuple-based diffs take the same rules."""
    return [out for diff in inputs[0] for out in _propagate(node, diff, ctx)]


def _propagate(node: Project, diff: Diff, ctx: Context) -> list[Diff]:
    if diff.kind == "insert":
        query = Project(diff.query, node.items)
        others = tuple(n for n in node.names if n not in node.ids)
        return [Diff("insert", node.ids, others, query, rule="ProjectInserts")]
    if diff.kind == "delete":
        return [_mapped(node, diff, frozenset(), "ProjectDeletes")]
    affected = [i for i in node.items if columns_of(i.expression) & diff.changed]
    changed = frozenset(i.name for i in affected) - frozenset(node.ids)
    if not changed:
        return []  # IgnoreUpdatesThatProjectionDrops
    if all(diff.knows(columns_of(i.expression)) for i in affected):
        return [_mapped(node, diff, changed, "ProjectUpdates")]
    return [
        made
        for made in reexamine(node, diff, changed, ctx, "LookUpWhatProjectedUpdatesNeed", node.kept)
        # the IDs pass through a projection, so it makes no row come or go; other diffs do
        if made.kind == "update"
    ]


def _mapped(node: Project, diff: Diff, changed: frozenset[str], rule: str) -> Diff:
    """The diff with its ids under their new names and the items that it knows."""
    renamed, rows = rename_ids(diff, node.kept)
    items = [Item(node.by_name[new], column(old)) for new, old in renamed.items()]
    # a tag belongs to the ids of every diff: without it an update of the null group would reach padded rows
    tags = [i for i in node.items if i.name in node.tags]
    items += tags
    known = [
        i
        for i in node.items
        if i.name not in renamed and i not in tags and diff.knows(columns_of(i.expression))
    ]
    items += [Item(i.column, diff.post(i.expression)) for i in known]
    if diff.kind == "update":
        items += [Item(pre_column(i.column), diff.pre(i.expression)) for i in known]
    query: Node = Project(rows, tuple(items))
    if changed:
        query = Select(query, disjunction(differs(column(c), column(pre_name(c))) for c in sorted(changed)))
    names = tuple(i.name for i in known)
    ids = (*renamed, *node.tags)
    return Diff(diff.kind, ids, names, query, changed, diff.exact, rule)
