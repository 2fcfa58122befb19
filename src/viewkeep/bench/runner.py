"""Runs a workload: loads it once, changes it, and times each method's refresh, side by side."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import viewkeep
from viewkeep.bench import report
from viewkeep.bench.devices import Devices
from viewkeep.bench.machine import load_average, machine, settings
from viewkeep.bench.meter import metered
from viewkeep.bench.methods import METHODS, Maintained, Method, chosen, fingerprint, methods_of
from viewkeep.bench.page import page as page_of_workload
from viewkeep.bench.paper_measure import (
    KNOWN,
    Plan,
    Warehouse,
    check_figures,
    measure,
    medians,
    models,
    times,
)
from viewkeep.bench.paper_report import page
from viewkeep.bench.reads import HEADINGS, cells, measure_reads
from viewkeep.bench.server import TUNED, private_server
from viewkeep.bench.settle import settle
from viewkeep.bench.social import Social
from viewkeep.bench.sweep import METHODS as SIDES
from viewkeep.bench.sweep import ROUNDS, SWEPT, crossovers, is_past_crossover, larger, swept
from viewkeep.bench.tpch import TPCH
from viewkeep.bench.workload import Size, Workload, size_of
from viewkeep.cli.address import address
from viewkeep.cli.output import Console
from viewkeep.connection import Connection
from viewkeep.errors import Unsupported, ViewkeepError

WORKLOADS: Mapping[str, Callable[[float], Workload]] = {
    "devices": Devices,
    "devices-int": lambda scale: Devices(scale, integer_keys=True),
    "social": Social,
    "tpch": TPCH,
}


def run(
    name: str,
    *,
    engine: str,
    scale: float,
    views: Sequence[str] | None,
    methods: Sequence[str] | None,
    diffs: Sequence[str] | None,
    repeat: int,
    json: bool,
    at: str | None,
    data: str | None,
    output: Console,
    waiting: int = 0,
    sweep: bool = False,
) -> int:
    """Measures and reports; the exit status, which is 1 where the methods do not agree, or where no view can
    be made."""
    workload = WORKLOADS[chosen("workload", list(WORKLOADS), [name])[0]](scale)
    views = chosen("view", list(workload.views), views)
    methods = methods_of(workload, engine, methods)
    if sweep:
        methods += [side for side in SIDES if side not in methods]
    sizes = _sizes(workload, diffs)
    if waiting and engine != "spark":
        raise Unsupported(f"no diffs wait on {engine}", hint="leave out --waiting, or use --engine spark")
    about = machine()
    with opened(engine, at, data, output) as (vk, folder):
        about["settings"] = settings(vk)
        rows = load(vk, workload, folder, output)
        made = [METHODS[engine][method](vk, workload, view) for view in views for method in methods]
        bench = _Bench(name, vk, workload, rows, made, json, output)
        bench.create()
        wrong = sum(bench.measure(size, repeat) for size in sizes) if bench.methods else 0
        if sweep and not wrong:
            wrong = bench.sweep(sizes[-1], min(repeat, ROUNDS))
        reads = bench.read(waiting, sizes[0], repeat) if waiting and not wrong else []
    about["load_average_after"] = load_average()
    medians = report.medians(bench.measurements)
    report.show(output, f"{name} on {engine}, {rows:,} rows", medians)
    if sweep:
        _show_sweep(medians, output)
    if reads:
        output.line()
        output.table("reading the views", HEADINGS, [cells(read) for read in reads])
    bench.show_refused()
    if wrong:
        output.error("the methods do not agree, so the figures mean nothing", hint="see above which differ")
        return 1
    if not bench.methods:
        output.error("no view could be made, so nothing was measured", hint="see above why")
        return 1
    head = {"bench": name, "engine": engine, "scale": scale, "rows": rows, "machine": about}
    body = {
        "summary": report.summary(medians),
        "refused": bench.refused,
        "medians": medians,
        **({"reads": reads} if reads else {}),
        "measurements": bench.measurements,
    }
    path = report.write(f"{name}-{engine}-{scale:g}", head | body)
    if path is not None:
        if engine == "spark":
            path.with_suffix(".html").write_text(page_of_workload(head | body), encoding="utf-8")
        output.line(f"\nwritten to {path}", style="dim")
    return 0


def _show_sweep(medians: Sequence[Mapping[str, Any]], output: Console) -> None:
    output.line()
    output.table("where recomputing wins", ["view", *SWEPT], [[s.view, *s.cells()] for s in swept(medians)])
    for line in crossovers(medians):
        output.line(line)


def run_paper(
    *,
    engine: str,
    scale: float,
    figures: Sequence[str] | None,
    repeat: int,
    cold: int,
    json: bool,
    output: Console,
) -> int:
    """The paper's experiments; the exit status, which is 1 where the methods do not agree. The results of a
    figure take the place of those that it had; others stay as they are."""
    asked = list(dict.fromkeys(figures or KNOWN))
    check_figures(asked)
    if cold and engine != "postgres":
        raise Unsupported(
            f"what {engine} holds in memory cannot be emptied", hint="leave out --cold, or use postgres"
        )
    document: dict[str, Any] = {"bench": "paper", "engine": engine, "figures": {}}
    name = f"paper-{engine}"
    if (kept := report.read(name)) is not None:
        document["figures"] |= kept["figures"]
    for figure in asked:
        about = machine()

        @contextmanager
        def of_figure(about: dict[str, Any] = about) -> Iterator[Warehouse]:
            with _warehouse(engine, output) as warehouse:
                about["settings"] = settings(warehouse.vk)
                yield warehouse

        measurements, wrong = measure(figure, scale, Plan(repeat, cold), of_figure, output)
        about["load_average_after"] = load_average()
        if json:
            for one in measurements:
                output.json(one)
        rows = medians(measurements)
        _show_figure(figure, engine, rows, output)
        if wrong:
            output.error(
                "the methods do not agree, so the figures mean nothing", hint="see above which differ"
            )
            return 1
        how = {"scale": scale, "repeat": repeat, "cold": cold, "machine": about}
        document["figures"][figure] = {**how, "medians": rows, "measurements": measurements}
        path = report.write(name, document)
        if path is not None:
            path.with_suffix(".html").write_text(page(document), encoding="utf-8")
            output.line(
                f"\nwritten to {path}, and as a page to {path.with_suffix('.html').name}", style="dim"
            )
    return 0


def _show_figure(figure: str, engine: str, rows: list[dict[str, Any]], output: Console) -> None:
    model = models(rows)
    for state in ("cold", "warm"):
        found = times(rows, state)
        if not found:
            continue
        names = list(dict.fromkeys(r["method"] for r in rows if state in r))
        lines = []
        for value, taken in found.items():
            own = {r["method"]: r[state] for r in rows if r["value"] == value and state in r}
            line = [f"{value:,}" if isinstance(value, int) else str(value)]
            line += [f"{own[n]['seconds']:.4f} ({taken[n]:.1f}x)" if n in own else "" for n in names]
            if value in model:
                made = model[value]
                line += [f"{n:.2f}" for n in (made.a, made.p, made.g, made.k)] + [f"{made.speedup:.1f}x"]
            lines.append(line)
        output.line()
        title = f"figure {figure} on {engine}, {state}: seconds, and times as long as id"
        heads = ["a", "p", "g", "k", "predicted"] if model else []
        output.table(title, [rows[0]["parameter"], *names, *heads], lines)


def _sizes(workload: Workload, asked: Sequence[str] | None) -> list[Size]:
    """What was asked for, or what the workload is about; of two that come to as many rows, the first."""
    sizes = [size_of(text, workload.changeable) for text in asked or workload.sizes]
    return list({size.rows: size for size in reversed(sizes)}.values())[::-1]


@contextmanager
def _warehouse(engine: str, output: Console) -> Iterator[Warehouse]:
    """A warehouse for one experiment, which can be emptied from memory if it is a server of our own."""
    with ExitStack() as stack:
        if engine != "postgres":
            vk, _ = stack.enter_context(opened(engine, None, None, output))
            yield Warehouse(vk)
            return
        with output.step("starting a PostgreSQL server"):
            server = stack.enter_context(private_server(TUNED))
        vk, _ = stack.enter_context(opened(engine, server.address(), None, output))

        def chill() -> None:
            server.chill()
            vk.engine._session.reconnect()  # type: ignore[attr-defined]
            # net changes were relations of the old session
            vk.engine._refresher.nets.forget()  # type: ignore[attr-defined]

        yield Warehouse(vk, chill)


@contextmanager
def opened(
    engine: str, at: str | None, data: str | None, output: Console
) -> Iterator[tuple[Connection, Path]]:
    """A warehouse of its own, and a folder for the files that it is loaded from: where the user says, or on
    disk for as long as the run takes."""
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="viewkeep-bench-", ignore_cleanup_errors=True)
        directory = stack.enter_context(folder)
        if engine == "postgres" and at is None:
            with output.step("starting a PostgreSQL server"):
                at = stack.enter_context(private_server(TUNED)).address()
        where = address(engine, str(Path(directory) / "bench.db") if at is None else at)
        with output.step(f"opening {engine}"):
            vk = viewkeep.connect(where)
        try:
            yield vk, Path(data or directory)
        finally:
            vk.close()


def load(vk: Connection, workload: Workload, folder: Path, output: Console) -> int:
    """Makes and fills the tables; the rows of the largest."""
    with output.step("preparing the data"):
        workload.prepare(folder)
    for what, statement in workload.load(vk.engine.name, folder):
        with output.step(what):
            vk.sql(statement)
    with output.step("letting the tables settle"):
        settle(vk)
    return int(vk.sql(f"SELECT COUNT(*) AS n FROM {workload.largest}").rows[0][0])


@dataclass
class _Bench:
    """One run: the methods, and what was measured so far."""

    name: str
    vk: Connection
    workload: Workload
    rows: int
    methods: list[Method]
    json: bool
    output: Console
    measurements: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    changes: int = 0

    def create(self) -> None:
        """Makes what each method keeps. Where one of them cannot keep a view there is nothing to compare,
        and the view is left out, which is said."""
        made: list[Method] = []
        for method in self.methods:
            if any(one["view"] == method.view for one in self.refused):
                continue
            with self.output.waiting(f"creating {method.relation}") as update:
                self.vk.progress = update
                started = time.perf_counter()
                try:
                    method.create()
                except ViewkeepError as problem:
                    self._refuse(method, problem)
                    made = [other for other in made if other.view != method.view]
                else:
                    made.append(method)
                    seconds = time.perf_counter() - started
                    self.output.line(f"creating {method.relation} ... {seconds:.1f} s")
        self.vk.progress = lambda _: None
        self.methods = made

    def _refuse(self, method: Method, problem: ViewkeepError) -> None:
        refusal = {
            **self._head(method),
            "refused": problem.message,
            "code": problem.code,
        }
        self.refused.append(refusal)
        self.output.line(f"creating {method.relation} ... refused: {problem.message}", style="yellow")
        if self.json:
            self.output.json(refusal)

    def show_refused(self) -> None:
        """The views that were left out, and why."""
        if self.refused:
            self.output.line()
            rows = [(one["view"], one["method"], one["refused"]) for one in self.refused]
            self.output.table("refused, and not measured", ["view", "method", "reason"], rows)

    def measure(self, size: Size, repeat: int) -> int:
        """All rounds with changes of one size; how many methods are wrong after the last."""
        with self.output.step(f"{size}: warming up and {repeat} rounds") as update:
            for number in range(repeat + 1):
                update(f"{size}: {f'round {number}' if number else 'warming up'}")
                self._round(size, number)
        return self._wrong()

    def sweep(self, first: Size, repeat: int) -> int:
        """Rounds with ever more changes, to where recomputing wins for all views; how many methods are wrong
        then. What recomputing takes does not depend on what changed, so it has been warm for long."""
        kept, self.methods = self.methods, [method for method in self.methods if method.name in SIDES]
        for size in larger(first.rows, self.workload.changeable):
            with self.output.step(f"{size}: warming up and {repeat} rounds") as update:
                for number in range(repeat + 1):
                    update(f"{size}: {f'round {number}' if number else 'warming up'}")
                    self._round(size, number, leaving_out=() if number else ("recompute",))
            if is_past_crossover(report.medians(self.measurements), size.rows):
                break
        wrong = self._wrong()
        with self.output.step("bringing the others up to date"):
            for method in kept:
                if method not in self.methods:
                    method.refresh()
        self.methods = kept
        return wrong

    def _wrong(self) -> int:
        """How many methods have other rows than their queries."""
        wanted: dict[str, Any] = {}
        with self.output.step("comparing the results") as update:
            return sum(not self._agrees(method, wanted, update) for method in self.methods)

    def read(self, waiting: int, size: Size, repeat: int) -> list[dict[str, Any]]:
        """Reads the views while the diffs of some refreshes wait, and with all folded in."""
        changes = [self.workload.change(size.rows, self.changes + number) for number in range(waiting)]
        self.changes += waiting
        found = measure_reads(self.vk, self.workload, self.methods, changes, repeat, self.output)
        if self.json:
            for one in found:
                self.output.json({"bench": self.name, "engine": self.vk.engine.name, **one})
        return found

    def _round(self, size: Size, number: int, leaving_out: Sequence[str] = ()) -> None:
        for statement in self.workload.change(size.rows, self.changes):
            self.vk.sql(statement)
        self.changes += 1
        for table in self.workload.changing:
            # whoever reads a changed Delta table first has its log read for all: let it be nobody measured
            self.vk.sql(f"SELECT COUNT(*) AS n FROM {table}")
        # nobody always goes first, nor always after the same other
        turn = number % len(self.methods)
        for method in [*self.methods[turn:], *self.methods[:turn]]:
            if method.name in leaving_out:
                continue
            measurement = self._timed(method, size, number)
            if number:
                self.measurements.append(measurement)
                if self.json:
                    self.output.json(measurement)

    def _timed(self, method: Method, size: Size, number: int) -> dict[str, Any]:
        with metered(self.vk) as costs:
            started = time.perf_counter()
            method.refresh()
            seconds = time.perf_counter() - started
        return {
            **self._head(method),
            "rows": self.rows,
            "diff": size.rows,
            **({} if size.share is None else {"share": size.share}),
            "seconds": round(seconds, 6),
            "round": number,
            **costs,
            **method.facts(),
        }

    def _head(self, method: Method) -> dict[str, Any]:
        return {
            "bench": self.name,
            "engine": self.vk.engine.name,
            "view": method.view,
            "method": method.name,
        }

    def _agrees(self, method: Method, wanted: dict[str, Any], update: Callable[[str], None]) -> bool:
        """`wanted`: what is known of the views as they should be."""
        update(f"comparing {method.relation} with its query")
        problem = method.unfinished() if isinstance(method, Maintained) else ""
        if not problem and not self._is_alike(method, wanted):
            problem = method.problem()
        if problem:
            self.output.error(f"{method.relation} is wrong: {problem}")
        return not problem

    def _is_alike(self, method: Method, wanted: dict[str, Any]) -> bool:
        """Whether as many rows with the same hashes are there as the query has, which is found out once for
        all methods. Spark takes minutes to compare tens of millions of rows one by one."""
        if self.vk.engine.name != "spark" or not self.workload.exact:
            return False

        def ask(text: str) -> Sequence[Any]:
            return self.vk.sql(text).rows

        if method.view not in wanted:
            wanted[method.view] = fingerprint(ask, f"({self.workload.views[method.view]}) AS wanted")
        return fingerprint(ask, method.relation) == tuple(wanted[method.view])
