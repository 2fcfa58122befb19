"""ORDER BY with LIMIT: the first rows, before and after, compared.

Which rows are first depends on all of them, so both states are sorted; over a stored input that is a scan
that keeps the first rows. Updates of columns that do not order pass by their IDs: rows that are not among
the first have no such ID in the output.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.nodes import Limit
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import compare
from viewkeep.rules.context import Context
from viewkeep.rules.overlay import store


def propagate(node: Limit, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """ID-based and tuple-based alike, but for what passes."""
    _keep_input(node, inputs[0], ctx)
    ordering = frozenset(o.column for o in node.order)
    if all(d.kind == "update" and not d.changed & ordering for d in inputs[0]):
        return [
            Diff(d.kind, d.ids, d.known, d.query, d.changed, False, "PassUpdatesThroughLimit")
            for d in inputs[0]
        ]
    return _compared(node, ctx)


def propagate_tuples(node: Limit, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """Tuple-based: nothing passes."""
    _keep_input(node, inputs[0], ctx)
    return _compared(node, ctx)


def _keep_input(node: Limit, diffs: Sequence[Diff], ctx: Context) -> None:
    if node.input in ctx.stored and node.input not in ctx.changes:
        store(node.input, diffs, ctx)


def _compared(node: Limit, ctx: Context) -> list[Diff]:
    """The first rows, before and after."""
    before = ctx.let("first_before", ctx.state(node, "pre"))
    after = ctx.let("first_after", ctx.state(node, "post"))
    changed = frozenset(node.names) - frozenset(node.ids)
    return compare(before, after, node.ids, changed, "CompareFirstRows")
