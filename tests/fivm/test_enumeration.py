"""Rows and aggregates of factorized results."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm import order as orders
from viewkeep.fivm.enumeration import aggregate, count, rows, variables_of
from viewkeep.fivm.naive import recompute
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query
from viewkeep.fivm.relational import Factorized
from viewkeep.fivm.rings import Integers
from viewkeep.fivm.tree import Leaf, View, view_tree

from .cases import SHAPES, Batch, Database, cases, random_query, random_rows


def random_factorized(random: Random) -> tuple[Query, Factorized, Database]:
    """A runtime with the free variables of a random query on top, and with its contents."""
    wanted = random_query(random)
    plain = Query(wanted.relations)
    text = _text(orders.chosen(wanted))
    tables = sorted({r.source for r in plain.relations})
    changing = tables if random.random() < 0.5 else tables[:1]
    names = [r.name for r in plain.relations if r.source in changing]
    tree = view_tree(given(plain, text), names, indicators=random.random() < 0.7)
    runtime = Factorized(tree, wanted.free)
    database = Database.random(random, plain)
    runtime.load(database.pairs())
    return wanted, runtime, database


def _text(order: orders.VariableOrder) -> str:
    def of(node: orders.Variable) -> str:
        return f"{node.name} - {{{', '.join(map(of, node.children))}}}" if node.children else node.name

    return ", ".join(map(of, order.roots))


def changes(random: Random, runtime: Factorized, database: Database, number: int) -> Any:
    """Batches that delete only what is there."""
    updatable = sorted({r.source for r in runtime.tree.query.relations if r.name in runtime.tree.updatable})
    for _ in range(number):
        batch: Batch = {}
        for table in updatable:
            there = database.counts[table]
            gone = [
                (row, -random.randint(1, there[row])) for row in random.sample(sorted(there), len(there) // 2)
            ]
            batch[table] = gone + random_rows(random, database.arities[table], 3, 3)
        runtime.apply(batch)
        database.put(batch)
        yield


@cases(200)
def test_rows_and_aggregates_equal_recomputation_after_every_batch(seed: int) -> None:
    random = Random(seed)
    wanted, runtime, database = random_factorized(random)
    lifts = {v: lambda x: 2 * x + 1 for v in wanted.free if random.random() < 0.7}
    for _ in changes(random, runtime, database, 3):
        expected = recompute(wanted, Integers(), database.counts)
        found = list(rows(runtime, wanted.free))
        assert len(found) == len(dict(found))  # each row once
        assert dict(found) == expected
        assert count(runtime) == sum(expected.values())
        assert count(runtime, distinct=True) == len(expected)
        for distinct in (False, True):
            total = 0
            for key, n in expected.items():
                product = 1 if distinct else n
                for name, value in zip(wanted.free, key, strict=True):
                    product *= lifts[name](value) if name in lifts else 1
                total += product
            assert aggregate(runtime, Integers(), lifts, distinct=distinct) == total


@cases(60)
def test_rows_come_sorted_along_the_variable_order(seed: int) -> None:
    random = Random(seed)
    wanted, runtime, _ = random_factorized(random)
    found = [row for row, _ in rows(runtime, ordered=True)]
    assert found == sorted(found)
    assert sorted(variables_of(runtime)) == sorted(wanted.free)


def test_rows_have_the_variables_from_the_root_down() -> None:
    chain = Factorized(view_tree(given(Query(SHAPES[10]), "B - C - A")))
    assert variables_of(chain) == ("B", "C", "A")
    chain.load({"R": [((1, 2, 3), 1), ((0, 5, 3), 2), ((9, 2, 4), 1)]})
    assert list(rows(chain, ordered=True)) == [((2, 3, 1), 1), ((2, 4, 9), 1), ((5, 3, 0), 2)]
    assert variables_of(Factorized(view_tree(given(Query(SHAPES[0]), "A - {B, C - {D, E}}")))) == tuple(
        "ABCDE"
    )


class Counting:
    """A runtime that counts its lookups."""

    def __init__(self, inner: Factorized) -> None:
        self.inner, self.tree, self.free = inner, inner.tree, inner.free
        self.lookups = 0

    def is_inner(self, source: View | Leaf) -> bool:
        return self.inner.is_inner(source)

    def own(self, view: View) -> tuple[str, ...]:
        return self.inner.own(view)

    def lookup(self, view: View, key: Any) -> Any:
        self.lookups += 1
        return self.inner.lookup(view, key)

    def multiplicity(self, source: View | Leaf, key: Any) -> int:
        self.lookups += 1
        return self.inner.multiplicity(source, key)


def star(n: int) -> Counting:
    tree = view_tree(given(Query(SHAPES[9]), "A - {B, C, D}"))
    runtime = Factorized(tree)
    runtime.load({**{t: [((0, i), 1) for i in range(n)] for t in "RST"}, "U": [((0,), 1)]})
    return Counting(runtime)


def test_the_delay_between_rows_does_not_grow_with_the_result() -> None:
    for n in (3, 12):
        runtime = star(n)
        before, longest, number = 0, 0, 0
        for _ in rows(runtime):
            longest, before, number = max(longest, runtime.lookups - before), runtime.lookups, number + 1
        assert number == n**3
        assert longest <= 5  # four views with free variables, and U


def test_an_aggregate_takes_one_pass_over_the_views() -> None:
    small, large = star(3), star(12)
    assert count(small) == 27
    assert count(large) == 12**3
    assert small.lookups == large.lookups == 5
    # ten C-values with the same B-value: what is below that is computed once
    tree = view_tree(given(Query(SHAPES[3][:3]), "C - {B - A, D}"))
    runtime = Factorized(tree)
    runtime.load(
        {
            "R": [((a, 0), 1) for a in range(9)],
            "S": [((0, c), 1) for c in range(10)],
            "T": [((c, 0), 1) for c in range(10)],
        }
    )
    counting = Counting(runtime)
    assert count(counting) == 90
    # the root; B and D below each C; S for each pair of them; and R's view once
    assert counting.lookups == 1 + 10 + 10 + 10 + 1


def test_rows_over_other_variables_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"rows over \(A, B\) are no rows of the result"):
        next(rows(star(1), ("A", "B")))
