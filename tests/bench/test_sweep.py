"""The sweep over the size of the change: where it ends, and what is said of the chooser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from viewkeep.bench import runner
from viewkeep.bench.page import page
from viewkeep.bench.sweep import crossovers, is_past_crossover, larger, swept
from viewkeep.bench.tables import markdown
from viewkeep.cli.output import Console


def medians(diff: int, ran: str, view: str = "spj", **seconds: float) -> list[dict[str, Any]]:
    strategy = {"auto": ran, "id": "id", "tuple": "tuple"}
    return [
        {"view": view, "diff": diff, "method": name, "seconds": taken}
        | ({"strategy": strategy[name]} if name in strategy else {})
        for name, taken in seconds.items()
    ]


ROWS = [
    *medians(200, "id", id=1.0, tuple=2.0, recompute=9.0, auto=1.1),
    *medians(1000, "id", id=9.5, tuple=12.0, recompute=9.0, auto=9.6),
    *medians(5000, "id", id=20.0, tuple=30.0, recompute=9.0, auto=21.0),
    *medians(25_000, "full", id=90.0, tuple=90.0, recompute=9.0, auto=15.0),
]


def test_sizes_grow_to_all_rows() -> None:
    assert [size.rows for size in larger(200, 9000)] == [1000, 5000, 9000]
    assert list(larger(200, 200)) == []


def test_the_chooser_is_right_on_the_right_side_or_near_the_crossover() -> None:
    assert [(one.diff, one.quickest, one.is_right) for one in swept(ROWS)] == [
        (200, "id", True),
        (1000, "recompute", True),  # the wrong side, and hardly slower
        (5000, "recompute", False),
        (25_000, "recompute", True),
    ]
    assert crossovers(ROWS) == ["spj: recomputing wins at 1,000 changed rows, not yet at 200"]
    assert crossovers(ROWS[:4]) == ["spj: recomputing never wins"]


def test_a_sweep_is_over_when_recomputing_wins_for_every_view() -> None:
    other = medians(1000, "id", "cost", id=1.0, tuple=2.0, recompute=9.0, auto=1.1)
    assert is_past_crossover(ROWS, 1000)
    assert not is_past_crossover([*ROWS, *other], 1000)
    assert not is_past_crossover(ROWS, 200)


def test_a_sweep_is_measured_with_the_chooser_beside_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench" / "results").mkdir(parents=True)
    status = runner.run(
        "devices", engine="duckdb", scale=0.0001, views=["spj"], methods=["id"], diffs=["5"], repeat=1,
        json=False, at="", data=None, output=Console(), sweep=True,
    )  # fmt: skip
    assert status == 0
    assert "where recomputing wins" in capsys.readouterr().out
    (path,) = (tmp_path / "bench" / "results").iterdir()
    results = json.loads(path.read_text(encoding="utf-8"))
    found = {(m["diff"], m["method"]) for m in results["medians"]}
    assert {(25, name) for name in ("auto", "id", "tuple", "recompute")} <= found
    assert all(m["changes"] == m["diff"] for m in results["measurements"] if m["method"] == "id")
    told = markdown(results)
    assert "| view | changed rows | id s | tuple s | recompute s | auto s |" in told
    assert "- spj: recomputing" in told
    made = page(results)
    assert "<polyline" in made
    assert "auto/quickest" in made
