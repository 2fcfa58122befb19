"""Whether a partner exists: EXISTS, IN, ANY and ALL, and by selecting on the mark semi- and antijoins
(idIVM table 13 has the antisemijoin). Any condition, both inputs changing in one batch.

A change of the left passes as it would without the mark, unless it reaches the condition. A change of the
right can only turn marks: of left rows that satisfy the condition with a right row as it was, or as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import columns_of
from viewkeep.algebra.nodes import MarkJoin, Node, passing
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import compare_touched, met_by, reexamine
from viewkeep.rules.context import Context


def propagate(node: MarkJoin, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """ID-based."""
    made = [out for diff in inputs[0] for out in _from_left(node, diff, ctx)]
    touched = met_by(node.condition, node.right, inputs[1], node.left, ctx)
    if touched:
        mark = frozenset({node.mark.name})
        made += compare_touched(node, touched, mark, ctx, "TurnMarks", updates_only=True)
    return made


def propagate_tuples(node: MarkJoin, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """Tuple-based: the left rows that either side touches, before and after, compared."""
    touched: list[Node] = [passing(d.query, d.ids) for d in inputs[0]]
    touched += met_by(node.condition, node.right, inputs[1], node.left, ctx)
    changed = frozenset(node.names) - frozenset(node.ids)
    return compare_touched(node, touched, changed, ctx, "CompareMarkedRows") if touched else []


def _from_left(node: MarkJoin, diff: Diff, ctx: Context) -> list[Diff]:
    if diff.kind == "insert":
        rows = MarkJoin(passing(diff.query, node.left.names), ctx.state(node.right, "post"),
                        node.condition, node.mark)  # fmt: skip
        others = tuple(n for n in node.names if n not in node.ids)
        return [Diff("insert", node.ids, others, rows, rule="MarkInserts")]
    if diff.kind == "update" and _looked_at(node) & diff.changed:
        changed = diff.changed | {node.mark.name}
        return reexamine(node, diff, changed, ctx, "ReexamineUpdatesOfMarkedColumns")
    rule = "PassDeletesByMark" if diff.kind == "delete" else "PassUpdatesByMark"
    return [Diff(diff.kind, diff.ids, diff.known, diff.query, diff.changed, diff.exact, rule)]


def _looked_at(node: MarkJoin) -> frozenset[str]:
    return columns_of(node.condition) if node.condition is not None else frozenset()
