"""The plan: operators over named, typed columns. Every column name is unique in the whole plan.

These are what views are made of. Delta scripts are plans too, and have some more: see script_nodes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, columns_of, equated_columns, pre_name
from viewkeep.algebra.types import Type
from viewkeep.cached import cached_property

State = Literal["pre", "post"]
Function = Literal["rows", "sum", "count", "mass", "magnitude", "min", "max", "any"]


@dataclass(frozen=True)
class Column:
    """A named, typed output of a plan operator."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Item:
    """One output of a projection: a column and the expression that makes it."""

    column: Column
    expression: Expr

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def copies(self) -> str | None:
        """The input column that this item merely passes on, if it does."""
        bare = self.expression.unnest()
        return bare.name if isinstance(bare, exp.Column) else None


@dataclass(frozen=True)
class Measure:
    """What an aggregate keeps for each group: a count of rows, a sum, a count of non-null values, an extreme.

    `magnitude` and `mass` accompany a sum of doubles; docs/concepts explains how they bound its drift.
    `any` is any other aggregate function, as `call` has it: it cannot be added to, and is computed anew.
    """

    column: Column
    function: Function
    argument: str | None = None
    call: Expr | None = None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def is_additive(self) -> bool:
        """Whether a change of the input changes it by a difference."""
        return self.function not in ("min", "max", "any")

    @property
    def arguments(self) -> frozenset[str]:
        """The input columns that it looks at."""
        if self.call is not None:
            return columns_of(self.call)
        return frozenset({self.argument} if self.argument is not None else ())


@dataclass(frozen=True, eq=False)
class Node:
    """A plan operator. Nodes are compared by identity and never change."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Node:
        """The same operator over other inputs."""
        assert not inputs
        return self

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        raise NotImplementedError(type(self).__name__)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {c.name: c for c in self.columns}

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The columns that identify a row (idIVM table 1). Pass infer_ids makes sure they are there."""
        raise NotImplementedError(type(self).__name__)

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        """Classes of columns that hold equal, non-null values in every row."""
        return ()

    def equal_to(self, name: str) -> frozenset[str]:
        """The columns that always equal this one, itself included."""
        return next((group for group in self.equalities if name in group), frozenset({name}))


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """An operator over one input. Unless it says otherwise it has the input's columns, IDs and equalities."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        return replace(self, input=inputs[0])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.input.ids

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return self.input.equalities


@dataclass(frozen=True, eq=False)
class Binary(Node):
    """An operator over two inputs. Unless it says otherwise it has both's columns, and the left's IDs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        return replace(self, left=inputs[0], right=inputs[1])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns + self.right.columns

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.left.ids


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """The rows of a base table under an alias. `fields` pairs plan columns with the table's own names."""

    table: str
    alias: str
    fields: tuple[tuple[Column, str], ...]
    key: tuple[str, ...]
    state: State = "post"

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c, _ in self.fields)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.key

    @cached_property
    def base_name(self) -> dict[str, str]:
        return {c.name: base for c, base in self.fields}


@dataclass(frozen=True, eq=False)
class Select(Unary):
    """The input's rows for which the predicate is true."""

    predicate: Expr

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return merge_classes(self.input.equalities, _typed_pairs(self, self.predicate))


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """Generalized projection: one output an item. Keeps the input's duplicates.

    `tags` are outputs that count among the IDs though the input has none such: constants that tell rows
    of this input from those of another, once a union or an outer join has put them side by side.

    `apart`: it is not merged with what is above it, which uses its values more than once.
    """

    items: tuple[Item, ...]
    tags: tuple[str, ...] = ()
    apart: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(item.column for item in self.items)

    @cached_property
    def kept(self) -> dict[str, str]:
        """Input column -> the first output that passes it on, or passes on a column equal to it.

        With tags the last one: a union's IDs follow what its parts select, and are called alike in all.
        """
        kept: dict[str, str] = {}
        for item in reversed(self.items) if self.tags else self.items:
            if item.copies is not None:
                kept.setdefault(item.copies, item.name)
        for name in self.input.names:
            if name not in kept:
                twin = next((kept[n] for n in sorted(self.input.equal_to(name)) if n in kept), None)
                if twin is not None:
                    kept[name] = twin
        return kept

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return (*dict.fromkeys(self.kept[name] for name in self.input.ids), *self.tags)

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        groups = (
            frozenset(i.name for i in self.items if i.copies in group) for group in self.input.equalities
        )
        return tuple(group for group in groups if len(group) > 1)


@dataclass(frozen=True, eq=False)
class Join(Binary):
    """The pairs of rows for which the condition is true; None joins every pair."""

    condition: Expr | None

    @cached_property
    def id_of(self) -> dict[str, str]:
        """Each ID of an input -> the ID of the join that stands for it.

        IDs that the condition equates are one ID: with dp.pid = p.pid a diff on parts, known by p.pid,
        reaches the joined rows by dp.pid, and the view need not store both.
        """
        stands: dict[str, str] = {}
        for name in self.left.ids + self.right.ids:
            earlier = next((n for n in stands if n in self.equal_to(name)), None)
            stands[name] = stands[earlier] if earlier is not None else name
        return stands

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.id_of.values()))

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        below = self.left.equalities + self.right.equalities
        return merge_classes(below, _typed_pairs(self, self.condition))


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """One row a group: the group's columns, then what is kept for it. No keys: always exactly one row.

    `view`: which view of a view tree it is, if it is one.
    """

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    view: str = ""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        keys = tuple(self.input.by_name[name] for name in self.keys)
        return keys + tuple(measure.column for measure in self.measures)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.keys

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        groups = (group & frozenset(self.keys) for group in self.input.equalities)
        return tuple(group for group in groups if len(group) > 1)


@dataclass(frozen=True, eq=False)
class OuterJoin(Binary):
    """The pairs of rows for which the condition is true, and every left row that has no partner, with nulls
    in its place; `full`: every such right row too."""

    condition: Expr | None
    full: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        left = tuple(map(_or_null, self.left.columns)) if self.full else self.left.columns
        return left + tuple(map(_or_null, self.right.columns))

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.left.ids + self.right.ids

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        # equal columns of the right are null together in padded rows, and the classes are of non-null values
        return () if self.full else self.left.equalities


@dataclass(frozen=True, eq=False)
class MarkJoin(Binary):
    """Every left row, once, with a mark: whether some right row makes the condition true with it."""

    condition: Expr | None
    mark: Column

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, self.mark)

    @cached_property
    def equalities(self) -> tuple[frozenset[str], ...]:
        return self.left.equalities


@dataclass(frozen=True, eq=False)
class UnionAll(Node):
    """The rows of all parts, column by column. `key` names the IDs, which pass infer_ids gives all parts."""

    parts: tuple[Node, ...]
    fields: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def with_inputs(self, inputs: Sequence[Node]) -> UnionAll:
        return replace(self, parts=tuple(inputs))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.fields

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.key

    def calls(self, part: int) -> dict[str, str]:
        """What the union calls each column of a part."""
        return dict(zip(self.parts[part].names, self.names, strict=True))


@dataclass(frozen=True)
class Order:
    """One sort key: a column, its direction, and where nulls go."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, eq=False)
class Window(Unary):
    """Every input row with values computed over its partition, one an item.

    `ties`: the functions depend on the order of rows that are equal in it, so the IDs decide among them; a
    rank does not, and may not be given one.

    `key`: the IDs, where the input has none and the values make them: the numbers of equal rows.
    """

    partition: tuple[str, ...]
    order: tuple[Order, ...]
    items: tuple[Item, ...]
    frame: Expr | None = None
    ties: bool = False
    key: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(item.column for item in self.items)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return self.key or self.input.ids

    @cached_property
    def looked_at(self) -> frozenset[str]:
        """The input columns that decide what the window computes."""
        called = frozenset().union(*(columns_of(i.expression) for i in self.items))
        return called | frozenset(self.partition) | frozenset(o.column for o in self.order)


@dataclass(frozen=True, eq=False)
class Limit(Unary):
    """The first rows of the input in an order; rows that are equal in it are taken by their IDs."""

    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """Numbers that are written in the query itself, one a row; they never change."""

    column: Column
    numbers: tuple[int, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (self.column,)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return (self.column.name,)


# --- helpers ------------------------------------------------------------------------------------------


def _or_null(c: Column) -> Column:
    return replace(c, nullable=True)


def pre_column(c: Column) -> Column:
    """The column of a diff that holds the value before the change."""
    return Column(pre_name(c.name), c.type, c.nullable)


def passing(node: Node, names: Iterable[str]) -> Project:
    """The projection of a node to some of its columns."""
    return Project(node, tuple(Item(node.by_name[n], column(n)) for n in names))


def walk(node: Node) -> Iterable[Node]:
    """The node and all below it, top down."""
    yield node
    for child in node.inputs:
        yield from walk(child)


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, bottom up. Untouched parts are the same objects."""
    before = node.inputs
    if before:
        inputs = [rebuild(child, change) for child in before]
        if any(new is not old for new, old in zip(inputs, before, strict=True)):
            node = node.with_inputs(inputs)
    return change(node)


def merge_classes(
    groups: Sequence[frozenset[str]], pairs: Iterable[tuple[str, str]]
) -> tuple[frozenset[str], ...]:
    """The equivalence classes after some more pairs are known to be equal."""
    merged = list(groups)
    for a, b in pairs:
        touched = [g for g in merged if a in g or b in g]
        merged = [g for g in merged if g not in touched]
        merged.append(frozenset({a, b}).union(*touched))
    return tuple(merged)


def _typed_pairs(node: Node, condition: Expr | None) -> list[tuple[str, str]]:
    # 1 = 1.00 is true, yet an INT and a DECIMAL do not hold the same value: not interchangeable.
    types = {c.name: c.type for c in node.columns}
    return [(a, b) for a, b in equated_columns(condition) if types[a] == types[b]]
