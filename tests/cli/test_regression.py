"""regression: the model of a view that an earlier command made."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.test_linear_models import HOUSES


def test_the_command(viewkeep: Run, sql: Run) -> None:
    assert sql(HOUSES).status == 0
    at = ("--at", "duckdb:shop.db")
    ran = viewkeep("regression", "oslo", "--label", "price", *at)
    assert (ran.status, ran.out) == (0, "price = 10 + 4 * Area\n  3 rows, R2 1.0000, RMSE 0\n")
    [one] = viewkeep(
        "regression", "by_city", "--label", "price", "--group", "city=Rome", *at, "--json"
    ).objects
    assert (one["n"], one["kind"], one["view"], one["label"], one["count"]) == (
        1,
        "regression",
        "by_city",
        "price",
        2,
    )
    assert one["coefficients"]["area"] == pytest.approx(2)
    assert "group" not in one
    many = viewkeep("regression", "by_city", "--label", "price", "--feature", "area", *at, "--json").objects
    assert {tuple(form["group"]) for form in many} == {("Oslo",), ("Rome",), (None,)}
    assert "Rome:" in viewkeep("regression", "by_city", "--label", "price", *at).out


def test_errors_of_the_command(viewkeep: Run, sql: Run) -> None:
    assert sql(HOUSES).status == 0
    at = ("--at", "duckdb:shop.db", "--json")
    ran = viewkeep("regression", "oslo", "--label", "nope", *at)
    assert (ran.status, ran.objects[0]["code"]) == (1, "unknown_column")
    assert viewkeep("regression", "by_city", "--label", "price", "--group", "Rome", *at).status == 2
