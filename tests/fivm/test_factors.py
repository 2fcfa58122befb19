"""Changes that are products, and products that are found in changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from itertools import product as combinations
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.fivm import decomposition, generic
from viewkeep.fivm.decomposition import decompose, pays
from viewkeep.fivm.factors import Factor, Product, advanced, expanded
from viewkeep.fivm.generic import GenericRuntime
from viewkeep.fivm.naive import recompute
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.regression import Regression
from viewkeep.fivm.rings import BadLift, Integers, Rationals, Reals, RingProblem
from viewkeep.fivm.storage import Stored
from viewkeep.fivm.tree import view_tree

from .cases import SHAPES, Database, batches, cases, random_query, random_tree, updatable_tables
from .test_generic import RINGS, Matrices, tree_of, weighed


def random_product(random: Random, schema: tuple[str, ...], values: int = 3) -> Product[Any]:
    """A product over a random partition of a schema."""
    left = list(schema)
    random.shuffle(left)
    factors = []
    while left:
        size = random.randint(1, len(left))
        own, left = tuple(left[:size]), left[size:]
        keys = [tuple(random.randrange(values) for _ in own) for _ in range(random.randint(1, 3))]
        factors.append(Factor(own, {key: random.choice((-1, 1, 1, 2)) for key in keys}))
    return Product(tuple(factors))


@cases(300)
def test_products_equal_recomputation_after_every_change(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    tree = random_tree(random, query)
    ring, lift = random.choice(RINGS)
    lifts = {} if lift is None else {v: lift for v in query.bound if random.random() < 0.7}
    database = Database.random(random, query, rows=9)
    runtime = GenericRuntime(tree, ring, lifts)
    runtime.load(database.pairs())
    for _ in range(4):
        table = random.choice(updatable_tables(tree))
        schema = query.of_table(table)[0].schema
        sum_of = [random_product(random, schema) for _ in range(random.choice((1, 1, 2, 3)))]
        runtime.update_product(table, *sum_of)
        for each in sum_of:
            database.put({table: list(expanded(each.factors, schema, Integers()).items())})
        assert runtime.result() == recompute(query, ring, weighed(ring, database), lifts)
    fresh = GenericRuntime(tree, ring, lifts)
    fresh.load(database.pairs())
    for name in fresh.sizes():
        assert runtime.view(name) == fresh.view(name), name


@cases(100)
def test_batches_that_are_taken_apart_equal_recomputation(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    tree = random_tree(random, query)
    ring, lift = random.choice(RINGS)
    lifts = {} if lift is None else dict.fromkeys(query.bound, lift)
    database = Database.random(random, query)
    runtime = GenericRuntime(tree, ring, lifts)
    runtime.load(database.pairs())
    with (
        patch.object(generic, "WORTH_DECOMPOSING", 1),
        patch.object(generic, "pays", lambda factors, rows: len(factors) > 1),
    ):
        for batch in batches(random, database, updatable_tables(tree), 3):
            for table in batch:
                change = random_product(random, query.of_table(table)[0].schema)
                batch[table] = list(
                    expanded(change.factors, query.of_table(table)[0].schema, Integers()).items()
                )
            runtime.apply(batch)
            database.put(batch)
            assert runtime.result() == recompute(query, ring, weighed(ring, database), lifts)


@cases(60)
def test_products_over_the_regression_ring(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    tree = random_tree(random, query)
    ring = Regression(len(query.bound))
    lifts = {v: ring.continuous(i) for i, v in enumerate(query.bound)}
    database = Database.random(random, query)
    runtime = GenericRuntime(tree, ring, lifts)
    runtime.load(database.pairs())
    table = random.choice(updatable_tables(tree))
    schema = query.of_table(table)[0].schema
    change = random_product(random, schema)
    runtime.update_product(table, change)
    database.put({table: list(expanded(change.factors, schema, Integers()).items())})
    assert runtime.result() == recompute(query, ring, weighed(ring, database), lifts)


def test_a_product_goes_up_factor_by_factor() -> None:
    """Example 5.2: no factor is ever multiplied with another."""
    tree = tree_of(SHAPES[0], "A - {B, C - {D, E}}")
    runtime = GenericRuntime(tree, Integers())
    runtime.load({"R": [((a, a), 1) for a in range(5)], "T": [((c, c), 1) for c in range(7)]})
    factors: tuple[Factor[int], ...] = (
        Factor(("A",), {(a,): 1 for a in range(4)}),
        Factor(("C",), {(c,): 1 for c in range(6)}),
        Factor(("E",), {(e,): 1 for e in range(9)}),
    )
    steps = tree.paths("S")[0]
    shapes = []
    for step in steps:
        siblings = [runtime.stored(s.name) for s in step.siblings]
        factors = advanced(factors, step.view, siblings, Integers(), {}, lambda p: p)
        shapes.append({f.schema: len(f.rows) for f in factors})
    assert shapes == [{("A",): 4, ("C",): 6, (): 1}, {("A",): 4, (): 1}, {(): 1}]
    assert factors == (Factor((), {(): 4 * 6 * 9}),)


class Watched(Stored[int]):
    """A relation that counts how many of its rows are read."""

    read = 0

    def matches(self, variables: Any, values: Any) -> Any:
        found = list(super().matches(variables, values))
        self.read += len(found)
        return found


def test_a_sibling_is_joined_from_the_smaller_side() -> None:
    view = view_tree(given(Query(SHAPES[9][:2]), "A - {B, C}")).root
    for rows, expected in ((1000, 3), (2, 0)):
        sibling = Watched(("A",), Integers())
        sibling.fill(((a,), 1) for a in range(rows))
        change = (Factor(("A",), {(a,): 1 for a in range(3)}),)
        found = advanced(change, view, [sibling], Integers(), {}, lambda p: p)
        assert found == (Factor((), {(): min(rows, 3)}),)
        assert sibling.read == expected  # of the small one all rows are taken, none looked up


def test_what_no_sibling_has_is_summed_before_siblings_are_joined() -> None:
    query = Query((Relation("R", ("X", "A")), Relation("S", ("A",))))
    view = view_tree(given(query, "X - A")).root
    assert set(view.summed) == {"X", "A"}
    sibling = Watched(("A",), Integers())
    sibling.fill(((a,), 1) for a in range(1000))
    change = (Factor(("X", "A"), {(x, a): 1 for x in range(10) for a in range(2)}),)
    assert advanced(change, view, [sibling], Integers(), {}, lambda p: p) == (Factor((), {(): 20}),)
    assert sibling.read == 2


def test_products_of_other_variables_or_widths_are_refused() -> None:
    runtime = GenericRuntime(tree_of(SHAPES[0], "A - {B, C - {D, E}}"), Reals())
    a = Factor(("A",), {(1,): 1})
    with pytest.raises(TypeMismatch, match=r"a product over A is no change of R\[A, B\]"):
        runtime.update_product("R", Product((a,)))
    with pytest.raises(TypeMismatch, match=r"a product over A, A is no change"):
        runtime.update_product("R", Product((a, a)))
    with pytest.raises(TypeMismatch, match=r"\(1, 2\) is no row of a factor over B"):
        runtime.update_product("R", Product((a, Factor(("B",), {(1, 2): 1}))))
    with pytest.raises(RingProblem, match="inf, the payload of a row"):
        runtime.update_product("R", Product((a, Factor(("B",), {(1,): float("inf")}))))
    with pytest.raises(Unsupported, match="not commutative"):
        GenericRuntime(tree_of(SHAPES[10], "A - B - C"), Matrices()).update_product("R", Product((a,)))


def test_a_sum_of_products_is_changed_all_or_none() -> None:
    runtime = GenericRuntime(tree_of(SHAPES[1], "A - B - C"), Reals(), {"A": lambda x: 1 / x})
    runtime.load({"R": [((1, 1), 1), ((0, 1), 1)], "S": [((1, 1), 1)], "T": [((1, 1), 1)]})
    good = Product((Factor(("C",), {(1,): 1}), Factor(("A",), {(1,): 1})))
    bad = Product((Factor(("C",), {(1,): 1}), Factor(("A",), {(0,): 1})))
    before = {name: runtime.view(name) for name in runtime.sizes()}
    with pytest.raises(BadLift, match="lift of A fails for 0"):
        runtime.update_product("T", good, bad)
    with pytest.raises(TypeMismatch):
        runtime.update_product("T", good, Product(good.factors[:1]))
    assert {name: runtime.view(name) for name in runtime.sizes()} == before
    runtime.update_product("T", good, good)
    assert runtime.result() == {(): 3.0}


# --- decomposition ---


def naive_factors(schema: tuple[str, ...], keys: set[Any]) -> set[frozenset[str]]:
    """The finest product by trying all ways to split in two."""
    for mask in range(1, 2 ** (len(schema) - 1)):
        one = [i for i in range(len(schema)) if mask >> i & 1]
        rest = [i for i in range(len(schema)) if not mask >> i & 1]
        left, right = {tuple(k[i] for i in one) for k in keys}, {tuple(k[i] for i in rest) for k in keys}
        if len(left) * len(right) == len(keys):
            names = tuple(schema[i] for i in one), tuple(schema[i] for i in rest)
            return naive_factors(names[0], left) | naive_factors(names[1], right)
    return {frozenset(schema)}


@cases(300)
def test_the_finest_product_of_keys_is_found(seed: int) -> None:
    random = Random(seed)
    schema = tuple("ABCDEF"[: random.randint(1, 6)])
    made = random_product(random, schema, values=random.choice((2, 3)))
    keys = set(
        expanded([Factor(f.schema, dict.fromkeys(f.rows, 1)) for f in made.factors], schema, Integers())
    )
    if random.random() < 0.3:  # spoil it
        keys ^= {random.choice(sorted(keys))}
    if not keys:
        return
    found = decompose(schema, dict.fromkeys(keys, 3), Integers())
    assert {frozenset(f.schema) for f in found} == naive_factors(schema, keys)
    assert expanded(found, schema, Integers()) == dict.fromkeys(keys, 3)


@cases(200)
def test_payloads_that_are_a_product_are_taken_apart_exactly(seed: int) -> None:
    random = Random(seed)
    ring: Any = random.choice((Integers(), Rationals(), Reals()))
    kinds: dict[str, Any] = {"Integers": int, "Rationals": lambda x: Fraction(x, 6), "Reals": lambda x: x / 4}
    made = [
        Factor(
            (v,),
            {
                (x,): kinds[type(ring).__name__](random.choice((-8, -4, 2, 4, 6, 16)))
                for x in range(random.randint(2, 4))
            },
        )
        for v in "ABC"
    ]
    delta = expanded(made, "ABC", ring)
    found = decompose("ABC", delta, ring)
    assert expanded(found, "ABC", ring) == delta
    if type(ring) is not Reals:  # of doubles only what multiplies back to the last bit
        assert len(found) == 3
    spoilt = {**delta, next(iter(delta)): next(iter(delta.values())) * 2}
    assert expanded(decompose("ABC", spoilt, ring), "ABC", ring) == spoilt


def test_each_level_of_the_search_has_at_most_half_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    original = decomposition._factors

    def watched(rows: Any, at: Any) -> Any:
        sizes.append(len(rows))
        return original(rows, at)

    monkeypatch.setattr(decomposition, "_factors", watched)
    random = Random(11)
    keys = {tuple(random.choice((0, 0, 0, 1, 2)) for _ in range(8)) for _ in range(2000)}
    decompose("ABCDEFGH", dict.fromkeys(keys, 1), Integers())
    assert len(sizes) > 3
    assert all(2 * after <= before for before, after in pairwise(sizes))


def test_a_product_pays_from_half_the_rows_on() -> None:
    factors = [Factor(("A",), {(a,): 1 for a in range(4)}), Factor(("B",), {(b,): 1 for b in range(4)})]
    assert pays(factors, 16)
    assert not pays(factors, 15)
    assert not pays(factors[:1], 100)
    assert not pays((), 100)


def test_payloads_that_are_no_product_leave_the_relation_whole() -> None:
    delta = {(a, b): 1 + (a == b) for a in range(3) for b in range(3)}
    assert decompose("AB", delta, Integers()) == (Factor(("A", "B"), delta),)
    powers = {(a, b): 2 ** (a + b) for a in range(3) for b in range(3)}
    assert len(decompose("AB", powers, Integers())) == 2
    ring = Regression(1)
    pairs = {(a, b): ring.continuous(0)(1) for a in range(3) for b in range(3)}
    assert len(decompose("AB", pairs, ring)) == 2  # the same for all rows
    pairs[0, 0] = ring.continuous(0)(2)
    assert len(decompose("AB", pairs, ring)) == 1


def test_example_5_1() -> None:
    """R[A, B] with n * m rows is a product of n and m; R' with m - 1 rows more is none."""
    n, m = 6, 9
    delta = {(f"a{i}", f"b{j}"): 1 for i in range(n) for j in range(m)}
    found = decompose("AB", delta, Integers())
    assert sorted(len(f.rows) for f in found) == [n, m]
    assert pays(found, len(delta))
    more = {**delta, **{("a6", f"b{j}"): 1 for j in range(m - 1)}}
    whole = decompose("AB", more, Integers())
    assert len(whole) == 1
    assert not pays(whole, len(more))
    a = Factor(("A",), {(f"a{i}",): 1 for i in range(n + 1)})
    b = Factor(("B",), {(f"b{j}",): 1 for j in range(m)})
    tree = view_tree(given(Query(SHAPES[8][:2]), "B - A"))
    by_rows, by_products = GenericRuntime(tree, Integers()), GenericRuntime(tree, Integers())
    for runtime in (by_rows, by_products):
        runtime.load({"S": [((f"b{j}",), j) for j in range(m)]})
    by_rows.update("R", more.items())
    # a product that is too large, and one that takes away what is too much
    by_products.update_product(
        "R", Product((a, b)), Product((Factor(("A",), {("a6",): 1}), Factor(("B",), {("b8",): -1})))
    )
    assert by_rows.result() == by_products.result()


def test_update_takes_products_apart_when_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(SHAPES[0], "A - {B, C - {D, E}}")
    grid = [(row, 1) for row in combinations(range(3), range(4), range(5))]
    contents = {"R": [((a, 0), 1) for a in range(3)], "T": [((c, 0), 2) for c in range(4)]}
    taken = []
    original = GenericRuntime._change_by_product

    def watched(self: Any, relation: Any, change: Any, undo: Any) -> None:
        taken.append(sorted(len(f.rows) for f in change.factors))
        original(self, relation, change, undo)

    monkeypatch.setattr(GenericRuntime, "_change_by_product", watched)
    runtime = GenericRuntime(tree, Integers())
    runtime.load(contents)
    runtime.update("S", grid)
    assert taken == [[3, 4, 5]]
    assert runtime.result() == {(): 120}
    runtime.update("S", [(row, 1) for row, _ in grid if sum(row) % 2])  # no product
    runtime.update("S", grid[:5])  # too small
    assert len(taken) == 1
    fresh = GenericRuntime(tree, Integers())
    fresh.load({**contents, "S": [*grid, *((row, 1) for row, _ in grid if sum(row) % 2), *grid[:5]]})
    assert runtime.result() == fresh.result()
