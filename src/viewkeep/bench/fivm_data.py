"""The data of the F-IVM benchmarks, made here: Housing by its published rules, a retailer-like snowflake, and
a graph with a power-law of degrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewkeep.fivm.query import Query, Relation

Columns = dict[str, Any]

HOUSING = {
    "House": [
        "livingarea",
        "price",
        "nbbedrooms",
        "nbbathrooms",
        "kitchensize",
        "house",
        "flat",
        "unknown",
        "garden",
        "parking",
    ],
    "Shop": ["openinghoursshop", "pricerangeshop", "sainsburys", "tesco", "ms"],
    "Institution": ["typeeducation", "sizeinstitution"],
    "Restaurant": ["openinghoursrest", "pricerangerest"],
    "Demographics": ["averagesalary", "crimesperyear", "unemployment", "nbhospitals"],
    "Transport": ["nbbuslines", "nbtrainstations", "distancecitycentre"],
}
RETAILER_SIZES = {
    "Inventory": 2_000_000,
    "Weather": 1_160_000,
    "Item": 5_618,
    "Location": 1_317,
    "Census": 1_302,
}


@dataclass(frozen=True)
class Data:
    """A query and the rows of its relations, in the order in which they arrive."""

    query: Query
    tables: Mapping[str, Columns]

    def rows(self, table: str) -> int:
        return len(next(iter(self.tables[table].values())))

    @property
    def total(self) -> int:
        return sum(self.rows(table) for table in self.tables)

    def batches(self, size: int) -> Iterator[tuple[str, Columns]]:
        """All rows in batches of one table each; tables take turns until each is at its end."""
        starts = dict.fromkeys(self.tables, 0)
        while starts:
            for table in list(starts):
                at = starts[table]
                columns = self.tables[table]
                yield table, {name: column[at : at + size] for name, column in columns.items()}
                starts[table] = at + size
                if at + size >= self.rows(table):
                    del starts[table]


def housing(scale: int, postcodes: int = 25_000, seed: int = 1) -> Data:
    """Houses and what is around them, by postcode; `scale` is the number of houses in each."""
    random = np.random.default_rng(seed)
    counts = {
        "House": scale,
        "Shop": scale,
        "Institution": max(1, int(np.log2(scale + 1))),
        "Restaurant": (scale + 1) // 2,
        "Demographics": 1,
        "Transport": 1,
    }
    flags = {"house", "flat", "unknown", "garden", "parking", "sainsburys", "tesco", "ms"}
    few = {"nbbedrooms": 5, "nbbathrooms": 3, "typeeducation": 6, "pricerangeshop": 4, "pricerangerest": 4}
    tables = {}
    for table, names in HOUSING.items():
        rows = postcodes * counts[table]
        postcode = np.repeat(np.arange(postcodes), counts[table])
        columns: Columns = {"postcode": random.permutation(postcode)}
        for name in names:
            most = 2 if name in flags else few.get(name, 1000)
            columns[name] = random.integers(0 if name in flags else 1, most + (name not in flags), rows)
        tables[table] = {name: column.astype(np.int64) for name, column in columns.items()}
    query = Query(tuple(Relation(t, ("postcode", *names)) for t, names in HOUSING.items()))
    return Data(query, tables)


def retailer(scale: float = 1.0, seed: int = 1) -> Data:
    """A snowflake around an inventory: what stock a shop has of an item on a day, with the weather there, the
    shop, and the people around it."""
    random = np.random.default_rng(seed)
    locations, zips = RETAILER_SIZES["Location"], RETAILER_SIZES["Census"]
    items = RETAILER_SIZES["Item"]
    weather = int(RETAILER_SIZES["Weather"] * scale)
    inventory = int(RETAILER_SIZES["Inventory"] * scale)
    days = -(-weather // locations)
    pairs = random.permutation(locations * days)[:weather]
    seen = random.integers(0, weather, inventory)

    def columns(stem: str, number: int, rows: int) -> Columns:
        return {f"{stem}{i + 1}": random.integers(0, 100, rows) for i in range(number)}

    tables = {
        "Inventory": {
            "locn": pairs[seen] // days,
            "dateid": pairs[seen] % days,
            "ksn": random.integers(0, items, inventory),
            "inventoryunits": random.integers(0, 50, inventory),
        },
        "Weather": {"locn": pairs // days, "dateid": pairs % days, **columns("weather", 6, weather)},
        "Item": {"ksn": random.permutation(items), **columns("item", 4, items)},
        "Location": {
            "locn": random.permutation(locations),
            "zip": random.integers(0, zips, locations),
            **columns("location", 13, locations),
        },
        "Census": {"zip": random.permutation(zips), **columns("census", 15, zips)},
    }
    query = Query(tuple(Relation(table, tuple(found)) for table, found in tables.items()))
    return Data(query, tables)


def triangles(edges: int = 300_000, nodes: int = 30_000, seed: int = 1) -> Data:
    """A graph cut into three relations, with few nodes of many edges and many of few."""
    random = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, nodes + 1) ** 0.6
    chance = weight / weight.sum()
    names = random.permutation(nodes)
    found: set[tuple[int, int]] = set()
    while len(found) < edges:
        ends = names[random.choice(nodes, (edges, 2), p=chance)]
        found.update((int(a), int(b)) for a, b in ends if a != b)
    every = random.permutation(np.array(sorted(found), dtype=np.int64))[:edges]
    third = edges // 3
    tables = {}
    for number, (table, schema) in enumerate({"R": "AB", "S": "BC", "T": "CA"}.items()):
        part = every[number * third : (number + 1) * third]
        tables[table] = {
            schema[0]: np.ascontiguousarray(part[:, 0]),
            schema[1]: np.ascontiguousarray(part[:, 1]),
        }
    return Data(Query(tuple(Relation(t, tuple(c)) for t, c in tables.items())), tables)
