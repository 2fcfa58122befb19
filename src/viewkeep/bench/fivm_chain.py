"""Matrix chains: A = A1 A2 A3 under changes of one row of A2 (F-IVM, section 7)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from viewkeep.cli.output import Console
from viewkeep.errors import ViewkeepError
from viewkeep.fivm.dense import DenseRuntime, row_update
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree

N = 4096
METHODS = ("fivm", "first-order", "recompute-numpy")


def measure(scale: float, methods: Sequence[str], repeat: int, output: Console) -> Iterator[dict[str, Any]]:
    """One row of A2 changes: propagated as a product of two vectors, as a matrix, or all computed again."""
    n = max(2, round(N * min(scale, 1.0)))
    asked = [m for m in METHODS if m in methods]
    random = np.random.default_rng(1)
    matrices = {name: random.uniform(-1, 1, (n, n)) for name in ("A1", "A2", "A3")}
    query = Query(
        (Relation("A1", ("X", "Y")), Relation("A2", ("Y", "Z")), Relation("A3", ("Z", "U"))), ("X", "U")
    )
    with output.step(f"matrix-chain: multiplying matrices of {n} rows"):
        runtime = DenseRuntime(view_tree(given(query, "X - U - Z - Y"), ["A2"]), matrices)
    a1, a2, a3 = (matrices[name].copy() for name in ("A1", "A2", "A3"))
    answer = runtime.result()
    for number in range(repeat + 1):
        row = int(random.integers(n))
        new = random.uniform(-1, 1, n)
        change = row_update(a2, row, new)
        whole = np.zeros_like(a2)
        whole[row] = new - a2[row]
        a2[row] = new
        for method in asked:
            with output.step(f"matrix-chain: {method}, round {number}"):
                started = time.perf_counter()
                if method == "fivm":
                    runtime.update("A2", change)
                elif method == "first-order":
                    answer = answer + a1 @ whole @ a3
                else:
                    answer = a1 @ a2 @ a3
                seconds = time.perf_counter() - started
            if number:
                yield {
                    "method": method,
                    "rows": n * n,
                    "diff": n,
                    "batch": n,
                    "seconds": round(seconds, 6),
                    "tuples_per_s": round(n / seconds),
                    "memory_mb": round(4 * n * n * 8 / 1e6, 1),
                }
    same = np.allclose(runtime.result(), answer, rtol=1e-8, atol=1e-8)
    if "fivm" in asked and len(asked) > 1 and not same:
        raise ViewkeepError("matrix-chain: the product differs", hint="this is a bug in viewkeep")
