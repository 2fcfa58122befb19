"""Results of joins as payloads: listed, or factorized over the view tree (F-IVM, section 6.3)."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

from viewkeep.bench.fivm_data import Columns, housing
from viewkeep.cli.output import Console
from viewkeep.errors import ViewkeepError
from viewkeep.fivm.enumeration import count
from viewkeep.fivm.order import chosen
from viewkeep.fivm.relational import Factorized, listed, listing
from viewkeep.fivm.tree import view_tree

METHODS = ("factorized", "listing")
HOUSES = 20
# 16,000 rows of the result for each: all 25,000 postcodes would be 400 million, and listed fit nowhere
POSTCODES = 8
BATCH = 100


def measure(scale: float, methods: Sequence[str], repeat: int, output: Console) -> Iterator[dict[str, Any]]:
    """Keeps the natural join of Housing at s=20, with all its columns."""
    data = housing(HOUSES, max(1, round(POSTCODES * scale)))
    order = chosen(data.query, {table: data.rows(table) for table in data.tables})
    sizes: dict[str, int] = {}
    for method in (m for m in METHODS if m in methods):
        for _ in range(min(repeat, 3)):
            with output.step(f"housing-factorized: {method}"):
                gc.collect()
                tracemalloc.start()
                tree = view_tree(order)
                runtime = Factorized(tree) if method == "factorized" else listed(tree, data.query.variables)
                seconds = 0.0
                for table, columns in data.batches(BATCH):
                    rows = _rows(columns)
                    started = time.perf_counter()
                    runtime.update(table, rows)
                    seconds += time.perf_counter() - started
                memory = tracemalloc.get_traced_memory()[0]
                tracemalloc.stop()
                if isinstance(runtime, Factorized):
                    sizes[method] = count(runtime)
                else:
                    sizes[method] = sum(listing(runtime.result()[()], data.query.variables).values())
            yield {
                "method": method,
                "rows": sizes[method],
                "diff": data.total,
                "batch": BATCH,
                "seconds": round(seconds, 6),
                "tuples_per_s": round(data.total / seconds),
                "memory_mb": round(memory / 1e6, 3),
            }
    if len(set(sizes.values())) > 1:
        raise ViewkeepError(
            f"housing-factorized: the results differ: {sizes}", hint="this is a bug in viewkeep"
        )


def _rows(columns: Columns) -> list[tuple[tuple[int, ...], int]]:
    return [(tuple(map(int, row)), 1) for row in zip(*columns.values(), strict=True)]
