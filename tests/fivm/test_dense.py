"""View trees over arrays, against NumPy."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.fivm.dense import RANK, DenseRuntime, column_update, row_update
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree

from .cases import cases, random_order, random_query


def chain(number: int, order: str, updatable: Any = None) -> Any:
    relations = tuple(Relation(f"A{i}", (f"X{i}", f"X{i + 1}")) for i in range(1, number + 1))
    query = Query(relations, ("X1", f"X{number + 1}"))
    return view_tree(given(query, order), updatable, indicators=False)


def evaluated(query: Query, arrays: dict[str, Any], lifts: dict[str, Any]) -> Any:
    """The query in one einsum, without a tree."""
    axis = {v: i for i, v in enumerate(query.variables)}
    arguments: list[Any] = []
    for relation in query.relations:
        arguments += [arrays[relation.source], [axis[v] for v in relation.schema]]
    for variable, vector in lifts.items():
        arguments += [vector, [axis[variable]]]
    return np.einsum(*arguments, [axis[v] for v in query.free])


@cases(150)
def test_equals_recomputation_after_every_change(seed: int) -> None:
    random = Random(seed)
    numbers = np.random.default_rng(seed)
    query = random_query(random)
    tables = {r.source for r in query.relations}
    chosen = random.sample(sorted(tables), random.randint(1, len(tables)))
    changing = [r.name for r in query.relations if r.source in chosen]
    # a table that several relations show has the same size in all its columns
    equal = len(tables) < len(query.relations)
    sizes = {v: 3 if equal else random.randint(1, 4) for v in query.variables}
    arrays = {
        r.source: numbers.integers(-3, 4, [sizes[v] for v in r.schema]).astype(float) for r in query.relations
    }
    lifts = {v: numbers.integers(-2, 3, sizes[v]).astype(float) for v in query.bound if random.random() < 0.3}
    tree = view_tree(random_order(random, query), changing, indicators=False)
    runtime = DenseRuntime(tree, arrays, lifts)
    assert np.array_equal(runtime.result(), evaluated(query, arrays, lifts))
    for _ in range(4):
        relation = query.relation(random.choice(sorted(tree.updatable)))
        shape = [sizes[v] for v in relation.schema]
        products, change = [], np.zeros(shape)
        for _ in range(random.randint(1, 3)):
            cuts = sorted(random.sample(range(1, len(shape)), random.randint(0, len(shape) - 1)))
            parts = [shape[i:j] for i, j in zip([0, *cuts], [*cuts, len(shape)], strict=True)]
            factors = [numbers.integers(-2, 3, part).astype(float) for part in parts]
            products.append(factors)
            outer = factors[0]
            for factor in factors[1:]:
                outer = np.multiply.outer(outer, factor)
            change += outer
        runtime.update(relation.source, *products)
        arrays[relation.source] = arrays[relation.source] + change
        assert np.array_equal(runtime.result(), evaluated(query, arrays, lifts))
    fresh = DenseRuntime(tree, arrays, lifts)
    for source in tree.stored():
        assert np.array_equal(runtime.view(source.name), fresh.view(source.name)), source.name


class Watched(DenseRuntime):
    """Counts how many numbers a product of arrays multiplies, at most, by the sizes of all its variables."""

    largest = 0

    def _product(self, operands: Any, keys: Any) -> Any:
        names = {v for own, _ in operands for v in own} - {RANK}
        if len(operands) > 1:
            self.largest = max(self.largest, int(np.prod([self.sizes[v] for v in names])))
        return super()._product(operands, keys)


@pytest.mark.parametrize("changed", ["A1", "A2", "A3"])
def test_one_row_of_a_chain_of_three_takes_a_square_of_operations(changed: str) -> None:
    n = 20
    numbers = np.random.default_rng(1)
    arrays = {f"A{i}": numbers.standard_normal((n, n)) for i in (1, 2, 3)}
    runtime = Watched(chain(3, "X1 - X4 - X2 - X3"), arrays)
    assert runtime.largest == n**3
    runtime.largest = 0
    row = numbers.standard_normal(n)
    runtime.update(changed, row_update(arrays[changed], 7, row))
    assert runtime.largest <= n**2
    arrays[changed][7] = row
    np.testing.assert_allclose(runtime.result(), arrays["A1"] @ arrays["A2"] @ arrays["A3"])
    # the same change as a matrix has nothing to be taken apart
    runtime.largest = 0
    runtime.update(changed, [np.zeros((n, n))])
    assert runtime.largest == n**3


def test_example_6_1() -> None:
    """A change u ⊗ v of A2 in a chain of four, over the variable order of the example."""
    n = 8
    numbers = np.random.default_rng(3)
    arrays = {f"A{i}": numbers.standard_normal((n, n)) for i in (1, 2, 3, 4)}
    tree = chain(4, "X1 - X5 - X3 - {X2, X4}")
    assert [(view.keys, view.summed) for view in tree.views()] == [
        (("X1", "X3"), ("X2",)),
        (("X5", "X3"), ("X4",)),
        (("X1", "X5"), ("X3",)),
    ]
    runtime = DenseRuntime(tree, arrays)
    u, v = numbers.standard_normal(n), numbers.standard_normal(n)
    first, second = tree.paths("A2")[0]
    parts = runtime._parts(tree.query.relation("A2"), [u, v])
    below = dict(runtime._advanced(first, parts, runtime._state))
    np.testing.assert_allclose(below["X1",][0], arrays["A1"] @ u)  # u2
    np.testing.assert_allclose(below["X3",][0], v)
    above = dict(runtime._advanced(second, list(below.items()), runtime._state))
    np.testing.assert_allclose(above["X1",][0], arrays["A1"] @ u)
    np.testing.assert_allclose(above["X5",][0], v @ arrays["A3"] @ arrays["A4"])
    runtime.update("A2", [u, v])
    changed = arrays["A1"] @ (arrays["A2"] + np.outer(u, v)) @ arrays["A3"] @ arrays["A4"]
    np.testing.assert_allclose(runtime.result(), changed)


def test_a_change_of_rank_r_is_one_walk() -> None:
    n, r = 6, 3
    numbers = np.random.default_rng(5)
    arrays = {f"A{i}": numbers.standard_normal((n, n)) for i in (1, 2, 3)}
    runtime = DenseRuntime(chain(3, "X1 - X4 - X2 - X3"), arrays)
    walks = []
    original = runtime._walk
    runtime._walk = lambda relation, parts, state: (
        walks.append(parts[0][1].shape),
        original(relation, parts, state),
    )[1]  # type: ignore[method-assign]
    us, vs = numbers.standard_normal((r, n)), numbers.standard_normal((r, n))
    runtime.update("A2", *([u, v] for u, v in zip(us, vs, strict=True)))
    assert walks == [(r, n)]
    np.testing.assert_allclose(runtime.result(), arrays["A1"] @ (arrays["A2"] + us.T @ vs) @ arrays["A3"])


def test_rows_and_columns_as_products() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    u, v = row_update(matrix, 1, np.array([9.0, 9.0, 9.0]))
    assert (matrix + np.outer(u, v)).tolist() == [[0, 1, 2], [9, 9, 9]]
    u, v = column_update(matrix, 2, np.array([7.0, 8.0]))
    assert (matrix + np.outer(u, v)).tolist() == [[0, 1, 7], [3, 4, 8]]


def test_sizes_are_checked_and_nothing_is_changed() -> None:
    tree = chain(2, "X1 - X3 - X2")
    ones = np.ones((2, 3))
    with pytest.raises(TypeMismatch, match="X2 has 2 values in A2 and 3 elsewhere"):
        DenseRuntime(tree, {"A1": ones, "A2": ones})
    with pytest.raises(TypeMismatch, match="has 2 variables, and its array 1 axes"):
        DenseRuntime(tree, {"A1": np.ones(2), "A2": ones})
    with pytest.raises(Unsupported, match="A2 has no array"):
        DenseRuntime(tree, {"A1": ones})
    with pytest.raises(TypeMismatch, match="A1 has numbers that are not finite"):
        DenseRuntime(tree, {"A1": np.full((2, 3), np.nan), "A2": ones.T})
    runtime = DenseRuntime(tree, {"A1": ones, "A2": ones.T})
    before = runtime.result()
    with pytest.raises(TypeMismatch, match="has the shape"):
        runtime.update("A1", [np.ones(3), np.ones(2)])
    with pytest.raises(TypeMismatch, match="no factor with X2"):
        runtime.update("A1", [np.ones(2)])
    with pytest.raises(TypeMismatch, match="has the shape"):
        runtime.update("A1", [np.ones(2), np.ones(3), np.ones(1)])
    with pytest.raises(TypeMismatch, match="not finite"):
        runtime.update("A1", [np.ones(2), np.ones(3)], [np.ones(2), np.full(3, np.inf)])
    with pytest.raises(TypeMismatch, match="not finite"), np.errstate(over="ignore"):
        runtime.update("A1", [np.full(2, 1e200), np.full(3, 1e200)])
    assert np.array_equal(runtime.result(), before)
    assert runtime.view("A1").max() == 1.0
    large = DenseRuntime(tree, {"A1": ones, "A2": ones.T * 1e200})
    with pytest.raises(TypeMismatch, match="V_A1_A2@X1 after the change"), np.errstate(over="ignore"):
        large.update("A1", [np.full(2, 1e100), np.full(3, 1e100)])  # A1 itself would take it
    assert large.view("A1").max() == 1.0


def test_what_is_not_updatable_and_indicators_are_refused() -> None:
    arrays = {"A1": np.ones((2, 2)), "A2": np.ones((2, 2))}
    runtime = DenseRuntime(chain(2, "X1 - X3 - X2", ["A1"]), arrays)
    with pytest.raises(Unsupported, match="A2 was declared not to change"):
        runtime.update("A2", [np.ones(2), np.ones(2)])
    with pytest.raises(Unsupported, match="nothing is stored for A1"):
        runtime.view("A1")
    triangle = Query((Relation("R", ("A", "B")), Relation("S", ("B", "C")), Relation("T", ("C", "A"))))
    with pytest.raises(Unsupported, match="no indicator projections"):
        DenseRuntime(view_tree(given(triangle, "A - B - C")), {})
    with pytest.raises(Unsupported, match="X1 has a lift, and is not summed"):
        DenseRuntime(chain(2, "X1 - X3 - X2"), arrays, {"X1": np.ones(2)})
    with pytest.raises(TypeMismatch, match="the lift of X2 has the shape"):
        DenseRuntime(chain(2, "X1 - X3 - X2"), arrays, {"X2": np.ones(3)})


def test_the_users_arrays_stay_as_they_are() -> None:
    arrays = {"A1": np.ones((2, 2)), "A2": np.ones((2, 2))}
    runtime = DenseRuntime(chain(2, "X1 - X3 - X2"), arrays)
    runtime.update("A1", [np.ones(2), np.ones(2)])
    runtime.result()[:] = 0
    arrays["A2"][:] = 5  # the user's own affair
    runtime.update("A1", [np.array([1.0, 0.0]), np.ones(2)])
    assert arrays["A1"].tolist() == [[1, 1], [1, 1]]
    assert runtime.result().tolist() == [[6, 6], [4, 4]]
