"""Diffs laid over what is stored: the change relation of a target, one row for each row that changes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import (
    Expr,
    column,
    differs,
    disjunction,
    pre_name,
    same,
)
from viewkeep.algebra.nodes import Column, Item, Join, Node, Project, Select, passing, pre_column
from viewkeep.algebra.script_nodes import ROW, LeftJoin, Ref, Stored, Union
from viewkeep.algebra.types import BIGINT, BOOLEAN
from viewkeep.idiff.changes import KIND, KIND_COLUMN, diffs_of, is_kind, literal
from viewkeep.idiff.diff import Diff
from viewkeep.rules.context import Context, by_kind


def store(node: Node, diffs: Sequence[Diff], ctx: Context) -> Ref:
    """ExpandDiffsOverCache: all that diffs do to a stored node, as its change relation, which is applied."""
    stored = ctx.stored[node]
    changes = ctx.let(f"changes_{stored.target}", expand(stored, diffs))
    kinds = {d.kind for d in diffs}
    changed = frozenset().union(*(d.changed for d in diffs))
    made = diffs_of(changes, node.ids, "ExpandDiffsOverCache", kinds=kinds, changed=changed)
    ctx.store_changes(node, changes, made)
    return changes


def expand(stored: Stored, diffs: Sequence[Diff]) -> Node:
    """The change relation of a stored target under all its diffs.

    Blocking, since two diffs may meet in one row: a new price for its part and a new quantity for itself.
    Diffs are effective, so where two set the same column they agree.
    """
    parts: list[Node] = []
    touching = [d for d in diffs if d.kind != "insert"]
    if touching:
        parts.append(_touched(stored, touching))
    if inserts := by_kind(diffs, "insert"):
        parts.append(_inserted(stored, inserts))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _touched(stored: Stored, diffs: Sequence[Diff]) -> Node:
    others = [c for c in stored.columns if c.name not in stored.ids]
    node: Node = stored.with_row()
    hits = []
    for n, diff in enumerate(diffs, start=1):
        hit = Column(f"hit:{n}", BOOLEAN, nullable=False)
        hits.append(column(hit.name))
        kept = [*diff.ids, *sorted(diff.changed)]
        renamed = tuple(
            Item(Column(f"d{n}:{c}", diff.query.by_name[c].type, diff.query.by_name[c].nullable), column(c))
            for c in kept
        )
        side = Project(diff.query, (*renamed, Item(hit, exp.true())))
        on = tuple((i, f"d{n}:{i}") for i in diff.ids)
        node = Join(node, side, _equal(on)) if len(diffs) == 1 else LeftJoin(node, side, on)
    if len(diffs) > 1:
        node = Select(node, disjunction(exp.Is(this=h, expression=exp.true()) for h in hits))
    items = [Item(stored.by_name[i], column(i)) for i in stored.ids]
    for c in others:
        items.append(Item(c, _latest(c.name, diffs, hits)))
        items.append(Item(pre_column(c), column(c.name)))
    gone = [
        exp.If(this=exp.Is(this=h.copy(), expression=exp.true()), true=literal("delete"))
        for h, d in zip(hits, diffs, strict=True)
        if d.kind == "delete"
    ]
    kind = exp.Case(ifs=gone, default=literal("update")) if gone else literal("update")
    items.append(Item(KIND_COLUMN, kind))
    items += [Item(c, column(ROW)) for c in node.columns if c.name == ROW]
    changed = Project(node, tuple(items))
    updated = [c for c in others if any(c.name in d.changed for d in diffs)]
    moved = [differs(column(c.name), column(pre_name(c.name))) for c in updated]
    if gone:
        moved.append(is_kind("delete"))
    return _ordered(stored, Select(changed, disjunction(moved)))


def _equal(on: Sequence[tuple[str, str]]) -> Expr | None:
    terms: Expr | None = None
    for a, b in on:
        term = same(column(a), column(b))
        terms = term if terms is None else exp.And(this=terms, expression=term)
    return terms


def _latest(name: str, diffs: Sequence[Diff], hits: Sequence[Expr]) -> Expr:
    """The column's value after all diffs: from one that changes it, where one hits the row."""
    ifs = [
        exp.If(this=exp.Is(this=hit.copy(), expression=exp.true()), true=column(f"d{n}:{name}"))
        for n, (diff, hit) in enumerate(zip(diffs, hits, strict=True), start=1)
        if name in diff.changed
    ]
    if not ifs:
        return column(name)
    if len(diffs) == 1:
        return column(f"d1:{name}")
    return exp.Case(ifs=ifs, default=column(name))


def _inserted(stored: Stored, diffs: Sequence[Diff]) -> Node:
    rows = union_rows([passing(d.query, stored.names) for d in diffs])
    items = [Item(c, column(c.name)) for c in stored.columns]
    for c in stored.columns:
        if c.name not in stored.ids:
            null = exp.Cast(this=exp.Null(), to=c.type.sql())
            items.append(Item(pre_column(c), null))
    items.append(Item(KIND_COLUMN, literal("insert")))
    if stored.locates:
        # of no type: each database has its own for where a row is
        items.append(Item(Column(ROW, BIGINT), exp.Null()))
    return _ordered(stored, Project(rows, tuple(items)))


def _ordered(stored: Stored, node: Node) -> Project:
    others = [c for c in stored.names if c not in stored.ids]
    row = [ROW] if stored.locates else []
    return passing(node, [*stored.ids, *others, *map(pre_name, others), KIND, *row])


def union_rows(parts: Sequence[Node]) -> Node:
    """Rows that several diffs found; a row found twice (from both sides of a join) counts once."""
    return parts[0] if len(parts) == 1 else Union(tuple(parts), distinct=True)
