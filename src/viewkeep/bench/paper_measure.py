"""Measures the experiments of the idIVM paper: figure 12 (see paper.py) and figure 10 (see social.py).

Before warm rounds all tables, caches, views and indexes are read into memory. Before a cold one the server is
started again with nothing of its files in memory, for each method anew, as in the paper; then a small view is
refreshed, so that what is cold are tables, caches, views and their indexes, and not the server's catalog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from viewkeep.bench.methods import Maintained, Method, difference
from viewkeep.bench.paper import FIGURES, PARTS_AT_SCALE_1, Point, Simulated, change, methods, points, tables
from viewkeep.bench.settle import hashing, settle, warm
from viewkeep.bench.social import WITH_INNER_AGGREGATES, WITHOUT_CACHES, Social
from viewkeep.cli.output import Console
from viewkeep.connection import Connection
from viewkeep.errors import Unsupported
from viewkeep.script.accesses import Accesses, Parameters, derived

Measurement = dict[str, Any]
SOCIAL = "10"
KNOWN = (SOCIAL, *FIGURES)
# in cold rounds of larger changes there is nothing to see but the disk
MOST_COLD = 500
_COUNTS = ("changes", "rows_changed", "lookups", "rows_read", "cache_rows", "cache_inserts")
# the phases in which a delta script runs: what the paper measures
_SCRIPT = ("diff", "caches", "view")
_WARMING = (
    "CREATE TABLE lukewarm (id BIGINT, x BIGINT, PRIMARY KEY (id))",
    "INSERT INTO lukewarm SELECT id, id % 3 FROM range(0, 10) AS t(id)",
    "CREATE MATERIALIZED VIEW lukewarm_sums AS SELECT x, SUM(id) AS s FROM lukewarm GROUP BY x",
)


@dataclass(frozen=True)
class Warehouse:
    """An empty warehouse; `chill` empties what is held in memory, where that can be done."""

    vk: Connection
    chill: Callable[[], None] | None = None


@dataclass(frozen=True)
class Plan:
    """How often each point is measured warm, after one round that does not count, and cold."""

    repeat: int
    cold: int


Opened = Callable[[], AbstractContextManager[Warehouse]]


def check_figures(figures: Sequence[str]) -> None:
    """Refuses figures that there are not."""
    for figure in figures:
        if figure not in KNOWN:
            raise Unsupported(f"there is no figure {figure} here", hint=f"there are: {', '.join(KNOWN)}")


def measure(
    figure: str, scale: float, plan: Plan, opened: Opened, output: Console
) -> tuple[list[Measurement], int]:
    """All measurements of a figure, and how many results were wrong. `opened`: makes an empty warehouse."""
    if figure == SOCIAL:
        return _measure_social(scale, plan, opened, output)
    parts = max(1_000, round(PARTS_AT_SCALE_1 * scale))
    made: list[Measurement] = []
    wrong = 0
    about = FIGURES[figure]
    asked = list(points(figure, parts))
    for _, same_tables in groupby(asked, key=lambda one: one[1].f):
        group = list(same_tables)
        with opened() as warehouse:
            rounds = _Rounds(warehouse, plan)
            with output.step(f"figure {figure}: loading the tables"):
                rounds.load(tables(replace(group[0][1], j=max(point.j for _, point in group))))
            for _, same_view in groupby(group, key=lambda one: (one[1].j, one[1].s)):
                own = list(same_view)
                compared = methods(warehouse.vk, own[0][1])
                values = ", ".join(f"{value:,}" for value, _ in own)
                with output.step(f"figure {figure}, {about.parameter} = {values}"):
                    rounds.create(compared)
                    for value, point in own:
                        head = _head(warehouse, figure, about.parameter, value, "cost", point.links)
                        # only figure 12a is about recomputing, which takes long where there are many joins
                        recomputes = plan.repeat if figure == "12a" else 1
                        is_cold = point.d <= MOST_COLD
                        measured = rounds.measure(compared, _changes_of(point), is_cold, recomputes)
                        made += [{**head, "diff": point.d, **one} for one in measured]
                        if value > MOST_COLD and figure == "12a" and _is_past_crossover(made):
                            break  # larger changes take longer, and tell nothing new
                    wrong += _wrong(warehouse.vk, compared, output)
                    for method in compared:
                        _drop(warehouse.vk, method)
    return made, wrong


def _is_past_crossover(made: Sequence[Measurement]) -> bool:
    """Whether recomputing is quicker than both ways of maintaining, after the last change."""
    *_, last = times(medians(made), "warm").values()
    return last["recompute"] < min(1.0, last["tuple"])


def _changes_of(point: Point) -> Callable[[int], Sequence[str]]:
    return lambda number: [change(point, number)]


def _measure_social(
    scale: float, plan: Plan, opened: Opened, output: Console
) -> tuple[list[Measurement], int]:
    workload = Social(scale)
    rows = 100
    if rows > workload.users:
        raise Unsupported(f"{rows} of {workload.users} users cannot change", hint="take a larger --scale")
    with opened() as warehouse:
        vk, rounds = warehouse.vk, _Rounds(warehouse, plan)
        with output.step(f"figure {SOCIAL}: loading the tables"):
            rounds.load([text for _, text in workload.load(vk.engine.name, Path())])
        made: list[Measurement] = []
        compared: list[Method] = []
        for view in workload.views:
            own = _compared(vk, view, workload.views[view])
            with output.step(f"figure {SOCIAL}: creating {view}"):
                rounds.create(own)
            compared += own
        with output.step(f"figure {SOCIAL}: {rows} users change") as update:
            for one in rounds.measure(compared, lambda number: workload.change(rows, number), True, 0):
                update(f"{one['view']} by {one['method']}, {one['state']} round {one['round']}")
                head = _head(warehouse, SOCIAL, "view", one["view"], one["view"], workload.users)
                made.append({**head, "diff": rows, **one})
        problems: dict[str, str] = {}
        for view, query in workload.views.items():
            with output.step(f"figure {SOCIAL}: comparing {view}"):
                problems |= _problems_of(vk, f"{view}_wanted", query, [m for m in compared if m.view == view])
    return made, _report(problems, output)


def _problems_of(vk: Connection, wanted: str, query: str, compared: Sequence[Method]) -> dict[str, str]:
    """What is wrong with each result, compared with the query, which is run once."""
    with hashing(vk):
        vk.sql(f"CREATE TABLE {wanted} AS {query}")
    found = {method.relation: _problem(vk, method, wanted) for method in compared}
    vk.sql(f"DROP TABLE {wanted}")
    return found


def _problem(vk: Connection, method: Method, wanted: str) -> str:
    late = [done for done in vk.refresh(method.relation) if done.strategy != "none"]
    if late:
        return "changes were left for another refresh"
    return difference(lambda text: vk.sql(text).rows, f"SELECT * FROM {wanted}", method.relation)


def _compared(vk: Connection, view: str, query: str) -> list[Method]:
    """ID-based, tuple-based without caches, which is the paper's, and with the aggregates inside the view
    stored, which is viewkeep's own, where a view has such."""
    made: list[Method] = [
        Maintained(vk, view, query, "id", exact=True),
        Maintained(vk, view, query, "tuple", exact=True, more=WITHOUT_CACHES),
    ]
    if view in WITH_INNER_AGGREGATES:
        made.append(Maintained(vk, view, query, "tuple", exact=True, name="stored"))
    return made


def _head(
    warehouse: Warehouse, figure: str, parameter: str, value: int | str, view: str, rows: int
) -> Measurement:
    head = {"bench": "paper", "engine": warehouse.vk.engine.name, "figure": figure}
    return {**head, "parameter": parameter, "value": value, "view": view, "rows": rows}


class _Rounds:
    """The rounds over the tables of one warehouse, each with other changes."""

    def __init__(self, warehouse: Warehouse, plan: Plan) -> None:
        self._warehouse, self._vk = warehouse, warehouse.vk
        self._plan = plan if warehouse.chill else replace(plan, cold=0)
        self._changes = 0

    def load(self, statements: Sequence[str]) -> None:
        for statement in [*statements, *(_WARMING if self._plan.cold else ())]:
            self._vk.sql(statement)
        settle(self._vk)

    def create(self, compared: Sequence[Method]) -> None:
        with hashing(self._vk):
            for method in compared:
                method.create()
        settle(self._vk)

    def measure(
        self, compared: Sequence[Method], changes: Callable[[int], Sequence[str]], cold: bool, recomputes: int
    ) -> Iterator[Measurement]:
        """Cold rounds, then warm ones, of which the first does not count as such. `recomputes`: in how many
        of those that count the view is recomputed."""
        maintained = [method for method in compared if method.name != "recompute"]
        for number in range(self._plan.cold if cold else 0):
            self._change(changes)
            for method in _turned(maintained, number):
                self._chill()
                yield {**self._timed(method), "round": number, "state": "cold"}
        warm(self._vk)
        for number in range(self._plan.repeat + 1):
            self._change(changes)
            for method in _turned(compared if 0 < number <= recomputes else maintained, number):
                yield {**self._timed(method), "round": number, "state": "warm" if number else "first"}

    def _change(self, changes: Callable[[int], Sequence[str]]) -> None:
        for statement in changes(self._changes):
            self._vk.sql(statement)
        self._changes += 1

    def _chill(self) -> None:
        assert self._warehouse.chill is not None
        self._warehouse.chill()
        self._vk.sql("UPDATE lukewarm SET x = x + 1")
        self._vk.refresh("lukewarm_sums")

    def _timed(self, method: Method) -> Measurement:
        started = time.perf_counter()
        method.refresh()
        seconds = time.perf_counter() - started
        told = method.facts()
        facts = {"phases": told.get("phases", {})} | {name: told[name] for name in _COUNTS if name in told}
        return {"view": method.view, "method": method.name, "seconds": round(seconds, 6), **facts}


def _turned(compared: Sequence[Method], number: int) -> list[Method]:
    """Nobody always goes first, nor always after the same other."""
    turn = number % len(compared)
    return [*compared[turn:], *compared[:turn]]


def _wrong(vk: Connection, compared: Sequence[Method], output: Console) -> int:
    """How many results differ from the recomputed one: that is the query, in the engine's own words."""
    recompute = next(method for method in compared if method.name == "recompute")
    with hashing(vk):
        recompute.refresh()
    maintained = (method for method in compared if method is not recompute)
    return _report({m.relation: _problem(vk, m, recompute.relation) for m in maintained}, output)


def _report(problems: Mapping[str, str], output: Console) -> int:
    for name, problem in problems.items():
        if problem:
            output.error(f"{name} is wrong: {problem}")
    return sum(map(bool, problems.values()))


def _drop(vk: Connection, method: Method) -> None:
    if isinstance(method, Simulated):
        method.drop()
    elif isinstance(method, Maintained):
        vk.sql(f"DROP MATERIALIZED VIEW {method.relation}")


# --- what the measurements come to ---


def medians(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One row for each point and method: medians and spread of its warm and of its cold rounds, and the
    first warm round, in which only what creating the views has left is in memory."""
    groups: dict[tuple[Any, ...], list[Measurement]] = {}
    kept = ("figure", "parameter", "value", "view", "method", "rows", "diff")
    for one in measurements:
        groups.setdefault(tuple(one[k] for k in kept), []).append(one)
    rows = []
    for key, group in groups.items():
        row: Measurement = dict(zip(kept, key, strict=True))
        states = {
            state: [one for one in group if one["state"] == state] for state in ("warm", "cold", "first")
        }
        row |= {state: _spread(found) for state, found in states.items() if found}
        for name in _COUNTS:
            if name in group[0]:
                row[name] = round(median(one[name] for one in states["warm"] or group))
        rows.append(row)
    return rows


def _spread(group: Sequence[Measurement]) -> Measurement:
    seconds = [one["seconds"] for one in group]
    phases = dict.fromkeys(name for one in group for name in one["phases"])
    scripts = [sum(one["phases"].get(name, 0) for name in _SCRIPT) for one in group]
    return {
        "seconds": round(median(seconds), 6),
        "script": round(median(scripts), 6),
        "least": min(seconds),
        "most": max(seconds),
        "rounds": len(seconds),
        "phases": {name: round(median(one["phases"].get(name, 0) for one in group), 6) for name in phases},
    }


def times(
    rows: Sequence[Mapping[str, Any]], state: str, what: str = "seconds"
) -> dict[Any, dict[str, float]]:
    """For each value of the parameter, how many times as long each method takes as ID-based maintenance: the
    whole refresh, or its `script` alone."""
    found: dict[Any, dict[str, float]] = {}
    for value in dict.fromkeys(r["value"] for r in rows):
        seconds = {r["method"]: r[state][what] for r in rows if r["value"] == value and state in r}
        if seconds.get("id"):
            found[value] = {name: s / seconds["id"] for name, s in seconds.items()}
    return found


def models(rows: Sequence[Mapping[str, Any]]) -> dict[Any, Parameters]:
    """For each value of the parameter, those of the cost model, from what the server counted.
    Empty where the engine does not count."""
    found: dict[Any, Parameters] = {}
    for value in dict.fromkeys(r["value"] for r in rows):
        own = {r["method"]: r for r in rows if r["value"] == value and "lookups" in r}
        if "id" in own and "tuple" in own:
            made = derived(_accesses(own["id"]), _accesses(own["tuple"]))
            if made is not None:
                found[value] = made
    return found


def _accesses(row: Mapping[str, Any]) -> Accesses:
    counted = row["lookups"] + row["rows_read"]
    more = {"cached": row.get("cache_rows"), "inserted": row.get("cache_inserts", 0)}
    return Accesses(counted, row["changes"], row["rows_changed"], **more)


def crossover(rows: Sequence[Mapping[str, Any]], method: str) -> str:
    """Between which values of the parameter recomputing begins to be quicker than a method."""
    found = times(rows, "warm")
    before = None
    for value, taken in found.items():
        if "recompute" in taken and taken["recompute"] < taken[method]:
            return f"below {value:,}" if before is None else f"between {before:,} and {value:,}"
        before = value
    return "not reached"
