"""Subqueries that depend on the outer row by more than conditions which a join can take over.

    SELECT a.k, (SELECT MAX(b.x) FROM b WHERE b.d < a.d) FROM a

Such a subquery is computed once for each value of the outer columns that it looks at: its domain D.

    D:          SELECT DISTINCT a.d FROM a
    subquery:   SELECT D.d, MAX(b.x) FROM b JOIN D ON b.d < D.d GROUP BY D.d

It then depends on the outer row by equality with these values alone, null-safe, like any value that is
computed a group (Neumann, Kemper: "Unnesting Arbitrary Queries", BTW 2015). D may have more values than the
outer query has left in the end, since conditions with subqueries are left out of it; nothing asks for those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Column, Item, Node, Project
from viewkeep.errors import Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.scope import Field, NeedsDomain, Relation, Scope
from viewkeep.frontend.set_operations import without_duplicates


@dataclass(frozen=True)
class Domain:
    """The values for which a subquery is computed, under the names of the outer columns."""

    binding: Binding
    outer: Scope
    wanted: tuple[Field, ...]
    relation: Relation

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.relation.node.columns

    def terms(self) -> list[Expr]:
        """How the subquery depends on the outer row: each value equals its column."""
        made: list[Expr] = []
        for f, own in zip(self.wanted, self.columns, strict=True):
            kind = exp.NullSafeEQ if f.column.nullable else exp.EQ
            made.append(kind(this=column(own.name), expression=column(f.column.name)))
        return made

    def again(self) -> tuple[Node, Mapping[str, str]]:
        """The domain a second time, and what its columns are called there."""
        other = _values(self.binding, self.outer, self.wanted)
        return other, {a.name: b.name for a, b in zip(self.columns, other.columns, strict=True)}


def bind_domain(binding: Binding, tree: exp.Select, own: Scope, outer: Scope) -> Domain:
    """The domain of a subquery: all columns of the outer query that it may name."""
    wanted = {}
    for name in _names_in(tree):
        qualifier = name.table or None
        if not own.offers(qualifier, name.name) and outer.knows(qualifier, name.name):
            f = outer.find(qualifier, name.name, name)
            wanted[f.column.name] = f
    if not wanted:
        raise binding.fail(
            Unsupported, tree, "this subquery depends on the outer row in a way that is not supported",
            "join with a derived table instead",
        )  # fmt: skip
    fields = tuple(wanted.values())
    if any(outer.is_outer(f.column.name) for f in fields):
        raise NeedsDomain  # of a query further out, which must bring its values in first
    node = _values(binding, outer, fields)
    binding.by_plan_only = True
    named = (Field(f.qualifier, f.name, c) for f, c in zip(fields, node.columns, strict=True))
    return Domain(binding, outer, fields, Relation(node, tuple(named)))


def _values(binding: Binding, outer: Scope, wanted: tuple[Field, ...]) -> Project:
    assert outer.again is not None
    node, called = outer.again()
    items = []
    for f in wanted:
        made = Column(binding.fresh(f.column.name), f.column.type, f.column.nullable)
        items.append(Item(made, column(called[f.column.name])))
    return without_duplicates(binding, Project(node, tuple(items)))


def _names_in(tree: exp.Select) -> Iterator[exp.Column]:
    """The columns that a query names, those left out that cannot be of a query around it: in derived tables
    and CTEs, and those of the FROM of a subquery inside."""
    for node in tree.find_all(exp.Column):
        if isinstance(node.this, exp.Star):
            continue
        inside = node.parent_select
        while inside is not None and inside is not tree:
            if _stands_alone(inside) or (node.table and node.table.lower() in _aliases(inside)):
                break
            inside = inside.parent_select
        else:
            yield node


def _stands_alone(query: Expr) -> bool:
    """Whether a query is a derived table or a CTE."""
    holder = query.parent.parent if isinstance(query.parent, exp.Subquery) else query.parent
    return isinstance(holder, (exp.From, exp.Join, exp.CTE))


def _aliases(query: Expr) -> set[str]:
    sources = [query.args["from_"].this] if query.args.get("from_") else []
    sources += [join.this for join in query.args.get("joins") or []]
    return {source.alias_or_name.lower() for source in sources}
