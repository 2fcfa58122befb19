"""Fifty views over the same tables: refreshed together, refreshed one by one, and recomputed one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeep.bench import report
from viewkeep.bench.devices import Devices
from viewkeep.bench.machine import load_average, machine, settings
from viewkeep.bench.meter import metered
from viewkeep.bench.methods import METHODS, Maintained, Method
from viewkeep.bench.page import page
from viewkeep.bench.runner import load, opened
from viewkeep.bench.workload import MergeJob
from viewkeep.cli.output import Console
from viewkeep.connection import Connection
from viewkeep.results import Refresh

CATEGORIES = ("phone", "tablet", "laptop", "camera", "watch")
CHANGED = 200
# the few devices of a category first: the order that suits recomputing
_JOINED = "FROM devices_parts NATURAL JOIN devices NATURAL JOIN parts WHERE category = '{category}'"
_SHAPES = {
    "spj": f"SELECT did, pid, price {_JOINED}",
    "dear": f"SELECT did, pid, price {_JOINED} AND price > 900",
    "cheap": f"SELECT did, pid {_JOINED} AND price < 50",
    "cost": f"SELECT did, SUM(price) AS cost {_JOINED} GROUP BY did",
    "few_cost": f"SELECT did, SUM(price) AS cost, COUNT(*) AS parts {_JOINED} AND price > 800 GROUP BY did",
    "used": f"SELECT pid, COUNT(*) AS devices {_JOINED} GROUP BY pid",
    "worth": f"SELECT pid, SUM(price) AS worth {_JOINED} GROUP BY pid",
    "large": f"SELECT did, SUM(price) AS cost {_JOINED} GROUP BY did HAVING SUM(price) > 7000",
    "priced": "SELECT pid, price FROM parts WHERE price > 100 AND EXISTS (SELECT 1 FROM devices_parts "
    "NATURAL JOIN devices WHERE devices_parts.pid = parts.pid AND category = '{category}')",
    "total": f"SELECT category, SUM(price) AS total, COUNT(*) AS n {_JOINED} GROUP BY category",
}
VIEWS = {
    f"{shape}_{category}": query.format(category=category)
    for shape, query in _SHAPES.items()
    for category in CATEGORIES
}


@dataclass(frozen=True)
class Many(Devices):
    """The tables of devices under fifty views."""

    @property
    def views(self) -> Mapping[str, str]:
        return VIEWS

    @property
    def recomputes(self) -> Mapping[str, str]:
        return {}

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        return {}


def run_many(*, engine: str, scale: float, repeat: int, json: bool, at: str | None, output: Console) -> int:
    """Measures and reports; the exit status, which is 1 where a view differs from its query."""
    workload, about = Many(scale), machine()
    with opened(engine, at, None, output) as (vk, folder):
        about["settings"] = settings(vk)
        rows = load(vk, workload, folder, output)
        made = _Many(vk, workload, output)
        measurements = []
        for number in range(repeat + 1):
            for one in made.round(number):
                measurement = {"bench": "many", "engine": engine, "view": f"{len(VIEWS)} views", **one}
                measurement |= {"rows": rows, "diff": CHANGED, "round": number}
                if number:
                    measurements.append(measurement)
                    if json:
                        output.json(measurement)
        wrong = made.wrong()
    about["load_average_after"] = load_average()
    medians = report.medians(measurements)
    _show(medians, f"{len(VIEWS)} views on {engine}, {rows:,} rows, {CHANGED} changed rows", output)
    if wrong:
        output.error("views differ from their queries, so the figures mean nothing", hint="see above which")
        return 1
    head = {"bench": "many", "engine": engine, "scale": scale, "rows": rows, "machine": about}
    results = {**head, "medians": medians, "measurements": measurements}
    path = report.write(f"many-{engine}-{scale:g}", results)
    if path is not None:
        path.with_suffix(".html").write_text(page(results), encoding="utf-8")
        output.line(f"\nwritten to {path}", style="dim")
    return 0


class _Many:
    """The views, and tables with the same rows."""

    def __init__(self, vk: Connection, workload: Many, output: Console) -> None:
        self._vk, self._workload, self._output = vk, workload, output
        recompute = METHODS[vk.engine.name]["recompute"]
        self._views = [Maintained(vk, view, query, None, exact=True) for view, query in VIEWS.items()]
        self._tables: list[Method] = [recompute(vk, workload, view) for view in VIEWS]
        self._changes = 0
        with output.step(f"creating {len(VIEWS)} views") as update:
            for number, method in enumerate(self._views, start=1):
                update(f"creating view {number} of {len(VIEWS)}: {method.view}")
                method.create()

    def round(self, number: int) -> list[dict[str, Any]]:
        """A change for each of the two ways to refresh the same views, then a recomputation of all. The first
        way changes places with the second from round to round."""
        names = [method.relation for method in self._views]
        ways: dict[str, Callable[[], Sequence[Refresh]]] = {
            "together": lambda: self._vk.refresh(*names),
            "alone": lambda: [one for name in names for one in self._vk.refresh(name)],
        }
        found = []
        with self._output.step(f"round {number}" if number else "warming up"):
            for way in sorted(ways, reverse=bool(number % 2)):
                self._change()
                found.append({"method": way, **self._timed(ways[way])})
            found.append({"method": "recompute", **self._timed(self._recompute)})
        return found

    def _change(self) -> None:
        for statement in self._workload.change(CHANGED, self._changes):
            self._vk.sql(statement)
        self._changes += 1
        self._vk.sql("SELECT COUNT(*) AS n FROM parts")

    def _recompute(self) -> Sequence[Refresh]:
        for method in self._tables:
            method.refresh()
        return ()

    def _timed(self, work: Callable[[], Sequence[Refresh]]) -> dict[str, Any]:
        with metered(self._vk) as costs:
            started = time.perf_counter()
            done = work()
            seconds = round(time.perf_counter() - started, 6)
        ran = Counter(one.strategy for one in done)
        found = {"seconds": seconds, **costs}
        if self._vk.engine.name == "spark":
            found["commits"] = sum(one.commits or 0 for one in done) if done else len(self._tables)
        return {**found, "strategy": ", ".join(f"{name} {ran[name]}" for name in sorted(ran))}

    def wrong(self) -> int:
        """How many views or tables have other rows than their queries."""
        found = 0
        with self._output.step("comparing the results") as update:
            for method in [*self._views, *self._tables]:
                update(f"comparing {method.relation}")
                if problem := method.problem():
                    self._output.error(f"{method.relation} is wrong: {problem}")
                    found += 1
        return found


def _show(rows: Sequence[Mapping[str, Any]], title: str, output: Console) -> None:
    counted = [name for name in ("jobs", "commits", "rows_read") if name in rows[0]]
    heads = ["method", "median s", "least s", "most s", "CPU s", "times together", *counted, "strategies"]
    lines = []
    for r in rows:
        line = [r["method"], *(f"{r[name]:.3f}" for name in ("seconds", "least", "most", "cpu_seconds"))]
        line += [f"{r['times_together']:.1f}", *(f"{r[name]:,}" for name in counted), r["strategy"]]
        lines.append(line)
    output.line()
    output.table(title, heads, lines)
