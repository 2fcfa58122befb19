"""Grouping (idIVM tables 7, 9, 11, 12), groups that come and go included.

For each group the plan keeps a row count, a sum and, where values may be null, a count of them; SUM and AVG
are finished from these above the operator. A group exists while its row count is not zero. MIN and MAX are
kept too, and looked for again when the extreme value goes; other functions are computed anew for the groups
that a change touches.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, both, column, disjunction, exactly, pre_name
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Measure,
    Node,
    Project,
    Select,
    passing,
    pre_column,
)
from viewkeep.algebra.script_nodes import ROW, SIGN, LeftJoin, Ref, SemiJoin, Stored, Union
from viewkeep.algebra.types import BIGINT, BOOLEAN, DOUBLE, MAX_PRECISION, Type, decimal
from viewkeep.idiff.changes import KIND_COLUMN, KINDS, diffs_of, literal, rows_after, rows_before
from viewkeep.idiff.diff import Diff
from viewkeep.rules import images
from viewkeep.rules.compare import as_pre
from viewkeep.rules.context import Context
from viewkeep.rules.join import whole_rows
from viewkeep.rules.overlay import store, union_rows

# A sum of doubles is recomputed once what went in and out of it exceeds its values this many times.
DRIFT_LIMIT = 1e5
LARGEST = 1e300
STALE = Column(":stale", BOOLEAN)


def propagate(node: Aggregate, signed: Node, output: Stored, ctx: Context) -> tuple[Ref, list[Diff]]:
    """The change relation of the operator's output, and its diffs, from the signed rows of its input."""
    delta = ctx.let("delta", _delta(node, signed))
    changes = ctx.let("groups", _new_state(node, delta, output))
    if any(_is_redone(m) for m in node.measures):
        changes = _recomputed_where_stale(node, changes, ctx)
    return changes, diffs_of(
        changes, node.keys, "AddDeltasToGroups", kinds=KINDS if node.keys else ("update",)
    )


def sums_images(node: Aggregate, ctx: Context) -> list[Node] | None:
    """SumDeltasFromImages: the changed leaves, where there is no input cache and signed rows reach the
    operator (see rules/images.py). Not for an extreme over two changed leaves: a row that was never there
    could pass for one."""
    if node.input in ctx.stored:
        return None
    leaves = images.changed_leaves(node.input, ctx)
    if leaves is not None and len(leaves) > 1 and any(m.function in ("min", "max") for m in node.measures):
        return None
    return leaves


def signed_by_diffs(node: Aggregate, diffs: Sequence[Diff], ctx: Context) -> Node:
    """The input rows that diffs take away or replace, and those that they bring or leave."""
    below = node.input
    needed = [c for c in below.columns if c.name in {*below.ids, *node.keys, *_arguments(node)}]
    if below in ctx.stored:  # SumDeltasFromInputCache
        changes = store(below, diffs, ctx)
        old, new = [rows_before(changes, needed, below.ids)], [rows_after(changes, needed)]
        return _signed(old, new)
    names = [c.name for c in needed]
    old = [_rows(below, "pre", d, names, ctx) for d in diffs if d.kind != "insert"]
    new = [_rows(below, "post", d, names, ctx) for d in diffs if d.kind != "delete"]
    return _signed(old, new)


def _signed(old: Sequence[Node], new: Sequence[Node]) -> Node:
    parts = [images.with_sign(union_rows(rows), sign) for rows, sign in ((old, -1), (new, 1)) if rows]
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _rows(below: Node, state: str, diff: Diff, names: Sequence[str], ctx: Context) -> Node:
    """The rows that a diff takes away or replaces, or (`post`) brings or leaves. SumDeltasFromDiffsAlone: it
    names single rows, all of them there, and knows what the groups need of them. SumDeltasFromRowsLookedUp:
    it may name none, or many, as the price of a part does. A row that two diffs name is the same from both,
    and counts once."""
    if diff.exact and set(diff.ids) == set(below.ids) and diff.knows(names):
        return whole_rows(passing(below, names), diff, state)
    if diff.kind == "insert":
        return passing(diff.query, names)
    rows = ctx.state(below, "pre" if state == "pre" else "post")
    return passing(SemiJoin(rows, diff.query, tuple((i, i) for i in diff.ids)), names)


def _arguments(node: Aggregate) -> set[str]:
    return {name for m in node.measures for name in m.arguments}


def _delta(node: Aggregate, signed: Node) -> Node:
    """For each touched group how much each measure changes: rows that come minus rows that go. For an
    extreme, the extreme of what comes (`come:`) and of what goes (`gone:`)."""
    additive = [m for m in node.measures if m.is_additive]
    extremes = [m for m in node.measures if m.function in ("min", "max")]
    items = [Item(signed.by_name[k], column(k)) for k in node.keys]
    items += [Item(_named(m, "v:"), _contribution(m)) for m in additive]
    items += [
        Item(_extreme(m, prefix), _of_sign(sign, column(m.argument or "")))
        for m in extremes
        for prefix, sign in (("come:", 1), ("gone:", -1))
    ]
    totals = [Measure(_named(m, "d:"), "sum", f"v:{m.name}") for m in additive]
    outer = [
        Measure(_extreme(m, prefix), m.function, f"{prefix}{m.name}")
        for m in extremes
        for prefix in ("come:", "gone:")
    ]
    delta = Aggregate(Project(signed, tuple(items)), node.keys, (*totals, *outer))
    if len(additive) < len(node.measures):
        return delta  # 1 and 4 for 2 and 3: all sums are as they were, and the minimum is not
    moved = (exp.NEQ(this=column(m.name), expression=exp.Literal.number(0)) for m in totals)
    return Select(delta, disjunction(moved))


def _of_sign(sign: int, value: Expr, otherwise: Expr | None = None) -> Expr:
    """A value where the row has that sign."""
    kind = exp.GT if sign > 0 else exp.LT
    is_it = kind(this=column(SIGN.name), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=is_it, true=value)], default=otherwise)


def _extreme(measure: Measure, prefix: str) -> Column:
    return Column(prefix + measure.name, measure.column.type, nullable=True)


def _contribution(measure: Measure) -> Expr:
    if measure.argument is None:
        return exp.Cast(this=column(SIGN.name), to=measure.column.type.sql())
    value: Expr = column(measure.argument)
    if measure.function == "count":
        null = exp.Is(this=value, expression=exp.Null())
        counted = exp.Case(ifs=[exp.If(this=null, true=exp.Literal.number(0))], default=column(SIGN.name))
        return exp.Cast(this=counted, to=measure.column.type.sql())
    value = exp.Cast(this=value, to=_delta_type(measure).sql())
    if measure.function in ("mass", "magnitude"):
        value = exp.Abs(this=value)
    if measure.function == "magnitude":
        return value
    kind = _delta_type(measure) if measure.column.type != BIGINT else BIGINT
    return _of_sign(1, value, exactly(exp.Neg(this=value.copy()), kind))


def _new_state(node: Aggregate, delta: Ref, output: Stored) -> Node:
    """Output joined with the deltas: c -> c_pre, c + c_delta -> c_post."""
    joined = LeftJoin(delta, as_pre(output.with_row()), tuple((k, pre_name(k)) for k in node.keys))
    items = [Item(output.by_name[k], column(k)) for k in node.keys]
    for m in node.measures:
        if not m.is_additive:
            items.append(Item(m.column, _kept_or_come(m)))
            continue
        new: Expr = _sum_of(m)
        if m.function == "magnitude":
            # each addition to the sum rounds once by at most its mass: that counts as turnover too
            mass = next(o for o in node.measures if o.function == "mass" and o.argument == m.argument)
            new = exp.Add(this=new, expression=_sum_of(mass))
        items.append(Item(m.column, exp.Cast(this=new, to=m.column.type.sql())))
    items += [Item(pre_column(m.column), column(pre_name(m.name))) for m in node.measures]
    rows = next(m for m in node.measures if m.function == "rows")
    absent = exp.Is(this=column(pre_name(rows.name)), expression=exp.Null())
    vanished = exp.EQ(this=_sum_of(rows), expression=exp.Literal.number(0))
    ifs = [exp.If(this=absent, true=literal("insert"))]
    if node.keys:  # without GROUP BY there is always one row, over no input rows too
        ifs.append(exp.If(this=vanished, true=literal("delete")))
    items.append(Item(KIND_COLUMN, exp.Case(ifs=ifs, default=literal("update"))))
    if output.locates:
        items.append(Item(Column(ROW, BIGINT), column(pre_name(ROW))))
    if stale := _staleness(node):
        items.append(Item(STALE, disjunction(stale)))
    ordered = Project(joined, tuple(items))
    if not node.keys:
        return ordered
    nothing = both(absent, vanished)
    return Project(Select(joined, exp.Not(this=exp.Paren(this=nothing))), tuple(items))


def _sum_of(measure: Measure) -> Expr:
    """What was kept, or 0 for a new group, plus the delta."""
    old = exp.Coalesce(this=column(pre_name(measure.name)), expressions=[exp.Literal.number(0)])
    return exactly(exp.Add(this=old, expression=column(f"d:{measure.name}")), measure.column.type)


def _kept_or_come(measure: Measure) -> Expr:
    """An extreme as it was, or a value that comes and is more extreme. Stale where the old one went."""
    old = column(pre_name(measure.name))
    if measure.function == "any":
        return old
    come = column(f"come:{measure.name}")
    return exp.Case(
        ifs=[
            exp.If(this=exp.Is(this=old.copy(), expression=exp.Null()), true=come.copy()),
            exp.If(this=_beyond(measure, come, old), true=come.copy()),
        ],
        default=old,
    )


def _beyond(measure: Measure, value: Expr, other: Expr) -> Expr:
    kind = exp.LT if measure.function == "min" else exp.GT
    return kind(this=value.copy(), expression=other.copy())


def _staleness(node: Aggregate) -> list[Expr]:
    """When a group's extremes are not known from what was kept: the extreme went, and nothing that comes is
    as extreme."""
    found: list[Expr] = []
    for m in node.measures:
        if m.function in ("min", "max"):
            old, come, gone = (column(p + m.name) for p in ("pre:", "come:", "gone:"))
            went = exp.Not(this=exp.Paren(this=_beyond(m, old, gone)))
            replaced = exp.Coalesce(
                this=exp.Not(this=exp.Paren(this=_beyond(m, old, come))), expressions=[exp.false()]
            )
            stays = exp.Is(this=gone.copy(), expression=exp.Null())
            found.append(
                exp.And(
                    this=exp.Not(this=exp.Paren(this=stays)),
                    expression=exp.And(
                        this=exp.Coalesce(this=went, expressions=[exp.true()]),
                        expression=exp.Not(this=exp.Paren(this=replaced)),
                    ),
                )
            )
    return found


def _is_redone(measure: Measure) -> bool:
    """Whether a measure is, at times, computed anew from the group's rows."""
    return not measure.is_additive or (measure.function == "sum" and measure.column.type == DOUBLE)


def _recomputed_where_stale(node: Aggregate, changes: Ref, ctx: Context) -> Ref:
    """The change relation with measures computed anew for the groups in which they are not to be trusted.

    Sums of doubles, where adding and subtracting may have lost digits: 1 + 1e300 - 1e300 is 0 in doubles.
    `mass` is the sum of absolute values, `magnitude` all that ever went in or out since the sum was last
    computed from its rows. Their ratio bounds the error; infinities and NaN fail the test, so such groups
    are always recomputed. Extremes that went. And functions that nothing can be added to, always.
    """
    alive = exp.NEQ(this=column(KIND_COLUMN.name), expression=literal("delete"))
    wanted = None if any(m.function == "any" for m in node.measures) else disjunction(_doubts(node, changes))
    doubtful = Select(changes, alive if wanted is None else both(alive, exp.Paren(this=wanted)))
    flagged = ctx.let("stale", passing(doubtful, [*node.keys, KIND_COLUMN.name]))
    doubles = {m.argument for m in node.measures if m.function == "sum" and m.column.type == DOUBLE}
    redone = [
        m
        for m in node.measures
        if not m.is_additive or (m.argument in doubles and m.function not in ("rows", "count"))
    ]
    rows = SemiJoin(ctx.state(node.input, "post"), flagged, tuple((k, k) for k in node.keys))
    # of one column and a star: a group that is recomputed has a count, whatever its measures are
    there = Measure(Column("there", BIGINT, nullable=False), "rows")
    fresh = Aggregate(rows, node.keys, (*redone, there))
    renamed = Project(
        fresh,
        tuple(Item(Column(f"r:{c.name}", c.type, c.nullable), column(c.name)) for c in fresh.columns),
    )
    recomputed = ctx.let("recomputed", renamed)
    ctx.guards[recomputed.name] = flagged.name
    joined = LeftJoin(changes, recomputed, tuple((k, f"r:{k}") for k in node.keys))
    was_redone = exp.Not(this=exp.Paren(this=exp.Is(this=column("r:there"), expression=exp.Null())))
    items = []
    for c in changes.columns:
        if c.name == STALE.name:
            continue
        value: Expr = column(c.name)
        if any(m.name == c.name for m in redone):
            fresh_value = exp.If(this=was_redone.copy(), true=column(f"r:{c.name}"))
            value = exp.Case(ifs=[fresh_value], default=value)
        items.append(Item(c, value))
    return ctx.let("groups_exact", Project(joined, tuple(items)))


def _doubts(node: Aggregate, changes: Ref) -> list[Expr]:
    doubts: list[Expr] = [column(STALE.name)] if STALE.name in changes.by_name else []
    for total in node.measures:
        if total.function != "sum" or total.column.type != DOUBLE:
            continue
        mass, magnitude = (
            next(m for m in node.measures if m.function == f and m.argument == total.argument)
            for f in ("mass", "magnitude")
        )
        limit = exp.Mul(this=_number(DRIFT_LIMIT), expression=column(mass.name))
        within = both(
            exp.LTE(this=column(magnitude.name), expression=limit),
            exp.LT(this=column(magnitude.name), expression=_number(LARGEST)),
        )
        doubts.append(exp.Not(this=exp.Paren(this=within)))
    return doubts


def _number(value: float) -> Expr:
    return exp.Cast(this=exp.Literal.number(repr(value)), to=DOUBLE.sql())


def _named(measure: Measure, prefix: str) -> Column:
    return Column(prefix + measure.name, _delta_type(measure), nullable=False)


def _delta_type(measure: Measure) -> Type:
    """Wide enough for a difference of two sums: old and new may fit a BIGINT where new - old does not."""
    is_integer_sum = measure.function == "sum" and measure.column.type == BIGINT
    return decimal(MAX_PRECISION, 0) if is_integer_sum else measure.column.type
