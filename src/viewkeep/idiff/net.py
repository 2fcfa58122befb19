"""From a modification log to net changes: what happened to each key between two versions, in one row.

A log has one row an event: SEQ orders events, SIGN is -1 for a row as it was and +1 for a row as it became,
and the table's columns. Events of one statement share a SEQ. The net relation has the key, every other
column after (`c`) and before (`pre:c`), and NET_KIND. It is effective: only first and last state count, so

    delete then insert of a key is an update     insert then delete is nothing
    an update of the key is a delete and an insert, since its two events have different keys
"""

from __future__ import annotations

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
_FIRST, _FINAL, _BALANCE = ":first", ":final", ":balance"
KINDS = ("insert", "delete", "update", "duplicate")


def net_changes(table: Table, log: exp.Query, *, all_keys: bool = False) -> exp.Select:
    """The net changes of a table from the events that `log` selects (SEQ, SIGN, and all columns).

    With `all_keys`, keys that end as they began stay, as kind `none`. LAST is the last event's SEQ. A key
    for which rows do not add up to none or one is of kind `duplicate`: at some time it was no key.

    One grouping by key: the first event says what the row was, if its sign is -1, and the last what it
    became, if its sign is +1. Within a statement, rows that go come before rows that come.
    """
    others = non_keys(table)
    order = exp.Add(
        this=exp.Mul(this=_quoted(SEQ), expression=exp.Literal.number(4)), expression=_quoted(SIGN)
    )
    row = exp.Struct(
        expressions=[exp.PropertyEQ(this=_identifier(n), expression=_quoted(n)) for n in (SIGN, *others)]
    )
    edges = exp.select(
        *(_quoted(k) for k in table.key),
        exp.alias_(exp.ArgMin(this=row, expression=order), _FIRST, quoted=True),
        exp.alias_(exp.ArgMax(this=row.copy(), expression=order.copy()), _FINAL, quoted=True),
        exp.alias_(exp.Sum(this=_quoted(SIGN)), _BALANCE, quoted=True),
        exp.alias_(exp.Max(this=_quoted(SEQ)), LAST, quoted=True),
    ).from_(exp.Subquery(this=log, alias=_alias("events")))
    edges = edges.group_by(*(_quoted(k) for k in table.key))
    was, is_ = _has(_FIRST, -1), _has(_FINAL, 1)
    moved: list[Expr] = [differs(_field(_FIRST, n), _field(_FINAL, n)) for n in others]
    changed = disjunction(moved) if moved else exp.false()
    before = exp.Case(
        ifs=[exp.If(this=was.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0)
    )
    after = exp.Case(ifs=[exp.If(this=is_.copy(), true=exp.Literal.number(1))], default=exp.Literal.number(0))
    rows = exp.Add(this=_of("edges", _BALANCE), expression=before)
    kind = exp.Case(
        ifs=[
            _if(exp.NEQ(this=exp.Paren(this=rows), expression=after), "duplicate"),
            _if(exp.And(this=was.copy(), expression=exp.Not(this=is_.copy())), "delete"),
            _if(exp.And(this=exp.Not(this=was.copy()), expression=is_.copy()), "insert"),
            _if(exp.Not(this=is_.copy()), "none"),
            _if(exp.Paren(this=changed), "update"),
        ],
        default=exp.Literal.string("none"),
    )
    outputs: list[Expr] = [_quoted(k) for k in table.key]
    outputs += [exp.alias_(_only_if(is_, _field(_FINAL, n)), n, quoted=True) for n in others]
    outputs += [exp.alias_(_only_if(was, _field(_FIRST, n)), pre_name(n), quoted=True) for n in others]
    outputs.append(exp.alias_(kind, NET_KIND, quoted=True))
    outputs.append(_quoted(LAST))
    query = exp.select(*outputs).from_(exp.Subquery(this=edges, alias=_alias("edges")))
    if all_keys:
        return query
    net = exp.select("*").from_(exp.Subquery(this=query, alias=_alias("net")))
    return net.where(exp.NEQ(this=_quoted(NET_KIND), expression=exp.Literal.string("none")))


def summary(table: Table, net: Expr) -> exp.Select:
    """One row that says what a net relation holds: how many of each kind, and which columns change.

    Columns: KINDS, then one `update:column` for each column that is no key.
    """
    outputs = [
        exp.alias_(_counted(exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string(k))), k, quoted=True)
        for k in KINDS
    ]
    for name in non_keys(table):
        updated = exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string("update"))
        moved = differs(_quoted(name), _quoted(pre_name(name)))
        both = exp.And(this=updated, expression=moved)
        outputs.append(exp.alias_(_counted(both), f"update:{name}", quoted=True))
    return exp.select(*outputs).from_(net)


def labels(table: Table) -> list[str]:
    """What each column of a summary counts."""
    return [*KINDS, *(f"update:{n}" for n in non_keys(table))]


def non_keys(table: Table) -> list[str]:
    """The columns of a table that are not in its key."""
    return [c.name for c in table.columns if c.name not in table.key]


def _counted(condition: Expr) -> Expr:
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    case = exp.Case(ifs=[exp.If(this=condition, true=one)], default=zero)
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[zero.copy()])


def _if(condition: Expr, kind: str) -> exp.If:
    return exp.If(this=condition, true=exp.Literal.string(kind))


def _has(edge: str, sign: int) -> Expr:
    number = exp.Literal.number(1)
    return exp.EQ(this=_field(edge, SIGN), expression=number if sign > 0 else exp.Neg(this=number))


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
