"""Random view trees, rings and changes: a compiled runtime has what the join gives after every batch, also with
keys dropped, snapshots taken, relations that do not change, and NULLs, strings and doubles as keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.compiled.snapshot import restore, save
from viewkeep.fivm.order import chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import ViewTree, view_tree

Rows = dict[str, list[tuple[Any, ...]]]
TYPES = {"int": pa.int64(), "string": pa.string(), "double": pa.float64()}


@dataclass(frozen=True)
class Case:
    tree: ViewTree
    ring: Ring
    kinds: dict[str, str]

    def value(self, random: Random, variable: str) -> Any:
        if random.random() < 0.07:
            return None
        number = random.randrange(3)
        return {"int": number, "string": f"s{number}", "double": number + 0.5}[self.kinds[variable]]

    def row(self, random: Random, relation: Relation) -> tuple[Any, ...]:
        return tuple(self.value(random, v) for v in relation.schema)

    def table(self, relation: Relation, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = {v: [row[i] for row in rows] for i, v in enumerate(relation.schema)}
        return pa.table({v: pa.array(column, TYPES[self.kinds[v]]) for v, column in columns.items()})


def case(random: Random) -> Case:
    names = "ABCDEF"[: random.randint(3, 6)]
    count = random.randint(1, 4)
    schemas = [tuple(random.sample(names, random.randint(1, min(4, len(names))))) for _ in range(count)]
    relations = tuple(Relation(f"R{i}", schema) for i, schema in enumerate(schemas))
    variables = Query(relations).variables
    query = Query(relations, tuple(v for v in variables if random.random() < 0.3))
    lifted = tuple(v for v in query.bound if random.random() < 0.6)
    kinds = {
        v: "int" if v in lifted or random.random() < 0.6 else random.choice(["string", "double"])
        for v in variables
    }
    ring: Ring
    if lifted and random.random() < 0.4:
        categories = {v: 5 for v in lifted if random.random() < 0.3}
        kinds |= {v: random.choice(["int", "string"]) for v in categories}
        ring = Cofactor(lifted, categories)
    else:
        products = [
            tuple(random.choices(lifted, k=random.randint(0, 3))) if lifted else ()
            for _ in range(random.randint(1, 3))
        ]
        ring = Sums(tuple(products), exact=random.random() < 0.5)
    names_of = [r.name for r in relations]
    changing = random.sample(names_of, random.randint(1, count)) if random.random() < 0.3 else None
    return Case(view_tree(chosen(query), changing, indicators=random.random() < 0.7), ring, kinds)


def joined(case: Case, rows: Rows) -> Iterator[dict[str, Any]]:
    """The rows of the join that count."""
    query = case.tree.query
    shared = {v for v in query.variables if sum(v in r.schema for r in query.relations) > 1}
    needed = shared | set(case.ring.lifted)
    found: list[dict[str, Any]] = [{}]
    for r in query.relations:
        there = [dict(zip(r.schema, row, strict=True)) for row in rows[r.name]]
        there = [row for row in there if all(row[v] is not None for v in needed & set(r.schema))]
        found = [
            {**one, **row} for one in found for row in there if all(one.get(v, row[v]) == row[v] for v in row)
        ]
    yield from found


def expected(case: Case, rows: Rows) -> dict[Any, float]:
    found: dict[Any, float] = {}

    def add(at: Any, x: float) -> None:
        found[at] = found.get(at, 0) + x

    for row in joined(case, rows):
        key = tuple(row[v] for v in case.tree.query.free)
        if isinstance(case.ring, Sums):
            for i, product in enumerate(case.ring.products):
                add((key, i), prod(row[v] for v in product))
            continue
        columns = {
            f"{v}={row[v]}" if v in case.ring.categories else v: 1 if v in case.ring.categories else row[v]
            for v in case.ring.columns
        }
        add((key, "n"), 1)
        for name, x in columns.items():
            add((key, name), x)
            for other, y in columns.items():
                add((key, name, other), x * y)
    return {at: x for at, x in found.items() if x}


def shown(case: Case, runtime: CompiledRuntime) -> dict[Any, float]:
    found: dict[Any, float] = {}
    for key, row in runtime.result().items():
        if isinstance(case.ring, Sums):
            found |= {(key, i): float(x) for i, x in enumerate(row)}
            continue
        one = runtime.cofactors(key)
        found[key, "n"] = one.count
        for i, name in enumerate(one.columns):
            found[key, name] = one.sums[i]
            found |= {(key, name, other): one.matrix[i, k] for k, other in enumerate(one.columns)}
    return {at: x for at, x in found.items() if x}


@pytest.mark.parametrize("seed", range(20))
def test_random_trees(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    one = case(random)
    relations = one.tree.query.relations
    runtime = CompiledRuntime(one.tree, one.ring, interpret=True)
    rows: Rows = {r.name: [one.row(random, r) for _ in range(random.randint(0, 5))] for r in relations}
    runtime.load({r.name: one.table(r, rows[r.name]) for r in relations})
    assert shown(one, runtime) == expected(one, rows)
    for _ in range(8):
        changes = {}
        for r in relations:
            if r.name not in one.tree.updatable or random.random() < 0.4:
                continue
            own = rows[r.name]
            gone = [own.pop(random.randrange(len(own))) for _ in range(random.randint(0, len(own)))]
            new = [one.row(random, r) for _ in range(random.randint(0, 5))]
            own += new
            times = np.array([-1] * len(gone) + [1] * len(new), np.int64)
            changes[r.name] = one.table(r, gone + new), times
        runtime.apply(changes)
        if random.random() < 0.3:
            runtime.compact()
        if random.random() < 0.15:
            save(runtime, tmp_path / "snapshot")
            runtime, _ = restore(tmp_path / "snapshot", interpret=True)
        assert shown(one, runtime) == expected(one, rows)


def test_a_change_that_is_joined_along_two_views_at_once() -> None:
    """Where only R changes nothing is gathered at the first view; what the second iterates over had no names."""
    relations = (
        Relation("R", ("E", "F", "B")),
        Relation("S", ("F", "E", "B")),
        Relation("T", ("C", "B", "F")),
    )
    query = Query(relations, ("C",))
    order = given(query, "F - B - {C, E}")
    for tree in (view_tree(chosen(query), ["R"]), view_tree(order, ["R"])):
        runtime = CompiledRuntime(tree, Sums((("F", "B", "E"),), exact=True), interpret=True)
        runtime.load(
            {
                "R": {"E": [2], "F": [3], "B": [5]},
                "S": {"F": [3, 3], "E": [2, 4], "B": [5, 5]},
                "T": {"C": [7, 8], "B": [5, 5], "F": [3, 3]},
            }
        )
        runtime.update("R", {"E": [4], "F": [3], "B": [5]})
        assert {k: list(v) for k, v in runtime.result().items()} == {(7,): [90], (8,): [90]}
