"""Selection (idIVM table 6). X is the set of columns that the condition looks at."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import Expr, both, columns_of, is_not_true
from viewkeep.algebra.nodes import Node, Select, passing
from viewkeep.algebra.script_nodes import SemiJoin
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import old_values, reexamine
from viewkeep.rules.context import Context


def propagate(node: Select, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """All diffs of the input, through the selection; tuple-based diffs take the same rules."""
    return [out for diff in inputs[0] for out in _propagate(node, diff, ctx)]


def _propagate(node: Select, diff: Diff, ctx: Context) -> list[Diff]:
    condition, looked_at = node.predicate, columns_of(node.predicate)
    if diff.kind == "insert":
        return [_filtered(diff, condition, "KeepInsertsThatSatisfySelection")]
    if diff.kind == "delete":
        if diff.knows(looked_at):
            return [_filtered(diff, diff.pre(condition), "KeepDeletesThatSatisfiedSelection")]
        return [_passed(diff, "PassDeletesThroughSelection")]
    if not looked_at & diff.changed:
        if diff.knows(looked_at):
            # both, since another diff may answer for a change of X in the same row
            holds = both(diff.pre(condition), diff.post(condition))
            return [_filtered(diff, holds, "KeepUpdatesThatSatisfySelection")]
        return [_passed(diff, "PassUpdatesThroughSelection")]
    if diff.knows(looked_at):
        return _split(node, diff, condition, ctx)
    return reexamine(node, diff, diff.changed, ctx, "ReexamineUpdatesOfSelection")


def _split(node: Select, diff: Diff, condition: Expr, ctx: Context) -> list[Diff]:
    """An update that knows all of X: it stays, leaves or enters the selection, told by the diff alone.

    "Leaves" is "was true and is not true": with phi = (a > 1), a going from 2 to NULL leaves, and
    NOT (a > 1) would not see it.
    """
    was, is_ = diff.pre(condition), diff.post(condition)
    stays = _filtered(diff, both(was, is_), "UpdateStaysInSelection")
    leaving = old_values(diff, Select(diff.query, both(was, is_not_true(is_))))
    leaves = Diff("delete", diff.ids, diff.known, leaving, exact=diff.exact, rule="UpdateLeavesSelection")
    entering = Select(diff.query, both(is_not_true(was), is_))
    if diff.exact and set(diff.ids) == set(node.ids) and diff.knows(node.names):
        rows: Node = passing(entering, node.names)
    else:
        rows = SemiJoin(ctx.state(node.input, "post"), entering, tuple((i, i) for i in diff.ids))
    others = tuple(n for n in node.names if n not in node.ids)
    enters = Diff("insert", node.ids, others, rows, rule="UpdateEntersSelection")
    return [stays, leaves, enters]


def _filtered(diff: Diff, condition: Expr, rule: str) -> Diff:
    query = Select(diff.query, condition)
    return Diff(diff.kind, diff.ids, diff.known, query, diff.changed, diff.exact, rule)


def _passed(diff: Diff, rule: str) -> Diff:
    return Diff(diff.kind, diff.ids, diff.known, diff.query, diff.changed, exact=False, rule=rule)
