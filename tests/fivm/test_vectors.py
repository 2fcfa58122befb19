"""The operations of kernels that are written as instructions: they do what they do without a compiler."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from viewkeep.fivm.compiled.vectors import (  # noqa: E402
    UNROLLED,
    WIDE,
    ahead,
    clear,
    pick,
    put,
    rows,
    run,
    squares,
)

LARGE = WIDE * UNROLLED + WIDE + 3


@numba.njit(_nrt=False)  # type: ignore[untyped-decorator]
def kernel(o, a, p, y):  # type: ignore[no-untyped-def]
    ahead(p, 1, 9)
    run(o, 1, y, a, 2, 1)
    run(o, 10, y, a, 3, 8)
    run(o, 30, y, a, 0, 21)
    put(o, 60, y, a, 1, 11)
    run(o, 100, y, a, 4, LARGE)


def test_runs_of_all_lengths() -> None:
    random = np.random.default_rng(1)
    o, a = random.integers(-9, 9, 400).astype(float), random.integers(-9, 9, 400).astype(float)
    wanted = o.copy()
    wanted[1:2] += 3 * a[2:3]
    wanted[10:18] += 3 * a[3:11]
    wanted[30:51] += 3 * a[0:21]
    wanted[60:71] = 3 * a[1:12]
    wanted[100 : 100 + LARGE] += 3 * a[4 : 4 + LARGE]
    kernel(o, a, np.zeros((4, 9)), 3.0)
    assert o.tolist() == wanted.tolist()


@numba.njit(_nrt=False)  # type: ignore[untyped-decorator]
def products(o, x, z, y):  # type: ignore[no-untyped-def]
    squares(o, 2, y, x, 11)
    rows(o, 100, 20, x, 3, 4, z, 9)


def test_products_of_all_pairs_and_rows_of_multiples() -> None:
    random = np.random.default_rng(2)
    o, x, z = (random.integers(-9, 9, size).astype(float) for size in (200, 12, 9))
    wanted = o.copy()
    wanted[2:68] += 3 * np.outer(x[:11], x[:11])[np.triu_indices(11)]
    for i in range(4):
        wanted[100 + 20 * i : 109 + 20 * i] += x[3 + i] * z
    products(o, x, z, 3.0)
    assert o.tolist() == wanted.tolist()


@numba.njit(_nrt=False)  # type: ignore[untyped-decorator]
def sized(o, a, size):  # type: ignore[no-untyped-def]
    run(o, 1, 2.0, a, 0, size)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 19])
def test_runs_whose_length_is_not_known_before(size: int) -> None:
    o, a = np.ones(30), np.arange(30.0)
    wanted = o.copy()
    wanted[1 : 1 + size] += 2 * a[:size]
    sized(o, a, size)
    assert o.tolist() == wanted.tolist()


@numba.njit(_nrt=False)  # type: ignore[untyped-decorator]
def cleared(p, which):  # type: ignore[no-untyped-def]
    clear(p, pick(which, 1, 2, 0), 3)


def test_a_row_is_cleared() -> None:
    p = np.ones((3, 3))
    cleared(p, 1)
    assert p.tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    cleared(p, 5)
    assert p.tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0]]
