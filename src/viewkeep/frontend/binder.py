"""A query over known tables -> a plan. Names become plan columns, types are checked, all else is refused.

Each clause has a module of its own: sources (FROM), joins, select (and WHERE, HAVING, QUALIFY), select_list,
grouping and aggregates, windows, subqueries, ordering (ORDER BY, LIMIT), set_operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial

from sqlglot import exp

from viewkeep.algebra.cofactors import Cofactor
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Node, Project, Scan, walk
from viewkeep.catalog.models import Table
from viewkeep.errors import Unsupported
from viewkeep.frontend.aggregates import canonical
from viewkeep.frontend.binding import Binding, Ctes, Inner
from viewkeep.frontend.ordering import CUTS
from viewkeep.frontend.parts import refuse_unread_parts
from viewkeep.frontend.scope import NeedsDomain, Relation, Scope
from viewkeep.frontend.select import bind_select
from viewkeep.frontend.set_operations import bind_set_operation
from viewkeep.frontend.sources import renamed


@dataclass(frozen=True)
class Bound:
    """A bound query: its plan, and the user's name for each of the plan's columns."""

    plan: Project
    names: tuple[str, ...]
    tells_null_from_false: bool = False
    """A comparison with a subquery stands where it matters whether it is false or null."""
    by_plan_only: bool = False
    """SQL leaves open what the answer is, as for the order of collect_list, or not every engine takes the
    text, as of some correlated subqueries: only the plan recomputes the same."""
    cofactors: tuple[Cofactor, ...] = ()
    keys: tuple[str, ...] = ()
    """With cofactors: the outputs that tell groups apart."""


def bind(
    query: Expr,
    find_table: Callable[[str], Table | None],
    text: str,
    start: int = 0,
    needs_table: bool = True,
) -> Bound:
    """The plan of a query. `text` is the whole statement and `start` where the query begins in it. A view
    needs a base table, a query that is only read does not."""
    binding = Binding(find_table, text, start, _bind)
    refuse_unread_parts(binding, query)
    try:
        inner = _bind(binding, canonical(query), {}, None, False)
    except NeedsDomain as problem:
        raise binding.fail(
            Unsupported, query, "a subquery depends on the outer query in a way that is not supported",
            "join with a derived table instead",
        ) from problem  # fmt: skip
    relation = inner.relation
    assert isinstance(relation.node, Project)
    if needs_table and not any(isinstance(node, Scan) for node in walk(relation.node)):
        raise binding.fail(Unsupported, query, "a view needs a base table", "select from one")
    names = tuple(f.name for f in relation.fields)
    _forget_places(relation.node)
    return Bound(
        relation.node, names, binding.tells_null_from_false, binding.by_plan_only, inner.cofactors, inner.keys
    )


def _forget_places(plan: Node) -> None:
    """Where columns and values stood in the user's text is of no use once a query is bound, and every copy of
    an expression would copy it. Calls of functions keep their place."""
    for node in walk(plan):
        for expression in expressions_of(node):
            for part in expression.walk():
                if part.meta_get("start") is not None and not part.meta_get("made"):
                    part._meta = None  # even an empty one would be copied each time


def expressions_of(part: object) -> Iterator[Expr]:
    """The expressions of a plan node, without those of its inputs."""
    values = part if isinstance(part, tuple) else [getattr(part, f.name) for f in fields(part)]  # type: ignore[arg-type]
    for value in values:
        if isinstance(value, exp.Expr):
            yield value
        elif isinstance(value, tuple) or (is_dataclass(value) and not isinstance(value, Node)):
            yield from expressions_of(value)


def _bind(binding: Binding, tree: Expr, ctes: Ctes, outer: Scope | None, by_domain: bool) -> Inner:
    """Any query: in brackets, a set operation or a SELECT."""
    ctes = _with_ctes(binding, tree, ctes)
    if isinstance(tree, exp.Subquery):
        return _bind(binding, _unbracketed(tree), ctes, outer, by_domain)
    if isinstance(tree, exp.SetOperation):
        return Inner(bind_set_operation(binding, tree, ctes), ())
    if not isinstance(tree, exp.Select):
        raise binding.fail(Unsupported, tree, "a view is a SELECT", "write SELECT ... FROM ...")
    if outer is not None and not by_domain:
        with suppress(NeedsDomain):
            return bind_select(binding, tree, ctes, outer)
        by_domain = True
    return bind_select(binding, tree, ctes, outer, by_domain)


def _unbracketed(tree: exp.Subquery) -> Expr:
    """(query) is the query; (query) LIMIT 3 is SELECT * FROM (query) LIMIT 3."""
    inner: Expr = tree.this.copy()
    cuts = {key: tree.args[key] for key in CUTS if tree.args.get(key)}
    if not cuts:
        return inner
    derived = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("q")))
    whole = exp.select("*").from_(derived)
    for key, clause in cuts.items():
        whole.set(key, clause)
    return whole


def _with_ctes(binding: Binding, tree: Expr, outer: Ctes) -> Ctes:
    """The CTEs that a query sees: its own WITH, and those around it."""
    clause = tree.args.get("with_")
    if clause is None:
        return outer
    if clause.args.get("recursive"):
        raise binding.fail(Unsupported, clause, "recursive queries are not supported", "unroll the recursion")
    ctes = dict(outer)
    for cte in clause.expressions:  # bound anew at each use, so that every use has its own columns
        ctes[cte.alias.lower()] = partial(_used, binding, cte, dict(ctes))
    return ctes


def _used(binding: Binding, cte: exp.CTE, visible: Ctes) -> Relation:
    return renamed(binding, binding.query(cte.this, visible), cte)
