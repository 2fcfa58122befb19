"""A view tree evaluated with NumPy, from scratch: the baseline that recomputes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from viewkeep.fivm.compiled.layout import Layout
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.tree import Leaf, View

Array = np.ndarray[Any, Any]
# rows whose payloads are multiplied at once
ROWS = 1 << 15


@dataclass(frozen=True)
class Keyed:
    """Keys by variable, and a payload for each; none for a relation, whose rows count once each."""

    keys: dict[str, Array]
    payload: Array | None

    def __len__(self) -> int:
        return len(next(iter(self.keys.values()))) if self.keys else 1


def evaluate(program: Program, tables: Mapping[str, Mapping[str, Array]]) -> Array:
    """The payload of the root of a tree without free variables."""
    found = _view(program, program.tree.root, tables)
    assert found.payload is not None
    total: Array = found.payload.sum(axis=0)
    return total


def _view(program: Program, view: View, tables: Mapping[str, Mapping[str, Array]]) -> Keyed:
    sources = [
        Keyed(dict(tables[c.relation.source]), None) if isinstance(c, Leaf) else _view(program, c, tables)
        for c in view.children
    ]
    scope = dict(sources[0].keys)
    rows: list[Array] = [np.arange(len(sources[0]))]
    for source in sources[1:]:
        left, right = _joined(scope, source.keys)
        rows = [r[left] for r in rows] + [right]
        scope = {v: column[left] for v, column in scope.items()}
        scope |= {v: column[right] for v, column in source.keys.items() if v not in scope}
    count = len(rows[0])
    order, starts = _groups([scope[v] for v in view.keys], count)
    width = program.width(view)
    gathered = np.zeros((len(starts), width))
    ends = np.append(starts[1:], count)
    at = 0
    while at < len(starts):  # some groups at a time
        to = max(at + 1, int(np.searchsorted(ends, starts[at] + ROWS, side="right")))
        some = order[starts[at] : ends[to - 1]]
        lifted = [scope[v][some].astype(float) for v in program.lifted(view)]
        payloads = [s.payload[r[some]] for s, r in zip(sources, rows, strict=True) if s.payload is not None]
        made = _product(program, view, payloads, lifted, len(some))
        if len(some):
            gathered[at:to] = np.add.reduceat(made, starts[at:to] - starts[at], axis=0)
        at = to
    firsts = order[starts] if count else order
    return Keyed({v: scope[v][firsts] for v in view.keys}, gathered)


def _groups(keys: Sequence[Array], count: int) -> tuple[Array, Array]:
    """An order of rows in which equal keys are side by side, and where each group begins."""
    if not keys:
        return np.arange(count), np.zeros(min(count, 1), np.int64)
    order = np.lexsort(keys[::-1])
    new = np.zeros(count, bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    return order, np.flatnonzero(new)


def _joined(left: Mapping[str, Array], right: Mapping[str, Array]) -> tuple[Array, Array]:
    """The pairs of rows that agree on all variables they share, as positions."""
    shared = [v for v in left if v in right]
    size = len(next(iter(left.values())))
    if not shared:
        n, m = size, len(next(iter(right.values())))
        return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
    one, other = left[shared[0]], right[shared[0]]
    for v in shared[1:]:
        base = int(max(left[v].max(initial=0), right[v].max(initial=0))) + 1
        one, other = one * base + left[v], other * base + right[v]
    order = np.argsort(other, kind="stable")
    ordered = other[order]
    low, high = np.searchsorted(ordered, one, "left"), np.searchsorted(ordered, one, "right")
    counts = high - low
    rows = np.repeat(np.arange(size), counts)
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return rows, order[starts + np.arange(len(rows))]


def _product(program: Program, view: View, payloads: list[Array], lifted: list[Array], count: int) -> Array:
    ring = program.ring
    if isinstance(ring, Sums):
        found = np.ones((count, len(ring.products)))
        for payload in payloads:
            found *= payload
        for v, values in zip(program.lifted(view), lifted, strict=True):
            for i, product in enumerate(ring.products):
                if v in product:
                    found[:, i] *= values
        return found
    assert isinstance(ring, Cofactor)
    return _cofactors(program.layouts[view], payloads, np.array(lifted).reshape(len(lifted), count).T)


def _cofactors(layout: Layout, payloads: list[Array], x: Array) -> Array:
    """The product of definition 6.2, for many rows at once."""
    count, own = len(x), len(payloads)
    out = np.empty((count, layout.width))
    counts = [p[:, 0] for p in payloads]

    def all_but(*without: int) -> Array:
        weight = np.ones(count)
        for i, c in enumerate(counts):
            if i not in without:
                weight = weight * c
        return weight[:, None]

    sizes = [f.size for f in layout.factors]
    sums = [p[:, 1 : 1 + n] for p, n in zip(payloads, sizes, strict=False)] + [x]
    out[:, :1] = all_but()
    for i in range(own + 1):
        weight = all_but(i)
        at, squares = layout.sums_of(i), layout.squares_of(i)
        out[:, at : at + sizes[i]] = weight * sums[i]
        if i < own:
            out[:, squares : squares + layout.factors[i].squares] = weight * payloads[i][:, 1 + sizes[i] :]
            continue
        for k in range(sizes[i]):
            part = x[:, k:] * x[:, k : k + 1]
            out[:, squares : squares + part.shape[1]] = weight * part
            squares += part.shape[1]
    for i, k in combinations(range(own + 1), 2):
        weighed = all_but(i, k) * sums[k]
        for n in range(sizes[i]):
            at = layout.products_of(i, k) + n * layout.after(i)
            out[:, at : at + sizes[k]] = sums[i][:, n : n + 1] * weighed
    return out
