"""Pass 3a: what to store beside the view, and what the view itself stores (idIVM section 4, pass 3).

An aggregate asks for its input and its output. Its output is always stored: as the view's own rows where
only a projection lies above that any reader can compute, else as a cache. Its input is stored where looking
rows up there is cheaper than joining them again: not over a single table, whose diffs carry all that is
needed, and not over a many-to-many join, where the cache would hold more rows than its tables (footnote 6),
unless another equality ties the two sides: friends of friends in the same city (Q*1 of section 7.1) are few
of all friends of friends, and who has no cache makes all pairs to find them. A view of a view tree is over
the views below it, which are stored, so its input is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from viewkeep.algebra.expressions import calls_users, equated_columns
from viewkeep.algebra.nodes import (
    Aggregate,
    Join,
    Limit,
    Node,
    Project,
    Scan,
    Select,
    Window,
    merge_classes,
    walk,
)
from viewkeep.catalog.models import Table
from viewkeep.rules.context import Target


@dataclass(frozen=True)
class Placement:
    """What is stored: `root` is the node whose rows are the view's, the caches are below it."""

    root: Node
    targets: tuple[Target, ...]
    reasons: tuple[str, ...]


def place_caches(
    plan: Project, tables: Mapping[str, Table], strategy: str, updatable: Collection[str] | None = None
) -> Placement:
    """The targets of a view, in the order in which a script computes them. `updatable`: the tables whose
    changes scripts are made for, all by default. A view of a view tree is stored where they change it, or
    something that it is joined with: that is where they change the view above it (F-IVM, figure 5)."""
    # What is above these is computed when the view is read: they need their own output as it was. Not by
    # functions of the user's: whoever reads the view may not have them.
    own = any(calls_users(item.expression) for item in plan.items)
    root: Node = plan.input if isinstance(plan.input, (Aggregate, Limit, Window)) and not own else plan
    targets: list[Target] = []
    reasons: list[str] = []
    for node in reversed(list(walk(root))):
        if isinstance(node, Limit):
            if _is_costly(node.input):
                targets.append(Target(f"cache_{len(targets) + 1}", node.input, "input cache"))
                reasons.append("input of a LIMIT, from which other rows may move up")
            if node is not root:
                targets.append(Target(f"cache_{len(targets) + 1}", node, "output cache"))
                reasons.append("output of a LIMIT inside the view")
        if not isinstance(node, Aggregate):
            continue
        if updatable is not None and node is not root:
            if node.view and not _changes(_above(root, node), updatable):
                reasons.append(f"not stored: {node.view}, which no change of {', '.join(updatable)} needs")
                continue
            if strategy == "tuple" and not node.view and not _changes(node, updatable):
                # nothing has to be known of its groups as they were: they are joined again, as in the paper
                reasons.append(f"not stored: an aggregate that no change of {', '.join(updatable)} reaches")
                continue
        if node.view:  # its own input is joined again from the views below
            reasons.append(f"view tree: {node.view}")
        elif strategy == "id" and any(isinstance(n, Join) for n in _until_aggregate(node.input)):
            wide = _many_to_many(node.input, tables)
            if wide is None:
                targets.append(Target(f"cache_{len(targets) + 1}", node.input, "input cache"))
                reasons.append("input of an aggregate over joins that add no rows")
            else:
                reasons.append(f"no input cache: {wide}")
        if node is not root:
            targets.append(Target(f"cache_{len(targets) + 1}", node, "output cache"))
            if not node.view:
                reasons.append("output of an aggregate inside the view")
    targets.append(Target("rows", root, "view"))
    return Placement(root, tuple(targets), tuple(reasons))


def _changes(node: Node, updatable: Collection[str]) -> bool:
    """Whether a table below is among those that are declared to change."""
    return any(isinstance(n, Scan) and n.table in updatable for n in walk(node))


def _above(root: Node, below: Node) -> Node:
    """The nearest aggregate over a node."""
    over = [n for n in walk(root) if isinstance(n, Aggregate) and n is not below]
    return next(n for n in over if any(one is below for one in _until_aggregate(n.input)))


def _is_costly(node: Node) -> bool:
    """Whether a node's rows cannot be had by reading one table or one stored target."""
    if isinstance(node, (Select, Project)):
        return _is_costly(node.input)
    return not isinstance(node, (Scan, Aggregate))


def _until_aggregate(node: Node) -> list[Node]:
    """The nodes below, down to and including the next aggregates."""
    found = [node]
    if not isinstance(node, Aggregate):
        for child in node.inputs:
            found += _until_aggregate(child)
    return found


def _many_to_many(node: Node, tables: Mapping[str, Table]) -> str | None:
    """Which join below may give a row of either side several partners, if one does that nothing else ties."""
    for join in _until_aggregate(node):
        if not isinstance(join, Join) or _is_tied(join, node):
            continue
        if not any(_at_most_one(join, side, tables) for side in (join.left, join.right)):
            return f"a join below is many-to-many ({_scans(join.left)} with {_scans(join.right)})"
    return None


def _is_tied(join: Join, top: Node) -> bool:
    """Whether equalities other than the join's own lead from one of its sides to the other, by way of other
    tables too: the joins of the plan form a circle. Columns that are equal to the join's own tie nothing:
    with R.b = S.b, T.b = R.b and T.b = S.b each row of R still meets each row of S that has its b."""
    own = {name for pair in equated_columns(join.condition, or_both_null=True) for name in pair}
    nodes = _until_aggregate(top)
    leaves = [n for n in nodes if isinstance(n, Aggregate) or not n.inputs]
    equal: tuple[frozenset[str], ...] = ()
    for node in nodes:  # a projection leaves out columns that are equal below it
        equal = merge_classes(equal, [(min(names), name) for names in node.equalities for name in names])
    ties = [{n for n in leaves if names & n.by_name.keys()} for names in equal if not names & own]
    reached = {leaf for leaf in leaves if leaf in _until_aggregate(join.left)}
    while more := [tie for tie in ties if tie & reached and not tie <= reached]:
        reached = reached.union(*more)
    return any(leaf in reached for leaf in _until_aggregate(join.right))


def _at_most_one(join: Join, side: Node, tables: Mapping[str, Table]) -> bool:
    """Whether a row of the other side meets at most one row of this side: by its IDs, or a foreign key."""
    pairs = equated_columns(join.condition)
    mine = {a if a in side.by_name else b for a, b in pairs if (a in side.by_name) != (b in side.by_name)}
    reached = {name for own in mine for name in side.equal_to(own)}
    if set(side.ids) <= reached:
        return True
    return any(_references(join, side, scan, pairs, tables) for scan in walk(side) if isinstance(scan, Scan))


def _references(
    join: Join,
    side: Node,
    target: Scan,
    pairs: list[tuple[str, str]],
    tables: Mapping[str, Table],
) -> bool:
    """Whether the join follows a declared foreign key of the other side to this side's only table."""
    if [n for n in walk(side) if isinstance(n, Scan)] != [target]:
        return False
    other = join.right if side is join.left else join.left
    for scan in (n for n in walk(other) if isinstance(n, Scan)):
        both_ways = {(a, b) for a, b in pairs} | {(b, a) for a, b in pairs}
        followed = {
            (scan.base_name[a].lower(), target.base_name[b].lower())
            for a, b in both_ways
            if a in scan.base_name and b in target.base_name
        }
        for key in tables[scan.table].foreign_keys:
            needed = zip(key.columns, key.references, strict=True)
            if key.table.lower() == target.table.lower() and (
                {(a.lower(), b.lower()) for a, b in needed} <= followed
            ):
                return True
    return False


def _scans(node: Node) -> str:
    return ", ".join(n.alias for n in walk(node) if isinstance(n, Scan))
