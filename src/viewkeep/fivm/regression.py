"""The ring of regression: counts, sums and sums of products of all pairs of columns in one payload.

A degree-m matrix ring (F-IVM, definition 6.2) whose values store only what is not zero, and of each symmetric
pair one half. A column of numbers has one feature. A column of categories has one for each of its categories,
which is one where the row has it: its sums are counts by category, its products with numbers are sums by
category, and those of two such columns counts of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from viewkeep.errors import Unsupported

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

# a column by its index, with a category or, for numbers, without
Feature = tuple[int] | tuple[int, Hashable]
Pair = tuple[Feature, Feature]


@dataclass(frozen=True)
class Cofactors:
    """How many rows, the sum of each feature, and the sum of products of each pair, the lower index first."""

    count: int = 0
    sums: Mapping[Feature, Any] = field(default_factory=dict)
    products: Mapping[Pair, Any] = field(default_factory=dict)

    def sum(self, feature: Feature | int) -> Any:
        """The sum of a column of numbers; of a column and a category, how many rows have it."""
        return self.sums.get((feature,) if isinstance(feature, int) else feature, 0)

    def product(self, one: Feature | int, other: Feature | int) -> Any:
        """The sum of products of two features: an index, or an index with a category."""
        a = (one,) if isinstance(one, int) else one
        b = (other,) if isinstance(other, int) else other
        if a[0] == b[0] and (len(a) == 2 or len(b) == 2):  # a row has one category
            return self.sums.get(a, 0) if a == b else 0
        return self.products.get(_ordered(a, b), 0)


class Regression:
    """The ring of `Cofactors` of `columns` columns."""

    commutative = True

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.zero = Cofactors()
        self.one = Cofactors(1)

    def add(self, a: Cofactors, b: Cofactors) -> Cofactors:
        return Cofactors(
            a.count + b.count,
            _added((a.sums.items(), 1), (b.sums.items(), 1)),
            _added((a.products.items(), 1), (b.products.items(), 1)),
        )

    def multiply(self, a: Cofactors, b: Cofactors) -> Cofactors:
        crossed = [
            (_ordered(f, g), x * y * (2 if f == g else 1))
            for f, x in a.sums.items()
            for g, y in b.sums.items()
            if f[0] != g[0] or len(f) == 1  # of one row's categories of a column nothing is to be told
        ]
        return Cofactors(
            a.count * b.count,
            _added((a.sums.items(), b.count), (b.sums.items(), a.count)),
            _added((a.products.items(), b.count), (b.products.items(), a.count), (crossed, 1)),
        )

    def negate(self, a: Cofactors) -> Cofactors:
        return Cofactors(-a.count, _added((a.sums.items(), -1)), _added((a.products.items(), -1)))

    def is_zero(self, a: Cofactors) -> bool:
        return not (a.count or a.sums or a.products)

    def has(self, a: object) -> bool:
        return isinstance(a, Cofactors) and all(
            _is_number(x) for x in (*a.sums.values(), *a.products.values())
        )

    def continuous(self, index: int) -> Callable[[Any], Cofactors]:
        """The lift of a column of numbers."""
        self._check(index)

        def lift(x: Any) -> Cofactors:
            if not _is_number(x):
                raise ValueError(f"{x!r} is no finite number")
            if isinstance(x, Decimal):
                x = Fraction(x)  # the same number, which doubles can be multiplied with
            feature: Feature = (index,)
            return Cofactors(1, {feature: x}, {(feature, feature): x * x}) if x else self.one

        return lift

    def categorical(self, index: int) -> Callable[[Hashable], Cofactors]:
        """The lift of a column of categories: any values, each of which is a category."""
        self._check(index)
        return lambda x: Cofactors(1, {(index, x): 1})

    def _check(self, index: int) -> None:
        if not 0 <= index < self.columns:
            raise Unsupported(
                f"there is no column {index} in a regression over {self.columns}",
                hint=f"number the columns from 0 to {self.columns - 1}",
            )


def _ordered(f: Feature, g: Feature) -> Pair:
    return (f, g) if f[0] <= g[0] else (g, f)


def _added(*parts: tuple[Iterable[tuple[Any, Any]], int]) -> dict[Any, Any]:
    """A sum of sparse vectors, each times a number, without zeros."""
    total: dict[Any, Any] = {}
    for entries, times in parts:
        if times:
            for at, x in entries:
                total[at] = total.get(at, 0) + x * times
    return {at: x for at, x in total.items() if x}


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float, Fraction, Decimal)) and isfinite(x)


def features(values: Cofactors, columns: Sequence[str]) -> list[tuple[str, Feature]]:
    """The features of columns with their names: those of categories as `column=category`, in their order."""
    found: list[tuple[str, Feature]] = []
    for index, name in enumerate(columns):
        own = [f for f in values.sums if f[0] == index and len(f) == 2]
        if own:
            found += [(f"{name}={f[1]}", f) for f in sorted(own, key=lambda f: _sortable(f[1]))]
        else:
            found.append((name, (index,)))
    return found


def _sortable(category: Any) -> tuple[str, Any]:
    is_number = isinstance(category, (int, float, Decimal, Fraction))
    return ("", category) if is_number else (type(category).__name__, str(category))


def matrix(values: Cofactors, columns: Sequence[str]) -> tuple[list[str], NDArray[float64]]:
    """The cofactor matrix of columns, with its names: first the constant 1, then a row and a column for each
    number and for each category that occurs. It is the product of the design matrix, one-hot, with itself."""
    import numpy as np

    named = features(values, columns)
    dense = np.zeros((len(named) + 1, len(named) + 1))
    dense[0, 0] = values.count
    for i, (_, f) in enumerate(named, start=1):
        dense[0, i] = dense[i, 0] = float(values.sums.get(f, 0))
        for j, (_, g) in enumerate(named, start=1):
            dense[i, j] = float(values.product(f, g))
    return ["1", *(name for name, _ in named)], dense
