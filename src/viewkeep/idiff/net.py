"""From a modification log to net changes: what happened to each key between two versions, in one row.

A log has one row an event: SEQ orders events, SIGN is -1 for a row as it was and +1 for a row as it became,
and the table's columns. The net relation has the key, every other column after (`c`) and before (`pre:c`),
and NET_KIND. It is effective: it says only what is different in the end, so

    delete then insert of a key is an update     insert then delete is nothing
    an update of the key is a delete and an insert, since its two events have different keys

Rows that come and go cancel by their values, whatever the order. Counting only the first and the last event
would be wrong where keys are not enforced: a new row appended before the old one is deleted ends in a delete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import (
    Expr,
    differs,
    disjunction,
    pre_name,
)
from viewkeep.catalog.models import Table

SEQ = ":seq"
SIGN = ":sign"
NET_KIND = ":net"
LAST = ":last"
_MOMENT, _FIRST = ":moment", ":first"
_GONE, _COME, _TIMES, _BALANCE = ":gone", ":come", ":times", ":balance"
KINDS = ("insert", "delete", "update", "duplicate")


def net_changes(table: Table, log: exp.Query, *, all_keys: bool = False) -> exp.Select:
    """The net changes of a table from the events that `log` selects (SEQ, SIGN, and all columns).

    With `all_keys`, keys that end as they began stay, as kind `none`. LAST is the last event's SEQ. A key
    that ends with more rows, or began with more, than one is of kind `duplicate`.
    """
    others = non_keys(table)
    names = [*table.key, *others]
    rows = exp.select(
        *(_quoted(n) for n in names),
        exp.alias_(exp.Sum(this=_quoted(SIGN)), _TIMES, quoted=True),
        exp.alias_(exp.Max(this=_quoted(SEQ)), LAST, quoted=True),
    ).from_(exp.Subquery(this=log, alias=_alias("events")))
    rows = rows.group_by(*(_quoted(n) for n in names))
    row = exp.Struct(
        expressions=[exp.PropertyEQ(this=_identifier(n), expression=_quoted(n)) for n in (_TIMES, *others)]
    )
    edges = exp.select(
        *(_quoted(k) for k in table.key),
        exp.alias_(exp.ArgMin(this=row, expression=_quoted(_TIMES)), _GONE, quoted=True),
        exp.alias_(exp.ArgMax(this=row.copy(), expression=_quoted(_TIMES)), _COME, quoted=True),
        exp.alias_(exp.Sum(this=exp.Abs(this=_quoted(_TIMES))), _BALANCE, quoted=True),
        exp.alias_(exp.Max(this=_quoted(LAST)), LAST, quoted=True),
    ).from_(exp.Subquery(this=rows, alias=_alias("rows")))
    edges = edges.group_by(*(_quoted(k) for k in table.key))
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    was = exp.LT(this=_field(_GONE, _TIMES), expression=zero)
    is_ = exp.GT(this=_field(_COME, _TIMES), expression=zero.copy())
    once_each = exp.Add(this=_one_if(was, one, zero), expression=_one_if(is_, one, zero))
    kind = exp.Case(
        ifs=[
            _if(exp.GT(this=_of("edges", _BALANCE), expression=exp.Paren(this=once_each)), "duplicate"),
            _if(exp.And(this=was.copy(), expression=is_.copy()), "update"),
            _if(was.copy(), "delete"),
            _if(is_.copy(), "insert"),
        ],
        default=exp.Literal.string("none"),
    )
    outputs: list[Expr] = [_quoted(k) for k in table.key]
    outputs += [exp.alias_(_only_if(is_, _field(_COME, n)), n, quoted=True) for n in others]
    outputs += [exp.alias_(_only_if(was, _field(_GONE, n)), pre_name(n), quoted=True) for n in others]
    outputs.append(exp.alias_(kind, NET_KIND, quoted=True))
    outputs.append(_quoted(LAST))
    query = exp.select(*outputs).from_(exp.Subquery(this=edges, alias=_alias("edges")))
    if all_keys:
        return query
    net = exp.select("*").from_(exp.Subquery(this=query, alias=_alias("net")))
    return net.where(exp.NEQ(this=_quoted(NET_KIND), expression=exp.Literal.string("none")))


def net_changes_by_enforced_key(table: Table, log: exp.Query, unordered: str = "") -> exp.Select:
    """The same where a key never names two rows, not even for a moment: then the first event of a key tells
    the row before, and the last event the row after. Of one statement, a row goes before another comes.

    Three times as fast as to cancel rows by their values, which are compared once here.

    `unordered`: the column of the log that names a transaction, where statements of one may be logged in
    another order than they changed a row. A statement is logged when it is over: a trigger that updates the
    row which has just been inserted is logged before the INSERT, and so would be one that makes room for it.
    The rows of keys that several statements of a transaction changed are cancelled by their values.
    """
    others = non_keys(table)
    comes = exp.Case(
        ifs=[exp.If(this=exp.GT(this=_quoted(SIGN), expression=_number(0)), true=_number(1))],
        default=_number(0),
    )
    moment = exp.Add(this=exp.Mul(this=_quoted(SEQ), expression=_number(2)), expression=comes)
    events = exp.select("*", exp.alias_(moment, _MOMENT, quoted=True)).from_(
        exp.Subquery(this=log, alias=_alias("log"))
    )
    parts: dict[str, exp.Query] = {"events": events}
    if unordered:
        parts |= _in_order(table, unordered)
    settled = next(reversed(parts))
    keys = [_quoted(k) for k in table.key]
    ends = exp.select(
        *keys,
        exp.alias_(exp.Min(this=_quoted(_MOMENT)), _FIRST, quoted=True),
        exp.alias_(exp.Max(this=_quoted(_MOMENT)), LAST, quoted=True),
    ).from_(settled)
    ends = ends.group_by(*(k.copy() for k in keys))
    was = exp.EQ(this=exp.Mod(this=_of("ends", _FIRST), expression=_number(2)), expression=_number(0))
    is_ = exp.EQ(this=exp.Mod(this=_of("ends", LAST), expression=_number(2)), expression=_number(1))
    moved = [differs(_of("after", n), _of("before", n)) for n in others]
    kind = exp.Case(
        ifs=[_if(exp.And(this=was.copy(), expression=is_.copy()), "update"), _if(was.copy(), "delete")],
        default=exp.Literal.string("insert"),
    )
    query = exp.select(
        *(exp.alias_(_of("ends", k), k, quoted=True) for k in table.key),
        *(exp.alias_(_of("after", n), n, quoted=True) for n in others),
        *(exp.alias_(_of("before", n), pre_name(n), quoted=True) for n in others),
        exp.alias_(kind, NET_KIND, quoted=True),
    ).from_("ends")
    for alias, end, there in (("before", _FIRST, was), ("after", LAST, is_)):
        same = [exp.EQ(this=_of(alias, k), expression=_of("ends", k)) for k in table.key]
        at = exp.EQ(this=_of(alias, _MOMENT), expression=_of("ends", end))
        query = query.join(
            exp.table_(settled, alias=alias), on=exp.and_(*same, at, there.copy()), join_type="left"
        )
    effective = disjunction(
        [exp.NEQ(this=exp.Paren(this=was), expression=exp.Paren(this=is_)), *moved]
    )  # else it ends as it began
    query = query.where(exp.Or(this=was.copy(), expression=is_.copy()), exp.Paren(this=effective))
    for name, part in parts.items():
        query = query.with_(name, as_=part)
    return query.with_("ends", as_=ends)


def _in_order(table: Table, unordered: str) -> dict[str, exp.Query]:
    """Events whose moments can be relied on: as they are, but for keys in doubt. Of these only the rows are
    left that did not come and go again, which are one before and one after at the most.

    To look for transactions of several statements first is cheap, and mostly there are none."""
    keys = [_quoted(k) for k in table.key]
    several = exp.LT(this=exp.Min(this=_quoted(SEQ)), expression=exp.Max(this=_quoted(SEQ)))
    mixed = exp.select(_quoted(unordered)).from_("events").group_by(_quoted(unordered)).having(several)
    within = exp.In(this=_quoted(unordered), query=exp.Subquery(this=mixed))
    doubted = exp.select(*(k.copy() for k in keys)).distinct().from_("events").where(within)
    doubted = doubted.group_by(*(k.copy() for k in keys), _quoted(unordered)).having(several.copy())
    same = exp.and_(*(exp.EQ(this=_of("events", k), expression=_of("doubted", k)) for k in table.key))
    in_doubt = exp.Exists(this=exp.select(_number(1)).from_("doubted").where(same))
    columns = [_quoted(n) for n in (*table.key, *non_keys(table))]
    times = exp.Sum(this=_quoted(SIGN))
    moment = exp.Case(ifs=[exp.If(this=exp.GT(this=times, expression=_number(0)), true=_number(1))])
    moment.set("default", _number(0))
    left = exp.select(*(c.copy() for c in columns), exp.alias_(moment, _MOMENT, quoted=True))
    left = left.from_("events").where(in_doubt).group_by(*(c.copy() for c in columns))
    left = left.having(exp.NEQ(this=times.copy(), expression=_number(0)))
    others = exp.select(*columns, _quoted(_MOMENT)).from_("events").where(exp.Not(this=in_doubt.copy()))
    return {"doubted": doubted, "settled": exp.Union(this=others, expression=left, distinct=False)}


def images(table: Table, net: Expr, sign: str) -> exp.Query:
    """The rows of a net relation of a table with a key: as they were, with -1 as `sign`, and as they are,
    with 1."""
    states: list[exp.Select] = []
    for absent, number in (("insert", exp.Neg(this=_number(1))), ("delete", _number(1))):
        before = absent == "insert"
        others = (exp.alias_(_quoted(pre_name(n) if before else n), n, quoted=True) for n in non_keys(table))
        told = exp.alias_(exp.Cast(this=number, to=exp.DataType.build("INT")), sign, quoted=True)
        there = exp.NEQ(this=_quoted(NET_KIND), expression=exp.Literal.string(absent))
        keys = (_quoted(k) for k in table.key)
        states.append(exp.select(*keys, *others, told).from_(net.copy()).where(there))
    return exp.Union(this=states[0], expression=states[1], distinct=False)


def summary(table: Table, net: Expr) -> exp.Select:
    """One row that says what a net relation holds: how many of each kind, and which columns change.

    Columns: KINDS, then one `update:column` for each column that is no key. The relation may have more
    columns than the table has here: an update of those alone is none.
    """
    moved = {n: differs(_quoted(n), _quoted(pre_name(n))) for n in non_keys(table)}
    is_kind = {k: exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string(k)) for k in KINDS}

    def updated(condition: Expr) -> Expr:
        return exp.And(this=is_kind["update"].copy(), expression=exp.Paren(this=condition.copy()))

    anything = disjunction(moved.values()) if moved else exp.false()
    wanted: dict[str, Expr] = {**is_kind, "update": updated(anything)}
    wanted |= {f"update:{name}": updated(condition) for name, condition in moved.items()}
    counts = (exp.alias_(_counted(condition), name, quoted=True) for name, condition in wanted.items())
    return exp.select(*counts).from_(net)


def census(table: Table, net: Expr) -> exp.Select:
    """How many rows a net relation has of each kind and, of updates, of each set of columns that change: what
    `tally` makes the summary of any of its columns from. One row a combination: kind, a boolean for each
    column that is no key, number."""
    updated = exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string("update"))
    moved = (
        exp.And(this=updated.copy(), expression=exp.Paren(this=differs(_quoted(n), _quoted(pre_name(n)))))
        for n in non_keys(table)
    )
    told = [_quoted(NET_KIND), *(exp.alias_(m, f":{i}", quoted=True) for i, m in enumerate(moved))]
    query = exp.select(*told, exp.Count(this=exp.Star())).from_(net)
    return query.group_by(*(exp.Literal.number(i + 1) for i in range(len(told))))


def tally(table: Table, wide: Table, rows: Iterable[Sequence[Any]]) -> dict[str, int]:
    """The summary of a table with some of the columns of another, from that one's census; without zeros."""
    found: Counter[str] = Counter()
    mine = set(non_keys(table))
    for kind, *flags, n in rows:
        moved = [c for c, flag in zip(non_keys(wide), flags, strict=True) if flag and c in mine]
        if kind != "update" or moved:
            found[kind] += n
        found.update({f"update:{c}": n for c in moved})
    return {label: found[label] for label in labels(table) if label in found}


def labels(table: Table) -> list[str]:
    """What each column of a summary counts."""
    return [*KINDS, *(f"update:{n}" for n in non_keys(table))]


def non_keys(table: Table) -> list[str]:
    """The columns of a table that are not in its key. Without a key, every column tells rows apart."""
    if not table.key:
        return []
    return [c.name for c in table.columns if c.name not in table.key]


def _counted(condition: Expr) -> Expr:
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    case = exp.Case(ifs=[exp.If(this=condition, true=one)], default=zero)
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[zero.copy()])


def _number(n: int) -> Expr:
    return exp.Literal.number(n)


def _if(condition: Expr, kind: str) -> exp.If:
    return exp.If(this=condition, true=exp.Literal.string(kind))


def _one_if(condition: Expr, one: Expr, zero: Expr) -> Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=one.copy())], default=zero.copy())


def _field(edge: str, name: str) -> Expr:
    return exp.Dot(this=_of("edges", edge), expression=_identifier(name))


def _only_if(condition: Expr, value: Expr) -> Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _quoted(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))
