"""Fifty views: that both ways and recomputing end with the same rows, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viewkeep.bench import many
from viewkeep.bench.page import page
from viewkeep.cli.output import Console


def _run() -> int:
    return many.run_many(engine="duckdb", scale=0.0001, repeat=1, json=True, at="", output=Console(json=True))


def test_there_are_fifty_views() -> None:
    assert len(many.VIEWS) == 50


def test_all_ways_are_measured_and_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench" / "results").mkdir(parents=True)
    monkeypatch.setattr(many, "CHANGED", 5)
    assert _run() == 0
    measured = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["method"] for one in measured) == ["alone", "recompute", "together"]
    assert all(one["bench"] == "many" and one["rows"] == 1000 and one["seconds"] > 0 for one in measured)
    ran = {one["method"]: one["strategy"] for one in measured}
    assert ran["alone"]
    assert not ran["recompute"]
    results = json.loads((tmp_path / "bench" / "results" / "many-duckdb-0.0001.json").read_text("utf-8"))
    assert [m["method"] for m in results["medians"]] == ["together", "alone", "recompute"]
    assert "50 views" in page(results)


def test_a_view_that_differs_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = dict(list(many.VIEWS.items())[:2])
    monkeypatch.setattr(many, "VIEWS", few)
    monkeypatch.setattr(many, "CHANGED", 5)
    monkeypatch.setattr(many.Maintained, "problem", lambda self: "other rows")
    assert _run() == 1
    assert "is wrong: other rows" in capsys.readouterr().err
