"""What is made of measurements."""

from __future__ import annotations

from typing import Any

import pytest

from viewkeep.bench import report
from viewkeep.cli.output import Console


def measured(view: str, method: str, seconds: float, **more: Any) -> dict[str, Any]:
    given = {"view": view, "method": method, "diff": 75, "seconds": seconds, "cpu_seconds": seconds}
    return given | {"rows_changed": 3, "statements": 1} | more


def some(views: int) -> list[dict[str, Any]]:
    """Views whose recomputing takes 1, 2, 3, ... times as long as their refresh."""
    return [
        one
        for number in range(1, views + 1)
        for one in (
            measured(f"q{number}", "recompute", 0.1 * number, share=0.001),
            measured(
                f"q{number}", "auto", 0.1, share=0.001,
                strategy="full" if number == 1 else "id", phases={"planning": 0.01},
            ),
        )
    ]  # fmt: skip


def test_the_first_method_is_what_the_others_are_compared_with() -> None:
    rows = report.medians(some(2))
    assert [(r["view"], r["method"], r["times_auto"]) for r in rows] == [
        ("q1", "auto", 1.0),
        ("q1", "recompute", 1.0),
        ("q2", "auto", 1.0),
        ("q2", "recompute", 2.0),
    ]


def test_a_median_has_the_strategies_and_phases_of_its_rounds() -> None:
    rounds = [
        measured("q1", "auto", 0.1, strategy="id", phases={"planning": 0.01, "choosing": 0.05}),
        measured("q1", "auto", 0.3, strategy="full", phases={"planning": 0.02}),
        measured("q1", "auto", 0.2, strategy="id", phases={"planning": 0.03, "choosing": 0.01}),
    ]
    (row,) = report.medians(rounds)
    assert row["seconds"] == 0.2
    assert row["strategy"] == "full, id"
    assert row["phases"] == {"planning": 0.02, "choosing": 0.01}


def test_the_summary_has_the_median_and_the_worst_of_all_views() -> None:
    (one,) = report.summary(report.medians(some(5)))
    assert one == {
        "diff": 75, "share": 0.001, "method": "recompute", "baseline": "auto", "views": 5,
        "median_times": 3.0, "worst_times": 1.0, "worst_view": "q1", "strategies": {"full": 1, "id": 4},
    }  # fmt: skip


@pytest.mark.parametrize("views", [2, 6])
def test_few_views_have_a_table_each_and_many_share_one(
    views: int, capsys: pytest.CaptureFixture[str]
) -> None:
    report.show(Console(), "tpch", report.medians(some(views)))
    out = capsys.readouterr().out
    assert out.count("median s") == (2 if views == 2 else 1)
    assert ("recompute/auto 2.0" in out) == (views == 2)
    assert "planning s" in out
    assert "strategy" in out
    assert "at the worst (q1); strategies: full 1, id" in out


def test_nothing_measured_is_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.medians([]) == report.summary([]) == []
    report.show(Console(), "tpch", [])
    assert capsys.readouterr().out == ""
