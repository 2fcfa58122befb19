"""What it costs to read a view through the diffs that wait for its rows: against the same view with the diffs
folded in, and against a plain table with the same rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from viewkeep.bench.methods import Method
from viewkeep.bench.workload import Workload
from viewkeep.cli.output import Console
from viewkeep.connection import Connection

# every column of every row, and nothing else that takes time
WHOLE = "SELECT COUNT(*) AS n, BIT_XOR(xxhash64(*)) AS all_columns FROM {relation}"
SOME = "SELECT * FROM {relation} WHERE {keys}"
HEADINGS = ("view", "query", "refreshes waiting", "waiting s", "folded s", "plain table s", "waiting/folded")


def measure_reads(
    vk: Connection,
    workload: Workload,
    methods: Sequence[Method],
    change: Sequence[Sequence[str]],
    repeat: int,
    output: Console,
) -> list[dict[str, Any]]:
    """For each view that waits and each kind of query the medians; `change` has a refresh's changes each."""
    names = {method.name for method in methods}
    kept = [method for method in methods if method.name == ("id" if "id" in names else "auto")]
    plain = {method.view: method for method in methods if method.name == "recompute"}
    with output.step(f"reading with {len(change)} refreshes waiting") as update:
        for method in kept:
            vk.optimize(method.relation)
        for number, statements in enumerate(change, start=1):
            update(f"refresh {number} of {len(change)}")
            for statement in statements:
                vk.sql(statement)
            for method in kept:
                method.refresh()
        for method in plain.values():
            method.refresh()
        waiting = {method.view: _medians(vk, workload, method, repeat) for method in kept}
    with output.step("reading with all diffs folded in"):
        found = []
        for method in kept:
            vk.optimize(method.relation)
            folded = _medians(vk, workload, method, repeat)
            other = _medians(vk, workload, plain[method.view], repeat) if method.view in plain else {}
            for query, seconds in waiting[method.view].items():
                found.append(
                    {
                        "view": method.view,
                        "query": query,
                        "refreshes": len(change),
                        "waiting_seconds": seconds,
                        "folded_seconds": folded[query],
                        **({"plain_seconds": other[query]} if other else {}),
                        "times_folded": round(seconds / folded[query], 2),
                    }
                )
    return found


def _medians(vk: Connection, workload: Workload, method: Method, repeat: int) -> dict[str, float]:
    queries = {"the whole view": WHOLE.format(relation=method.relation)}
    if keys := workload.some_rows.get(method.view):
        queries["some keys"] = SOME.format(relation=method.relation, keys=keys)
    return {name: median(_times(vk, query, repeat)) for name, query in queries.items()}


def _times(vk: Connection, query: str, repeat: int) -> list[float]:
    """The first is not counted: it compiles what the others use."""
    times = []
    for _ in range(repeat + 1):
        started = time.perf_counter()
        vk.sql(query)
        times.append(round(time.perf_counter() - started, 6))
    return times[1:]


def cells(read: Mapping[str, Any]) -> tuple[str, ...]:
    """One of them as a line of a table, under HEADINGS."""
    plain = f"{read['plain_seconds']:.3f}" if "plain_seconds" in read else ""
    seconds = (f"{read['waiting_seconds']:.3f}", f"{read['folded_seconds']:.3f}", plain)
    return (read["view"], read["query"], str(read["refreshes"]), *seconds, f"{read['times_folded']:.1f}")
