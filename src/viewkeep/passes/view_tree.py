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

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import column, columns_of, conjunction
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
    Unary,
    passing,
    walk,
)
from viewkeep.fivm.order import VariableOrder
from viewkeep.fivm.tree import Leaf, View, ViewTree
from viewkeep.fivm.tree import view_tree as tree_of
from viewkeep.passes.payloads import Payload, of_row, sum_type, times
from viewkeep.passes.products import NotApplicable, Product, Sums, sums_of


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
        sums = sums_of(root)
        factored = _Factoring(plan, sums, sums.order(order), updatable)
        made: Node = factored.root(root)
    except NotApplicable as problem:
        return Factored(plan, None, str(problem))
    for above in reversed(path):
        made = above.with_inputs([made])
    assert isinstance(made, Project)
    return Factored(made, factored.tree)


@dataclass(frozen=True)
class _Part:
    """A part of the join: its rows, the columns that are variables, and the products of each row."""

    node: Node
    variables: Mapping[str, str]
    payloads: Mapping[Product, Payload]


class _Factoring:
    """Builds the plan of a view tree, from its leaves up."""

    def __init__(
        self, plan: Node, sums: Sums, order: VariableOrder, updatable: Collection[str] | None
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
        arguments: dict[Product, str] = {}
        measures = [self._rows()]
        for measure in node.measures:
            product = sums.products[measure.name]
            if product not in arguments:
                items.append(self._argument(part.payloads[product]))
                arguments[product] = items[-1].name
            function = measure.function if measure.function in ("mass", "magnitude") else "sum"
            measures.append(Measure(measure.column, function, arguments[product]))
        return Aggregate(_apart(part.node, items), node.keys, tuple(measures), _title(self.tree.root))

    def _over(self, view: View, products: Iterable[Product]) -> _Part:
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
                payloads[product] = times(found)
            made = replace(made, payloads=payloads)
            if later:  # above the whole join, so that it can start at any of its parts
                made = self._computed(made, later)
            done = both
        return made

    def _computed(self, part: _Part, later: Iterable[Payload]) -> _Part:
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

    def _view(self, view: View, products: Iterable[Product]) -> _Part:
        joined = self._over(view, products)
        if not view.summed:  # a join that loses no variable has no fewer rows than what it is of
            return joined
        return self._summed(_title(view), joined, view.keys)

    def _leaf(self, leaf: Leaf, products: Iterable[Product], alone: bool) -> _Part:
        """A table. Where several of its rows may have the same variables it is summed first, unless the view
        is over it alone, and does that."""
        table = self._sums.tables[leaf.name]
        rows = _Part(table.node, table.variables, {product: of_row(product) for product in products})
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
                payloads[product] = Payload(column(rows.name), t.BIGINT, is_count=True)
                continue
            item = self._argument(value)
            items.append(item)
            kind = sum_type(value)
            total = self._measure("sum", kind, item.name)
            measures.append(total)
            if kind == t.DOUBLE:
                measures += [self._measure(f, t.DOUBLE, item.name) for f in ("mass", "magnitude")]
            payloads[product] = Payload(column(total.name), kind, value.is_count)
        node = Aggregate(_apart(part.node, items), tuple(columns), tuple(measures), title)
        return _Part(node, dict(zip(keys, columns, strict=True)), payloads)

    def _rows(self) -> Measure:
        return Measure(Column(self._fresh("pairs"), t.BIGINT, nullable=False), "rows")

    def _measure(self, function: Function, kind: t.Type, argument: str) -> Measure:
        return Measure(
            Column(self._fresh(f"{argument}_{function}"), kind, nullable=False), function, argument
        )

    def _argument(self, given: Payload) -> Item:
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
