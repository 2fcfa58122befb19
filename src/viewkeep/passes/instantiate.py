"""Pass 2: rules for every operator between a changed table and the view (idIVM section 4, pass 2).

Bottom up: the diffs of each input go through the operator's rules and become the diffs of its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
from viewkeep.algebra.script_nodes import Stored
from viewkeep.idiff.diff import Diff
from viewkeep.passes.place_caches import Placement
from viewkeep.rules import (
    aggregate,
    images,
    join,
    limit,
    mark_join,
    outer_join,
    project,
    select,
    union_all,
    window,
)
from viewkeep.rules.context import Context
from viewkeep.rules.scan import base_diffs

# operators that have rules of their own for tuple-based diffs
RULES: Mapping[type[Node], tuple[Callable[..., list[Diff]], Callable[..., list[Diff]]]] = {
    Join: (join.propagate, join.propagate_tuples),
    OuterJoin: (outer_join.propagate, outer_join.propagate_tuples),
    MarkJoin: (mark_join.propagate, mark_join.propagate_tuples),
    Window: (window.propagate, window.propagate_tuples),
    Limit: (limit.propagate, limit.propagate_tuples),
}


class Instantiation:
    """The rules that fired for one view and one kind of batch. `fired` lists them in order."""

    def __init__(
        self,
        placement: Placement,
        strategy: str,
        update_sets: Mapping[Scan, Sequence[frozenset[str]]],
        present: Mapping[str, frozenset[str]],
        locates: bool = False,
    ) -> None:
        """`present`: for each changed base table the kinds of change in this batch; an update kind is
        `update:` and the changed column, by the table's own name. `locates`: see Stored."""
        self._placement = placement
        self._strategy = strategy
        self._update_sets = update_sets
        self._present = present
        self.fired: list[tuple[Node, Diff]] = []
        self.context = Context(
            present,
            targets=list(placement.targets),
            stored={t.node: Stored.of(t.name, t.node, locates) for t in placement.targets},
            splits=locates,  # an engine that is embedded: there is no way to it that takes time
        )

    def run(self) -> Context:
        """Instantiates everything up to the view's rows."""
        root = self._placement.root
        diffs = self._diffs(root)
        if not isinstance(root, Aggregate) and diffs:  # an aggregate has stored its changes itself
            view = self._placement.targets[-1]
            self.context.applied.append((view, tuple(diffs), None))
        return self.context

    def _diffs(self, node: Node) -> list[Diff]:
        made = self._propagate(node)
        self.fired += [(node, diff) for diff in made]
        return made

    def _propagate(self, node: Node) -> list[Diff]:
        if isinstance(node, Scan):
            return self._base(node)
        if isinstance(node, Constant):
            return []
        if isinstance(node, Aggregate):
            return self._aggregated(node)
        inputs = [self._diffs(child) for child in node.inputs]
        if not any(inputs):
            return []
        if isinstance(node, Select):
            return select.propagate(node, inputs, self.context)
        if isinstance(node, Project):
            return project.propagate(node, inputs, self.context)
        if isinstance(node, UnionAll):
            return union_all.propagate(node, inputs)
        by_id, by_tuple = RULES[type(node)]
        made = (by_tuple if self._strategy == "tuple" else by_id)(node, inputs, self.context)
        if node in self.context.stored and node is not self._placement.root:
            self.context.store_diffs(node, made)
        return made

    def _aggregated(self, node: Aggregate) -> list[Diff]:
        leaves = aggregate.sums_images(node, self.context)
        if leaves is None:
            diffs = self._diffs(node.input)
            signed = aggregate.signed_by_diffs(node, diffs, self.context) if diffs else None
        else:
            changed = [leaf for leaf in leaves if self._diffs(leaf)]
            signed = images.signed_rows(node.input, changed, self.context) if changed else None
        if signed is None:
            return []
        changes, made = aggregate.propagate(node, signed, self.context.stored[node], self.context)
        self.context.store_changes(node, changes, made)
        return made

    def _base(self, scan: Scan) -> list[Diff]:
        kinds = self._present.get(scan.table, frozenset())
        made = base_diffs(scan, self._update_sets[scan])
        return [d for d in made if _is_present(d, scan, kinds)]


def _is_present(diff: Diff, scan: Scan, kinds: frozenset[str]) -> bool:
    if diff.kind != "update":
        return diff.kind in kinds
    return any(f"update:{scan.base_name[c]}" in kinds for c in diff.changed)
