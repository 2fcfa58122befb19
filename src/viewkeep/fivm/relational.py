"""Payloads that are relations: the result of a join as a list, or factorized over the views (F-IVM, 6.3).

A value of the ring is a set of tuples with their multiplicities. Each tuple has a schema of its own, since
sums of any two values must exist for this to be a ring; union adds multiplicities, and the product is the
natural join, for tuples without a common variable their concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from viewkeep.errors import Unsupported
from viewkeep.fivm.generic import GenericRuntime, Label, label
from viewkeep.fivm.order import Variable
from viewkeep.fivm.rings import RingProblem
from viewkeep.fivm.storage import Key, Stored, Undo
from viewkeep.fivm.tree import Leaf, View, ViewTree

# a tuple: its variables, sorted, with their values
Named = tuple[tuple[str, Hashable], ...]
Relation = Mapping[Named, int]


class Relations:
    """The relational data ring (definition 6.4), over the integers."""

    zero: Relation = MappingProxyType({})
    one: Relation = MappingProxyType({(): 1})
    commutative = True

    def add(self, a: Relation, b: Relation) -> Relation:
        if len(a) < len(b):
            a, b = b, a
        total = dict(a)
        for row, n in b.items():
            now = total.pop(row, 0) + n
            if now:
                total[row] = now
        return total

    def multiply(self, a: Relation, b: Relation) -> Relation:
        total: dict[Named, int] = {}
        for one, n in a.items():
            for other, m in b.items():
                row = _joined(one, other)
                if row is not None:
                    total[row] = total.get(row, 0) + n * m
        return {row: n for row, n in total.items() if n}

    def negate(self, a: Relation) -> Relation:
        return {row: -n for row, n in a.items()}

    def is_zero(self, a: Relation) -> bool:
        return not a

    def has(self, a: object) -> bool:
        return isinstance(a, Mapping)

    def lift(self, variable: str) -> Callable[[Hashable], Relation]:
        """The lift of a variable that the result has: its value becomes a tuple. Others have the lift 1."""
        return lambda x: {((variable, x),): 1}


def _joined(one: Named, other: Named) -> Named | None:
    if not one or not other:
        return one or other
    both = dict(one)
    for variable, value in other:
        if both.setdefault(variable, value) != value:
            return None
    return tuple(sorted(both.items(), key=lambda pair: pair[0]))


def listing(payload: Relation, schema: Sequence[str]) -> dict[Key, int]:
    """A payload whose tuples all have these variables, as rows in their order."""
    found: dict[Key, int] = {}
    for row, n in payload.items():
        values = dict(row)
        if set(values) != set(schema):
            raise Unsupported(
                f"a tuple over {', '.join(values) or 'no variable'} is no row of ({', '.join(schema)})",
                hint="name the variables that were lifted",
            )
        found[tuple(values[v] for v in schema)] = n
    return found


def total(payload: Relation) -> Relation:
    """How many tuples, whatever they are."""
    number = sum(payload.values())
    return {(): number} if number else {}


def result_lifts(tree: ViewTree, free: Collection[str]) -> dict[str, Callable[[Any], Relation]]:
    """The lifts of a conjunctive query with these free variables. Its tree has none: all are summed, into the
    payloads."""
    if tree.query.free:
        raise Unsupported(
            f"{', '.join(tree.query.free)} would be in the keys of the result, not in its payload",
            hint="make the tree of a query without free variables, and name them here",
        )
    for variable in free:
        if variable not in tree.query.variables:
            raise Unsupported(f"no relation has the free variable {variable}", hint="name one of the query's")
    return {v: Relations().lift(v) for v in free}


def listed(tree: ViewTree, free: Collection[str]) -> GenericRuntime[Relation]:
    """A runtime whose root has the whole result of a conjunctive query as its payload."""
    return GenericRuntime(tree, Relations(), result_lifts(tree, free))


class Factorized(GenericRuntime[Relation]):
    """A conjunctive query whose result is stored factorized: each view has, for each of its keys, only the
    values of its own variables, with multiplicities. enumeration.py reads the result through the views.

    Free variables must be above bound ones. To delete rows that are not there is refused: values with
    negative multiplicities could hide others.
    """

    def __init__(self, tree: ViewTree, free: Sequence[str] | None = None) -> None:
        self.free = frozenset(tree.query.variables if free is None else free)
        self.tree = tree
        self._inner = {view.name for view in tree.views() if self._has_free_below(view)}
        lifts = result_lifts(tree, self.free)
        for root in tree.order.roots:
            _check_order(root, self.free, None)
        super().__init__(tree, Relations(), lifts, keep=tuple(self._read()), seen=total)

    def _read(self) -> set[str]:
        """What the result is read from: views with free variables, and what is next to one."""
        names: set[str] = set()
        for view in self.tree.views():
            inner = [child for child in view.children if self.is_inner(child)]
            names |= {child.name for child in (view.children if inner else ())}
        return names

    def is_inner(self, source: View | Leaf) -> bool:
        """Whether the values of free variables are below a source, in keys that views above do not have."""
        return isinstance(source, View) and source.name in self._inner

    def _store(self, where: Label, stored: Stored[Relation]) -> None:
        self._refuse_negative(where, stored, stored.rows)
        super()._store(where, stored)

    def _add(self, where: Label, delta: dict[Key, Relation], undo: Undo) -> None:
        super()._add(where, delta, undo)
        if where in self._state:
            self._refuse_negative(where, self._state[where], delta)

    def _refuse_negative(
        self, where: Label, stored: Stored[Relation], changed: Mapping[Key, Relation]
    ) -> None:
        """As long as no view with free variables has a negative multiplicity, no sum of some is zero."""
        if where[0] != "view" or where[1] not in self._inner:
            return
        for key, rows in changed.items():
            now = stored.rows.get(key, {})
            for row in rows:
                if now.get(row, 0) < 0:
                    values = ", ".join(f"{name} = {value!r}" for name, value in row)
                    raise RingProblem(
                        f"{where[1]} would have {values or key} {now[row]} times",
                        hint="delete only rows that are there",
                    )

    def _has_free_below(self, view: View) -> bool:
        return any(v in self.free for below in view.walk() for v in below.summed)

    def lookup(self, view: View, key: Key) -> dict[Key, int]:
        """The values of a view's own free variables, the highest in the order first, with multiplicities."""
        return listing(self._state[label(view)].rows.get(key, {}), self.own(view))

    def own(self, view: View) -> tuple[str, ...]:
        """The free variables that a view sums, the highest in the order first."""
        return tuple(v for v in reversed(view.summed) if v in self.free)

    def multiplicity(self, source: View | Leaf, key: Key) -> int:
        """How many rows are below a key."""
        return sum(self._state[label(source)].rows.get(key, {}).values())


def _check_order(node: Variable, free: Collection[str], bound: str | None) -> None:
    if node.name in free and bound:
        raise Unsupported(
            f"{node.name} is free and below {bound}, which is not; the views do not have the result",
            hint="use a variable order with the free variables on top",
        )
    for child in node.children:
        _check_order(child, free, bound or (None if node.name in free else node.name))
