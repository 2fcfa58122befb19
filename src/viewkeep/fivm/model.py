"""Linear regression from a cofactor matrix (F-IVM, section 6.2): the count, the sums and the sums of products
are all that the normal equations need of the rows.

A matrix of m columns is solved in the time of an m x m eigendecomposition, however many rows went into it.
Sums of products that are large beside the variance lose digits when means are taken off: exact sums are
therefore centred exactly, and only then become doubles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from viewkeep.algebra.cofactors import upper_half
from viewkeep.results import Regression

Number = int | float | Decimal
Element = str | tuple[str, Any]
"""A column of the matrix: an argument, or a category by its column and value: 1 where a row has it, or 0."""
Doubles = npt.NDArray[np.float64]

# a product of two sums of 38 digits, times a count of 19: no digit of it is lost
_EXACT = Context(prec=120)
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Moments:
    """What is known of some columns: how many rows there are, the mean of each, and the sums of products of
    what is left when the means are taken off. `lost`: by how much that subtraction may have magnified
    rounding errors, for each column; 1 where the sums were exact."""

    names: tuple[Element, ...]
    count: int
    means: Doubles
    scatter: Doubles
    lost: Doubles


def added(numbers: Sequence[Number]) -> Number:
    """Their sum, exact where they are."""
    if any(isinstance(number, float) for number in numbers):
        return math.fsum(numbers)
    if any(isinstance(number, Decimal) for number in numbers):
        total = Decimal(0)
        for number in numbers:
            total = _EXACT.add(total, Decimal(number))
        return total
    return sum(numbers)


def moments(
    names: Sequence[Element], count: int, sums: Sequence[Number], products: Sequence[Number]
) -> Moments:
    """The moments from a matrix of at least one row; `products` is its upper half, row by row."""
    size = len(names)
    given = [x if isinstance(x, float) else Decimal(x) for x in sums]
    rows = Decimal(count)
    scatter = np.zeros((size, size))
    lost = np.ones(size)
    for (i, j), product in zip(upper_half(range(size)), products, strict=True):
        centred = _centred(rows, given[i], given[j], product)
        scatter[i, j] = scatter[j, i] = centred
        if i == j and isinstance(product, float):
            # a variance below the rounding errors of the squares is none
            noise = 4 * _ROUNDING * abs(product)
            if centred <= noise:
                scatter[i, i] = 0.0
            else:
                lost[i] = max(1.0, abs(product) / centred)
    means = np.array([float(total) / count for total in sums])
    return Moments(tuple(names), count, means, scatter, lost)


def _centred(count: Decimal, a: float | Decimal, b: float | Decimal, product: Number) -> float:
    """product - a * b / count."""
    if isinstance(product, float) or isinstance(a, float) or isinstance(b, float):
        return float(product) - float(a) * (float(b) / float(count))
    return float(_EXACT.subtract(_EXACT.multiply(count, product), _EXACT.multiply(a, b))) / float(count)


def fit(known: Moments, label: str, features: Sequence[Element], ridge: float = 0.0) -> Regression:
    """The model with the least sum of squared errors, plus `ridge` times the sum of squared coefficients.

    Where columns are linearly dependent many models are as good, and `rank` is less than their number: of
    these it is the one in which the coefficients, each times its column's deviation, are least. A column
    that is constant has the coefficient 0.
    """
    y = known.names.index(label)
    chosen = [known.names.index(name) for name in features]
    deviation = np.sqrt(np.maximum(known.scatter.diagonal(), 0.0))
    used = [i for i in chosen if deviation[i] > 0]
    solved = np.zeros(len(known.names))
    rank = 0
    if used and deviation[y] > 0:
        solved[used], rank = _solved(known, y, used, deviation, ridge)
    elif used:
        rank = _independent(np.linalg.eigvalsh(_correlation(known, used, deviation)), known.lost[used])
    coefficients = solved[chosen]
    explained = known.scatter[np.ix_(chosen, chosen)] @ coefficients - 2 * known.scatter[chosen, y]
    total = float(known.scatter[y, y])
    left = max(0.0, total + float(coefficients @ explained))
    found = [(name, float(value)) for name, value in zip(features, coefficients, strict=True)]
    categories: dict[str, dict[Any, float]] = {}
    for name, value in found:
        if not isinstance(name, str):
            categories.setdefault(name[0], {})[name[1]] = value
    return Regression(
        label=label,
        intercept=float(known.means[y] - coefficients @ known.means[chosen]),
        coefficients={name: value for name, value in found if isinstance(name, str)},
        count=known.count,
        rank=rank,
        r2=1 - left / total if total > 0 else math.nan,
        rmse=math.sqrt(left / known.count),
        categories=categories,
    )


def _solved(
    known: Moments, y: int, used: Sequence[int], deviation: Doubles, ridge: float
) -> tuple[Doubles, int]:
    """The coefficients of columns that vary, by the eigenvectors of their correlations: scaled so that the
    units of a column do not decide what counts as dependent."""
    scale = deviation[used]
    matrix = _correlation(known, used, deviation)
    values, vectors = np.linalg.eigh(matrix)
    rank = _independent(values, known.lost[used])
    if ridge > 0:
        matrix[np.diag_indices_from(matrix)] += ridge / scale**2
        values, vectors = np.linalg.eigh(matrix)
    kept = values > _least(values, known.lost[used])
    target = known.scatter[used, y] / scale
    along = (vectors.T @ target)[kept] / values[kept]
    return vectors[:, kept] @ along / scale, rank


def _correlation(known: Moments, used: Sequence[int], deviation: Doubles) -> Doubles:
    scale = deviation[used]
    made: Doubles = known.scatter[np.ix_(used, used)] / np.outer(scale, scale)
    return made


def _independent(values: npt.NDArray[np.floating[Any]], lost: Doubles) -> int:
    return int((values > _least(values, lost)).sum())


def _least(values: npt.NDArray[np.floating[Any]], lost: Doubles) -> float:
    """The eigenvalue up to which rounding errors alone may have made it."""
    return 16 * len(values) * _ROUNDING * float(lost.max()) * float(values.max())
