"""Relations as payloads: listed, and factorized over the views."""

from __future__ import annotations

from random import Random

import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm.laws import checked
from viewkeep.fivm.naive import recompute
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query
from viewkeep.fivm.relational import Factorized, Relations, listed, listing, total
from viewkeep.fivm.rings import Integers, RingProblem
from viewkeep.fivm.tree import view_tree

from .cases import SHAPES, Database, batches, cases, random_query, random_tree, updatable_tables


def test_the_laws_hold_for_tuples_of_different_schemas() -> None:
    ring = Relations()
    x, y = ring.lift("X"), ring.lift("Y")
    samples = [x(1), x(2), y(1), ring.add(x(1), ring.one), ring.multiply(x(1), y(2)), ring.negate(y(3))]
    assert checked(ring, samples).commutative


def test_union_adds_multiplicities_and_the_product_joins() -> None:
    ring = Relations()
    x, y = ring.lift("X"), ring.lift("Y")
    both = ring.add(x(1), ring.add(x(1), x(2)))
    assert listing(both, ["X"]) == {(1,): 2, (2,): 1}
    assert listing(ring.multiply(both, y("b")), ["Y", "X"]) == {("b", 1): 2, ("b", 2): 1}
    assert listing(ring.multiply(both, both), ["X"]) == {(1,): 4, (2,): 1}
    assert ring.is_zero(ring.add(both, ring.negate(both)))
    assert ring.multiply(x(1), x(2)) == ring.zero
    assert total(both) == {(): 3}
    assert total(ring.zero) == ring.zero
    with pytest.raises(Unsupported, match=r"a tuple over X is no row of \(Y\)"):
        listing(both, ["Y"])


@cases(150)
def test_the_listing_equals_recomputation_after_every_batch(seed: int) -> None:
    random = Random(seed)
    query = random_query(random, free=False)
    tree = random_tree(random, query)
    free = random.sample(query.variables, random.randint(0, len(query.variables)))
    database = Database.random(random, query)
    runtime = listed(tree, free)
    runtime.load(database.pairs())
    wanted = Query(query.relations, tuple(free))
    for batch in batches(random, database, updatable_tables(tree), 3):
        runtime.apply(batch)
        database.put(batch)
        found = listing(runtime.result().get((), {}), free)
        assert found == recompute(wanted, Integers(), database.counts)


def test_factorized_payloads_have_the_values_of_one_variable() -> None:
    tree = view_tree(given(Query(SHAPES[0]), "A - {B, C - {D, E}}"))
    runtime = Factorized(tree)
    runtime.load(
        {"R": [((1, b), 1) for b in range(10)], "S": [((1, 1, e), 1) for e in range(10)], "T": [((1, 7), 1)]}
    )
    assert set(runtime.sizes()) == {view.name for view in tree.views()}
    root = runtime.result()[()]
    assert listing(root, ["A"]) == {(1,): 100}
    assert listing(runtime.view("V_R@B")[(1,)], ["B"]) == {(b,): 1 for b in range(10)}


def test_a_delete_of_what_is_not_there_is_refused_and_changes_nothing() -> None:
    runtime = Factorized(view_tree(given(Query(SHAPES[0]), "A - {B, C - {D, E}}")), "ABCD")
    contents = {"R": [((1, 2), 1)], "S": [((1, 3, 4), 1)], "T": [((3, 5), 1), ((3, 6), 1)]}
    runtime.load(contents)
    before = {name: runtime.view(name) for name in runtime.sizes()}
    # with D = 5 twice too few, D = 6 would be hidden: together they are there no times
    with pytest.raises(RingProblem, match="V_T@D would have D = 5 -1 times") as refused:
        runtime.apply({"R": [((1, 9), 1)], "T": [((3, 5), -2)]})
    assert refused.value.hint
    with pytest.raises(RingProblem, match="V_T@D would have D = 5 -1 times"):
        runtime.load({**contents, "T": [((3, 5), -1), ((3, 6), 1)]})
    assert {name: runtime.view(name) for name in runtime.sizes()} == before
    runtime.update("S", [((1, 3, 4), -1), ((1, 3, 8), 1)])  # E is bound: only their number counts
    assert runtime.result() == before["V_R_T_S@A"]


def test_orders_with_bound_variables_above_free_ones_are_refused() -> None:
    tree = view_tree(given(Query(SHAPES[0]), "A - {B, C - {D, E}}"))
    with pytest.raises(Unsupported, match="D is free and below C, which is not") as refused:
        Factorized(tree, ["A", "D"])
    assert "on top" in refused.value.hint
    Factorized(tree, ["A", "C", "D"])


def test_free_variables_belong_to_the_runtime_not_to_the_tree() -> None:
    tree = view_tree(given(Query(SHAPES[0], ("A",)), "A - {B, C - {D, E}}"))
    with pytest.raises(Unsupported, match="A would be in the keys"):
        listed(tree, ["A"])
    plain = view_tree(given(Query(SHAPES[0]), "A - {B, C - {D, E}}"))
    with pytest.raises(Unsupported, match="no relation has the free variable Z"):
        listed(plain, ["Z"])
