"""The rings that kernels are generated for: payloads are rows of numbers of a fixed width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sums:
    """Some sums at once, each of a product of variables: `(("B", "D"), ())` is SUM(B * D) and COUNT(*). With
    `exact` they are 64-bit integers, and overflow is an error; else doubles. Componentwise product: the ring
    of tuples over Z or R."""

    products: tuple[tuple[str, ...], ...]
    exact: bool = False

    @property
    def lifted(self) -> tuple[str, ...]:
        """The variables whose values are in payloads."""
        return tuple(dict.fromkeys(v for product in self.products for v in product))


@dataclass(frozen=True)
class Cofactor:
    """The regression ring of degree m (F-IVM, definition 6.2): count, sums, and sums of products of the
    columns. Of a categorical column there are as many columns as it has categories, 1 where the row has it
    and else 0; `categories` says how many there is room for."""

    columns: tuple[str, ...]
    categories: Mapping[str, int] = field(default_factory=dict)

    exact = False

    @property
    def lifted(self) -> tuple[str, ...]:
        return self.columns

    def width(self, column: str) -> int:
        """How many numbers stand for a value of the column."""
        return self.categories.get(column, 1)


Ring = Sums | Cofactor
