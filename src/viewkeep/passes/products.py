"""An aggregate over a join, read as sums of products, for a view tree (see view_tree.py)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, conjuncts, text
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Join,
    Node,
    Project,
    Scan,
    Select,
    merge_classes,
    passing,
    walk,
)
from viewkeep.errors import ViewkeepError
from viewkeep.fivm.order import VariableOrder, chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.frontend.scope import PlanTyping
from viewkeep.frontend.typed import Typed

# what an expression over one table may be made of: none of it fails, but for overflow
_SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Abs, exp.Cast,
    exp.DataType, exp.DataTypeParam, exp.Case, exp.If, exp.Coalesce, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.Is, exp.Null, exp.Not, exp.And, exp.Or, exp.In, exp.Between, exp.Boolean,
)  # fmt: skip


class NotApplicable(Exception):
    """Why a plan has no view tree."""


@dataclass(frozen=True)
class Table:
    """One input of the join, its columns that are variables (by the variables' names), and its relation."""

    node: Node
    variables: Mapping[str, str]
    relation: Relation


@dataclass(frozen=True)
class Factor:
    """A part of a product, or a condition of one, that looks at one table. Equal by its text."""

    text: str
    relation: str
    typed: Typed = field(compare=False)


@dataclass(frozen=True)
class Product:
    """A product by its parts, and the conditions under which it is not NULL. Without factors it is 1."""

    factors: tuple[Factor, ...] = ()
    conditions: tuple[Factor, ...] = ()

    def part(self, relations: Collection[str]) -> Product:
        """The parts that look at some tables."""
        return Product(
            tuple(f for f in self.factors if f.relation in relations),
            tuple(c for c in self.conditions if c.relation in relations),
        )


@dataclass(frozen=True)
class Sums:
    """An aggregate as sums of products over a join of tables by variables."""

    tables: Mapping[str, Table]
    keys: Mapping[str, str]
    """Each key of the aggregate, and the variable that it is."""
    products: Mapping[str, Product]
    """What each measure sums up; the number of rows is a sum of ones."""

    def order(self, given_by_user: str | None) -> VariableOrder:
        free = tuple(dict.fromkeys(self.keys.values()))
        query = Query(tuple(table.relation for table in self.tables.values()), free)
        if given_by_user is None:
            return chosen(query)
        exact = {name.lower(): name for name in query.variables}
        return given(query, re.sub(r"[^\s\-{},]+", lambda m: exact.get(m[0].lower(), m[0]), given_by_user))


def sums_of(node: Aggregate) -> Sums:
    """Reads an aggregate over a projection over joins."""
    below = node.input
    inputs, pairs = _joined(below.input) if isinstance(below, Project) else ([], [])
    if not isinstance(below, Project) or len(inputs) < 2:
        raise NotApplicable("there is no join below the aggregate")
    items = {item.name: item.expression for item in below.items}
    aliases = [next(n.alias for n in walk(one) if isinstance(n, Scan)) for one in inputs]
    names = [a if aliases.count(a) == 1 else f"{a}_{n}" for n, a in enumerate(aliases, start=1)]
    reading = _Reading(dict(zip(names, inputs, strict=True)), merge_classes((), pairs))
    keys = {key: reading.key(items[key], below.by_name[key]) for key in node.keys}
    products = {}
    for measure in node.measures:
        if measure.function not in ("rows", "sum", "count", "mass", "magnitude"):
            raise NotApplicable(f"{measure.function.upper()} is no sum")
        product = reading.product(items[measure.argument]) if measure.argument else Product()
        products[measure.name] = reading.ones(product) if measure.function == "count" else product
    return Sums(reading.tables(), keys, products)


def _joined(node: Node) -> tuple[list[Node], list[tuple[str, str]]]:
    """The inputs of a join of joins, and the pairs of columns that are equal."""
    if isinstance(node, Select) and any(isinstance(n, Join) for n in walk(node)):
        inputs, pairs = _joined(node.input)
        return inputs, pairs + _equal(node, node.predicate)
    if isinstance(node, Join):
        left, right = _joined(node.left), _joined(node.right)
        return left[0] + right[0], left[1] + right[1] + _equal(node, node.condition)
    if not all(isinstance(below, (Scan, Select, Project)) for below in walk(node)):
        raise NotApplicable("it reads more than tables joined by inner joins")
    return [node], []


def _equal(node: Node, condition: Expr | None) -> list[tuple[str, str]]:
    found = []
    for term in conjuncts(condition):
        sides = [term.this.unnest(), term.expression.unnest()] if isinstance(term, exp.EQ) else []
        names = [side.name for side in sides if isinstance(side, exp.Column)]
        if len(names) != 2:
            raise NotApplicable(f"{text(term)} is no equality of two columns")
        if node.by_name[names[0]].type != node.by_name[names[1]].type:
            raise NotApplicable(f"{text(term)} compares columns of two types")
        found.append((names[0], names[1]))
    return found


class _Reading:
    """The tables of a join while keys and products over them are read."""

    def __init__(self, inputs: Mapping[str, Node], classes: Sequence[frozenset[str]]) -> None:
        self._inputs = dict(inputs)
        self._owner = {name: relation for relation, one in inputs.items() for name in one.names}
        self._variables: dict[str, dict[str, str]] = {relation: {} for relation in inputs}
        self._called: dict[frozenset[str], str] = {}
        self._factors: dict[str, Factor] = {}
        for group in classes:
            self._variable(group)

    def tables(self) -> dict[str, Table]:
        found = {}
        for relation, own in self._variables.items():
            if not own:
                raise NotApplicable(f"{relation} is joined by no equality")
            found[relation] = Table(self._inputs[relation], own, Relation(relation, tuple(own)))
        return found

    def _variable(self, group: frozenset[str]) -> str:
        """The variable that columns are which equal each other. It is called by the name of the first in its
        table, where no other is."""
        if group in self._called:
            return self._called[group]
        first = next(name for name in self._owner if name in group)
        name = self._base_name(first)
        if name in self._called.values():
            name = first
        for relation, one in self._inputs.items():
            here = [c for c in one.names if c in group]
            if here:
                self._variables[relation][name] = here[0]
                same = [exp.EQ(this=column(here[0]), expression=column(other)) for other in here[1:]]
                condition = conjunction(same)
                if condition is not None:
                    self._inputs[relation] = Select(one, condition)
        self._called[group] = name
        return name

    def _base_name(self, name: str) -> str:
        scan = next(n for n in walk(self._inputs[self._owner[name]]) if isinstance(n, Scan))
        return scan.base_name.get(name, name)

    def key(self, tree: Expr, made: Column) -> str:
        """The variable that a key of the aggregate is."""
        bare = tree.unnest()
        if not isinstance(bare, exp.Column):
            relation = self._relation(bare)
            if relation is None:
                raise NotApplicable(f"{text(tree)} in GROUP BY looks at no table")
            self._check_safe(bare, relation)
            below = self._inputs[relation]
            self._inputs[relation] = Project(below, (*passing(below, below.names).items, Item(made, bare)))
            self._owner[made.name] = relation
            bare = column(made.name)
        group = next((g for g in self._called if bare.name in g), frozenset({bare.name}))
        return self._variable(group)

    def product(self, tree: Expr) -> Product:
        """An expression as a product, by the tables that its parts look at."""
        parts, terms = _parts(tree)
        conditions = {c.text: c for c in map(self._factor, terms)}
        return Product(
            tuple(sorted(map(self._factor, parts), key=lambda f: f.text)),
            tuple(conditions[key] for key in sorted(conditions)),
        )

    def ones(self, product: Product) -> Product:
        """1 where a product is not NULL."""
        conditions = {c.text: c for c in product.conditions}
        for f in product.factors:
            if f.typed.nullable:
                is_null = exp.Is(this=f.typed.expression.copy(), expression=exp.Null())
                known = self._factor(exp.Not(this=exp.Paren(this=is_null)))
                conditions[known.text] = known
        return Product((), tuple(conditions[key] for key in sorted(conditions)))

    def _factor(self, tree: Expr) -> Factor:
        key = tree.sql()
        if key not in self._factors:
            relation = self._relation(tree) or next(iter(self._inputs))  # a literal can be anywhere
            self._check_safe(tree, relation)
            typed = self._typed(tree, relation)
            inner = tree.unnest()
            # an integer by itself: sums are wide enough, and the same for x and for CAST(x AS BIGINT)
            while isinstance(inner, exp.Cast) and typed.type == t.BIGINT:
                below = self._typed(inner.this, relation)
                if not below.type.is_integer:
                    break
                tree, typed, inner = below.expression, below, below.expression.unnest()
            self._factors[key] = Factor(tree.sql(), relation, typed)
        return self._factors[key]

    def _relation(self, tree: Expr) -> str | None:
        found = {self._owner[name] for name in columns_of(tree)}
        if len(found) > 1:
            raise NotApplicable(f"{text(tree)} looks at several tables")
        return next(iter(found), None)

    def _typed(self, tree: Expr, relation: str) -> Typed:
        columns = self._inputs[relation].by_name

        def of_column(name: str) -> tuple[t.Type, bool]:
            return columns[name].type, columns[name].nullable

        return PlanTyping(of_column, _problem).type(tree)

    def _check_safe(self, tree: Expr, relation: str) -> None:
        """An expression that may fail must not be computed for rows that the join drops."""
        for part in tree.walk():
            is_safe = isinstance(part, _SAFE)
            if isinstance(part, exp.Cast):
                kind = t.from_sql(part.to)
                is_safe = self._typed(part.this, relation).type.is_numeric and (
                    kind in (t.BIGINT, t.DOUBLE) or (kind is not None and kind.kind == "decimal")
                )
            if not is_safe:
                raise NotApplicable(f"{text(tree)} may fail for rows that the join drops")


def _problem(kind: type[ViewkeepError], _: Expr, message: str, hint: str) -> ViewkeepError:
    return kind(message, hint=hint)


def _parts(tree: Expr) -> tuple[list[Expr], list[Expr]]:
    """The factors of a product, and the conditions under which it is not NULL."""
    bare = tree.unnest()
    if isinstance(bare, exp.Mul):
        left, right = _parts(bare.this), _parts(bare.expression)
        return left[0] + right[0], left[1] + right[1]
    if (
        isinstance(bare, exp.Case)
        and bare.args.get("this") is None
        and bare.args.get("default") is None
        and len(bare.args["ifs"]) == 1
    ):
        branch = bare.args["ifs"][0]
        factors, conditions = _parts(branch.args["true"])
        return factors, conjuncts(branch.this) + conditions
    return [bare], []
