"""From a modification log to net changes: what happened to each key between two versions, in one row.

A log has one row an event: SEQ orders events, SIGN is -1 for a row as it was and +1 for a row as it became,
and the table's columns. Events of one statement share a SEQ. The net relation has the key, every other
column after (`c`) and before (`pre:c`), and NET_KIND. It is effective: only first and last state count, so

    delete then insert of a key is an update     insert then delete is nothing
    an update of the key is a delete and an insert, since its two events have different keys
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import (
    Expr,
    conjunction,
    differs,
    disjunction,
    pre_name,
)
from viewkeep.catalog.models import Table

SEQ = ":seq"
SIGN = ":sign"
NET_KIND = ":net"


def net_changes(table: Table, log: exp.Query) -> exp.Select:
    """The net changes of a table from the events that `log` selects (SEQ, SIGN, and all columns)."""
    names = [c.name for c in table.columns]
    order = [_ordered(SEQ, desc=False), _ordered(SIGN, desc=False)]
    back = [_ordered(SEQ, desc=True), _ordered(SIGN, desc=True)]
    ranked = exp.select(
        *(_quoted(n) for n in (SIGN, *names)),
        exp.alias_(_rank(table.key, order), "first"),
        exp.alias_(_rank(table.key, back), "last"),
    ).from_(exp.Subquery(this=log, alias=_alias("events")))
    was = _edge(ranked, "first", -1, names)
    became = _edge(ranked, "last", 1, names)
    kind = exp.Case(
        ifs=[
            exp.If(this=_is_null("was", table.key[0]), true=exp.Literal.string("insert")),
            exp.If(this=_is_null("became", table.key[0]), true=exp.Literal.string("delete")),
        ],
        default=exp.Literal.string("update"),
    )
    others = [n for n in names if n not in table.key]
    outputs: list[Expr] = [
        exp.alias_(
            exp.Coalesce(this=_of("became", k), expressions=[_of("was", k)]), k, quoted=True
        )
        for k in table.key
    ]
    outputs += [exp.alias_(_of("became", n), n, quoted=True) for n in others]
    outputs += [exp.alias_(_of("was", n), pre_name(n), quoted=True) for n in others]
    outputs.append(exp.alias_(kind, NET_KIND, quoted=True))
    on = conjunction(exp.EQ(this=_of("was", k), expression=_of("became", k)) for k in table.key)
    moved: list[Expr] = [_is_null("was", table.key[0]), _is_null("became", table.key[0])]
    moved += [differs(_of("was", n), _of("became", n)) for n in others]
    query = exp.select(*outputs).from_(exp.Subquery(this=was, alias=_alias("was")))
    query.append(
        "joins",
        exp.Join(this=exp.Subquery(this=became, alias=_alias("became")), side="FULL", on=on),
    )
    return query.where(disjunction(moved))


def summary(table: Table, net: Expr) -> exp.Select:
    """One row that says what a net relation holds: how many of each kind, and which columns change.

    Columns: insert, delete, update, then one `update:column` for each column that is no key.
    """
    outputs = [
        exp.alias_(_counted(exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string(k))), k, quoted=True)
        for k in ("insert", "delete", "update")
    ]
    for name in non_keys(table):
        updated = exp.EQ(this=_quoted(NET_KIND), expression=exp.Literal.string("update"))
        moved = differs(_quoted(name), _quoted(pre_name(name)))
        both = exp.And(this=updated, expression=moved)
        outputs.append(exp.alias_(_counted(both), f"update:{name}", quoted=True))
    return exp.select(*outputs).from_(net)


def non_keys(table: Table) -> list[str]:
    """The columns of a table that are not in its key."""
    return [c.name for c in table.columns if c.name not in table.key]


def _counted(condition: Expr) -> Expr:
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    case = exp.Case(ifs=[exp.If(this=condition, true=one)], default=zero)
    return exp.Coalesce(this=exp.Sum(this=case), expressions=[zero.copy()])


def _edge(ranked: exp.Select, rank: str, sign: int, names: Sequence[str]) -> exp.Select:
    """The rows that are the first (or last) event of their key, where that event has this sign."""
    number = exp.Literal.number(1)
    wanted: Expr = number if sign > 0 else exp.Neg(this=number)
    return (
        exp.select(*(_quoted(n) for n in names))
        .from_(exp.Subquery(this=ranked.copy(), alias=_alias("ranked")))
        .where(
            exp.EQ(this=_quoted(rank), expression=exp.Literal.number(1)),
            exp.EQ(this=_quoted(SIGN), expression=wanted),
        )
    )


def _rank(key: Sequence[str], order: Sequence[exp.Ordered]) -> exp.Window:
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[_quoted(k) for k in key],
        order=exp.Order(expressions=list(order)),
    )


def _ordered(name: str, *, desc: bool) -> exp.Ordered:
    return exp.Ordered(this=_quoted(name), desc=desc, nulls_first=not desc)


def _is_null(alias: str, name: str) -> Expr:
    return exp.Is(this=_of(alias, name), expression=exp.Null())


def _quoted(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))
