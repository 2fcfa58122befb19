"""Sums pushed past joins, along a view tree (F-IVM, sections 3 and 4).

    before: Aggregate(sum(r.x * s.y))                        over r join s on r.a = s.a
    after:  Aggregate(sum(n_r_x * n_s_y))  over  Aggregate(a, sum(r.x)) join Aggregate(a, sum(s.y))

A sum of products distributes over an equality join: of each table, and of each join of some tables, it is
enough to know the sums by the columns that the rest joins or groups by. Each such view of the tree is an
aggregate, which is stored and maintained like any other, so a change of a table is joined with sums of the
others, and not with their rows.

It applies to COUNT and SUM (and what is made of them: AVG, COFACTOR) of products whose factors each look at
one table, over inner joins by equality of columns of one type. It does not where

- a factor looks at two tables, as in SUM(r.x + s.y), or MIN, MAX or another function is asked for;
- a product of decimals would have its scale cut to fit 38 digits: the rounded sum of products is not the
  product of rounded sums;
- an expression may fail, as a division does: it would for rows that the join drops.

NULL counts for nothing in a sum, and neither does the product of a sum without it: a row of which a factor is
NULL adds nothing to the sums of that factor. How many products are not NULL is a sum itself, of ones.

Sums of one table are wider than their result, so that they do not overflow before it does: the sum over rows
that have no partner is no part of any result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, conjuncts, text
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Function,
    Item,
    Join,
    Measure,
    Node,
    Project,
    Scan,
    Select,
    Unary,
    merge_classes,
    passing,
    walk,
)
from viewkeep.errors import ViewkeepError
from viewkeep.fivm.order import VariableOrder, chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import Leaf, View, ViewTree
from viewkeep.fivm.tree import view_tree as tree_of
from viewkeep.frontend.scope import PlanTyping
from viewkeep.frontend.typed import Typed

# what an expression over one table may be made of: none of it fails, but for overflow
_SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Abs, exp.Cast,
    exp.DataType, exp.DataTypeParam, exp.Case, exp.If, exp.Coalesce, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.Is, exp.Null, exp.Not, exp.And, exp.Or, exp.In, exp.Between, exp.Boolean,
)  # fmt: skip
# from so many digits on an engine that holds fewer in 64 bits has more for a product, too
_WIDE = 19
# the digits that a count must have beside a decimal
_COUNT_DIGITS = 10


class NotApplicable(Exception):
    """Why a plan has no view tree."""


@dataclass(frozen=True)
class Factored:
    """A plan along a view tree; without one `reason` says why not."""

    plan: Project
    tree: ViewTree | None = None
    reason: str = ""


def view_tree(plan: Project, order: str | None = None, updatable: Collection[str] | None = None) -> Factored:
    """The plan with its topmost aggregate as a view tree, along a variable order: one that the user gives, or
    else one that is chosen. `updatable`: the tables that are declared to change, all by default."""
    path: list[Unary] = [plan]
    while isinstance(path[-1].input, Unary) and not isinstance(path[-1], Aggregate):
        path.append(path[-1].input)
    root = path.pop()
    if not isinstance(root, Aggregate):
        return Factored(plan, None, "there is no aggregate over a join")
    try:
        sums = _sums(root)
        factored = _Factoring(plan, sums, sums.order(order), updatable)
        made: Node = factored.root(root)
    except NotApplicable as problem:
        return Factored(plan, None, str(problem))
    for above in reversed(path):
        made = above.with_inputs([made])
    assert isinstance(made, Project)
    return Factored(made, factored.tree)


# --- what is summed over which join ---


@dataclass(frozen=True)
class _Table:
    """One input of the join, its columns that are variables (by the variables' names), and its relation."""

    node: Node
    variables: Mapping[str, str]
    relation: Relation


@dataclass(frozen=True)
class _Factor:
    """A part of a product, or a condition of one, that looks at one table. Equal by its text."""

    text: str
    relation: str
    typed: Typed = field(compare=False)


@dataclass(frozen=True)
class _Product:
    """A product by its parts, and the conditions under which it is not NULL. Without factors it is 1."""

    factors: tuple[_Factor, ...] = ()
    conditions: tuple[_Factor, ...] = ()

    def part(self, relations: Collection[str]) -> _Product:
        """The parts that look at some tables."""
        return _Product(
            tuple(f for f in self.factors if f.relation in relations),
            tuple(c for c in self.conditions if c.relation in relations),
        )


@dataclass(frozen=True)
class _Sums:
    """An aggregate as sums of products over a join of tables by variables."""

    tables: Mapping[str, _Table]
    keys: Mapping[str, str]
    """Each key of the aggregate, and the variable that it is."""
    products: Mapping[str, _Product]
    """What each measure sums up; the number of rows is a sum of ones."""

    def order(self, given_by_user: str | None) -> VariableOrder:
        free = tuple(dict.fromkeys(self.keys.values()))
        query = Query(tuple(table.relation for table in self.tables.values()), free)
        if given_by_user is None:
            return chosen(query)
        exact = {name.lower(): name for name in query.variables}
        return given(query, re.sub(r"[^\s\-{},]+", lambda m: exact.get(m[0].lower(), m[0]), given_by_user))


def _sums(node: Aggregate) -> _Sums:
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
        product = reading.product(items[measure.argument]) if measure.argument else _Product()
        products[measure.name] = reading.ones(product) if measure.function == "count" else product
    return _Sums(reading.tables(), keys, products)


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
        self._factors: dict[str, _Factor] = {}
        for group in classes:
            self._variable(group)

    def tables(self) -> dict[str, _Table]:
        found = {}
        for relation, own in self._variables.items():
            if not own:
                raise NotApplicable(f"{relation} is joined by no equality")
            found[relation] = _Table(self._inputs[relation], own, Relation(relation, tuple(own)))
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

    def product(self, tree: Expr) -> _Product:
        """An expression as a product, by the tables that its parts look at."""
        parts, terms = _parts(tree)
        conditions = {c.text: c for c in map(self._factor, terms)}
        return _Product(
            tuple(sorted(map(self._factor, parts), key=lambda f: f.text)),
            tuple(conditions[key] for key in sorted(conditions)),
        )

    def ones(self, product: _Product) -> _Product:
        """1 where a product is not NULL."""
        conditions = {c.text: c for c in product.conditions}
        for f in product.factors:
            if f.typed.nullable:
                is_null = exp.Is(this=f.typed.expression.copy(), expression=exp.Null())
                known = self._factor(exp.Not(this=exp.Paren(this=is_null)))
                conditions[known.text] = known
        return _Product((), tuple(conditions[key] for key in sorted(conditions)))

    def _factor(self, tree: Expr) -> _Factor:
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
            self._factors[key] = _Factor(tree.sql(), relation, typed)
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


# --- the plan ---


@dataclass(frozen=True)
class _Payload:
    """A value of each row of a part of the join: an expression over its columns; None is 1."""

    value: Expr | None
    type: t.Type
    is_count: bool = False


_ONE = _Payload(None, t.BIGINT, is_count=True)


@dataclass(frozen=True)
class _Part:
    """A part of the join: its rows, the columns that are variables, and the products of each row."""

    node: Node
    variables: Mapping[str, str]
    payloads: Mapping[_Product, _Payload]


class _Factoring:
    """Builds the plan of a view tree, from its leaves up."""

    def __init__(
        self, plan: Node, sums: _Sums, order: VariableOrder, updatable: Collection[str] | None
    ) -> None:
        self._sums = sums
        self._taken = {name.lower() for node in walk(plan) for name in node.names}
        self._numbers: dict[str, int] = {}
        changing = [
            name
            for name, table in sums.tables.items()
            if updatable is None
            or any(isinstance(n, Scan) and n.table in updatable for n in walk(table.node))
        ]
        # an aggregate that changes needs its own rows as they were
        self.tree = replace(tree_of(order, changing, indicators=False), keeps_changing=True)

    def root(self, node: Aggregate) -> Aggregate:
        """The aggregate that stands for the whole: the same columns, over views instead of tables."""
        sums = self._sums
        part = self._over(self.tree.root, dict.fromkeys(sums.products.values()))
        below = node.input
        items = [Item(below.by_name[k], column(part.variables[v])) for k, v in sums.keys.items()]
        arguments: dict[_Product, str] = {}
        measures = [self._rows()]
        for measure in node.measures:
            product = sums.products[measure.name]
            if product not in arguments:
                items.append(self._argument(part.payloads[product]))
                arguments[product] = items[-1].name
            function = measure.function if measure.function in ("mass", "magnitude") else "sum"
            measures.append(Measure(measure.column, function, arguments[product]))
        return Aggregate(_apart(part.node, items), node.keys, tuple(measures), _title(self.tree.root))

    def _over(self, view: View, products: Iterable[_Product]) -> _Part:
        """The join of a view's children, with the products as payloads; nothing is summed yet."""
        parts: list[tuple[_Part, frozenset[str]]] = []
        products = list(products)
        for child in view.children:
            relations = frozenset(child.relations)
            own = dict.fromkeys(product.part(relations) for product in products)
            if isinstance(child, Leaf):
                made = self._leaf(child, own, alone=len(view.children) == 1)
            else:
                made = self._view(child, own)
            parts.append((made, relations))
        node, variables = _join([part for part, _ in parts])
        first, done = parts[0]
        made = _Part(node, variables, first.payloads)
        for at, (part, relations) in enumerate(parts[1:], start=1):
            later = [payload for other, _ in parts[at + 1 :] for payload in other.payloads.values()]
            both = done | relations
            payloads = {}
            for product in dict.fromkeys(product.part(both) for product in products):
                found = made.payloads[product.part(done)], part.payloads[product.part(relations)]
                payloads[product] = _times(found)
            made = replace(made, payloads=payloads)
            if later:  # above the whole join, so that it can start at any of its parts
                made = self._computed(made, later)
            done = both
        return made

    def _computed(self, part: _Part, later: Iterable[_Payload]) -> _Part:
        """The part with its payloads as columns, beside those that `later` ones look at. So a product of many
        parts is computed one by one, and not once more for each product that it is a part of."""
        values = [payload.value for payload in later if payload.value is not None]
        kept = dict.fromkeys([*part.variables.values(), *(n for v in values for n in sorted(columns_of(v)))])
        items = list(passing(part.node, kept).items)
        payloads = {}
        for product, payload in part.payloads.items():
            if payload.value is not None:
                items.append(self._argument(payload))
                payload = replace(payload, value=column(items[-1].name))
            payloads[product] = payload
        return _Part(_apart(part.node, items), part.variables, payloads)

    def _view(self, view: View, products: Iterable[_Product]) -> _Part:
        joined = self._over(view, products)
        if not view.summed:  # a join that loses no variable has no fewer rows than what it is of
            return joined
        return self._summed(_title(view), joined, view.keys)

    def _leaf(self, leaf: Leaf, products: Iterable[_Product], alone: bool) -> _Part:
        """A table. Where several of its rows may have the same variables it is summed first, unless the view
        is over it alone, and does that."""
        table = self._sums.tables[leaf.name]
        rows = _Part(table.node, table.variables, {product: _of_row(product) for product in products})
        if alone or set(table.node.ids) <= set(table.variables.values()):
            return rows
        return self._summed(f"V_{leaf.name}[{', '.join(leaf.keys)}]", rows, leaf.keys)

    def _summed(self, title: str, part: _Part, keys: Sequence[str]) -> _Part:
        """The view: one row for each value of the keys, with the sum of each payload."""
        columns = [part.variables[key] for key in keys]
        items = list(passing(part.node, columns).items)
        rows = self._rows()
        measures, payloads = [rows], {}
        for product, value in part.payloads.items():
            if value.value is None:
                payloads[product] = _Payload(column(rows.name), t.BIGINT, is_count=True)
                continue
            item = self._argument(value)
            items.append(item)
            kind = _sum_type(value)
            total = self._measure("sum", kind, item.name)
            measures.append(total)
            if kind == t.DOUBLE:
                measures += [self._measure(f, t.DOUBLE, item.name) for f in ("mass", "magnitude")]
            payloads[product] = _Payload(column(total.name), kind, value.is_count)
        node = Aggregate(_apart(part.node, items), tuple(columns), tuple(measures), title)
        return _Part(node, dict(zip(keys, columns, strict=True)), payloads)

    def _rows(self) -> Measure:
        return Measure(Column(self._fresh("pairs"), t.BIGINT, nullable=False), "rows")

    def _measure(self, function: Function, kind: t.Type, argument: str) -> Measure:
        return Measure(
            Column(self._fresh(f"{argument}_{function}"), kind, nullable=False), function, argument
        )

    def _argument(self, given: _Payload) -> Item:
        value = given.value
        if value is None:
            value = exp.Cast(this=exp.Literal.number(1), to=t.BIGINT.sql())
        return Item(Column(self._fresh("product"), given.type), value)

    def _fresh(self, wanted: str) -> str:
        while True:
            n = self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
            name = wanted if n == 1 else f"{wanted}_{n}"
            if name.lower() not in self._taken:
                self._taken.add(name.lower())
                return name


def _apart(node: Node, items: Sequence[Item]) -> Project:
    """A projection whose values are used more than once, if it computes any."""
    return Project(node, tuple(items), apart=any(item.copies is None for item in items))


def _title(view: View) -> str:
    return f"{view.name}[{', '.join(view.keys)}]"


def _join(parts: Sequence[_Part]) -> tuple[Node, dict[str, str]]:
    """The parts joined by the variables that they share, where possible each with one before it."""
    node, variables = parts[0].node, dict(parts[0].variables)
    left = list(parts[1:])
    while left:
        part = next((p for p in left if set(p.variables) & set(variables)), left[0])
        left.remove(part)
        shared = [v for v in part.variables if v in variables]
        terms = [exp.EQ(this=column(variables[v]), expression=column(part.variables[v])) for v in shared]
        node = Join(node, part.node, conjunction(terms))
        variables = {**part.variables, **variables}
    return node, variables


# --- values and their types ---


def _of_row(product: _Product) -> _Payload:
    """A product of one table's columns, as it is for a row."""
    made = _times([_Payload(f.typed.expression, f.typed.type) for f in product.factors])
    condition = conjunction(c.typed.expression for c in product.conditions)
    if condition is None:
        return made
    value = made.value
    if value is None:
        value = exp.Cast(this=exp.Literal.number(1), to=t.BIGINT.sql())
    return replace(made, value=exp.Case(ifs=[exp.If(this=condition, true=value)]))


def _times(given: Sequence[_Payload]) -> _Payload:
    """The product of payloads, counts first: they are multiplied as integers."""
    parts = sorted((p for p in given if p.value is not None), key=lambda p: not p.is_count)
    if not parts:
        return _ONE
    made = parts[0]
    if any(p.type == t.DOUBLE for p in parts):
        made = replace(made, value=_as(made, t.DOUBLE), type=t.DOUBLE, is_count=False)
    for part in parts[1:]:
        made = _multiplied(made, part)
    return made


def _multiplied(left: _Payload, right: _Payload) -> _Payload:
    """Integers are multiplied as BIGINT where any product of two of their type is one, and counts are; others
    as decimals, which hold the product of any two."""
    both = (left.type, right.type)
    if t.DOUBLE in both:
        kinds, kind = (t.DOUBLE, t.DOUBLE), t.DOUBLE
    elif (left.is_count and right.is_count) or all(k.is_integer and k != t.BIGINT for k in both):
        kinds, kind = (t.BIGINT, t.BIGINT), t.BIGINT
    else:
        kinds = (_digits(left, right), _digits(right, left))
        scale = kinds[0].scale + kinds[1].scale
        kind = t.decimal(kinds[0].precision + kinds[1].precision + 1, scale)
        if kind.scale != scale:
            raise NotApplicable("a product of decimals has more than 38 digits, and would be rounded")
        if max(k.precision for k in kinds) < _WIDE <= kind.precision:
            kinds = (t.decimal(_WIDE, kinds[0].scale), kinds[1])
    value: Expr = exp.Mul(this=_as(left, kinds[0]), expression=_as(right, kinds[1]))
    if kind.kind == "decimal":
        value = exp.Cast(this=value, to=kind.sql())
    return _Payload(value, kind, left.is_count and right.is_count)


def _digits(payload: _Payload, other: _Payload) -> t.Type:
    """A payload's type as a decimal. A count takes fewer digits where the other's scale would else be cut."""
    own, beside = t.as_decimal(payload.type), t.as_decimal(other.type)
    fits = t.decimal(own.precision + beside.precision + 1, beside.scale).scale == beside.scale
    if fits or not payload.is_count:
        return own
    return t.decimal(max(_COUNT_DIGITS, t.MAX_PRECISION - 1 - beside.precision), 0)


def _as(payload: _Payload, kind: t.Type) -> Expr:
    assert payload.value is not None
    value = payload.value.copy()
    if payload.type != kind:
        return exp.Cast(this=value, to=kind.sql())
    return exp.Paren(this=value) if isinstance(value, (exp.Add, exp.Sub, exp.Neg)) else value


def _sum_type(payload: _Payload) -> t.Type:
    """The type of a sum of one part of the join: no number of its rows makes it overflow."""
    if payload.is_count or payload.type == t.DOUBLE:
        return payload.type
    if payload.type.is_integer and payload.type != t.BIGINT:
        return t.BIGINT
    digits = t.as_decimal(payload.type)
    return t.Type("decimal", min(t.MAX_PRECISION, digits.precision + 10), digits.scale)
