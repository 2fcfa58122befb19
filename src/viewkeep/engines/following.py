"""Tables that are followed outside of an engine, as ring views do: read whole at one moment, and from then on
by their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewkeep.algebra.types import Type
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.idiff.bags import TIMES

if TYPE_CHECKING:  # it takes a while to load, and few follow tables
    import pyarrow as pa

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
class Followed:
    """A table by the columns that are followed, and how far it was read: up to `point` (None: not at all). An
    engine whose log is trimmed keeps it for the view `anchor`, which was last seen at `held`."""

    table: Table
    anchor: str
    point: Any = None
    held: Any = None


@dataclass(frozen=True)
class Following:
    """What is new of tables, all at one moment: rows with how many of each came (negative: went), by the
    names of tables, and the points that they are read up to then. `whole` says why these are all rows of the
    tables, and not only changes."""

    rows: Mapping[str, pa.Table]
    points: Mapping[str, Any]
    whole: str = ""


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
