"""Inner join on any condition (idIVM tables 4 and 10), both inputs changing in one batch.

Insertions read the other input after the change, deletions need nothing, and updates of columns that the
condition does not look at pass by the ID of their own side: that is where i-diffs win.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import Expr, column, columns_of, pre_name
from viewkeep.algebra.nodes import Item, Join, Node, Project, Select, passing, pre_column
from viewkeep.algebra.script_nodes import Empty, Union
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import compare, reexamine, rename_ids
from viewkeep.rules.context import Context


def propagate(node: Join, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """ID-based: each diff on its own."""
    return [
        out
        for side, diffs in enumerate(inputs)
        for diff in diffs
        for out in _propagate(node, side, diff, ctx)
    ]


def _propagate(node: Join, side: int, diff: Diff, ctx: Context) -> list[Diff]:
    if diff.kind == "insert":
        return [_inserted(node, side, diff, ctx)]
    if diff.kind == "delete":
        return [_renamed(node, diff, "PassDeletesThroughJoin")]
    if not _looked_at(node) & diff.changed:
        return [_renamed(node, diff, "PassUpdatesThroughJoin")]
    return reexamine(node, diff, diff.changed, ctx, "ReexamineUpdatesOfJoinColumns")


def propagate_tuples(node: Join, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """Tuple-based: every diff row is joined out to whole view rows.

    Where both inputs change, a pair may be touched from both sides; the pairs before and after are then
    collected from both and compared, so that each counts once.
    """
    if inputs[0] and inputs[1]:
        before = ctx.let("pairs_before", _touched_pairs(node, inputs, ctx, "pre"))
        after = ctx.let("pairs_after", _touched_pairs(node, inputs, ctx, "post"))
        changed = frozenset(c for diffs in inputs for d in diffs for c in d.changed)
        return compare(before, after, node.ids, changed, "ComparePairsTouchedFromBothSides")
    side = 0 if inputs[0] else 1
    return [out for diff in inputs[side] for out in _one_side(node, side, diff, ctx)]


def _one_side(node: Join, side: int, diff: Diff, ctx: Context) -> list[Diff]:
    """The other input does not change in this batch: one join serves both states."""
    if diff.kind == "insert":
        return [_inserted(node, side, diff, ctx)]
    others = tuple(n for n in node.names if n not in node.ids)
    if diff.kind == "delete":
        rows = passing(_paired(node, side, diff.query, node.condition, ctx), node.names)
        return [Diff("delete", node.ids, others, rows, rule="JoinOutDeletes")]
    if _looked_at(node) & diff.changed:
        before = ctx.let("pairs_before", _pairs(node, side, diff, "pre", ctx))
        after = ctx.let("pairs_after", _pairs(node, side, diff, "post", ctx))
        return compare(before, after, node.ids, diff.changed, "JoinOutUpdatesOfJoinColumns")
    joined = _paired(node, side, diff.query, node.condition, ctx)
    if node.condition is not None and _looked_at(node) & set(diff.known):
        # another diff may answer for a change of the join columns in the same row: then the pair is new
        joined = Select(joined, diff.pre(node.condition))
    items = [Item(node.by_name[n], column(n)) for n in node.names]
    for n in others:
        before_name = pre_name(n) if n in diff.known else n
        items.append(Item(pre_column(node.by_name[n]), column(before_name)))
    query = Project(joined, tuple(items))
    return [Diff("update", node.ids, others, query, diff.changed, rule="JoinOutUpdates")]


def _touched_pairs(node: Join, inputs: Sequence[Sequence[Diff]], ctx: Context, state: str) -> Node:
    parts = [
        _pairs(node, side, diff, state, ctx)
        for side, diffs in enumerate(inputs)
        for diff in diffs
        if diff.kind != ("insert" if state == "pre" else "delete")
    ]
    return Union(tuple(parts), distinct=True) if parts else Empty(node.columns)


def _pairs(node: Join, side: int, diff: Diff, state: str, ctx: Context) -> Node:
    """The pairs of a diff's rows, in one state, with the other input in that state."""
    rows = whole_rows(node.inputs[side], diff, state)
    other = ctx.state(node.inputs[1 - side], "pre" if state == "pre" else "post")
    left, right = (rows, other) if side == 0 else (other, rows)
    return passing(Join(left, right, node.condition), node.names)


def whole_rows(node: Node, diff: Diff, state: str) -> Node:
    """A tuple-based diff's rows as rows of its node, before or after the change."""
    old = state == "pre" and diff.kind == "update"
    return Project(
        diff.query,
        tuple(
            Item(c, column(pre_name(c.name) if old and c.name in diff.known else c.name))
            for c in node.columns
        ),
    )


def _inserted(node: Join, side: int, diff: Diff, ctx: Context) -> Diff:
    rows = passing(_paired(node, side, diff.query, node.condition, ctx), node.names)
    others = tuple(n for n in node.names if n not in node.ids)
    return Diff("insert", node.ids, others, rows, rule="JoinInsertsWithOtherInput")


def _paired(node: Join, side: int, rows: Node, condition: Expr | None, ctx: Context) -> Node:
    other = ctx.state(node.inputs[1 - side], "post")
    left, right = (rows, other) if side == 0 else (other, rows)
    return Join(left, right, condition)


def _renamed(node: Join, diff: Diff, rule: str) -> Diff:
    """The diff as it is, its ids under the names that stand for them in the join."""
    renamed, query = rename_ids(diff, node.id_of)
    replaced = [i for i in diff.ids if i not in renamed]
    if replaced:
        ids = [Item(node.by_name[new], column(old)) for new, old in renamed.items() if new != old]
        if diff.kind == "update":  # the old name stays known, and never changes
            ids += [Item(pre_column(node.by_name[old]), column(old)) for old in replaced]
        kept = (Item(c, column(c.name)) for c in query.columns)
        query = Project(query, (*ids, *kept))
    known = (*diff.known, *replaced)
    return Diff(diff.kind, tuple(renamed), known, query, diff.changed, exact=False, rule=rule)


def _looked_at(node: Join) -> frozenset[str]:
    return columns_of(node.condition) if node.condition is not None else frozenset()
