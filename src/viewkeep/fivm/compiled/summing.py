"""Rows that were summed up before they came: by the keys of the first view above their relation, a payload
for each. Whoever has very many rows can sum them where they are, and hand over columns of sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from viewkeep.fivm.compiled.layout import Layout
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.tree import View

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Summing:
    """What is to be summed: by the values of `keys`, the `products` of lifted variables, the first being (),
    the number of rows. Without lifted variables rows are but counted."""

    keys: tuple[str, ...]
    products: tuple[tuple[str, ...], ...] = ((),)

    @property
    def lifted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v for product in self.products for v in product))


@dataclass(frozen=True)
class Summed:
    """What was summed: columns of keys, sums of the products in their order, and the largest absolute value
    of each lifted variable, which no sum tells."""

    summing: Summing
    columns: Mapping[str, Any]
    sums: Sequence[Array]
    largest: Mapping[str, float]


def summing(program: Program, relation: str) -> Summing:
    """How rows of a relation can be summed up before. Their payloads are added to its first view as they are,
    where that is a view of this relation alone, and is gathered; otherwise equal rows are counted."""
    keys, lifts = program.columns_of(relation), program.lifts_of(relation)
    ways = program.tree.paths(relation)
    first = next(program.stages(ways[0]))
    if len(ways) > 1 or len(first.steps) > 1 or len(first.view.sources) > 1 or not lifts:
        return Summing((*keys, *lifts))
    if isinstance(program.ring, Sums):
        found = [_own(product, lifts) for product in program.ring.products]
    else:
        found = [(v,) for v in lifts] + list(combinations_with_replacement(lifts, 2))
    return Summing(keys, tuple(dict.fromkeys([(), *found])))


def _own(product: Sequence[str], lifts: Sequence[str]) -> tuple[str, ...]:
    return tuple(v for v in product if v in lifts)


def payloads(program: Program, view: View, given: Summed, codes: Mapping[str, Array], rows: slice) -> Array:
    """Payloads of a view of one relation, a row for each of the sums. `codes`: the numbers of categories."""
    products = given.summing.products
    sums = {product: given.sums[i][rows] for i, product in enumerate(products)}
    if isinstance(program.ring, Sums):
        own = given.summing.lifted
        return np.stack([sums[_own(product, own)] for product in program.ring.products], axis=1)
    made = np.zeros((len(sums[()]), program.width(view)))
    _cofactors(program.ring, program.layouts[view], sums, codes, made)
    return made


def _cofactors(
    ring: Cofactor,
    layout: Layout,
    sums: Mapping[tuple[str, ...], Array],
    codes: Mapping[str, Array],
    made: Array,
) -> None:
    """Count, sums and sums of products, each where the layout has it. A category is 1 in its own column, so
    its sum is the count, and its product with a number the number's sum."""
    at = np.arange(len(made))
    count = sums[()]
    made[:, 0] = count
    variables = list(dict.fromkeys(v for v, _ in layout.elements))
    for v in variables:
        made[at, 1 + layout.elements.index((v, 0)) + codes.get(v, 0)] = count if v in codes else sums[(v,)]
    for i, v in enumerate(variables):
        for u in variables[i:]:
            if u == v and v in codes:
                continue  # its square is its sum
            places = np.array(
                [
                    [layout.places[frozenset([(v, k), (u, n)])] for n in range(ring.width(u))]
                    for k in range(ring.width(v))
                ]
            )
            numbers = tuple(w for w in (v, u) if w not in codes)
            if numbers and numbers not in sums:
                numbers = numbers[::-1]
            made[at, places[codes.get(v, 0), codes.get(u, 0)]] = sums[numbers]
