"""The experiments of figure 12 of the idIVM paper (Katsis et al., SIGMOD 2015, section 7): the cost of
devices, kept by ID-based and tuple-based diffs, and by tuple-based diffs with DBToaster's intermediate views.

Four parameters, of which each figure varies one: the size d of the change (12a), the number j of joins (12b),
the selectivity s of the selection, in percent (12c), and the fan-out f from devices to parts (12d).

DBToaster keeps, for each table that may change, the join of all others. `fixed` assumes that only prices
change: the join of the others is a table, and stays as it is. `streams` assumes that all tables may change:
the joins that leave out another table have prices in them, so they are maintained along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from viewkeep.bench.keys import mixed, shuffled
from viewkeep.bench.methods import METHODS, Maintained, Method
from viewkeep.connection import Connection
from viewkeep.results import Refresh

PARTS_AT_SCALE_1 = 5_000_000  # figure 11a
Measurement = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """The parameters of one measurement, with the defaults of figure 11b."""

    parts: int
    d: int = 200
    j: int = 2
    s: int | None = 20
    """None: without the selection."""
    f: int = 10

    @property
    def links(self) -> int:
        """The rows of devices_parts."""
        return self.parts // self.f * self.f * self.f  # as many devices as parts, but for a rest

    @property
    def others(self) -> tuple[str, ...]:
        """The tables that devices_parts is joined with one to one, past the joins of the running example."""
        return tuple(f"r{n}" for n in range(1, self.j - 1))

    @property
    def condition(self) -> str:
        """The selection. A hundred buckets of devices stand for the paper's categories, so that any share of
        them can be the phones."""
        return "" if self.s is None else f"WHERE bucket < {self.s}"

    def joined(self, *left_out: str) -> str:
        """The join of all tables but some, with the selection if devices is among them."""
        tables = [t for t in ("parts", "devices_parts", "devices", *self.others) if t not in left_out]
        return f"{' NATURAL JOIN '.join(tables)} {self.condition if 'devices' in tables else ''}"

    @property
    def query(self) -> str:
        """The view."""
        return f"SELECT did, SUM(price) AS cost FROM {self.joined()} GROUP BY did"


@dataclass(frozen=True)
class Figure:
    """Which parameter a figure varies, and over which values."""

    parameter: str
    about: str
    values: tuple[int, ...]


FIGURES: Mapping[str, Figure] = {
    # the paper's plot stops at 500; the rest is there to see where recomputing wins
    "12a": Figure("d", "changed prices", (100, 200, 300, 400, 500, 2_000, 8_000, 32_000, 128_000)),
    "12b": Figure("j", "joins", (2, 3, 4, 5, 6)),
    "12c": Figure("s", "selectivity in percent", (6, 12, 25, 50, 100)),
    "12d": Figure("f", "parts of a device", (5, 10, 15, 20, 25)),
}


def points(figure: str, parts: int) -> Iterator[tuple[int, Point]]:
    """The values of a figure's parameter that these tables have room for, with all parameters."""
    asked = FIGURES[figure]
    for value in asked.values:
        point = replace(Point(parts), **{asked.parameter: value})
        if figure == "12b":
            point = replace(point, s=None)  # so it is in the paper: to see what joins alone do
        if point.d <= parts // 2:
            yield value, point


def tables(point: Point) -> list[str]:
    """The statements that make and fill the tables, from row numbers alone."""
    share = point.parts // point.f
    links = f"(SELECT {shuffled('id', point.links)} AS n FROM range(0, {point.links}) AS t(id)) AS r"
    did, pid = f"n DIV {point.f}", f"n % {point.f} * {share} + {mixed('n', 3)} % {share}"
    price = f"CAST((100 + {mixed('id', 1)} % 99900) * 0.01 AS DECIMAL(10,2))"
    bucket, numbers = f"CAST({mixed('id', 2)} % 100 AS INT)", f"range(0, {point.parts}) AS t(id)"
    rows = [
        ("parts", "pid BIGINT, price DECIMAL(10,2)", "pid", f"id, {price} FROM {numbers}"),
        ("devices", "did BIGINT, bucket INT", "did", f"id, {bucket} FROM {numbers}"),
        ("devices_parts", "did BIGINT, pid BIGINT", "did, pid", f"{did}, {pid} FROM {links}"),
    ]
    for name in point.others:
        columns = f"did BIGINT, pid BIGINT, x_{name} INT"
        rows.append((name, columns, "did, pid", f"{did}, {pid}, CAST(n % 7 AS INT) FROM {links}"))
    # keys come last: to sort once is quicker than to find a place for each row
    return [
        statement
        for name, columns, key, query in rows
        for statement in (
            f"CREATE TABLE {name} ({columns})",
            f"INSERT INTO {name} SELECT {query}",
            f"ALTER TABLE {name} ADD PRIMARY KEY ({key})",
        )
    ]


def change(point: Point, number: int) -> str:
    """One UPDATE of d prices, scattered over the keys; others for each number."""
    step = point.parts // point.d
    turned = f"(pid + {number * 7919 % point.parts}) % {point.parts}"
    picked = f"{turned} % {step} = 0 AND ({turned}) DIV {step} < {point.d}"
    return f"UPDATE parts SET price = CAST(price + 0.01 AS DECIMAL(10,2)) WHERE {picked}"


class Simulated:
    """DBToaster's intermediate views, with tuple-based diffs of updates, as the paper simulates them."""

    def __init__(self, vk: Connection, point: Point, name: str) -> None:
        self._vk, self._point = vk, point
        self.view, self.name, self.relation = "cost", name, f"cost_{name}"
        left_out = ("devices", *point.others) if name == "streams" else ()
        self._kept = {f"{self.relation}_without_{table}": table for table in left_out}
        self._last: Sequence[Refresh] = ()
        self._query = f"SELECT did, SUM(price) AS cost FROM parts NATURAL JOIN {self.relation}_m GROUP BY did"
        self._checked = Maintained(vk, "cost", point.query, name, exact=True)

    def create(self) -> None:
        sql, others = self._vk.sql, f"{self.relation}_m"
        sql(f"CREATE TABLE {others} (did BIGINT, pid BIGINT, PRIMARY KEY (did, pid))")
        sql(f"INSERT INTO {others} SELECT did, pid FROM {self._point.joined('parts')}")
        make = "CREATE MATERIALIZED VIEW {} WITH (strategy = 'tuple') AS {}"
        sql(make.format(self.relation, self._query))
        for name, table in self._kept.items():
            sql(make.format(name, f"SELECT did, pid, price FROM {self._point.joined(table)}"))

    def refresh(self) -> None:
        self._last = self._vk.refresh(self.relation, *self._kept)

    def facts(self) -> Measurement:
        """The seconds of the view's own phases; all that is done for the others is to keep caches."""
        own, *others = self._last
        phases = dict(own.phases)
        phases["caches"] = phases.get("caches", 0.0) + sum(done.seconds for done in others)
        made: Measurement = {"phases": {name: round(seconds, 6) for name, seconds in phases.items()}}
        made |= {"changes": own.changes_in, "rows_changed": own.rows_changed}
        if own.lookups is not None:
            made["lookups"] = sum(done.lookups or 0 for done in self._last)
            made["rows_read"] = sum(done.rows_read or 0 for done in self._last)
        return made

    def problem(self) -> str:
        return self._checked.problem()

    def drop(self) -> None:
        """Takes back what was created."""
        for name in (self.relation, *self._kept):
            self._vk.sql(f"DROP MATERIALIZED VIEW {name}")
        self._vk.sql(f"DROP TABLE {self.relation}_m")


def methods(vk: Connection, point: Point) -> list[Method]:
    """The columns of figure 12, and recomputing."""
    maintained = [Maintained(vk, "cost", point.query, strategy, exact=True) for strategy in ("id", "tuple")]
    simulated = [Simulated(vk, point, name) for name in ("fixed", "streams")]
    recompute = METHODS[vk.engine.name]["recompute"](vk, _Query(point.query), "cost")  # type: ignore[arg-type]
    return [*maintained, *simulated, recompute]


@dataclass(frozen=True)
class _Query:
    """As much of a workload as recomputing asks for."""

    query: str

    @property
    def views(self) -> Mapping[str, str]:
        return {"cost": self.query}

    @property
    def recomputes(self) -> Mapping[str, str]:
        return {}
