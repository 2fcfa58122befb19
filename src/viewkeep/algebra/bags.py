"""Tables without a key are bags: rows may be equal in every column, and nothing names one of them.

A row of a bag is told apart by all its columns (nulls compare equal) and by its number among the rows that
are equal to it, 1..n. Which of some equal rows gets which number is arbitrary, and no matter: they are equal.
So the scan of such a table has one more column, the occurrence, and every column is in its key. What a rule
does with IDs then holds as it is, and no base row is ever updated: it is deleted, and another inserted.

Only the columns that the view uses count. A bag without its other columns is a bag as well.

SQL has 0.0 = -0.0, so rows that differ in the sign of a zero have one value, and such a zero is read as 0.0:
else it would be arbitrary which of the two a view shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeGuard

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import (
    Column,
    Item,
    Node,
    Order,
    Project,
    Scan,
    Window,
    rebuild,
    walk,
)
from viewkeep.algebra.types import BIGINT, DOUBLE, Type

OCCURRENCE = ":occurrence"  # stands for a column of the table: none of the user's has a colon in its name

Fields = tuple[tuple[Column, str], ...]


def bag_scan(table: str, alias: str, fields: Fields, fresh: Callable[[str], str]) -> Scan:
    """The scan of a table without a key; `fresh` makes names of plan columns."""
    number = (Column(fresh(f"{alias}_occurrence"), BIGINT, nullable=False), OCCURRENCE)
    return _with_fields(Scan(table, alias, (), ()), (*fields, number))


def is_bag(node: Node) -> TypeGuard[Scan]:
    """Whether a node is the scan of a table without a key."""
    return isinstance(node, Scan) and any(base == OCCURRENCE for _, base in node.fields)


def occurrence_of(scan: Scan) -> str:
    """The plan column that holds the occurrence."""
    return next(c.name for c, base in scan.fields if base == OCCURRENCE)


def pruned(scan: Scan, needed: frozenset[str]) -> Scan:
    """The scan with the columns that are needed. One at least: it is what occurrences are counted by."""
    own = plain(scan).fields
    used = [base for c, base in own if c.name in needed]
    return _with_bases(scan, used or [own[0][1]])


def alike(plan: Node, whole: Node) -> Node:
    """The plan with the same columns in all scans of a table without a key: its net changes are computed
    once, and occurrences are counted by these columns. `whole` is the plan before its scans were pruned."""
    bags = [n for n in walk(plan) if is_bag(n)]
    used: dict[str, set[str]] = {}
    for scan in bags:
        used.setdefault(scan.table, set()).update(base for _, base in scan.fields)
    unpruned = {occurrence_of(n): n for n in walk(whole) if is_bag(n)}

    def widen(node: Node) -> Node:
        if not is_bag(node) or set(node.base_name.values()) == used[node.table]:
            return node
        return _with_bases(unpruned[occurrence_of(node)], used[node.table])

    return rebuild(plan, widen)


def plain(scan: Scan) -> Scan:
    """The scan without the occurrence: what the table itself has."""
    return replace(scan, fields=tuple(f for f in scan.fields if f[1] != OCCURRENCE), key=())


def numbered(scan: Scan) -> Window:
    """The scan of a bag, spelled out: the table's own columns, and each row's number among its equals.

    The order is by a column that is the same in all of them: Spark wants one, and any will do.
    """
    below: Node = plain(scan)
    if any(c.type == DOUBLE for c in below.columns):
        below = Project(below, tuple(Item(c, one_zero(column(c.name), c.type)) for c in below.columns))
    number = Item(scan.by_name[occurrence_of(scan)], exp.RowNumber())
    return Window(below, below.names, (Order(below.names[0]),), (number,), key=scan.key)


def one_zero(value: Expr, kind: Type) -> Expr:
    """A value of a bag: as it is, but for -0.0, which is read as 0.0."""
    if kind != DOUBLE:
        return value
    zero = exp.Cast(this=exp.Literal.number(0), to=DOUBLE.sql())
    is_zero = exp.EQ(this=value, expression=zero)
    return exp.Case(ifs=[exp.If(this=is_zero, true=zero.copy())], default=value.copy())


def _with_bases(scan: Scan, bases: Iterable[str]) -> Scan:
    kept = {OCCURRENCE, *bases}
    return _with_fields(scan, tuple(f for f in scan.fields if f[1] in kept))


def _with_fields(scan: Scan, fields: Fields) -> Scan:
    return replace(scan, fields=fields, key=tuple(c.name for c, _ in fields))
