"""Runs a workload: loads it once, changes it, and times each method's refresh, side by side."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import viewkeep
from viewkeep.bench import report
from viewkeep.bench.devices import Devices
from viewkeep.bench.machine import load_average, machine, settings
from viewkeep.bench.meter import metered
from viewkeep.bench.methods import METHODS, Method, chosen
from viewkeep.bench.workload import Workload
from viewkeep.cli.address import address
from viewkeep.cli.output import Console
from viewkeep.connection import Connection

WORKLOADS: Mapping[str, Workload] = {
    "devices": Devices(),
    "devices-int": Devices(integer_keys=True),
}


def run(
    name: str,
    *,
    engine: str,
    scale: float,
    views: Sequence[str] | None,
    methods: Sequence[str] | None,
    diffs: Sequence[int],
    repeat: int,
    json: bool,
    at: str | None,
    output: Console,
) -> int:
    """Measures and reports; the exit status, which is 1 where the methods do not agree."""
    workload = WORKLOADS[chosen("workload", list(WORKLOADS), [name])[0]]
    views = chosen("view", list(workload.views), views)
    methods = chosen("method", list(METHODS.get(engine, {})), methods)
    diffs = list(dict.fromkeys(min(diff, workload.largest_diff(scale)) for diff in diffs))
    about = machine()
    with _opened(engine, at, output) as vk:
        about["settings"] = settings(vk)
        _load(vk, workload, scale, output)
        made = [METHODS[engine][method](vk, workload, view) for view in views for method in methods]
        bench = _Bench(name, vk, workload, scale, made, json, output)
        bench.create()
        wrong = sum(bench.measure(diff, repeat) for diff in diffs)
    about["load_average_after"] = load_average()
    title = f"{name} on {engine}, {workload.rows(scale):,} rows"
    report.show(output, title, bench.measurements)
    if wrong:
        output.error("the methods do not agree, so the figures mean nothing", hint="see above which differ")
        return 1
    head = {"bench": name, "engine": engine, "scale": scale, "rows": workload.rows(scale), "machine": about}
    body = {"medians": report.medians(bench.measurements), "measurements": bench.measurements}
    path = report.write(f"{name}-{engine}-{scale:g}", head | body)
    if path is not None:
        output.line(f"\nwritten to {path}", style="dim")
    return 0


@contextmanager
def _opened(engine: str, at: str | None, output: Console) -> Iterator[Connection]:
    """A warehouse of its own: where the user says, or on disk for as long as the run takes."""
    with tempfile.TemporaryDirectory(prefix="viewkeep-bench-", ignore_cleanup_errors=True) as directory:
        where = address(engine, str(Path(directory) / "bench.db") if at is None else at)
        with output.step(f"opening {engine}"):
            vk = viewkeep.connect(where)
        try:
            yield vk
        finally:
            vk.close()


def _load(vk: Connection, workload: Workload, scale: float, output: Console) -> None:
    for what, statement in workload.load(scale):
        with output.step(what):
            vk.sql(statement)
    if vk.engine.name == "duckdb":
        # the loaded rows belong in the file, not in the log that the first timed commit would have to fold in
        with output.step("writing the tables to the file"):
            vk.engine._con.execute("CHECKPOINT")  # type: ignore[attr-defined]


@dataclass
class _Bench:
    """One run: the methods, and what was measured so far."""

    name: str
    vk: Connection
    workload: Workload
    scale: float
    methods: Sequence[Method]
    json: bool
    output: Console
    measurements: list[dict[str, Any]] = field(default_factory=list)

    def create(self) -> None:
        for method in self.methods:
            with self.output.step(f"creating {method.relation}") as update:
                self.vk.progress = update
                method.create()
        self.vk.progress = lambda _: None

    def measure(self, diff: int, repeat: int) -> int:
        """All rounds with changes of one size; how many methods are wrong after the last."""
        with self.output.step(f"{diff:,} changed rows: warming up and {repeat} rounds") as update:
            for number in range(repeat + 1):
                update(f"{diff:,} changed rows: {f'round {number}' if number else 'warming up'}")
                self._round(diff, number)
        with self.output.step("comparing the results") as update:
            return sum(not self._agrees(method, update) for method in self.methods)

    def _round(self, diff: int, number: int) -> None:
        self.vk.sql(self.workload.change(self.scale, diff, f"{diff} rows, round {number}"))
        for table in self.workload.changing:
            # whoever reads a changed Delta table first has its log read for all: let it be nobody measured
            self.vk.sql(f"SELECT COUNT(*) AS n FROM {table}")
        # nobody always goes first, nor always after the same other
        turn = number % len(self.methods)
        for method in [*self.methods[turn:], *self.methods[:turn]]:
            measurement = self._timed(method, diff, number)
            if number:
                self.measurements.append(measurement)
                if self.json:
                    self.output.json(measurement)

    def _timed(self, method: Method, diff: int, number: int) -> dict[str, Any]:
        with metered(self.vk) as costs:
            started = time.perf_counter()
            method.refresh()
            seconds = time.perf_counter() - started
        return {
            "bench": self.name,
            "engine": self.vk.engine.name,
            "view": method.view,
            "method": method.name,
            "rows": self.workload.rows(self.scale),
            "diff": diff,
            "seconds": round(seconds, 6),
            "round": number,
            **costs,
            **method.facts(),
        }

    def _agrees(self, method: Method, update: Any) -> bool:
        """The method's own check, and a comparison with the query over the tables as they are now: a view
        that was never refreshed is right about the versions that it shows."""
        update(f"comparing {method.relation} with its query")
        problem = method.problem() or self._difference(method)
        if problem:
            self.output.error(f"{method.relation} is wrong: {problem}")
        return not problem

    def _difference(self, method: Method) -> str:
        query, kept = self.workload.views[method.view], f"SELECT * FROM {method.relation}"
        counts = [
            self.vk.sql(f"SELECT COUNT(*) AS n FROM ({a} EXCEPT ALL {b}) AS differing").rows[0][0]
            for a, b in ((query, kept), (kept, query))
        ]
        return f"{counts[0]:,} rows missing, {counts[1]:,} unexpected" if any(counts) else ""
