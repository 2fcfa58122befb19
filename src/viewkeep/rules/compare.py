"""From rows before and rows after to exact diffs. Rules fall back to this where a diff alone cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import (
    Expr,
    column,
    columns_of,
    conjunction,
    differs,
    disjunction,
    pre_name,
    same,
)
from viewkeep.algebra.nodes import Item, Join, Node, Project, Select, passing, pre_column
from viewkeep.algebra.script_nodes import SemiJoin, Union
from viewkeep.idiff.diff import Diff
from viewkeep.rules.context import Context


def as_pre(node: Node) -> Project:
    """The node with every column c called pre:c."""
    return Project(node, tuple(Item(pre_column(c), column(c.name)) for c in node.columns))


def rename_ids(diff: Diff, names: Mapping[str, str]) -> tuple[dict[str, str], Node]:
    """The new name of each id with an old one, and the diff's rows that can match under the new names.

    Two ids may get one name where the node makes them equal. A diff row in which they differ matches
    nothing: with r.k = r.l the row (k 0, l 1) must not pass for (0, 0).
    """
    renamed: dict[str, str] = {}
    query = diff.query
    for old in diff.ids:
        first = renamed.setdefault(names[old], old)
        if first != old:
            query = Select(query, exp.EQ(this=column(first), expression=column(old)))
    return renamed, query


def old_values(diff: Diff, query: Node) -> Project:
    """The ids of an update diff's rows with its known columns as they were before the change."""
    ids = (Item(query.by_name[i], column(i)) for i in diff.ids)
    known = (Item(query.by_name[c], column(pre_name(c))) for c in diff.known)
    return Project(query, (*ids, *known))


def compare(
    before: Node, after: Node, ids: tuple[str, ...], changed: frozenset[str], rule: str
) -> list[Diff]:
    """The diffs that turn `before` into `after`: by full IDs, all columns known, exact.

    Rows of one ID on both sides are an update of the `changed` columns, where one of them differs.
    """
    on = tuple((i, i) for i in ids)
    others = tuple(n for n in after.names if n not in ids)
    deletes = Diff("delete", ids, others, SemiJoin(before, passing(after, ids), on, anti=True), rule=rule)
    inserts = Diff("insert", ids, others, SemiJoin(after, passing(before, ids), on, anti=True), rule=rule)
    if not changed:
        return [deletes, inserts]
    paired = Join(after, as_pre(before), conjunction(same(column(i), column(pre_name(i))) for i in ids))
    moved = Select(paired, disjunction(differs(column(c), column(pre_name(c))) for c in sorted(changed)))
    updates = Diff(
        "update",
        ids,
        others,
        passing(moved, [*ids, *others, *map(pre_name, others)]),
        changed,
        rule=rule,
    )
    return [deletes, inserts, updates]


def reexamine(
    node: Node,
    diff: Diff,
    changed: frozenset[str],
    ctx: Context,
    rule: str,
    names: Mapping[str, str] | None = None,
) -> list[Diff]:
    """The rows of a node that an update may concern, before and after, compared.

    Reads both states of the node on purpose. With L.b 1->2 and R.b 1->3 in one batch the pair that
    joined on 1 = 1 is found in no after-state; and the pair must be deleted by its full ID, or rows that
    the same update brings in would go too. `names`: what the node calls the diff's ids, where it renames.
    """
    on = tuple(((names or {}).get(i, i), i) for i in diff.ids)
    before = ctx.let("rows_before", SemiJoin(ctx.state(node, "pre"), diff.query, on))
    after = ctx.let("rows_after", SemiJoin(ctx.state(node, "post"), diff.query, on))
    return compare(before, after, node.ids, changed & frozenset(node.names), rule)


def compare_touched(
    node: Node,
    touched: Sequence[Node],
    changed: frozenset[str],
    ctx: Context,
    rule: str,
    *,
    updates_only: bool = False,
) -> list[Diff]:
    """The rows of a node that are named by relations of some of its columns, before and after, compared."""
    named = _together(touched, ctx)
    rows = []
    for state in ("pre", "post"):
        found = [
            SemiJoin(ctx.state(node, "pre" if state == "pre" else "post"), part, _on(part)) for part in named
        ]
        whole: Node = found[0] if len(found) == 1 else Union(tuple(found), distinct=True)
        rows.append(ctx.let("rows_before" if state == "pre" else "rows_after", whole))
    made = compare(rows[0], rows[1], node.ids, changed & frozenset(node.names), rule)
    return [d for d in made if d.kind == "update"] if updates_only else made


def _together(touched: Sequence[Node], ctx: Context) -> list[Node]:
    """Relations of the same columns as one: the rows that they name are then looked for once."""
    by_names: dict[tuple[str, ...], list[Node]] = {}
    for part in touched:
        by_names.setdefault(tuple(sorted(part.names)), []).append(part)
    made: list[Node] = []
    for names, parts in by_names.items():
        alike = [passing(part, names) for part in parts]
        made.append(parts[0] if len(parts) == 1 else ctx.let("named", Union(tuple(alike), distinct=True)))
    return made


def _on(named: Node) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in named.names)


def changed_images(below: Node, diff: Diff, needed: frozenset[str], ctx: Context) -> list[Node]:
    """The rows of a node that a diff takes away or brings, in the needed columns: as they were and are.

    From the diff itself where it knows them, else looked up by its ids.
    """
    names = [n for n in below.names if n in needed]
    if diff.kind == "insert":
        return [passing(diff.query, names)]
    if diff.knows(needed):
        if diff.kind == "delete":
            return [passing(diff.query, names)]
        return [passing(old_values(diff, diff.query), names), passing(diff.query, names)]
    on = tuple((i, i) for i in diff.ids)
    before = passing(SemiJoin(ctx.state(below, "pre"), diff.query, on), names)
    if diff.kind == "delete":
        return [before]
    return [before, passing(SemiJoin(ctx.state(below, "post"), diff.query, on), names)]


def met_by(
    condition: Expr | None,
    moved: Node,
    diffs: Sequence[Diff],
    other: Node,
    ctx: Context,
    *,
    every: bool = False,
) -> list[Node]:
    """The IDs of the rows of `other` that satisfy a condition with rows of `moved` that its diffs change, as
    they were or as they are. No relation, or one. `every`: also where the condition sees no change."""
    looked_at = columns_of(condition) if condition is not None else frozenset()
    reaching = [d for d in diffs if every or d.kind != "update" or d.changed & looked_at]
    needed = looked_at & frozenset(moved.names)
    images = [image for d in reaching for image in changed_images(moved, d, needed, ctx)]
    if not images:
        return []
    partners = ctx.let("partners", Union(tuple(images), distinct=True))
    states = [ctx.state(other, "post")]
    if not ctx.unchanged(other):
        states.append(ctx.state(other, "pre"))
    found = [passing(Join(partners, rows, condition), other.ids) for rows in states]
    return [ctx.let("touched", Union(tuple(found), distinct=True))]
