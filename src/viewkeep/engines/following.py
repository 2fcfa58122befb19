"""Tables that are followed outside of an engine, as ring views do: read whole at one moment, and from then on
by their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, conjunction
from viewkeep.algebra.types import BIGINT, DOUBLE, Type, decimal
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.idiff.bags import TIMES

if TYPE_CHECKING:  # it takes a while to load, and few follow tables
    import pyarrow as pa

MOVED = ":moved"
"""Of sums: how many rows came or went."""
_KINDS = {
    "boolean": "bool",
    "tinyint": "int64",
    "smallint": "int64",
    "int": "int64",
    "bigint": "int64",
    "double": "double",
    "string": "string",
    "date": "date32",
    "timestamp": "timestamp[us]",
}


@dataclass(frozen=True)
class Summing:
    """Sums that serve in the place of rows: by the values of `keys`, of `products` of columns, the first of
    which is (), the number of rows. Rows in which a column of `known` is NULL count nothing. Sums are of
    doubles, or, with `exact`, of integers."""

    keys: tuple[str, ...]
    known: tuple[str, ...]
    products: tuple[tuple[str, ...], ...]
    exact: bool = False

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns that are in products."""
        return tuple(dict.fromkeys(c for product in self.products for c in product))


@dataclass(frozen=True)
class Followed:
    """A table by the columns that are followed, and how far it was read: up to `point` (None: not at all). An
    engine whose log is trimmed keeps it for the view `anchor`, which was last seen at `held`. What is made of
    very many rows may be told by sums, of several kinds if need be, each by a name."""

    table: Table
    anchor: str
    point: Any = None
    held: Any = None
    sums: Mapping[str, Summing] = field(default_factory=dict)


@dataclass(frozen=True)
class Following:
    """What is new of tables, all at one moment: rows with how many of each came (negative: went), by the
    names of tables, and the points that they are read up to then. `whole` says why these are all rows of the
    tables, and not only changes. A table that has no `rows` has `sums`, by their names."""

    rows: Mapping[str, pa.Table]
    points: Mapping[str, Any]
    whole: str = ""
    sums: Mapping[str, pa.Table] = field(default_factory=dict)


def is_followed(kind: Type) -> bool:
    """Whether columns of a type can be followed."""
    return kind.kind == "decimal" or kind.kind in _KINDS


def arrow_type(kind: Type) -> pa.DataType:
    """The type of a column in Arrow: integers of one width, so that columns of several tables compare."""
    import pyarrow as pa

    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return pa.type_for_alias(_KINDS[kind.kind])


def as_arrow(columns: Sequence[TableColumn], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows of a table's columns, and how many there are of each, as an Arrow table."""
    import pyarrow as pa

    kinds = [arrow_type(c.type) for c in columns] + [pa.int64()]
    values = list(zip(*rows, strict=True)) or [() for _ in kinds]
    arrays = [pa.array(list(v), kind) for v, kind in zip(values, kinds, strict=True)]
    return pa.table(arrays, names=[*(c.name for c in columns), TIMES])


def cast(columns: Sequence[TableColumn], found: pa.Table) -> pa.Table:
    """An Arrow table of an engine, with the types that are the same on all."""
    import pyarrow as pa

    kinds = [arrow_type(c.type) for c in columns] + [pa.int64()]
    names = [*(c.name for c in columns), TIMES]
    return pa.table([found.column(i).cast(kind) for i, kind in enumerate(kinds)], names=names)


def sum_name(number: int) -> str:
    """The column of a sum."""
    return f":sum{number}"


def largest_name(column: str) -> str:
    """The column of the largest absolute value of another."""
    return f":largest:{column}"


def summed(source: Expr, summing: Summing) -> exp.Select:
    """The query of sums over rows that have a column TIMES. A sum of doubles says nothing about what was
    summed that is no number, or too large: the largest value of each column does."""
    kind = decimal(38, 0) if summing.exact else DOUBLE

    def number(name: str) -> Expr:
        return exp.Cast(this=_named(name), to=kind.sql())

    chosen: list[Expr] = [_named(name) for name in summing.keys]
    count = exp.Cast(this=exp.Sum(this=_named(TIMES)), to=BIGINT.sql())
    for i, product in enumerate(summing.products):
        factors = [number(name) for name in (TIMES, *product)]
        total = (
            exp.Sum(this=reduce(lambda a, b: exp.Mul(this=a, expression=b), factors)) if product else count
        )
        chosen.append(exp.alias_(total, sum_name(i), quoted=True))
    moved = exp.Sum(this=exp.Abs(this=_named(TIMES)))
    chosen.append(exp.alias_(exp.Cast(this=moved, to=BIGINT.sql()), MOVED, quoted=True))
    for name in () if summing.exact else summing.summed:
        chosen.append(exp.alias_(exp.Max(this=exp.Abs(this=number(name))), largest_name(name), quoted=True))
    query = exp.select(*chosen).from_(source)
    there = conjunction(
        exp.Not(this=exp.Paren(this=exp.Is(this=_named(name), expression=exp.Null())))
        for name in summing.known
    )
    if there is not None:
        query = query.where(there)
    if summing.keys:
        return query.group_by(*(_named(name) for name in summing.keys))
    return query.having(exp.Not(this=exp.Paren(this=exp.Is(this=count.copy(), expression=exp.Null()))))


def _named(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def cast_sums(table: Table, summing: Summing, found: pa.Table) -> pa.Table:
    """Sums of an engine, with the types that are the same on all. A sum that does not fit is NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = {c.name: arrow_type(c.type) for c in table.columns}
    arrays = [found.column(name).cast(types[name]) for name in summing.keys]
    names = list(summing.keys)
    for i in range(len(summing.products)):
        column = found.column(sum_name(i))
        if pa.types.is_decimal(column.type):
            fits = pc.less_equal(pc.abs(column), pa.scalar(2**63 - 1, column.type))
            column = pc.if_else(fits, column, pa.scalar(None, column.type)).cast(pa.int64())
        arrays.append(column)
        names.append(sum_name(i))
    arrays.append(found.column(MOVED))
    names.append(MOVED)
    for name in () if summing.exact else summing.summed:
        arrays.append(found.column(largest_name(name)))
        names.append(largest_name(name))
    return pa.table(arrays, names=names)
