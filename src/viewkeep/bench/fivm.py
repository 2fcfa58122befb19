"""The F-IVM benchmarks: ring aggregates over joins under streams of inserts, on one core, beside other ways
to keep them. Data is made here (fivm_data.py); every way must come to the same numbers."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from viewkeep.bench import fivm_chain, fivm_payloads, report
from viewkeep.bench.fivm_data import Data, housing, retailer, triangles
from viewkeep.bench.fivm_methods import METHODS, Method, Task
from viewkeep.bench.machine import load_average, machine
from viewkeep.bench.methods import chosen as named
from viewkeep.cli.output import Console
from viewkeep.errors import ViewkeepError
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.order import chosen, given

Measurement = dict[str, Any]
BATCH = 1000
# a way that is slower than this many seconds is measured on the part of the stream that it gets through
BUDGET = 8.0
JOIN_KEYS = ("locn", "dateid", "ksn", "zip")
CATEGORIES = {"nbbedrooms": 6, "nbbathrooms": 4, "house": 2, "flat": 2, "typeeducation": 8}


@dataclass(frozen=True)
class Workload:
    """A stream and what is kept over it. Tables that do not change are loaded before."""

    about: str
    data: Callable[[float], Data]
    task: Callable[[Data], Task]
    methods: tuple[str, ...] = tuple(METHODS)


def _sizes(data: Data) -> dict[str, int]:
    return {table: data.rows(table) for table in data.tables}


def _houses(scale: float) -> Data:
    return housing(4, max(1, round(25_000 * scale)))


def _cofactors(data: Data) -> Task:
    columns = tuple(v for v in data.query.variables if v not in JOIN_KEYS)
    return Task(data.query, Cofactor(columns), chosen(data.query, _sizes(data)))


def _with_categories(data: Data) -> Task:
    return Task(data.query, Cofactor(data.query.variables, CATEGORIES), chosen(data.query, _sizes(data)))


def _sum(data: Data) -> Task:
    return Task(data.query, Sums((("postcode",),)), chosen(data.query, _sizes(data)))


def _inventory_alone(data: Data) -> Task:
    task = _cofactors(data)
    return Task(task.query, task.ring, task.order, ("Inventory",))


def _triangles(data: Data) -> Task:
    return Task(data.query, Cofactor(("A", "B", "C")), given(data.query, "A - B - C"))


def _unbounded(data: Data) -> Task:
    task = _triangles(data)
    return Task(task.query, task.ring, task.order, indicators=False)


_NO_CATEGORIES = tuple(m for m in METHODS if not m.startswith("recompute"))
WORKLOADS: Mapping[str, Workload] = {
    "housing-cofactor": Workload("Housing s=4, 27 columns, all six tables", _houses, _cofactors),
    "housing-sum": Workload("Housing s=4, one sum, all six tables", _houses, _sum),
    "housing-categorical": Workload(
        "Housing s=4, 27 columns of which 5 categorical", _houses, _with_categories, _NO_CATEGORIES
    ),
    "retailer-cofactor": Workload("Retailer, 39 columns, all five tables", retailer, _cofactors),
    "retailer-inventory": Workload("Retailer, 39 columns, Inventory alone", retailer, _inventory_alone),
    "triangle-cofactor": Workload(
        "triangles in a graph, 3 columns, with indicator projections",
        lambda scale: triangles(round(300_000 * scale), max(30, round(30_000 * scale))),
        _triangles,
    ),
    "triangle-unbounded": Workload(
        "the same without indicator projections",
        lambda scale: triangles(round(300_000 * scale), max(30, round(30_000 * scale))),
        _unbounded,
        ("fivm",),
    ),
}
OTHERS = {"matrix-chain": fivm_chain.measure, "housing-factorized": fivm_payloads.measure}


def run_fivm(
    *,
    scale: float,
    workloads: Sequence[str] | None,
    methods: Sequence[str] | None,
    batches: Sequence[str] | None,
    repeat: int,
    json: bool,
    output: Console,
    interpret: bool = False,
) -> int:
    """Measures and reports; the exit status. Methods that do not agree are an error."""
    asked = named("workload", [*WORKLOADS, *OTHERS], workloads)
    wanted = named("method", [*METHODS, *fivm_payloads.METHODS], methods)
    sizes = [int(size) for size in batches] if batches else [BATCH]
    about = machine()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # one core for all alike
    found: list[Measurement] = []
    for name in asked:
        made = (
            OTHERS[name](scale, wanted, repeat, output)
            if name in OTHERS
            else _streamed(name, scale, wanted, sizes, repeat, output, interpret)
        )
        for one in made:
            measurement = {"bench": "fivm", "engine": "memory", "workload": name, **one}
            found.append(measurement)
            if json:
                output.json(measurement)
    about["load_average_after"] = load_average()
    rows = medians(found)
    for name in dict.fromkeys(r["workload"] for r in rows):
        _show(output, [r for r in rows if r["workload"] == name])
    head = {"bench": "fivm", "engine": "memory", "scale": scale, "machine": about}
    path = report.write(f"fivm-memory-{scale:g}", head | {"medians": rows, "measurements": found})
    if path is not None:
        output.line(f"\nwritten to {path}", style="dim")
    return 0


def _streamed(
    name: str,
    scale: float,
    methods: Sequence[str],
    batches: Sequence[int],
    repeat: int,
    output: Console,
    interpret: bool,
) -> Iterator[Measurement]:
    workload = WORKLOADS[name]
    asked = [m for m in workload.methods if m in methods]
    with output.step(f"{name}: making rows"):
        data = workload.data(scale)
    task = replace(workload.task(data), interpret=interpret)
    largest = max(_sizes(data).values())
    for batch in batches:
        answers: dict[str, Any] = {}
        for method in asked:
            with output.step(f"{name}, batches of {batch}: {method}") as update:
                for number in range(repeat + 1):  # the first compiles, and is not counted
                    update(f"{name}, batches of {batch}: {method}, round {number}")
                    one, way = _stream(METHODS[method], task, data, batch)
                    if not number:
                        first = one.get("compile_s", 0.0)
                    else:
                        one["compile_s"] = max(first, one.pop("compile_s", 0.0))
                        yield {"method": method, "rows": largest, "batch": batch, **one}
                if one["diff"] == _streamed_rows(task, data):
                    answers[method] = way.answer()
                del way
        _check(name, answers)


def _streamed_rows(task: Task, data: Data) -> int:
    return sum(data.rows(t) for t in data.tables if task.updatable is None or t in task.updatable)


def _stream(
    method: Callable[[Task], Method], task: Task, data: Data, batch: int
) -> tuple[Measurement, Method]:
    """One pass over the stream, or as much of it as there is time for; of a way that recomputes, one batch
    when half of the stream has come."""
    gc.collect()
    way = method(task)
    compiled = way.compile()
    still = {t: c for t, c in data.tables.items() if task.updatable is not None and t not in task.updatable}
    if still:
        way.load(still)
    changing = Data(data.query, {t: c for t, c in data.tables.items() if t not in still})
    if way.recomputes:
        return _recomputed(way, changing, batch), way
    rows = 0
    seconds = 0.0
    for table, columns in changing.batches(batch):
        started = time.perf_counter()
        way.update(table, columns)
        seconds += time.perf_counter() - started
        rows += len(next(iter(columns.values())))
        if seconds > BUDGET:
            break
    return {**_told(rows, seconds, way), "compile_s": round(compiled, 3)}, way


def _recomputed(way: Method, data: Data, batch: int) -> Measurement:
    batches = list(data.batches(batch))
    half = len(batches) // 2
    for table, columns in batches[:half]:
        way.load({table: columns})
    table, columns = batches[half]
    started = time.perf_counter()
    way.update(table, columns)
    seconds = time.perf_counter() - started
    return _told(len(next(iter(columns.values()))), seconds, way)


def _told(rows: int, seconds: float, way: Method) -> Measurement:
    return {
        "diff": rows,
        "seconds": round(seconds, 6),
        "tuples_per_s": round(rows / seconds),
        "memory_mb": round(way.memory() / 1e6, 1),
        "stored": way.stored(),
    }


def _check(name: str, answers: Mapping[str, Mapping[Any, float]]) -> None:
    """All ways that came to the end of the stream have the same answer, up to rounding."""
    if not answers:
        return
    first, *others = answers.items()
    for method, answer in others:
        for key, wanted in first[1].items():
            if abs(answer[key] - wanted) > 1e-9 * max(1.0, abs(wanted)):
                raise ViewkeepError(
                    f"{name}: {method} has {answer[key]} for {key} where {first[0]} has {wanted}",
                    hint="this is a bug in viewkeep: the figures mean nothing",
                )


def medians(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One row for each workload, batch and method."""
    groups: dict[tuple[Any, ...], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault((one["workload"], one["batch"], one["method"]), []).append(one)
    rows = []
    for (workload, batch, method), group in groups.items():
        row: Measurement = {"workload": workload, "batch": batch, "method": method, "rounds": len(group)}
        for name in ("diff", "seconds", "tuples_per_s", "memory_mb"):
            row[name] = median(one[name] for one in group)
        for name in ("compile_s", "stored"):
            if name in group[0]:
                row[name] = max(one[name] for one in group)
        row["least"], row["most"] = min(o["seconds"] for o in group), max(o["seconds"] for o in group)
        rows.append(row)
    return rows


def _show(output: Console, rows: Sequence[Measurement]) -> None:
    output.line()
    title = rows[0]["workload"]
    if title in WORKLOADS:
        title += f": {WORKLOADS[title].about}"
    cells = [
        (
            r["method"],
            r["batch"],
            round(r["diff"]),
            round(r["seconds"], 3),
            round(r["tuples_per_s"]),
            r["memory_mb"],
        )
        for r in rows
    ]
    output.table(title, ("method", "batch", "rows", "seconds", "tuples/s", "MB"), cells)
