"""Joins: inner, outer, SEMI and ANTI, with ON, USING or NATURAL, and LATERAL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, conjunction, conjuncts
from viewkeep.algebra.nodes import (
    Column,
    Item,
    Join,
    MarkJoin,
    Node,
    OuterJoin,
    Project,
    Select,
    UnionAll,
    passing,
)
from viewkeep.errors import AmbiguousColumn, TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding, Ctes, Inner
from viewkeep.frontend.on_subqueries import Again, answered, ask, beside, once_more, pairs, with_pairs
from viewkeep.frontend.scope import Field, Relation, Scope
from viewkeep.frontend.select_list import no_aggregate, select_list
from viewkeep.frontend.subqueries import has_subquery

# which sides may be padded with nulls
_PADS = {"LEFT": (False, True), "RIGHT": (True, False), "FULL": (True, True)}


@dataclass(frozen=True)
class _Condition:
    """What joins two relations, what they offer together, and the columns that * shows first."""

    on: Expr | None
    fields: tuple[Field, ...]
    first: tuple[str, ...]
    shared: bool = False  # by USING or NATURAL: pairs of columns that * shows once


def join(
    binding: Binding,
    left: Relation,
    right: Relation,
    tree: exp.Join,
    ctes: Ctes,
    again: Again,
) -> Relation:
    """Any join but LATERAL. `again` binds a side a second time."""
    side, kind, method = tree.side.upper(), tree.kind.upper(), (tree.method or "").upper()
    if kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or method not in ("", "NATURAL"):
        words = " ".join(w for w in (method, side, kind) if w)
        raise binding.fail(Unsupported, tree, f"{words} JOIN is not supported", "use another join")
    _no_name_twice(binding, left, right, tree)
    given = answered(binding, (left, right), tree, ctes, again)
    if given.of_both is not None and side == "FULL":
        return _full_by_halves(binding, (left, right), tree, ctes, again)
    if given.of_both is not None and (side or kind in ("SEMI", "ANTI")):
        given = with_pairs(binding, given, ctes, again, keeps_left=side != "RIGHT")
    left, right, tree = given.left, given.right, given.tree
    condition = _condition(binding, left, right, tree, natural=method == "NATURAL")
    condition = replace(condition, on=conjunction([*conjuncts(condition.on), *given.answers]))
    if kind in ("SEMI", "ANTI"):
        return _half(binding, left, right, condition, kind)
    fields = _padded(condition.fields, side, left)
    made = Relation(_joined(left.node, right.node, condition.on, side), fields, condition.first)
    if given.of_both is not None:  # an inner join: the pairs that meet the condition, and nothing else
        asked, kept = ask(binding, made, given.of_both, ctes, partial(pairs, binding, tree, again))
        return replace(made, node=Select(asked.node, kept))
    return (
        _shared(binding, made, condition.on, side) if condition.shared and side in ("RIGHT", "FULL") else made
    )


def _full_by_halves(
    binding: Binding, sides: tuple[Relation, Relation], tree: exp.Join, ctes: Ctes, again: Again
) -> Relation:
    """FULL JOIN as a LEFT JOIN, and below it the right rows that have no partner."""
    whole, rest = tree.copy(), tree.copy()
    whole.set("side", "LEFT")
    rest.set("side", None)
    rest.set("kind", "ANTI")
    upper = join(binding, *sides, whole, ctes, again)
    turned = (again[1], again[0])
    lower = join(binding, again[1](), again[0](), rest, ctes, turned)
    count = len(sides[0].fields)
    columns, missing = [], []
    for n, f in enumerate(upper.fields):
        columns.append(Column(binding.fresh(f.column.name), f.column.type))
        null = exp.Cast(this=exp.Null(), to=f.column.type.sql())
        value: Expr = null if n < count else column(lower.fields[n - count].column.name)
        missing.append(Item(Column(binding.fresh(f.column.name), f.column.type), value))
    parts = (passing(upper.node, [f.column.name for f in upper.fields]), Project(lower.node, tuple(missing)))
    called = {f.column.name: c.name for f, c in zip(upper.fields, columns, strict=True)}
    fields = tuple(replace(f, column=c) for f, c in zip(upper.fields, columns, strict=True))
    return Relation(UnionAll(parts, tuple(columns)), fields, tuple(called[n] for n in upper.first))


def _no_name_twice(binding: Binding, left: Relation, right: Relation, tree: exp.Join) -> None:
    taken = {f.qualifier.lower() for f in left.fields}
    for f in right.fields:
        if f.qualifier and f.qualifier.lower() in taken:
            raise binding.fail(
                AmbiguousColumn, tree.this, f"{f.qualifier} stands twice in FROM",
                "give each an alias: FROM t AS a JOIN t AS b",
            )  # fmt: skip


def _joined(left: Node, right: Node, condition: Expr | None, side: str) -> Node:
    if side == "LEFT":
        return OuterJoin(left, right, condition)
    if side == "RIGHT":
        return OuterJoin(right, left, condition)
    if side == "FULL":
        return OuterJoin(left, right, condition, full=True)
    return Join(left, right, condition)


def _padded(fields: Sequence[Field], side: str, left: Relation) -> tuple[Field, ...]:
    """Fields of a side that may be padded may be null."""
    lefts = {f.column.name for f in left.fields}
    of_left, of_right = _PADS.get(side, (False, False))
    return tuple(
        replace(f, column=replace(f.column, nullable=True))
        if (of_left if f.column.name in lefts else of_right)
        else f
        for f in fields
    )


def _half(binding: Binding, left: Relation, right: Relation, condition: _Condition, kind: str) -> Relation:
    """SEMI and ANTI JOIN: the left rows that have a partner, or have none."""
    mark = Column(binding.fresh("exists"), t.BOOLEAN, nullable=False)
    node = MarkJoin(left.node, right.node, condition.on, mark)
    found: Expr = column(mark.name)
    kept = Select(node, exp.Not(this=found) if kind == "ANTI" else found)
    return Relation(kept, left.fields, left.first)


# --- conditions ---


def subqueries_in_where(tree: exp.Select) -> exp.Select:
    """The query with those conditions of inner joins in WHERE that have a subquery. Not where a join after
    it pads their rows: these are in the result without having met the condition."""
    joins = tree.args.get("joins") or []
    last = max((n for n, made in enumerate(joins) if made.side.upper() in ("RIGHT", "FULL")), default=-1)
    if not any(_is_inner(made) and has_subquery(made.args["on"]) for made in joins[last + 1 :]):
        return tree
    whole = tree.copy()
    for made in filter(_is_inner, whole.args["joins"][last + 1 :]):
        terms = conjuncts(made.args["on"])
        made.set("on", conjunction(term for term in terms if not has_subquery(term)))
        for term in filter(has_subquery, terms):
            whole.where(term, copy=False)
    return whole


def _is_inner(tree: exp.Join) -> bool:
    """Whether a join with ON keeps the pairs that meet it, and nothing else."""
    return bool(tree.args.get("on")) and not tree.side and tree.kind.upper() in ("", "INNER", "CROSS")


def _condition(
    binding: Binding, left: Relation, right: Relation, tree: exp.Join, natural: bool
) -> _Condition:
    both = beside(left, right)
    if natural:
        names = [f.name for f in left.fields if not f.merged]
        shared = {f.name.lower() for f in right.fields if not f.merged}
        return _using(binding, both, left, right, [n for n in names if n.lower() in shared], tree)
    if using := tree.args.get("using"):
        return _using(binding, both, left, right, [i.name for i in using], tree)
    condition = None
    if on := tree.args.get("on"):
        no_aggregate(binding, on, "ON")
        scope = binding.scope(both)
        condition = scope.typing.condition(scope.resolve(on), "ON")
    return _Condition(condition, both.fields, both.first)


def _using(
    binding: Binding, both: Relation, left: Relation, right: Relation, names: Sequence[str], tree: exp.Join
) -> _Condition:
    """USING and NATURAL: equal columns that * shows once, before all others."""
    terms, firsts = [], []
    merged: set[str] = set()
    for name in dict.fromkeys(n.lower() for n in names):
        a = binding.scope(left).find(None, name, tree)
        b = binding.scope(right).find(None, name, tree)
        if t.widest(a.column.type, b.column.type) is None:
            raise binding.fail(
                TypeMismatch, tree,
                f"{name} is {a.column.type} on one side and {b.column.type} on the other",
                "join with ON and a CAST",
            )  # fmt: skip
        terms.append(exp.EQ(this=column(a.column.name), expression=column(b.column.name)))
        merged.add(b.column.name)
        firsts.append(a.column.name)
    fields = tuple(replace(f, merged=f.merged or f.column.name in merged) for f in both.fields)
    return _Condition(conjunction(terms), fields, tuple(dict.fromkeys((*firsts, *both.first))), shared=True)


def _shared(binding: Binding, joined: Relation, condition: Expr | None, side: str) -> Relation:
    """What USING shares is the right's in a right join, and in a full join whichever is there."""
    pairs = [(term.this.name, term.expression.name) for term in conjuncts(condition)]
    fields = {f.column.name: f for f in joined.fields}
    items = list(passing(joined.node, joined.node.names).items)
    shown = []
    for a, b in pairs:
        left, right = fields[a].column, fields[b].column
        kind: t.Type = right.type
        value: Expr = column(b)
        if side == "FULL":
            kind = t.widest(left.type, right.type) or right.type
            value = exp.Coalesce(this=column(a), expressions=[column(b)])
        # a row without a partner may have a null there: nulls have none
        made = Column(binding.fresh(fields[a].name), kind, side == "FULL" or right.nullable)
        items.append(Item(made, value))
        shown.append(Field("", fields[a].name, made))
        fields[a], fields[b] = replace(fields[a], merged=True), replace(fields[b], merged=True)
    first = tuple(f.column.name for f in shown) + tuple(n for n in joined.first if n not in dict(pairs))
    return Relation(Project(joined.node, tuple(items)), (*shown, *fields.values()), first)


# --- LATERAL ---


def lateral(
    binding: Binding, left: Relation, tree: exp.Join, ctes: Ctes, again: Callable[[], Relation]
) -> Relation:
    """LATERAL (SELECT ... WHERE it looks at the left): a join on what looks outside. Without FROM, a
    projection of the left's own columns. `again` binds the left a second time."""
    source = tree.this
    query = source.this.this if isinstance(source.this, exp.Subquery) else source.this
    side = tree.side.upper()
    if source.args.get("view") or not isinstance(query, exp.Select) or tree.args.get("using"):
        raise binding.fail(
            Unsupported, tree, "this form of LATERAL is not supported", "LATERAL (SELECT ...) AS t"
        )
    if query.args.get("from_") is None and side == "" and not query.args.get("where"):
        made = _computed(binding, left, query, source.alias)
    else:
        scope = binding.scope(left)
        scope.again = lambda: once_more(left, again())
        made = _looked_up(binding, left, query, tree, ctes, scope)
    on = tree.args.get("on")
    if on is None or on == exp.true():
        return made
    if side:
        raise binding.fail(
            Unsupported, tree, f"ON beside {side} JOIN LATERAL is not supported",
            "put it into the query of LATERAL, and write ON TRUE",
        )  # fmt: skip
    scope = binding.scope(made)
    return replace(made, node=Select(made.node, scope.typing.condition(scope.resolve(on), "ON")))


def _computed(binding: Binding, left: Relation, query: exp.Select, alias: str) -> Relation:
    scope = binding.scope(left)
    items = list(passing(left.node, left.node.names).items)
    fields = []
    for e, name in select_list(binding, query, left, scope):
        no_aggregate(binding, e, "LATERAL")
        item = binding.item(name, scope.typing.type(scope.resolve(e)))
        items.append(item)
        fields.append(Field(alias, name, item.column))
    return Relation(Project(left.node, tuple(items)), (*left.fields, *fields), left.first)


def _looked_up(
    binding: Binding, left: Relation, query: exp.Select, tree: exp.Join, ctes: Ctes, scope: Scope
) -> Relation:
    side = tree.side.upper()
    if side not in ("", "LEFT"):
        raise binding.fail(Unsupported, tree, f"{side} JOIN LATERAL is not supported", "use LEFT or INNER")
    inner = binding.subquery(query, ctes, scope)
    if inner.one_row and inner.terms:
        inner = _one_row(binding, left, inner)
        node = inner.relation.node
    else:
        node = _joined(left.node, inner.relation.node, conjunction(inner.terms), side)
    fields = [replace(f, qualifier=tree.this.alias) for f in inner.relation.fields]
    return Relation(node, _padded([*left.fields, *fields], side, left), left.first)


def _one_row(binding: Binding, left: Relation, inner: Inner) -> Inner:
    """An aggregate without GROUP BY: one row for every left row, over no rows too."""
    there = Column(binding.fresh("found"), t.BOOLEAN, nullable=False)
    own = inner.relation.node
    right = Project(own, (*passing(own, own.names).items, Item(there, exp.true())))
    joined = OuterJoin(left.node, right, conjunction(inner.terms))
    missing = exp.Is(this=column(there.name), expression=exp.Null())
    items, fields = list(passing(joined, left.node.names).items), []
    for f, empty in zip(inner.relation.fields, inner.if_empty, strict=True):
        value: Expr = column(f.column.name)
        if empty is not None:
            value = exp.Case(ifs=[exp.If(this=missing.copy(), true=empty)], default=value)
        made = Column(binding.fresh(f.name), f.column.type, f.column.nullable or empty is None)
        items.append(Item(made, value))
        fields.append(replace(f, column=made))
    return replace(inner, relation=Relation(Project(joined, tuple(items)), tuple(fields)))
