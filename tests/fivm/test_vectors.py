"""The operations of kernels that are written as instructions: they do what they do without a compiler."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from viewkeep.fivm.compiled.vectors import UNROLLED, WIDE, ahead, put, run  # noqa: E402

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
