"""The change below an operator as signed rows, straight from the net changes of its tables.

    D(A join B) = D(A) join B_after  +  A_before join D(B)

where D has a row as it was with sign -1 and as it became with +1, and rows that are in both cancel. For
operators to which only the difference matters, this is the shortest way: no comparing of before with after,
and one join a changed table. It reaches through selections, projections, inner joins and unions; whatever
else is below must be unchanged, or be stored with its changes known.

A row may be taken away that was never there, and brought again by the next part: with A and B changed at
once, D(A) join B_after pairs old rows of A with new ones of B. Sums do not mind; extremes would.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, conjuncts
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Join,
    Node,
    Project,
    Scan,
    Select,
    UnionAll,
    passing,
    walk,
)
from viewkeep.algebra.script_nodes import SIGN, Images, Union
from viewkeep.idiff.changes import rows_after, rows_before
from viewkeep.rules.context import Context


def changed_leaves(node: Node, ctx: Context) -> list[Node] | None:
    """The tables and stored aggregates below that change, or None where signed rows cannot reach them."""
    if ctx.unchanged(node):
        return []
    if isinstance(node, (Scan, Aggregate)):
        return [node]
    if not isinstance(node, (Select, Project, Join, UnionAll)) or node in ctx.stored:
        return None
    found: list[Node] = []
    for child in node.inputs:
        below = changed_leaves(child, ctx)
        if below is None:
            return None
        found += below
    return found


def signed_rows(node: Node, leaves: list[Node], ctx: Context) -> Node:
    """What the change of these leaves does to the rows of a node: the node's columns and SIGN."""
    return _signed(_changed_first(node, leaves, ctx), leaves, ctx)


def _signed(node: Node, leaves: list[Node], ctx: Context) -> Node:
    """Parts are put together as far down as it goes: what is above them is written once."""
    own = _below(node, leaves)
    holding = [child for child in node.inputs if _below(child, leaves)]
    if node in own or len(holding) > 1 or isinstance(node, UnionAll):
        parts = [_Part(own, number, ctx).of(node) for number in range(len(own))]
        if len(parts) == 1:
            return parts[0]
        # in one order: the sign comes with the side of a join that changes
        return Union(tuple(passing(part, [*node.names, SIGN.name]) for part in parts))
    signed = _signed(holding[0], leaves, ctx)
    if isinstance(node, Join) and isinstance(signed, Union) and ctx.splits:
        signed = ctx.let_alone("images", signed)
    below = [signed if child in holding else ctx.state(child, "post") for child in node.inputs]
    if isinstance(node, Project):
        return Project(below[0], (*node.items, Item(SIGN, column(SIGN.name))))
    return node.with_inputs(below)


def _below(node: Node, leaves: list[Node]) -> list[Node]:
    """Which of the leaves are this node or below it."""
    found = set(map(id, walk(node)))
    return [leaf for leaf in leaves if id(leaf) in found]


def _changed_first(node: Node, leaves: list[Node], ctx: Context) -> Node:
    """Inner joins of several relations in another order, those that change first:

        (A join B) join C  ->  (A join C) join B        where A and C change

    B then stands once in the query, and not in each of its parts, which databases take long to plan. Not
    where no condition connects the relations that change: their product may be large.
    """
    if node in leaves or node in ctx.stored or isinstance(node, UnionAll) or not _below(node, leaves):
        return node
    if not isinstance(node, Join):
        return node.with_inputs([_changed_first(child, leaves, ctx) for child in node.inputs])
    relations, terms = _joined(node, ctx)
    relations = [_changed_first(relation, leaves, ctx) for relation in relations]
    changed = [relation for relation in relations if _below(relation, leaves)]
    others = [relation for relation in relations if relation not in changed]
    made, changed = changed[0], changed[1:]
    while changed or others:
        near = [r for r in changed or others if _between(made, r, terms)]
        if changed and not near:
            return node
        relation = near[0] if near else others[0]
        (changed if relation in changed else others).remove(relation)
        names = {*made.names, *relation.names}
        here = [term for term in terms if columns_of(term) <= names]
        terms = [term for term in terms if term not in here]
        made = Join(made, relation, conjunction(here))
    return made


def _joined(node: Node, ctx: Context) -> tuple[list[Node], list[Expr]]:
    """The relations that joins put together, and the conditions between them."""
    if not isinstance(node, Join) or node in ctx.stored:
        return [node], []
    (left, own), (right, theirs) = (_joined(side, ctx) for side in node.inputs)
    return left + right, own + theirs + conjuncts(node.condition)


def _between(left: Node, right: Node, terms: list[Expr]) -> bool:
    """Whether a condition looks at both relations, and at nothing else."""
    ours, theirs = set(left.names), set(right.names)
    looked_at = (columns_of(term) for term in terms)
    return any(names <= ours | theirs and names & ours and names & theirs for names in looked_at)


class _Part:
    """The difference that one leaf makes: leaves before it are as they were, leaves after it as they are."""

    def __init__(self, leaves: list[Node], chosen: int, ctx: Context) -> None:
        self._leaves = leaves
        self._chosen = chosen
        self._ctx = ctx

    def of(self, node: Node) -> Node:
        if self._holds(node) is None:
            return self._state(node)
        if node is self._leaves[self._chosen]:
            return images_of(node, self._ctx)
        if isinstance(node, UnionAll):
            return self._of_union(node)
        below = [self.of(child) for child in node.inputs]
        if isinstance(node, Project):
            items = (*node.items, Item(SIGN, column(SIGN.name)))
            return Project(below[0], items, apart=node.apart)
        return node.with_inputs(below)

    def _of_union(self, node: UnionAll) -> Node:
        """Only the part that the leaf is in makes a difference."""
        number = next(n for n, part in enumerate(node.parts) if self._holds(part) is not None)
        calls = node.calls(number)
        items = [Item(node.by_name[new], column(old)) for old, new in calls.items()]
        return Project(self.of(node.parts[number]), (*items, Item(SIGN, column(SIGN.name))))

    def _state(self, node: Node) -> Node:
        if any(node is leaf for leaf in self._leaves[: self._chosen]):
            return self._ctx.state(node, "pre")
        if any(node is leaf for leaf in self._leaves[self._chosen :]) or self._ctx.unchanged(node):
            return self._ctx.state(node, "post")
        return node.with_inputs([self._state(child) for child in node.inputs])

    def _holds(self, node: Node) -> Node | None:
        """The chosen leaf, where it is this node or below it."""
        if node is self._leaves[self._chosen]:
            return node
        return next((node for child in node.inputs if self._holds(child) is not None), None)


def images_of(leaf: Node, ctx: Context) -> Node:
    """The changed rows of a leaf, signed."""
    if isinstance(leaf, Scan):
        return Images(leaf)
    changes = ctx.changes[leaf]
    columns: list[Column] = list(leaf.columns)
    return Union(
        (with_sign(rows_before(changes, columns, leaf.ids), -1), with_sign(rows_after(changes, columns), 1))
    )


def with_sign(rows: Node, sign: int) -> Project:
    """Rows with a sign."""
    one: Expr = exp.Literal.number(1)
    value = exp.Cast(this=one if sign > 0 else exp.Neg(this=one), to=SIGN.type.sql())
    return Project(rows, (*(Item(c, column(c.name)) for c in rows.columns), Item(SIGN, value)))
