"""viewkeep watch: rounds, and how they are reported."""

from __future__ import annotations

import pytest
from typer import BadParameter

from tests.cli.conftest import Run
from viewkeep.cli.watch import seconds


@pytest.mark.parametrize(
    ("text", "value"), [("5s", 5.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("1.5", 1.5)]
)
def test_intervals(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "5 days"])
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(BadParameter):
        seconds(text)


@pytest.mark.usefixtures("shop")
def test_the_command_shows_rounds_in_which_something_changed(viewkeep: Run, sql: Run) -> None:
    sql("UPDATE parts SET price = 11 WHERE pid = 'P1'")
    ran = viewkeep("watch", "--at", "duckdb:shop.db", "--interval", "0s", "--times", "3", "--json")
    assert ran.status == 0
    assert [(form["n"], form["view"], form["strategy"]) for form in ran.objects] == [(1, "device_cost", "id")]


@pytest.mark.usefixtures("shop")
def test_a_round_that_fails_is_reported_and_is_status_1(viewkeep: Run) -> None:
    ran = viewkeep("watch", "nope", "--at", "duckdb:shop.db", "--interval", "0s", "--times", "2", "--json")
    assert ran.status == 1
    assert [form["code"] for form in ran.objects] == ["unknown_view", "unknown_view"]
