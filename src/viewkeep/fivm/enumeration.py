"""Reading a factorized result: row by row with constant delay, or in one pass for an aggregate (F-IVM, 6.3).

A runtime whose views have the values of their own variables is walked from the root down; what is below two
children of a view is independent, so that rows are combinations. Between two rows there are at most as many
lookups as the query has views, however large the result is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from viewkeep.errors import Unsupported
from viewkeep.fivm.rings import Integers, P, Ring, multiple
from viewkeep.fivm.tree import Leaf, View, ViewTree

Key = tuple[Hashable, ...]
Values = dict[str, Hashable]


class Walkable(Protocol):
    """What a result can be read from: `relational.Factorized`, or any runtime that stores as much."""

    @property
    def tree(self) -> ViewTree: ...
    @property
    def free(self) -> frozenset[str]: ...

    def is_inner(self, source: View | Leaf, /) -> bool:
        """Whether there are free variables to be read below a source."""

    def own(self, view: View, /) -> tuple[str, ...]:
        """The free variables that a view sums."""

    def lookup(self, view: View, key: Key, /) -> Mapping[Key, int]:
        """The values of these variables below a key of the view, with multiplicities."""

    def multiplicity(self, source: View | Leaf, key: Key, /) -> int:
        """How many rows are below a key of a source without free variables below."""


def variables_of(runtime: Walkable) -> tuple[str, ...]:
    """The variables of rows, in the order in which they are enumerated."""

    def below(view: View) -> Iterator[str]:
        yield from runtime.own(view)
        for child in _inner(runtime, view):
            yield from below(child)

    return tuple(below(runtime.tree.root))


def rows(
    runtime: Walkable, schema: Sequence[str] | None = None, *, ordered: bool = False
) -> Iterator[tuple[Key, int]]:
    """The rows of the result, each once, with its multiplicity. They come value by value along the variable
    order; `ordered` sorts the values of each variable, so that rows come sorted by `variables_of`."""
    names = variables_of(runtime) if schema is None else tuple(schema)
    if sorted(names) != sorted(runtime.free):
        raise Unsupported(
            f"rows over ({', '.join(names)}) are no rows of the result",
            hint=f"name each of {', '.join(sorted(runtime.free))}",
        )
    for values, n in _below(runtime, runtime.tree.root, {}, ordered):
        yield tuple(values[v] for v in names), n


def _below(runtime: Walkable, view: View, values: Values, ordered: bool) -> Iterator[tuple[Values, int]]:
    """What is below a key of a view: each value of its variables with each combination below its children."""
    found = runtime.lookup(view, _key(view, values)).items()
    inner = _inner(runtime, view)
    for own, n in sorted(found) if ordered else found:
        known = {**values, **dict(zip(runtime.own(view), own, strict=True))}
        if inner:
            n = _outer(runtime, view, known)
            yield from _combined(runtime, inner, known, n, ordered)
        else:
            yield known, n


def _combined(
    runtime: Walkable, views: Sequence[View], values: Values, n: int, ordered: bool
) -> Iterator[tuple[Values, int]]:
    if not views:
        yield values, n
        return
    for known, m in _below(runtime, views[0], values, ordered):
        yield from _combined(runtime, views[1:], known, n * m, ordered)


def _inner(runtime: Walkable, view: View) -> tuple[View, ...]:
    return tuple(c for c in view.children if isinstance(c, View) and runtime.is_inner(c))


def _outer(runtime: Walkable, view: View, values: Values) -> int:
    """The multiplicity of what is below a view without free variables of its own."""
    n = 1
    for child in view.children:
        if not runtime.is_inner(child):
            n *= runtime.multiplicity(child, _key(child, values))
    return n


def _key(source: View | Leaf, values: Values) -> Key:
    return tuple(values[v] for v in source.keys)


def aggregate(
    runtime: Walkable,
    ring: Ring[P],
    lifts: Mapping[str, Callable[[Any], P]] | None = None,
    *,
    distinct: bool = False,
) -> P:
    """The sum over all rows of the product of their lifted values, without going through the rows: each key
    of each view is computed once. `distinct`: each row once, whatever its multiplicity."""
    lifts = lifts or {}
    known: dict[tuple[str, Key], P] = {}

    def number(n: int) -> P:
        return ring.one if distinct else multiple(ring, n)

    def below(view: View, values: Values) -> P:
        place = view.name, _key(view, values)
        if place not in known:
            known[place] = summed(view, values)
        return known[place]

    def summed(view: View, values: Values) -> P:
        inner, names = _inner(runtime, view), runtime.own(view)
        whole = ring.zero
        for own, n in runtime.lookup(view, _key(view, values)).items():
            now = {**values, **dict(zip(names, own, strict=True))}
            part = number(_outer(runtime, view, now) if inner else n)
            for name, value in zip(names, own, strict=True):
                if name in lifts:
                    part = ring.multiply(part, lifts[name](value))
            for child in inner:
                part = ring.multiply(part, below(child, now))
            whole = ring.add(whole, part)
        return whole

    return below(runtime.tree.root, {})


def count(runtime: Walkable, *, distinct: bool = False) -> int:
    """How many rows the result has, or how many different ones."""
    return int(aggregate(runtime, Integers(), distinct=distinct))
