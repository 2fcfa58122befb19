"""Results as tables of the docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viewkeep.bench import runner, tables
from viewkeep.cli.output import Console


def test_results_become_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench" / "results").mkdir(parents=True)
    status = runner.run(
        "devices",
        engine="duckdb",
        scale=0.0001,
        views=["spj"],
        methods=None,
        diffs=["5"],
        repeat=1,
        json=False,
        at="",
        data=None,
        output=Console(),
    )
    assert status == 0
    capsys.readouterr()
    tables.main()
    out = capsys.readouterr().out
    assert out.startswith("### devices on duckdb, scale 0.0001")
    rows = [line for line in out.splitlines() if line.startswith("| spj | 5 |")]
    assert [row.split(" | ")[2] for row in rows] == ["id", "tuple", "recompute"]
    (path,) = (tmp_path / "bench" / "results").iterdir()
    assert json.loads(path.read_text(encoding="utf-8"))["rows"] == 1000
