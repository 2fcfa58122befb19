"""From a modification log to the net changes of a table without a key (see algebra/bags.py).

Rows that come and go cancel by their values; what is left of a value is a number n of rows more or fewer.
With `after` of them in the table now, there were `before` = after - n, so

    n > 0   inserts of the occurrences before + 1 .. after
    n < 0   deletes of the occurrences after + 1 .. before

and the occurrences up to the smaller of the two stay. There are no updates.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from viewkeep.algebra.bags import OCCURRENCE, one_zero
from viewkeep.algebra.expressions import Expr, same
from viewkeep.algebra.types import BIGINT
from viewkeep.catalog.models import Table
from viewkeep.idiff.net import LAST, NET_KIND, SEQ, SIGN

TIMES, BEFORE = ":times", ":before"
_AFTER = ":after"
# aliases that no column has: in a subquery b.k would be taken for a field of a column b
_VALUES, _NOW = "viewkeep_values", "viewkeep_now"


def value_changes(table: Table, log: exp.Query, *, all_values: bool = False) -> exp.Select:
    """By how many rows of each value (TIMES) a table changed, from the events that `log` selects.

    With `all_values`, values stay of which there are as many as before. LAST is the last event's SEQ.
    """
    times = _bigint(exp.Sum(this=_quoted(SIGN)))
    query = exp.select(
        *(exp.alias_(value, name, quoted=True) for name, value in _values(table)),
        exp.alias_(times, TIMES, quoted=True),
        exp.alias_(exp.Max(this=_quoted(SEQ)), LAST, quoted=True),
    ).from_(_derived(log, "events"))
    query = query.group_by(*(value for _, value in _values(table)))
    if all_values:
        return query
    return query.having(exp.NEQ(this=times.copy(), expression=exp.Literal.number(0)))


def changed_rows(values: Expr) -> exp.Select:
    """How many rows came or went, from a relation of value changes."""
    total = exp.Sum(this=exp.Abs(this=_quoted(TIMES)))
    return exp.select(exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])).from_(values)


def occurrence_changes(table: Table, values: Expr, now: Expr) -> exp.Select:
    """The net changes: from the changes of values, and the table as it is now.

    Of the table only the rows of those values are counted. A value that ends as it began (see
    `all_values`) has one row, of kind `none`.
    """
    names = [c.name for c in table.columns]
    zero, one = _bigint(exp.Literal.number(0)), _bigint(exp.Literal.number(1))
    changed = exp.select(
        *map(_quoted, names),
        _quoted(TIMES),
        _quoted(LAST),
        exp.alias_(zero, _AFTER, quoted=True),
    ).from_(values)
    present = exp.select(
        *(exp.alias_(value, name, quoted=True) for name, value in _values(table, _NOW)),
        exp.alias_(zero.copy(), TIMES, quoted=True),
        exp.alias_(exp.Cast(this=exp.Null(), to=BIGINT.sql()), LAST, quoted=True),
        exp.alias_(one, _AFTER, quoted=True),
    ).from_(exp.alias_(now, _NOW, table=True))
    present = present.where(exp.Exists(this=_equal_in(table, values, _NOW)))
    both = exp.Union(this=changed, expression=present, distinct=False)
    counted = exp.select(
        *map(_quoted, names),
        *(exp.alias_(_bigint(exp.Sum(this=_quoted(n))), n, quoted=True) for n in (TIMES, _AFTER)),
        exp.alias_(exp.Max(this=_quoted(LAST)), LAST, quoted=True),
    ).from_(_derived(both, "counted"))
    counted = counted.group_by(*map(_quoted, names))
    before = exp.Sub(this=_quoted(_AFTER), expression=_quoted(TIMES))
    more, fewer = (kind(this=_quoted(TIMES), expression=exp.Literal.number(0)) for kind in (exp.GT, exp.LT))
    first = _case(((more, _plus_one(before)), (fewer, _plus_one(_quoted(_AFTER)))), zero)
    last = _case(((more, _quoted(_AFTER)), (fewer, before)), zero)
    kind = _case(
        ((more, exp.Literal.string("insert")), (fewer, exp.Literal.string("delete"))),
        exp.Literal.string("none"),
    )
    return exp.select(
        *map(_quoted, names),
        exp.alias_(before.copy(), BEFORE, quoted=True),
        exp.alias_(kind, NET_KIND, quoted=True),
        _quoted(LAST),
        exp.alias_(_each(first, last), OCCURRENCE, quoted=True),
    ).from_(_derived(counted, "sizes"))


def rows_before(table: Table, now: Expr, net: Expr) -> exp.Query:
    """The rows of the table before its net changes: those of other values, and `before` of each of these."""
    names = [c.name for c in table.columns]
    kept = exp.select(*(_of(_NOW, n) for n in names)).from_(exp.alias_(now, _NOW, table=True))
    kept = kept.where(exp.Not(this=exp.Exists(this=_equal_in(table, net, _NOW))))
    changed = exp.select(*map(_quoted, [*names, BEFORE])).distinct().from_(net.copy())
    changed = changed.where(exp.GT(this=_quoted(BEFORE), expression=exp.Literal.number(0)))
    number = exp.alias_(_each(exp.Literal.number(1), _quoted(BEFORE)), OCCURRENCE, quoted=True)
    repeated = exp.select(*map(_quoted, names), number).from_(_derived(changed, "changed"))
    old = exp.select(*map(_quoted, names)).from_(_derived(repeated, "repeated"))
    return exp.Union(this=kept, expression=old, distinct=False)


def _values(table: Table, alias: str | None = None) -> list[tuple[str, Expr]]:
    """The columns that tell rows apart, and their values."""
    return [
        (c.name, one_zero(_of(alias, c.name) if alias else _quoted(c.name), c.type)) for c in table.columns
    ]


def _equal_in(table: Table, values: Expr, alias: str) -> exp.Select:
    """The rows of a relation of values that are equal to a row of the table."""
    query = exp.select(exp.Literal.number(1)).from_(exp.alias_(values.copy(), _VALUES, table=True))
    for name, value in _values(table, alias):
        query = query.where(same(_of(_VALUES, name), value))
    return query


def _each(first: Expr, last: Expr) -> Expr:
    """One row for each number of a range."""
    return exp.Explode(this=exp.GenerateSeries(start=_bigint(first), end=_bigint(last)))


def _case(ifs: Iterable[tuple[Expr, Expr]], default: Expr) -> Expr:
    made = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in ifs]
    return exp.Case(ifs=made, default=default.copy())


def _plus_one(value: Expr) -> Expr:
    return exp.Add(this=exp.Paren(this=value.copy()), expression=exp.Literal.number(1))


def _bigint(value: Expr) -> Expr:
    return exp.Cast(this=value.copy(), to=BIGINT.sql())


def _derived(query: exp.Query, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _quoted(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))
