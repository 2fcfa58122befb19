"""Rows that come as sums leave the same behind as rows that come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.fivm.test_compiled import QUERIES, changes, columns
from viewkeep.errors import TypeMismatch
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.compiled.summing import Summed
from viewkeep.fivm.order import chosen
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree


def summed(
    runtime: CompiledRuntime, relation: Relation, batch: Sequence[tuple[Any, ...]], times: Sequence[int]
) -> tuple[Any, Any]:
    """A batch as whoever sums it up hands it over: sums, or equal rows with how many there are."""
    summing = runtime.summing(relation.name)
    at = {v: i for i, v in enumerate(relation.schema)}
    found: dict[tuple[Any, ...], list[int]] = {}
    for row, n in zip(batch, times, strict=True):
        sums = found.setdefault(tuple(row[at[v]] for v in summing.keys), [0] * len(summing.products))
        for i, product in enumerate(summing.products):
            sums[i] += n * prod(row[at[v]] for v in product)
    keys = {v: [key[i] for key in found] for i, v in enumerate(summing.keys)}
    sums = [np.array([row[i] for row in found.values()]) for i in range(len(summing.products))]
    if not summing.lifted:
        return keys, sums[0]
    largest = {v: max(abs(row[at[v]]) for row in batch) for v in summing.lifted}
    return Summed(summing, {v: pa.array(column) for v, column in keys.items()}, sums, largest), 1


def shown(runtime: CompiledRuntime) -> dict[tuple[Any, ...], list[float]]:
    return {key: list(row) for key, row in runtime.result().items()}


def rings(query: Query) -> list[Ring]:
    some = query.bound[-2:]
    return [
        Cofactor(query.bound),
        Sums(((), query.bound, some, some * 2)),
        Sums((some, ()), exact=True),
        Cofactor(query.bound, {query.bound[-1]: 50, query.bound[0]: 50}),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", QUERIES)
def test_sums_equal_rows(name: str, number: int) -> None:
    query = QUERIES[name]
    ring = rings(query)[number]
    one, other = (CompiledRuntime(view_tree(chosen(query)), ring, interpret=True) for _ in range(2))
    for table, batch, times, _ in changes(query, seed=5, rounds=25):
        one.update(table, columns(query, table, batch), np.array(times))
        if len(query.of_table(table)) > 1:
            other.update(table, columns(query, table, batch), np.array(times))
        else:
            other.update(table, *summed(other, query.of_table(table)[0], batch, times))
        assert shown(one) == shown(other)
    assert one.sizes() == other.sizes()


STAR = Query((Relation("R", ("k", "x")), Relation("S", ("k", "y"))))


def test_sums_that_do_not_fit_are_taken_back() -> None:
    runtime = CompiledRuntime(view_tree(chosen(STAR)), Sums((("x", "y"), ()), exact=True), interpret=True)
    r, s = STAR.relations
    assert runtime.summing("R").products == ((), ("x",))
    runtime.update("R", *summed(runtime, r, [(1, 3), (1, 4)], [1, 1]))
    runtime.update("S", *summed(runtime, s, [(1, 5)], [1]))
    with pytest.raises(TypeMismatch, match="64 bits"):
        runtime.apply(
            {
                "R": summed(runtime, r, [(1, 1), (2, 1)], [1, 1]),
                "S": summed(runtime, s, [(2, 7), (1, 2**62)], [1, 1]),
            }
        )
    assert shown(runtime) == {(): [35, 2]}
    runtime.update("R", *summed(runtime, r, [(1, 3)], [-1]))
    assert shown(runtime) == {(): [20, 1]}


def test_a_value_that_no_sum_may_have_changes_nothing() -> None:
    runtime = CompiledRuntime(view_tree(chosen(STAR)), Cofactor(("x", "y")), interpret=True)
    batch, times = summed(runtime, STAR.relations[0], [(1, float("nan"))], [1])
    with pytest.raises(TypeMismatch, match="x has a value"):
        runtime.update("R", batch, times)
    assert shown(runtime) == {}
