"""The bound plan, made ready for the passes: conditions pushed down, projections merged, columns pruned.

Conditions that sit next to their table matter more here than in an ordinary optimizer: an update diff that
knows all columns of a condition passes it without reading anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.bags import alike, is_bag
from viewkeep.algebra.bags import pruned as pruned_bag
from viewkeep.algebra.expressions import (
    Expr,
    column,
    columns_of,
    conjunction,
    conjuncts,
    disjunction,
    substitute,
)
from viewkeep.algebra.nodes import (
    Aggregate,
    Constant,
    Item,
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


def normalize(plan: Project) -> Project:
    """An equal plan in the form that the passes expect."""
    pushed = merge_projections(push_conditions(plan, []))
    assert isinstance(pushed, Project)
    pruned = alike(prune(pushed, frozenset(pushed.names)), pushed)
    assert isinstance(pruned, Project)
    return pruned


def push_conditions(node: Node, terms: list[Expr]) -> Node:
    """Each conjunct as far down as its columns allow: WHERE a.x = b.y becomes the join's condition."""
    if isinstance(node, Select):
        return push_conditions(node.input, factored(node.predicate) + terms)
    if isinstance(node, Project):
        made = {item.name: item.expression for item in node.items}
        below = [substitute(term, made) for term in terms]
        return node.with_inputs([push_conditions(node.input, below)])
    if isinstance(node, Join):
        terms = factored(node.condition) + terms
        left = [c for c in terms if columns_of(c) <= set(node.left.names)]
        right = [c for c in terms if c not in left and columns_of(c) <= set(node.right.names)]
        here = [c for c in terms if c not in left and c not in right]
        return Join(
            push_conditions(node.left, left),
            push_conditions(node.right, right),
            conjunction(here),
        )
    if isinstance(node, Aggregate):
        # a condition on keys alone keeps or drops whole groups, so it may go first; without keys there
        # is one group, and it exists even over no rows
        below = [c for c in terms if columns_of(c) and columns_of(c) <= set(node.keys)]
        node = node.with_inputs([push_conditions(node.input, below)])
        terms = [c for c in terms if c not in below]
    elif isinstance(node, OuterJoin) and not node.full and any(_needs_partner(c, node) for c in terms):
        return push_conditions(Join(node.left, node.right, node.condition), terms)
    elif isinstance(node, OuterJoin):
        # what only looks at the preserved side keeps or drops whole left rows, partners and all; the join's
        # own condition stays, since it decides who has a partner and not who is there
        below = [] if node.full else [c for c in terms if columns_of(c) <= set(node.left.names)]
        own, right = (conjuncts(node.condition), []) if node.full else _sides(node)
        sides = [push_conditions(node.left, below), push_conditions(node.right, right)]
        node = replace(node, condition=conjunction(own)).with_inputs(sides)
        terms = [c for c in terms if c not in below]
    elif isinstance(node, MarkJoin):
        own, right = _sides(node)
        below = [c for c in terms if columns_of(c) <= set(node.left.names)]
        sides = [push_conditions(node.left, below), push_conditions(node.right, right)]
        node = replace(node, condition=conjunction(own)).with_inputs(sides)
        terms = [c for c in terms if c not in below]
    elif isinstance(node, UnionAll):
        parts = []
        for number, part in enumerate(node.parts):
            calls = {new: column(old) for old, new in node.calls(number).items()}
            parts.append(push_conditions(part, [substitute(c, calls) for c in terms]))
        node, terms = node.with_inputs(parts), []
    elif isinstance(node, Window):
        # a condition on the partition keeps or drops whole partitions
        below = [c for c in terms if columns_of(c) and columns_of(c) <= set(node.partition)]
        node = node.with_inputs([push_conditions(node.input, below)])
        terms = [c for c in terms if c not in below]
    elif isinstance(node, Limit):
        node = node.with_inputs([push_conditions(node.input, [])])
    condition = conjunction(terms)
    return node if condition is None else Select(node, condition)


def factored(condition: Expr | None) -> list[Expr]:
    """The terms of a condition, and for (a AND x) OR (a AND y) the term a and the term x OR y: what all
    alternatives ask for can then go where its columns are. It holds where terms are null, too."""
    terms: list[Expr] = []
    for term in conjuncts(condition):
        parts = [conjuncts(part) for part in _alternatives(term)]
        shared = [t for t in parts[0] if len(parts) > 1 and all(t in part for part in parts[1:])]
        rests = [conjunction(t for t in part if t not in shared) for part in parts]
        terms += shared if shared else [term]
        if shared and all(rest is not None for rest in rests):  # else an alternative asks for nothing more
            terms.append(disjunction(rest for rest in rests if rest is not None))
    return list(dict.fromkeys(terms))


def _alternatives(term: Expr) -> list[Expr]:
    bare = term.unnest()
    if isinstance(bare, exp.Or):
        return _alternatives(bare.left) + _alternatives(bare.right)
    return [bare]


def _needs_partner(term: Expr, node: OuterJoin) -> bool:
    """Whether a condition is never true of a left row without a partner, so that the join is an inner one.

    A plain comparison is null where a side is: but not COALESCE(r.x, 0) = 0, nor r.x IS NULL.
    """
    if not isinstance(term, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return False
    strict = (exp.Column, exp.Literal, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Cast, exp.Identifier)
    return any(
        columns_of(side) & set(node.right.names)
        and all(isinstance(n, (*strict, exp.DataType, exp.DataTypeParam)) for n in side.walk())
        for side in (term.this, term.expression)
    )


def _sides(node: MarkJoin | OuterJoin) -> tuple[list[Expr], list[Expr]]:
    """The terms of a join's condition that need the left, and those of the right alone, which go there."""
    terms = conjuncts(node.condition)
    right = [c for c in terms if columns_of(c) and columns_of(c) <= set(node.right.names)]
    return [c for c in terms if c not in right], right


def merge_projections(node: Node) -> Node:
    """Project(Project(x)) -> Project(x)."""
    node = node.with_inputs([merge_projections(child) for child in node.inputs])
    if isinstance(node, Project) and isinstance(node.input, Project) and not node.input.tags:
        inner = {item.name: item.expression for item in node.input.items}
        items = (replace(i, expression=substitute(i.expression, inner)) for i in node.items)
        return Project(node.input.input, tuple(items))
    return node


def prune(node: Node, needed: frozenset[str]) -> Node:
    """The plan without columns that nothing above looks at. Keys stay: they are the IDs."""
    if is_bag(node):
        return pruned_bag(node, needed)
    if isinstance(node, Scan):
        fields = tuple(f for f in node.fields if f[0].name in needed or f[0].name in node.key)
        return replace(node, fields=fields)
    if isinstance(node, Select):
        return node.with_inputs([prune(node.input, needed | columns_of(node.predicate))])
    if isinstance(node, Project):
        items = tuple(item for item in node.items if item.name in needed)
        return Project(prune(node.input, _columns_in(items)), items)
    if isinstance(node, Constant):
        return node
    if isinstance(node, (Join, OuterJoin, MarkJoin)):
        wanted = needed | (columns_of(node.condition) if node.condition is not None else frozenset())
        sides = [prune(side, wanted & frozenset(side.names)) for side in node.inputs]
        return node.with_inputs(sides)
    if isinstance(node, UnionAll):
        kept_at = [n for n, c in enumerate(node.fields) if c.name in needed]
        parts = []
        for part in node.parts:
            assert isinstance(part, Project)  # the binder lines up the parts' columns in one
            items = tuple(part.items[n] for n in kept_at)
            parts.append(Project(prune(part.input, _columns_in(items)), items))
        return UnionAll(tuple(parts), tuple(node.fields[n] for n in kept_at))
    if isinstance(node, Window):
        items = tuple(item for item in node.items if item.name in needed)
        if not items:
            return prune(node.input, needed)
        made = replace(node, items=items)
        return made.with_inputs([prune(node.input, (needed & frozenset(node.input.names)) | made.looked_at)])
    if isinstance(node, Limit):
        return node.with_inputs([prune(node.input, needed | {o.column for o in node.order})])
    assert isinstance(node, Aggregate)
    kept = {m.argument for m in node.measures if m.name in needed and m.function == "sum"}
    measures = tuple(
        m
        for m in node.measures
        if m.name in needed
        or m.function == "rows"
        or (m.function in ("mass", "magnitude") and m.argument in kept)
    )
    arguments = frozenset().union(*(m.arguments for m in measures))
    below = prune(node.input, frozenset(node.keys) | arguments)
    return replace(node, input=below, measures=measures)


def _columns_in(items: Iterable[Item]) -> frozenset[str]:
    return frozenset().union(*(columns_of(item.expression) for item in items))
