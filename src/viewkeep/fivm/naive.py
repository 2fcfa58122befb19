"""The result of a query from its rows alone, by nested loops: what every runtime must equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from viewkeep.fivm.query import Query
from viewkeep.fivm.rings import P, Ring, zero_test

Key = tuple[Hashable, ...]


def recompute(
    query: Query,
    ring: Ring[P],
    tables: Mapping[str, Mapping[Key, P]],
    lifts: Mapping[str, Callable[[Any], P]] | None = None,
) -> dict[Key, P]:
    """The groups and payloads of a query over tables of rows with payloads. Factors are taken in the order in
    which the query names relations, then lifts in the order of its variables. No view tree has a part in
    it."""
    lifts = lifts or {}
    found: dict[Key, P] = {}

    def extend(number: int, values: dict[str, Hashable], payload: P) -> None:
        if number == len(query.relations):
            for variable in query.bound:
                if variable in lifts:
                    payload = ring.multiply(payload, lifts[variable](values[variable]))
            key = tuple(values[v] for v in query.free)
            found[key] = ring.add(found.get(key, ring.zero), payload)
            return
        relation = query.relations[number]
        for row, factor in tables.get(relation.source, {}).items():
            own = dict(zip(relation.schema, row, strict=True))
            if all(values.get(v, x) == x for v, x in own.items()):
                extend(number + 1, {**values, **own}, ring.multiply(payload, factor))

    extend(0, {}, ring.one)
    is_zero = zero_test(ring)
    return {key: payload for key, payload in found.items() if not is_zero(payload)}
