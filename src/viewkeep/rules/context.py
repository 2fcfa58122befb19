"""What a rule may ask for: the subview below an operator before or after the change, and what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewkeep.algebra.nodes import Node, Scan, State, walk
from viewkeep.algebra.script_nodes import Ref, SemiJoin, Stored, Union
from viewkeep.idiff.changes import rows_after
from viewkeep.idiff.diff import Diff


@dataclass(frozen=True)
class Target:
    """A stored relation that scripts maintain: the view's rows, or a cache that helps."""

    name: str
    node: Node
    role: str  # "view", "input cache", "output cache"


@dataclass
class Context:
    """Grows while rules are instantiated, bottom up: named relations, targets, and who is stored where.

    `present`: for each base table the kinds of change in this batch; an update kind is `update:` and the
    changed column, by the table's own name. Where nothing that a subview reads changes, before and after are
    the same, and rules may read it once.
    """

    present: Mapping[str, frozenset[str]]
    lets: dict[str, Node] = field(default_factory=dict)
    guards: dict[str, str] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    stored: dict[Node, Stored] = field(default_factory=dict)
    changes: dict[Node, Ref] = field(default_factory=dict)
    applied: list[tuple[Target, tuple[Diff, ...], Ref | None]] = field(default_factory=list)
    splits: bool = False
    """Whether a short statement more is cheaper than to plan a long one."""
    alone: set[str] = field(default_factory=set)
    """Relations to be computed by themselves, however many places read them."""

    def let_alone(self, hint: str, query: Node) -> Ref:
        """Names a relation that is computed by itself: it is small, which the engine then knows."""
        made = self.let(hint, query)
        self.alone.add(made.name)
        return made

    def let(self, hint: str, query: Node) -> Ref:
        """Names a relation that more than one place reads."""
        name = hint
        n = 1
        while name in self.lets:
            n += 1
            name = f"{hint}_{n}"
        self.lets[name] = query
        return Ref(name, query.columns)

    def unchanged(self, node: Node) -> bool:
        """Whether nothing below this node changes in this batch."""
        return not any(isinstance(n, Scan) and self.is_changed(n) for n in walk(node))

    def is_changed(self, scan: Scan) -> bool:
        """Whether rows of the table come or go, or change in a column that this scan reads."""
        kinds = self.present.get(scan.table, frozenset())
        return bool(kinds & {"insert", "delete", *(f"update:{base}" for _, base in scan.fields)})

    def state(self, node: Node, which: State) -> Node:
        """The subview rooted at a node, before or after the change (Input pre and post in the paper)."""
        stored = self.stored.get(node)
        if stored is not None and (which == "pre" or self.unchanged(node)):
            return stored
        if stored is not None and node in self.changes:
            return stored_after(stored, self.changes[node])
        if isinstance(node, Scan):
            return replace(node, state=which if self.is_changed(node) else "post")
        return node.with_inputs([self.state(child, which) for child in node.inputs])

    def store_changes(self, node: Node, changes: Ref, diffs: Sequence[Diff]) -> None:
        """A target's change relation is known: it will be applied, and the state after can be read."""
        self.changes[node] = changes
        target = next(t for t in self.targets if t.node is node)
        self.applied.append((target, tuple(diffs), changes))

    def store_diffs(self, node: Node, diffs: Sequence[Diff]) -> None:
        """A target is changed by diffs; its state after is computed where it is asked for."""
        target = next(t for t in self.targets if t.node is node)
        self.applied.append((target, tuple(diffs), None))


def stored_after(stored: Stored, changes: Ref) -> Node:
    """A target after the refresh: the rows that do not change, and those that its change relation leaves.

    Scripts compute everything before they apply anything, so this is how the state after is read.
    """
    kept = SemiJoin(stored, changes, tuple((i, i) for i in stored.ids), anti=True)
    return Union((kept, rows_after(changes, stored.columns)), equal=stored.equal)


def by_kind(diffs: Sequence[Diff], kind: str) -> list[Diff]:
    """The diffs of one kind."""
    return [d for d in diffs if d.kind == kind]
