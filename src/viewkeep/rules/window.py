"""Window functions: what a row gets depends on its partition, so the touched partitions are computed anew.

Updates of columns that the window does not look at pass by their IDs.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.nodes import Window
from viewkeep.algebra.script_nodes import Union
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import changed_images, compare_touched
from viewkeep.rules.context import Context


def propagate(node: Window, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """ID-based."""
    passed = [d for d in inputs[0] if d.kind == "update" and not d.changed & node.looked_at]
    rest = [d for d in inputs[0] if d not in passed]
    made = [
        Diff(d.kind, d.ids, d.known, d.query, d.changed, d.exact, "PassUpdatesThroughWindow") for d in passed
    ]
    changed = frozenset(i.name for i in node.items) | frozenset(c for d in rest for c in d.changed)
    return made + _recomputed(node, rest, changed, ctx)


def propagate_tuples(node: Window, inputs: Sequence[Sequence[Diff]], ctx: Context) -> list[Diff]:
    """Tuple-based: every change recomputes its partition."""
    return _recomputed(node, inputs[0], frozenset(node.names) - frozenset(node.ids), ctx)


def _recomputed(node: Window, diffs: Sequence[Diff], changed: frozenset[str], ctx: Context) -> list[Diff]:
    if not diffs:
        return []
    needed = frozenset(node.partition)
    images = [image for d in diffs for image in changed_images(node.input, d, needed, ctx)]
    partitions = ctx.let("partitions", Union(tuple(images), distinct=True))
    return compare_touched(node, [partitions], changed, ctx, "RecomputeTouchedPartitions")
