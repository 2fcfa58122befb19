"""Models from sums, against least squares over the rows themselves."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from viewkeep.algebra.cofactors import upper_half
from viewkeep.fivm.model import Moments, fit, moments

NAMES = ("y", "a", "b", "c")


def summed(rows: Any, names: tuple[str, ...] = NAMES) -> Moments:
    """The moments of rows, from sums in the rows' own type: int and Decimal are exact."""
    columns = list(zip(*rows, strict=True))
    sums = [sum(c) for c in columns]
    products = [sum(x * y for x, y in zip(a, b, strict=True)) for a, b in upper_half(columns)]
    return moments(names, len(rows), sums, products)


def drawn(count: int = 60, seed: int = 1) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 3)) * [1, 50, 0.01] + [3, -20, 7]
    y = x @ [2.0, -0.5, 30.0] + 4 + random.normal(size=count)
    return np.column_stack([y, x])


def as_floats(rows: np.ndarray[Any, Any]) -> list[tuple[float, ...]]:
    return [tuple(map(float, row)) for row in rows]


def least_squares(rows: np.ndarray[Any, Any], features: list[int]) -> Any:
    design = np.column_stack([np.ones(len(rows)), rows[:, features]])
    return np.linalg.lstsq(design, rows[:, 0], rcond=None)[0]


@pytest.mark.parametrize("seed", range(5))
def test_coefficients_are_those_of_least_squares(seed: int) -> None:
    rows = drawn(seed=seed)
    model = fit(summed(as_floats(rows)), "y", ["a", "b", "c"])
    expected = least_squares(rows, [1, 2, 3])
    assert [model.intercept, *model.coefficients.values()] == pytest.approx(expected, rel=1e-7)
    assert list(model.coefficients) == ["a", "b", "c"]
    assert (model.label, model.count, model.rank) == ("y", 60, 3)
    errors = rows[:, 0] - [model.predict(dict(zip(NAMES, row, strict=True))) for row in rows]
    assert model.rmse == pytest.approx(math.sqrt((errors**2).mean()), rel=1e-6)
    assert model.r2 == pytest.approx(1 - (errors**2).sum() / ((rows[:, 0] - rows[:, 0].mean()) ** 2).sum())
    assert model["a"] == model.coefficients["a"]


def test_some_of_the_columns() -> None:
    rows = drawn()
    model = fit(summed(as_floats(rows)), "y", ["c", "a"])
    assert [model.intercept, model["a"], model["c"]] == pytest.approx(least_squares(rows, [1, 3]), rel=1e-7)
    assert list(model.coefficients) == ["c", "a"]


def test_no_column_leaves_the_mean() -> None:
    rows = drawn()
    model = fit(summed(as_floats(rows)), "y", [])
    assert model.intercept == pytest.approx(rows[:, 0].mean())
    assert (model.rank, model.coefficients) == (0, {})
    assert model.r2 == pytest.approx(0)


def test_ridge_adds_the_squares_of_the_coefficients() -> None:
    rows, ridge = drawn(), 2.5
    model = fit(summed(as_floats(rows)), "y", ["a", "b", "c"], ridge)
    centred = rows - rows.mean(axis=0)
    padded = np.vstack([centred[:, 1:], math.sqrt(ridge) * np.eye(3)])
    expected = np.linalg.lstsq(padded, np.concatenate([centred[:, 0], np.zeros(3)]), rcond=None)[0]
    assert list(model.coefficients.values()) == pytest.approx(expected, rel=1e-7)
    assert model.intercept == pytest.approx(rows[:, 0].mean() - rows[:, 1:].mean(axis=0) @ expected)


def test_exact_sums_far_from_zero_lose_nothing() -> None:
    # in doubles the squares, about 1e24, have no digit left of a variance of about 1
    rows = [(10**12 + 3 * n, 10**12 + n) for n in range(50)]
    model = fit(summed(rows, ("y", "a")), "y", ["a"])
    assert model["a"] == pytest.approx(3, rel=1e-14)
    assert model.r2 == pytest.approx(1, abs=1e-14)
    decimals = [(Decimal(y) / 100, Decimal(a) / 10) for y, a in rows]
    assert fit(summed(decimals, ("y", "a")), "y", ["a"])["a"] == pytest.approx(0.3, rel=1e-14)


@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_dependent_columns(kind: type) -> None:
    random = np.random.default_rng(3)
    rows = [
        (int(a) * 5 + int(b), int(a), int(b), int(a) + 2 * int(b)) for a, b in random.integers(0, 50, (40, 2))
    ]
    model = fit(summed([tuple(map(kind, row)) for row in rows]), "y", ["a", "b", "c"])
    assert model.rank == 2
    for row in rows:
        assert model.predict(dict(zip(NAMES, row, strict=True))) == pytest.approx(row[0], abs=1e-6)
    assert "only 2 of 3" in str(model)


@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_a_constant_column_explains_nothing(kind: type) -> None:
    rows = [tuple(map(kind, (3 * n + 1, n, 7))) for n in range(9)]
    model = fit(summed(rows, ("y", "a", "b")), "y", ["a", "b"])
    assert (model["a"], model["b"], model.rank) == (pytest.approx(3), 0.0, 1)
    assert model.intercept == pytest.approx(1)


def test_a_constant_label_has_no_r2() -> None:
    model = fit(summed([(5, n) for n in range(4)], ("y", "a")), "y", ["a"])
    assert (model.intercept, model["a"], model.rank, model.rmse) == (5.0, 0.0, 1, 0.0)
    assert math.isnan(model.r2)


def test_one_row() -> None:
    model = fit(summed([(5, 2)], ("y", "a")), "y", ["a"])
    assert (model.count, model.intercept, model["a"], model.rank) == (1, 5.0, 0.0, 0)


def test_units_do_not_decide_what_is_dependent() -> None:
    rows = drawn()
    rows[:, 1] *= 1e-9
    rows[:, 2] *= 1e9
    model = fit(summed(as_floats(rows)), "y", ["a", "b", "c"])
    assert model.rank == 3
    assert model["a"] == pytest.approx(least_squares(drawn(), [1, 2, 3])[1] * 1e9, rel=1e-6)


def test_it_reads_well() -> None:
    model = fit(summed([(2 - 3 * n, n) for n in range(9)], ("price", "area")), "price", ["area"])
    assert str(model) == "price = 2 - 3 * area\n  9 rows, R2 1.0000, RMSE 0"


def test_a_row_that_lacks_a_column_cannot_be_predicted() -> None:
    model = fit(summed([(n, n) for n in range(3)], ("y", "a")), "y", ["a"])
    with pytest.raises(KeyError):
        model.predict({"b": 1})
