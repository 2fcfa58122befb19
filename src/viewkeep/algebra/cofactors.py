"""Cofactor matrices as columns of a view: which hold the count, the sums, and the sums of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Cofactor:
    """Which columns of a view are a matrix: those of one COFACTOR, by its alias and its arguments' names. Of
    `categories` there is a matrix for each combination of values, which are columns of these names."""

    name: str
    arguments: tuple[str, ...]
    categories: tuple[str, ...] = ()

    @property
    def count(self) -> str:
        return self._called("n")

    @property
    def sums(self) -> tuple[str, ...]:
        return tuple(self._called(f"sum_{x}") for x in self.arguments)

    @property
    def products(self) -> tuple[str, ...]:
        """The upper half of the matrix, row by row."""
        return tuple(self._called(f"sum_{x}_{y}") for x, y in upper_half(self.arguments))

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.count, *self.sums, *self.products)

    def _called(self, what: str) -> str:
        return f"{self.name}_{what}" if self.name else what


def upper_half(given: Sequence[T]) -> Iterator[tuple[T, T]]:
    """Each with itself and with all after it."""
    return ((x, y) for at, x in enumerate(given) for y in given[at:])
