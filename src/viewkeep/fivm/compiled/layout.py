"""How a payload of the regression ring lies in a row of numbers.

    [count | sums | the own squares of each factor | products of each factor with all that follow]

A view's payload is a product of factors: those of its children, and one for the variables that it lifts
itself. The squares of a factor are laid out as they are in the factor's own row, so that the product of
payloads copies long runs, scaled; of products of factors there is a row for each column of the first, with
all columns of the factors after it side by side, which are long runs again. Only blocks that can be other
than zero are there, and each of the two equal halves of the matrix once (F-IVM, end of section 6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

Element = tuple[str, int]
"""A column of the design matrix: a variable, and the number of the category for a categorical one."""


@dataclass(frozen=True)
class Factor:
    """A factor of a product: its columns, and how many numbers its own squares take."""

    elements: tuple[Element, ...]
    squares: int

    @property
    def size(self) -> int:
        return len(self.elements)


@dataclass(frozen=True)
class Layout:
    """Where the parts of a product of factors are."""

    factors: tuple[Factor, ...]
    places: dict[frozenset[Element], int]
    """Where the product of two columns is; of one with itself, where its square is."""

    @property
    def elements(self) -> tuple[Element, ...]:
        return tuple(e for factor in self.factors for e in factor.elements)

    @property
    def size(self) -> int:
        return sum(factor.size for factor in self.factors)

    @property
    def squares(self) -> int:
        """How many numbers follow the sums."""
        cross = sum(a.size * b.size for a, b in combinations(self.factors, 2))
        return sum(factor.squares for factor in self.factors) + cross

    @property
    def width(self) -> int:
        return 1 + self.size + self.squares

    def sums_of(self, number: int) -> int:
        """Where the sums of a factor begin."""
        return 1 + sum(factor.size for factor in self.factors[:number])

    def squares_of(self, number: int) -> int:
        """Where the own squares of a factor begin."""
        return 1 + self.size + sum(factor.squares for factor in self.factors[:number])

    def after(self, number: int) -> int:
        """How many columns the factors after one have together: how long the rows of its products are."""
        return sum(factor.size for factor in self.factors[number + 1 :])

    def products_of(self, one: int, other: int) -> int:
        """Where the products of two factors begin, `one` before `other`, in the first row: there is a row of
        `after(one)` numbers for each column of `one`."""
        start = 1 + self.size + sum(factor.squares for factor in self.factors)
        start += sum(factor.size * self.after(i) for i, factor in enumerate(self.factors[:one]))
        return start + sum(factor.size for factor in self.factors[one + 1 : other])


def lifts(variables: Sequence[tuple[str, int]]) -> tuple[Factor, dict[frozenset[Element], int]]:
    """The factor of the variables that a view lifts, with the number of columns of each, and where squares
    are, counted from where they begin: by pairs of variables. Two categories of one column never come
    together, and a category's square is its sum, so a categorical column has none of its own."""
    elements = tuple((v, k) for v, width in variables for k in range(width))
    places: dict[frozenset[Element], int] = {}
    at = 0
    for i, (v, width) in enumerate(variables):
        if width == 1:
            places[frozenset([(v, 0)])] = at
            at += 1
        for u, other in variables[i + 1 :]:
            for k in range(width):
                for n in range(other):
                    places[frozenset([(v, k), (u, n)])] = at + k * other + n
            at += width * other
    return Factor(elements, at), places


def product(children: Sequence[Layout], variables: Sequence[tuple[str, int]]) -> Layout:
    """The layout of a view over children with these layouts that lifts these variables."""
    own, own_places = lifts(variables)
    factors = (*(Factor(c.elements, c.squares) for c in children), own)
    found = Layout(factors, {})
    for number, child in enumerate(children):
        start = 1 + child.size
        shift = found.squares_of(number) - start
        for pair, place in child.places.items():
            if place >= start:  # a category's square is its sum, and comes with the sums
                found.places[pair] = place + shift
    shift = found.squares_of(len(children))
    found.places.update({pair: place + shift for pair, place in own_places.items()})
    for one, other in combinations(range(len(factors)), 2):
        at = found.products_of(one, other)
        for k, e in enumerate(factors[one].elements):
            for n, f in enumerate(factors[other].elements):
                found.places[frozenset([e, f])] = at + k * found.after(one) + n
    return found
