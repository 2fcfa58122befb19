"""Operators that appear only in delta scripts, which are plans too: they read diffs, stored targets, and base
tables before (`pre`) or after (`post`) the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from viewkeep.algebra.nodes import Binary, Column, Node, Scan, pre_column
from viewkeep.algebra.types import BIGINT, INT
from viewkeep.cached import cached_property

ROW = ":row"
SIGN = Column(":sign", INT, nullable=False)


@dataclass(frozen=True, eq=False)
class Ref(Node):
    """A relation that the script computed before, by name. Also a diff, until passes compose them."""

    name: str
    fields: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.fields


@dataclass(frozen=True, eq=False)
class Stored(Node):
    """A materialized target (a cache, or the view's rows) as it was before this refresh.

    `equal`: the equalities of the plan that it stores. By them a projection above knows its IDs: of the keys
    x.k and y.k, equal in every row, SELECT y.k keeps one, which stands for both.
    """

    target: str
    fields: tuple[Column, ...]
    key: tuple[str, ...]
    locates: bool = False
    equal: tuple[frozenset[str], ...] = ()

    @staticmethod
    def of(target: str, plan: Node, locates: bool = False) -> Stored:
        """The target that holds the rows of a plan."""
        return Stored(target, plan.columns, plan.ids, locates, plan.equalities)

    def with_row(self) -> Stored:
        """With one more column where the engine can tell: ROW, where in the target a row is."""
        if not self.locates:
            return self
        return replace(self, fields=(*self.fields, Column(ROW, BIGINT, nullable=False)))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.fields

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.key

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return self.equal


@dataclass(frozen=True, eq=False)
class BaseDiff(Node):
    """A base table's i-diff, cut from its net changes: kind, key, and all columns that the plan uses.

    An update diff has one row for each changed row in which a column of `changed` (the table's own
    names) differs; it carries the values before (`pre:`) and after.
    """

    scan: Scan
    kind: Literal["insert", "delete", "update"]
    changed: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        post = self.scan.columns
        if self.kind != "update":
            return post
        return post + tuple(pre_column(c) for c in post if c.name not in self.scan.key)

    @property
    def name(self) -> str:
        suffix = f"({', '.join(self.changed)})" if self.changed else ""
        return f"{self.kind} {self.scan.alias}{suffix}"


@dataclass(frozen=True, eq=False)
class Images(Node):
    """The rows of a base table that a batch changes: as they were with SIGN -1, as they became with +1."""

    scan: Scan

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.scan.columns, SIGN)


@dataclass(frozen=True, eq=False)
class SemiJoin(Binary):
    """The left rows that have a right row equal on the paired columns (null-safe); `anti`: that have none."""

    on: tuple[tuple[str, str], ...]
    anti: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return self.left.equalities


@dataclass(frozen=True, eq=False)
class Union(Node):
    """The rows of all parts, which have the same columns; distinct where a row may be found twice.

    `equal`: equalities that hold though the parts do not show them.
    """

    parts: tuple[Node, ...]
    distinct: bool = False
    equal: tuple[frozenset[str], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> Union:
        return replace(self, parts=tuple(inputs))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.parts[0].columns

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.parts[0].ids

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return self.equal


@dataclass(frozen=True, eq=False)
class LeftJoin(Binary):
    """Every left row with its match, null-safe on the paired columns, or with nulls where there is none."""

    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Empty(Node):
    """No rows."""

    fields: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.fields
