"""Outer joins on any condition. RIGHT is LEFT with its sides changed over, in the front end.

Left rows keep their ID whether or not they have a partner, so what changes of them alone passes by it. What
changes a partner makes rows come and go: those of the left rows concerned are compared, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import columns_of
from viewkeep.algebra.nodes import Node, OuterJoin, passing
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import compare_touched, met_by
from viewkeep.rules.context import Context


def propagate(node: OuterJoin, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """ID-based: diffs that leave all partners as they are pass; the rest is compared."""
    passed: list[Diff] = []
    rest: list[list[Diff]] = [[], []]
    for side, diffs in enumerate(inputs):
        for diff in diffs:
            if diff.kind == "update" and not _looked_at(node) & diff.changed:
                passed.append(_renamed(diff, "PassUpdatesThroughOuterJoin"))
            elif diff.kind == "delete" and side == 0 and not node.full:
                passed.append(_renamed(diff, "PassDeletesThroughOuterJoin"))
            elif diff.kind == "insert" and side == 0 and not node.full:
                passed.append(_inserted(node, diff, ctx))
            else:
                rest[side].append(diff)
    changed = frozenset(c for diffs in rest for d in diffs for c in d.changed)
    return passed + _compared(node, rest, changed, ctx, "ComparePartners", every=False)


def propagate_tuples(node: OuterJoin, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """Tuple-based: everything is compared."""
    changed = frozenset(node.names) - frozenset(node.ids)
    return _compared(node, inputs, changed, ctx, "CompareJoinedRows", every=True)


def _renamed(diff: Diff, rule: str) -> Diff:
    return Diff(diff.kind, diff.ids, diff.known, diff.query, diff.changed, exact=False, rule=rule)


def _inserted(node: OuterJoin, diff: Diff, ctx: Context) -> Diff:
    rows = OuterJoin(passing(diff.query, node.left.names), ctx.state(node.right, "post"), node.condition)
    others = tuple(n for n in node.names if n not in node.ids)
    return Diff("insert", node.ids, others, rows, rule="JoinInsertsWithOtherInput")


def _compared(
    node: OuterJoin,
    inputs: Sequence[Sequence[Diff]],
    changed: frozenset[str],
    ctx: Context,
    rule: str,
    *,
    every: bool,
) -> list[Diff]:
    """All rows of the left rows concerned; in a full join those of the right rows concerned too."""
    if not any(inputs):
        return []
    touched: list[Node] = [passing(d.query, d.ids) for d in inputs[0]]
    touched += met_by(node.condition, node.right, inputs[1], node.left, ctx, every=every)
    if node.full:
        touched += [passing(d.query, d.ids) for d in inputs[1]]
        touched += met_by(node.condition, node.left, inputs[0], node.right, ctx, every=every)
    return compare_touched(node, touched, changed, ctx, rule) if touched else []


def _looked_at(node: OuterJoin) -> frozenset[str]:
    return columns_of(node.condition) if node.condition is not None else frozenset()
