"""The running example of the idIVM paper (Katsis et al., SIGMOD 2015): devices, parts, and their prices.

Every device has ten parts and a fifth of the devices are phones, so a part that changes its price touches
two rows of each view, give or take. Keys are strings of one width, as in the paper.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viewkeep.bench.keys import mixed, scattered, shuffled
from viewkeep.bench.workload import MergeJob

PARTS_PER_DEVICE = 10
_LITERALS = 10_000
_PARTS_AT_SCALE_1 = 1_000_000
_JOINED = "FROM parts NATURAL JOIN devices_parts NATURAL JOIN devices WHERE category = 'phone'"
VIEWS = {
    "spj": f"SELECT did, pid, price {_JOINED}",
    "cost": f"SELECT did, SUM(price) AS cost {_JOINED} GROUP BY did",
}

# Both jobs are written for changes of prices alone, which suits them: a job that had to cope with any change
# of any of the three tables would be several times as long, and slower. The hints say what Spark cannot
# know, that the changes are few; without them it would shuffle all of devices_parts.
_TOUCHED = """\
SELECT /*+ BROADCAST(linked) */ linked.did, {columns}
FROM (
  SELECT /*+ BROADCAST(changes) */ devices_parts.did, changes.*
  FROM changes JOIN devices_parts ON devices_parts.pid = changes.pid
) AS linked JOIN devices ON devices.did = linked.did
WHERE devices.category = 'phone'"""
MERGES = {
    "spj": MergeJob(
        "parts",
        "SELECT pid, max_by(price, _commit_version) AS price FROM feed "
        "WHERE _change_type = 'update_postimage' GROUP BY pid",
        f"MERGE INTO {{target}} AS t USING ({_TOUCHED.format(columns='linked.pid, linked.price')}) AS s "
        "ON t.did = s.did AND t.pid = s.pid WHEN MATCHED THEN UPDATE SET price = s.price",
    ),
    "cost": MergeJob(
        "parts",
        "SELECT pid, SUM(CASE WHEN _change_type = 'update_preimage' THEN -price ELSE price END) AS more "
        "FROM feed GROUP BY pid",
        f"MERGE INTO {{target}} AS t USING ({_TOUCHED.format(columns='SUM(linked.more) AS more')} "
        "GROUP BY linked.did) AS s "
        "ON t.did = s.did WHEN MATCHED THEN UPDATE SET cost = t.cost + s.more",
    ),
}


# The few devices that are phones first, and not sorted: Spark joins in the order in which tables are written,
# and would sort all of devices_parts by two columns in turn.
_PHONES_FIRST = """\
SELECT {columns} FROM (
  SELECT /*+ BROADCAST(phones) */ devices_parts.did, devices_parts.pid
  FROM devices_parts JOIN (SELECT did FROM devices WHERE category = 'phone') AS phones
  ON phones.did = devices_parts.did
) AS linked JOIN parts ON parts.pid = linked.pid"""
RECOMPUTES = {
    "spj": _PHONES_FIRST.format(columns="linked.did, linked.pid, parts.price"),
    "cost": _PHONES_FIRST.format(columns="linked.did, SUM(parts.price) AS cost") + " GROUP BY linked.did",
}


@dataclass(frozen=True)
class Tables:
    """The three tables with a number of parts, as many devices, and ten times as many devices_parts."""

    parts: int
    integer_keys: bool = False

    def create(self) -> list[tuple[str, str]]:
        """The statements that make the tables."""
        key = "BIGINT" if self.integer_keys else "STRING"
        made = [
            ("parts", f"pid {key}, price DECIMAL(10,2), PRIMARY KEY (pid)"),
            ("devices", f"did {key}, category STRING, PRIMARY KEY (did)"),
            ("devices_parts", f"did {key}, pid {key}, PRIMARY KEY (did, pid)"),
        ]
        return [(f"creating {name}", f"CREATE TABLE {name} ({columns})") for name, columns in made]

    def fill(self) -> list[tuple[str, str]]:
        """The statements that fill them, from row numbers alone: the same rows each time."""
        return [
            (f"filling parts: {self.parts:,} rows", self.insert_parts(0, self.parts)),
            (f"filling devices: {self.parts:,} rows", self.insert_devices(0, self.parts)),
            (
                f"filling devices_parts: {self.links:,} rows",
                self.insert_links(0, self.links, shuffled("id", self.links)),
            ),
        ]

    @property
    def links(self) -> int:
        """The rows of devices_parts."""
        return self.parts * PARTS_PER_DEVICE

    def insert_parts(self, start: int, end: int) -> str:
        """Parts by number, each with a price from 1.00 to 999.99."""
        price = f"CAST((100 + {mixed('id', 1)} % 99900) * 0.01 AS DECIMAL(10,2))"
        return f"INSERT INTO parts SELECT {self._key('P', 'id')}, {price} FROM range({start}, {end}) AS t(id)"

    def insert_devices(self, start: int, end: int) -> str:
        """Devices by number, every fifth or so a phone."""
        kinds = enumerate(("tablet", "laptop", "camera", "watch"), start=1)
        others = " ".join(f"WHEN {n} THEN '{kind}'" for n, kind in kinds)
        category = f"CASE {mixed('id', 2)} % 5 {others} ELSE 'phone' END"
        return (
            f"INSERT INTO devices SELECT {self._key('D', 'id')}, {category} "
            f"FROM range({start}, {end}) AS t(id)"
        )

    def insert_links(self, start: int, end: int, number: str = "id") -> str:
        """Rows of devices_parts by number: ten in a row belong to one device, each with a part from another
        tenth of the parts, so that no device has a part twice."""
        tenth = self.parts // PARTS_PER_DEVICE
        part = f"n % {PARTS_PER_DEVICE} * {tenth} + {mixed('n', 3)} % {tenth}"
        return (
            f"INSERT INTO devices_parts SELECT {self._key('D', f'n DIV {PARTS_PER_DEVICE}')}, "
            f"{self._key('P', part)} FROM (SELECT {number} AS n FROM range({start}, {end}) AS t(id)) AS r"
        )

    def change_prices(self, count: int, seed: str) -> str:
        """One UPDATE of prices, scattered over the keys. Literals, since Delta takes no subquery there; for
        more than a statement should have, a condition that as many keys meet."""
        if count <= _LITERALS:
            picked = f"pid IN ({self.keys('P', count, seed)})"
        else:
            number = "pid" if self.integer_keys else "CAST(substring(pid, 2) AS BIGINT)"
            picked = scattered(number, self.parts, random.Random(seed).randrange(self.parts), count)
        return f"UPDATE parts SET price = CAST(price + 0.01 AS DECIMAL(10,2)) WHERE {picked}"

    def keys(self, prefix: str, count: int, seed: str) -> str:
        """Some keys of the tables as filled, drawn by the seed, as a list of literals."""
        drawn = random.Random(seed).sample(range(self.parts), count)
        return ", ".join(self.key(prefix, number) for number in drawn)

    def key(self, prefix: str, number: int) -> str:
        """A key as a literal."""
        return str(number) if self.integer_keys else f"'{prefix}{number:0{self._width}}'"

    def _key(self, prefix: str, number: str) -> str:
        if self.integer_keys:
            return number
        return f"concat('{prefix}', lpad(CAST({number} AS STRING), {self._width}, '0'))"

    @property
    def _width(self) -> int:
        # seven digits, or more where the tables are larger or are about to grow
        return max(7, len(str(2 * self.parts)))


@dataclass(frozen=True)
class Devices:
    """The tables as a workload: scale 1 is 1M parts, 1M devices, 10M devices_parts."""

    scale: float = 1
    integer_keys: bool = False

    @property
    def views(self) -> Mapping[str, str]:
        return VIEWS

    @property
    def methods(self) -> Sequence[str]:
        return ("id", "tuple", "recompute", "merge")

    @property
    def sizes(self) -> Sequence[str]:
        return ("200",)

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        return MERGES

    @property
    def recomputes(self) -> Mapping[str, str]:
        return RECOMPUTES

    @property
    def some_rows(self) -> Mapping[str, str]:
        return dict.fromkeys(VIEWS, f"did IN ({self._tables.keys('D', 10, 'some rows')})")

    @property
    def largest(self) -> str:
        return "devices_parts"

    @property
    def changing(self) -> Sequence[str]:
        return ("parts",)

    @property
    def changeable(self) -> int:
        return self._tables.parts

    @property
    def exact(self) -> bool:
        return True

    def prepare(self, folder: Path) -> None:
        """Nothing: the engine makes the rows from numbers."""

    def load(self, engine: str, folder: Path) -> Sequence[tuple[str, str]]:
        return [*self._tables.create(), *self._tables.fill()]

    def change(self, rows: int, number: int) -> Sequence[str]:
        return [self._tables.change_prices(rows, f"{rows} rows, change {number}")]

    @property
    def _tables(self) -> Tables:
        return Tables(max(PARTS_PER_DEVICE, round(_PARTS_AT_SCALE_1 * self.scale)), self.integer_keys)
