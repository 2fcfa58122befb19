"""UNION, INTERSECT and EXCEPT: unions of both sides, of which the last two count where a row stands."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, both, column
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Measure,
    Node,
    Order,
    Project,
    Select,
    UnionAll,
    Window,
    passing,
)
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.binding import Binding, Ctes
from viewkeep.frontend.ordering import Sort, limited, orders, output_at
from viewkeep.frontend.scope import Field, Relation
from viewkeep.frontend.select_list import no_array


def bind_set_operation(binding: Binding, tree: exp.SetOperation, ctes: Ctes) -> Relation:
    """The relation of a set operation, ORDER BY and LIMIT at its end included."""
    for key in ("by_name", "side", "kind", "on"):
        if tree.args.get(key):
            raise binding.fail(
                Unsupported, tree, f"{tree.key.upper()} BY NAME is not supported", "list the columns"
            )
    sides = _bound_sides(binding, tree, ctes)
    whole = _lined_up(binding, tree, sides)
    distinct = bool(tree.args.get("distinct", True))
    if distinct or not isinstance(tree, exp.Union):
        no_array(binding, tree, *(f.column.type for f in whole.fields))
    if not isinstance(tree, exp.Union):
        whole = _counted(binding, tree, sides, whole, distinct)
    elif distinct:
        whole = Relation(without_duplicates(binding, whole.node), whole.fields)
    return _cut(binding, tree, whole)


def _bound_sides(binding: Binding, tree: exp.SetOperation, ctes: Ctes) -> list[Relation]:
    """Both sides. The one below needs no names: the one above has them. A bare NULL has the other's type."""
    parts = [tree.this, _with_own_names(tree.expression)]
    sides = [binding.query(part, ctes) for part in parts]
    for n in (0, 1):
        if any(_is_null(parts[n])):
            parts[n] = _typed_nulls(parts[n], sides[1 - n], _is_null(parts[1 - n]))
            sides[n] = binding.query(parts[n], ctes)
    return sides


def _with_own_names(side: Expr) -> Expr:
    """SELECT c, c FROM t, as a side below: SELECT c AS c1, c AS c2 FROM t."""
    if not isinstance(side, exp.Select) or side.is_star:
        return side
    names = [e.output_name.lower() for e in side.expressions]
    if len(set(names)) == len(names) and all(names):
        return side
    made = side.copy()
    values = [e.this if isinstance(e, exp.Alias) else e for e in made.expressions]
    made.set("expressions", [exp.alias_(e, f"c{n}") for n, e in enumerate(values, start=1)])
    return made


def _is_null(side: Expr) -> list[bool]:
    """Which outputs of a SELECT are a bare NULL."""
    return (
        [isinstance(e.unalias(), exp.Null) for e in side.expressions] if isinstance(side, exp.Select) else []
    )


def _typed_nulls(side: Expr, other: Relation, null_there: Sequence[bool]) -> Expr:
    made = side.copy()
    untyped = [*null_there, *([False] * len(other.fields))]
    for value, field, no_type in zip(list(made.expressions), other.fields, untyped, strict=False):
        if isinstance(value.unalias(), exp.Null) and not no_type:
            null = exp.Cast(this=exp.Null(), to=field.column.type.sql())
            value.replace(exp.alias_(null, value.alias or field.name, quoted=True))
    return made


def without_duplicates(binding: Binding, node: Node) -> Project:
    """Every row once: SELECT DISTINCT is GROUP BY all columns."""
    rows = Measure(Column(binding.fresh("n"), t.BIGINT, nullable=False), "rows")
    return passing(Aggregate(node, node.names, (rows,)), node.names)


def _cut(binding: Binding, tree: exp.SetOperation, whole: Relation) -> Relation:
    assert isinstance(whole.node, Project)
    sorts: list[Sort] = []
    for entry in orders(tree):
        at = output_at(binding, entry.this, [f.name for f in whole.fields])
        if at is None:
            raise binding.fail(
                Unsupported, entry, "a set operation is ordered by its own columns", "name one of them"
            )
        sorts.append((entry, at))
    return Relation(limited(binding, tree, whole.node, sorts, whole.node.items), whole.fields)


def _lined_up(binding: Binding, tree: exp.SetOperation, sides: Sequence[Relation]) -> Relation:
    """Both sides under one another, each column in the type that holds both."""
    left, right = (side.fields for side in sides)
    if len(left) != len(right):
        raise binding.fail(
            TypeMismatch, tree, f"{len(left)} columns over {len(right)}", "select as many on both sides"
        )
    columns = []
    for a, b in zip(left, right, strict=True):
        kind = t.widest(a.column.type, b.column.type)
        if kind is None:
            raise binding.fail(
                TypeMismatch, tree, f"{a.name} is {a.column.type} above and {b.column.type} below",
                "use CAST to bring both to one type",
            )  # fmt: skip
        columns.append(Column(binding.fresh(a.name), kind, a.column.nullable or b.column.nullable))
    parts = [_cast(binding, side, [c.type for c in columns]) for side in sides]
    return _named(binding, UnionAll(tuple(parts), tuple(columns)), columns, left)


def _named(binding: Binding, node: Node, columns: Sequence[Column], like: Sequence[Field]) -> Relation:
    """Some columns of a node, under new plan names and the names that the left side gives them."""
    items = [Item(Column(binding.fresh(c.name), c.type, c.nullable), column(c.name)) for c in columns]
    fields = (Field("", f.name, i.column) for f, i in zip(like, items, strict=True))
    return Relation(Project(node, tuple(items)), tuple(fields))


def _cast(binding: Binding, side: Relation, kinds: Sequence[t.Type]) -> Project:
    items = []
    for f, kind in zip(side.fields, kinds, strict=True):
        made = Column(binding.fresh(f.name), kind, f.column.nullable)
        value: Expr = column(f.column.name)
        items.append(Item(made, value if kind == f.column.type else exp.Cast(this=value, to=kind.sql())))
    return Project(side.node, tuple(items))


def _counted(
    binding: Binding, tree: exp.SetOperation, sides: Sequence[Relation], whole: Relation, distinct: bool
) -> Relation:
    """INTERSECT and EXCEPT: how often a row stands on each side decides. ALL counts duplicates, so each
    gets a number first, and the first of one side meets the first of the other."""
    kinds = [f.column.type for f in whole.fields]
    parts: list[Node] = []
    for number, side in enumerate(sides):
        flags = tuple(Item(_flag(binding, n), exp.Literal.number(1 if n == number else 0)) for n in (0, 1))
        part: Node = _cast(binding, side, kinds)
        if not distinct:
            part = _numbered(binding, part)
        parts.append(Project(part, (*passing(part, part.names).items, *flags)))
    fields = tuple(
        Column(binding.fresh(f.name), kind, any(p.columns[n].nullable for p in parts))
        for n, (f, kind) in enumerate(zip(whole.fields, kinds, strict=True))
    )
    extra = () if distinct else (Column(binding.fresh("number"), t.INT, nullable=False),)
    flagged = tuple(_flag(binding, n) for n in (0, 1))
    union = UnionAll(tuple(parts), (*fields, *extra, *flagged))
    rows = Measure(Column(binding.fresh("n"), t.BIGINT, nullable=False), "rows")
    sums = [Measure(Column(binding.fresh(c.name), t.BIGINT, nullable=False), "sum", c.name) for c in flagged]
    grouped = Aggregate(union, tuple(c.name for c in (*fields, *extra)), (rows, *sums))
    zero = exp.Literal.number(0)
    above = exp.GT(this=column(sums[0].name), expression=zero)
    there = exp.GT if isinstance(tree, exp.Intersect) else exp.EQ
    below = there(this=column(sums[1].name), expression=zero.copy())
    return _named(binding, Select(grouped, both(above, below)), fields, whole.fields)


def _flag(binding: Binding, side: int) -> Column:
    return Column(binding.fresh(f"in_{side}"), t.INT, nullable=False)


def _numbered(binding: Binding, part: Node) -> Window:
    number = Item(Column(binding.fresh("number"), t.INT, nullable=False), exp.RowNumber())
    return Window(part, part.names, (Order(part.names[0]),), (number,), None, ties=True)
