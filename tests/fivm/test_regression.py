"""The regression ring against design matrices."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm.generic import GenericRuntime
from viewkeep.fivm.laws import checked
from viewkeep.fivm.naive import recompute
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.regression import Cofactors, Regression, features, matrix
from viewkeep.fivm.rings import BadLift
from viewkeep.fivm.tree import view_tree

from .cases import Database, batches, cases, random_query, random_tree, updatable_tables
from .test_generic import weighed


def lifts_for(query: Query, categories: set[str]) -> dict[str, Any]:
    ring = Regression(len(query.bound))
    return {
        v: ring.categorical(i) if v in categories else ring.continuous(i) for i, v in enumerate(query.bound)
    }


def test_the_laws_hold_for_lifted_values_and_their_sums_and_products() -> None:
    ring = Regression(3)
    x, y, c = ring.continuous(0), ring.continuous(2), ring.categorical(1)
    samples = [x(3), y(-2), c("a"), c("b"), ring.add(c("a"), c("b")), ring.multiply(x(2), c("a"))]
    samples.append(ring.multiply(ring.add(x(1), y(5)), ring.negate(c("b"))))
    assert checked(ring, samples).commutative


@cases(60)
def test_the_operations_are_those_of_definition_6_2(seed: int) -> None:
    random = Random(seed)
    m = 3
    ring = Regression(m)

    def value() -> Cofactors:
        sums = {(i,): random.randint(-3, 3) for i in range(m)}
        products = {((i,), (j,)): random.randint(-3, 3) for i in range(m) for j in range(i, m)}
        clean = {f: x for f, x in sums.items() if x}, {p: x for p, x in products.items() if x}
        return Cofactors(random.randint(-2, 2), *clean)

    def dense(a: Cofactors) -> Any:
        s = np.array([[a.sum(i)] for i in range(m)])
        return a.count, s, np.array([[a.product(i, j) for j in range(m)] for i in range(m)])

    a, b = value(), value()
    (ca, sa, qa), (cb, sb, qb) = dense(a), dense(b)
    for found, expected in (
        (ring.add(a, b), (ca + cb, sa + sb, qa + qb)),
        (ring.multiply(a, b), (ca * cb, cb * sa + ca * sb, cb * qa + ca * qb + sa @ sb.T + sb @ sa.T)),
        (ring.negate(a), (-ca, -sa, -qa)),
    ):
        for one, other in zip(dense(found), expected, strict=True):
            assert np.array_equal(one, other)


@cases(120)
def test_equals_recomputation_after_every_batch(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    tree = random_tree(random, query)
    ring = Regression(len(query.bound))
    lifts = lifts_for(query, {v for v in query.bound if random.random() < 0.4})
    database = Database.random(random, query)
    runtime = GenericRuntime(tree, ring, lifts)
    runtime.load(database.pairs())
    for batch in batches(random, database, updatable_tables(tree), 3):
        runtime.apply(batch)
        database.put(batch)
        assert runtime.result() == recompute(query, ring, weighed(ring, database), lifts)


@cases(60)
def test_the_matrix_is_that_of_the_one_hot_design_matrix(seed: int) -> None:
    random = Random(seed)
    query = random_query(random, free=False)
    tree = random_tree(random, query)
    ring = Regression(len(query.variables))
    categories = {v for v in query.variables if random.random() < 0.4}
    database = Database.random(random, query, rows=8)
    runtime = GenericRuntime(tree, ring, lifts_for(query, categories))
    runtime.load(database.pairs())
    rows = [
        dict(row)
        for joined, n in _joined(query, database).items()
        for row in [joined] * n  # positive: nothing was deleted
    ]
    found = runtime.result().get((), ring.zero)
    names, cofactors = matrix(found, query.variables)
    columns = [[1.0] * len(rows)]
    for name in names[1:]:
        if "=" in name:
            variable, category = name.split("=")
            columns.append([float(str(row[variable]) == category) for row in rows])
        else:
            columns.append([float(row[name]) for row in rows])
    design = np.array(columns)
    assert np.array_equal(cofactors, design @ design.T)
    if rows:
        for variable in categories:
            assert {n for n in names if n.startswith(f"{variable}=")} == {
                f"{variable}={r[variable]}" for r in rows
            }


def _joined(query: Query, database: Database) -> dict[Any, int]:
    found: dict[Any, int] = {(): 1}
    for relation in query.relations:
        longer: dict[Any, int] = {}
        for have, n in found.items():
            for row, m in database.counts[relation.source].items():
                own = dict(zip(relation.schema, row, strict=True))
                known = dict(have)
                if all(known.get(v, x) == x for v, x in own.items()):
                    longer[tuple(sorted({**known, **own}.items()))] = n * m
        found = longer
    return found


def test_a_categorical_and_two_columns_of_numbers() -> None:
    ring = Regression(3)
    query = Query((Relation("R", ("K", "X")), Relation("S", ("K", "C", "Y"))))
    tree = view_tree(given(query, "K - {X, C - Y}"))
    lifts = {"X": ring.continuous(0), "C": ring.categorical(1), "Y": ring.continuous(2)}
    runtime = GenericRuntime(tree, ring, lifts)
    runtime.load({"R": [((1, 2), 1), ((1, 3), 1)], "S": [((1, "red", 10), 1), ((1, "blue", 20), 2)]})
    found = runtime.result()[()]
    assert found.count == 6
    assert (found.sum(0), found.sum(2)) == (15, 100)
    assert (found.sum((1, "red")), found.sum((1, "blue"))) == (2, 4)
    assert found.product(0, (1, "blue")) == found.product((1, "blue"), 0) == 10  # sum of X where blue
    assert found.product((1, "red"), 2) == 20
    assert found.product((1, "red"), (1, "red")) == 2
    assert found.product((1, "red"), (1, "blue")) == 0
    assert found.product(0, 2) == 250
    names, dense = matrix(found, ("X", "C", "Y"))
    assert names == ["1", "X", "C=blue", "C=red", "Y"]
    assert np.array_equal(dense, dense.T)
    assert dense[2].tolist() == [4, 10, 4, 0, 80]
    runtime.update("S", [(("1", "red", 10), -1), ((1, "red", 10), -1)])
    assert features(runtime.result()[()], ("X", "C", "Y"))[1][0] == "C=blue"
    assert len(features(runtime.result()[()], ("X", "C", "Y"))) == 3


def test_pairs_of_categories_are_counted() -> None:
    ring = Regression(2)
    a, b = ring.categorical(0), ring.categorical(1)
    rows = [("x", 1), ("x", 1), ("y", 1), ("y", None)]
    total = ring.zero
    for one, other in rows:
        total = ring.add(total, ring.multiply(b(other), a(one)))
    assert total.product((0, "x"), (1, 1)) == 2
    assert total.product((1, None), (0, "y")) == 1
    assert total.product((0, "x"), (1, None)) == 0
    assert total.sum((1, None)) == 1


def test_what_is_zero_is_not_stored() -> None:
    ring = Regression(5)
    lift = ring.continuous(3)
    assert lift(0) == ring.one
    both = ring.add(lift(2), ring.negate(lift(2)))
    assert both == ring.zero
    assert ring.is_zero(both)
    assert ring.multiply(lift(2), ring.zero) == ring.zero
    assert lift(2) == Cofactors(1, {(3,): 2}, {((3,), (3,)): 4})


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), None, "7", Decimal("NaN")])
def test_a_value_that_is_no_finite_number_is_refused(value: Any) -> None:
    ring = Regression(1)
    tree = view_tree(given(Query((Relation("R", ("X",)),)), "X"))
    runtime = GenericRuntime(tree, ring, {"X": ring.continuous(0)})
    runtime.update("R", [((5,), 1)])
    before = runtime.result()
    with pytest.raises(BadLift, match=r"lift of X fails for .*: .* is no finite number"):
        runtime.update("R", [((6,), 1), ((value,), 1)])
    assert runtime.result() == before == {(): Cofactors(1, {(0,): 5}, {((0,), (0,)): 25})}


def test_decimals_and_doubles_mix() -> None:
    ring = Regression(2)
    found = ring.multiply(ring.continuous(0)(Decimal("0.5")), ring.continuous(1)(4.0))
    assert found.product(0, 1) == 2.0
    assert found.sum(0) == Fraction(1, 2)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(Unsupported, match="no column 3"):
        Regression(3).continuous(3)
    with pytest.raises(Unsupported, match="no column -1"):
        Regression(3).categorical(-1)
