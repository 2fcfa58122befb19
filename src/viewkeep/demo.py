"""The main job, shown: tables that change, two views over them, refreshes that cost what the change costs.

The running example of the idIVM paper: devices, the parts that they are made of, and what phones cost.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import viewkeep
from viewkeep.bench.devices import VIEWS, Devices, Tables
from viewkeep.bench.methods import METHODS
from viewkeep.cli.output import Console
from viewkeep.connection import Connection
from viewkeep.results import Refresh

_PARTS_AT_SCALE_1 = 200_000
_CHANGED = 200
_LEAST_PARTS = 20
# to show what it does: over tables of this size the default, auto, may find recomputing cheaper
_POLICY = "refresh_policy = 'incremental'"


def run(at: str, scale: float, output: Console) -> int:
    """Runs the demo at an address that connect() takes; 0 where both views equal their queries at the end."""
    tables = Tables(max(_LEAST_PARTS, round(_PARTS_AT_SCALE_1 * scale)))
    with output.step("starting Spark" if at.startswith("spark:") else "opening the database"):
        vk = viewkeep.connect(at)
    try:
        return _Demo(vk, tables, output).run(at)
    finally:
        with output.waiting("closing"):
            vk.close()


@dataclass(frozen=True)
class _Round:
    """A story, and the statements that tell it to the database."""

    title: str
    statements: Sequence[str]


@dataclass
class _Demo:
    vk: Connection
    tables: Tables
    output: Console
    recompute: dict[str, float] = field(default_factory=dict)

    def run(self, at: str) -> int:
        self._build()
        self._recompute()
        self._rehearse()
        for number, round_ in enumerate(_rounds(self.tables, turn=1), start=1):
            self._play(number, round_)
        equal = self._verify()
        self._show_script()
        self._say_goodbye(at, equal)
        return 0 if equal else 1

    def _build(self) -> None:
        for what, statement in [*self.tables.create(), *self.tables.fill()]:
            with self.output.step(what):
                self.vk.sql(statement)
        for view, query in VIEWS.items():
            self.output.line(
                f"\nCREATE MATERIALIZED VIEW {view} WITH ({_POLICY}) AS\n  {_broken(query)}", style="cyan"
            )
            with self.output.step(f"creating {view}") as update:
                self.vk.progress = update
                self.vk.sql(f"CREATE MATERIALIZED VIEW {view} WITH ({_POLICY}) AS {query}")
            self.vk.progress = lambda _: None

    def _recompute(self) -> None:
        """What a refresh is compared with. The views' creation has warmed the engine up for these queries,
        and the first of the two runs, which is not timed, for writing their results."""
        self.output.line()
        for view in VIEWS:
            method = METHODS[self.vk.engine.name]["recompute"](self.vk, Devices(), view)
            with self.output.step(f"recomputing {view} without viewkeep, for comparison"):
                method.create()
                started = time.perf_counter()
                method.refresh()
                self.recompute[view] = time.perf_counter() - started
                self.vk.sql(f"DROP TABLE {method.relation}")
        self.output.line(
            "  below, `recomputing` is the seconds that the second of two such runs took here: the query "
            "in plain SQL, its whole result written into a table",
            style="dim",
        )

    def _rehearse(self) -> None:
        """Every kind of change once, since recomputing has been run before it is timed, too."""
        taken: dict[str, list[str]] = {view: [] for view in VIEWS}
        with self.output.step("warming up: the three rounds below once before, with other rows") as update:
            self.vk.progress = update
            for round_ in _rounds(self.tables, turn=0):
                for statement in round_.statements:
                    self.vk.sql(statement)
                for refresh in self.vk.refresh(*VIEWS):
                    taken[refresh.view].append(_seconds(refresh.seconds))
        self.vk.progress = lambda _: None
        first = "; ".join(f"{view} {', '.join(seconds)} s" for view, seconds in taken.items())
        self.output.line(
            f"  the first refresh of its kind in a session takes longer, here: {first}; below is the second",
            style="dim",
        )

    def _play(self, number: int, round_: _Round) -> None:
        self.output.line(f"\nround {number}: {round_.title}", style="bold")
        for statement in round_.statements:
            with self.output.step(_shortened(statement)):
                self.vk.sql(statement)
        with self.output.step("refreshing both views") as update:
            self.vk.progress = update
            refreshes = self.vk.refresh(*VIEWS)
        self.vk.progress = lambda _: None
        self._show(refreshes)

    def _show(self, refreshes: Sequence[Refresh]) -> None:
        on_spark = any(refresh.jobs is not None for refresh in refreshes)
        columns = ["view", "strategy", "changes", "rows changed", "seconds", "recomputing", "times faster"]
        if on_spark:
            columns.insert(4, "Spark jobs")
        rows = []
        for refresh in refreshes:
            full = self.recompute[refresh.view]
            row = [
                refresh.view,
                refresh.strategy,
                _why(refresh.reason),
                refresh.rows_changed,
                _seconds(refresh.seconds),
                _seconds(full),
                f"{full / refresh.seconds:.1f}",
            ]
            if on_spark:
                row.insert(4, refresh.jobs)
            rows.append(row)
        self.output.line()
        self.output.table("", columns, rows)

    def _verify(self) -> bool:
        self.output.line()
        equal = True
        for view in VIEWS:
            with self.output.step(f"VERIFY MATERIALIZED VIEW {view}"):
                found = self.vk.verify(view)
            self.output.line(f"  {found}", style="green" if found else "red")
            equal = equal and bool(found)
        return equal

    def _show_script(self) -> None:
        """How a change of prices reaches spj: a diff by pid alone, and no join."""
        explanation = self.vk.explain("spj")
        steps = [(title, sql) for title, sql in explanation.script if "update_rows" in title]
        if not steps:
            self.output.line(f"\n{explanation}")
            return
        self.output.line(
            "\nhow changed prices get into spj: one diff row for each part, and no join", style="bold"
        )
        for title, sql in steps:
            self.output.line(f"\n  {title}")
            for line in sql.splitlines():
                self.output.line(f"    {line}", style="cyan")

    def _say_goodbye(self, at: str, equal: bool) -> None:
        if not equal:
            self.output.error(
                "a view differs from its query", hint="please report this: it must never happen"
            )
            return
        self.output.line("\nBoth views equal their queries. What to try next:", style="bold")
        if _is_temporary(at):
            hints = [("viewkeep demo --at ./shop", "the same, kept, to look around in")]
        else:
            hints = [
                (f"viewkeep status --at {at}", "where the views stand"),
                (f"viewkeep explain spj --at {at}", "the whole delta script, for every kind of change"),
                (
                    f"viewkeep run FILE.sql --at {at}",
                    "statements of your own: change a price, REFRESH, VERIFY",
                ),
            ]
        hints.append(("viewkeep bench devices", "measure it, next to recomputing and tuple-based diffs"))
        width = max(len(command) for command, _ in hints)
        for command, what in hints:
            self.output.line(f"  {command:{width}}  {what}")


def _rounds(tables: Tables, turn: int) -> list[_Round]:
    """Changes that are small next to the tables, of each kind; of other rows for each turn."""
    few = min(_CHANGED, tables.parts // 10)
    some = max(1, few // 4)
    gone_devices = tables.keys("D", some, f"devices that go, {turn}")
    gone_parts = tables.keys("P", some, f"parts that go, {turn}")
    first, last = tables.parts + turn * some, tables.parts + (turn + 1) * some
    phones, watches = (tables.keys("D", some, f"{kind}, {turn}") for kind in ("phones", "watches"))
    links = [f"({tables.key('D', number)}, {tables.key('P', number)})" for number in range(first, last)]
    return [
        _Round(f"{few} prices change", [tables.change_prices(few, f"prices, {turn}")]),
        _Round(
            f"{some} parts and {some} devices come, as many go",
            [
                tables.insert_parts(first, last),
                tables.insert_devices(first, last),
                tables.insert_links(first * 10, last * 10),
                f"INSERT INTO devices_parts VALUES {', '.join(links)}",
                f"DELETE FROM devices_parts WHERE did IN ({gone_devices}) OR pid IN ({gone_parts})",
                f"DELETE FROM devices WHERE did IN ({gone_devices})",
                f"DELETE FROM parts WHERE pid IN ({gone_parts})",
            ],
        ),
        _Round(
            f"{some} devices are recorded as phones, {some} others as watches",
            [
                f"UPDATE devices SET category = 'phone' WHERE did IN ({phones})",
                f"UPDATE devices SET category = 'watch' WHERE did IN ({watches})",
            ],
        ),
    ]


def _broken(query: str) -> str:
    """A query with a line for each clause."""
    for clause in ("FROM", "WHERE", "GROUP BY"):
        query = query.replace(f" {clause} ", f"\n  {clause} ")
    return query


def _shortened(statement: str) -> str:
    """A statement without the rows and the lists of keys that nobody reads."""
    head = re.split(" SELECT | VALUES ", statement)[0]
    return re.sub(r"\(('[^']*'(, )?)+\)", lambda keys: f"({keys[0].count(',') + 1} keys)", head)


def _why(reason: str) -> str:
    """parts: 50 inserted, 50 deleted; devices: 7 updated; propagated as ...  ->  parts +50 -50, devices ~7"""
    changes = reason.partition("; propagated")[0]
    for word, sign in (("inserted", "+"), ("deleted", "-"), ("updated", "~")):
        changes = re.sub(rf"(\d+) {word}", rf"{sign}\1", changes)
    return changes.replace(", ", " ").replace(":", "").replace(";", ",")


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"


def _is_temporary(at: str) -> bool:
    """Whether the warehouse is one that the command made for this run, and removes."""
    return f"{tempfile.gettempdir()}/viewkeep-demo-" in at
