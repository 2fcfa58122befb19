"""Subqueries in ON. Whether a row is padded, or kept, is decided after they are answered.

What looks at one side is answered for each of its rows, before the join:

    a LEFT JOIN b ON a.k = b.k AND a.x IN (...)  ->  (a with mark) LEFT JOIN b ON a.k = b.k AND mark

What looks at both is a condition on pairs, and its answer depends on the columns that it looks at alone. So
the values for which it is true are a relation, joined to the side whose rows are not kept by themselves:

    a LEFT JOIN b ON a.k = b.k AND EXISTS (... a.x ... b.y ...)
    pairs:   SELECT DISTINCT a.x, b.y FROM a JOIN b ON a.k = b.k WHERE EXISTS (... a.x ... b.y ...)
    ->       a LEFT JOIN (b JOIN pairs ON b.y <=> pairs.y) ON a.k = b.k AND a.x <=> pairs.x

A row of a and one of b meet at most one of the pairs, so nothing comes twice, also without keys. A row of b
that no pair allows is not kept: under FULL JOIN it must be, see joins.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, conjuncts
from viewkeep.algebra.nodes import Join, MarkJoin, Node, OuterJoin, Select, passing
from viewkeep.errors import UnknownColumn
from viewkeep.frontend.binding import Binding, Ctes
from viewkeep.frontend.scope import Relation
from viewkeep.frontend.select_list import no_aggregate, no_array
from viewkeep.frontend.set_operations import without_duplicates
from viewkeep.frontend.stages import Rows
from viewkeep.frontend.subqueries import Subqueries, has_subquery

Again = tuple[Callable[[], Relation], Callable[[], Relation]]
"""How to bind each side of a join a second time."""


@dataclass(frozen=True)
class Answered:
    """A join whose subqueries that look at one side are answered there: the sides, the join without any
    condition that has a subquery, the conditions over the answers, and what looks at both sides."""

    left: Relation
    right: Relation
    tree: exp.Join
    answers: tuple[Expr, ...] = ()
    of_both: Expr | None = None


def answered(
    binding: Binding, sides: tuple[Relation, Relation], tree: exp.Join, ctes: Ctes, again: Again
) -> Answered:
    """The sides with what subqueries of ON answer for each of their rows."""
    on = tree.args.get("on")
    if on is None or not has_subquery(on):
        return Answered(*sides, tree)
    no_aggregate(binding, on, "ON")
    made, answers, of_both = list(sides), list[Expr](), list[Expr]()
    plain = tree.copy()
    plain.set("on", conjunction(term for term in conjuncts(on) if not has_subquery(term)))
    for term in filter(has_subquery, conjuncts(on)):
        ask(binding, beside(*sides), term, ctes, lambda: beside(again[0](), again[1]()))  # names are clear
        for at, side in enumerate(made):
            try:
                made[at], answer = ask(binding, side, term, ctes, again[at])
            except UnknownColumn:
                continue
            answers.append(answer)
            break
        else:
            of_both.append(term)
    return Answered(made[0], made[1], plain, tuple(answers), conjunction(of_both))


def ask(
    binding: Binding, relation: Relation, term: Expr, ctes: Ctes, again: Callable[[], Relation]
) -> tuple[Relation, Expr]:
    """A relation joined with what the subqueries of a condition need, and the condition over that."""
    scope = binding.scope(relation)
    scope.again = lambda: once_more(relation, again())
    lifted = Subqueries(binding, ctes, scope, Rows(relation.node, scope))
    condition = scope.typing.condition(scope.resolve(lifted.condition(term.copy())), "ON")
    return replace(relation, node=lifted.attach(relation.node)), condition


def once_more(relation: Relation, other: Relation) -> tuple[Node, Mapping[str, str]]:
    """A relation that was bound a second time, and what its columns are called there."""
    named = zip(relation.fields, other.fields, strict=True)
    return other.node, {a.column.name: b.column.name for a, b in named}


def beside(left: Relation, right: Relation) -> Relation:
    """All that two relations offer."""
    return Relation(Join(left.node, right.node, None), left.fields + right.fields, left.first + right.first)


def pairs(binding: Binding, tree: exp.Join, again: Again) -> Relation:
    """The pairs of rows that meet the condition of a join without subqueries, bound a second time."""
    whole = beside(again[0](), again[1]())
    on = tree.args.get("on")
    if on is None:
        return whole
    scope = binding.scope(whole)
    condition = scope.typing.condition(scope.resolve(on), "ON")
    left, right = whole.node.inputs
    return replace(whole, node=Join(left, right, condition))


def with_pairs(binding: Binding, join: Answered, ctes: Ctes, again: Again, keeps_left: bool) -> Answered:
    """The join with the pairs for which the condition on both sides is true, beside the side that is not
    kept by itself, and equality with these in place of the condition."""
    assert join.of_both is not None
    binding.by_plan_only = True  # not every engine takes the text
    asking = partial(pairs, binding, join.tree, again)
    base = asking()
    asked, condition = ask(binding, base, join.of_both, ctes, asking)
    looked = _looked_at(asked.node, base.node) | columns_of(condition)
    wanted = [n for n, f in enumerate(base.fields) if f.column.name in looked] or [0]
    no_array(binding, join.tree, *(base.fields[n].column.type for n in wanted))
    chosen = [base.fields[n].column.name for n in wanted]
    allowed = without_duplicates(binding, passing(Select(asked.node, condition), chosen))
    equal: tuple[list[Expr], list[Expr]] = ([], [])
    for n, name in zip(wanted, chosen, strict=True):
        of_right = n >= len(join.left.fields)
        own = (join.right.fields[n - len(join.left.fields)] if of_right else join.left.fields[n]).column
        kind = exp.NullSafeEQ if own.nullable else exp.EQ
        equal[of_right].append(kind(this=column(own.name), expression=column(name)))
    within, across = (equal[1], equal[0]) if keeps_left else equal
    side = join.right if keeps_left else join.left
    side = replace(side, node=Join(side.node, allowed, conjunction(within)))
    left, right = (join.left, side) if keeps_left else (side, join.right)
    return Answered(left, right, join.tree, (*join.answers, *across))


def _looked_at(node: Node, base: Node) -> frozenset[str]:
    """The columns that joins above a node look at."""
    found: frozenset[str] = frozenset()
    while node is not base:
        assert isinstance(node, (Join, OuterJoin, MarkJoin))  # what answers a subquery
        if node.condition is not None:
            found |= columns_of(node.condition)
        node = node.left
    return found
