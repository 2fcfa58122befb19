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
    title = out.splitlines()[0]
    assert title == "# Measurements"
    assert "\n## devices on duckdb, scale 0.0001\n" in out
    rows = [line for line in out.splitlines() if line.startswith("| spj | 5 |")]
    assert [row.split(" | ")[2] for row in rows] == ["id", "tuple", "recompute"]
    (path,) = (tmp_path / "bench" / "results").iterdir()
    assert json.loads(path.read_text(encoding="utf-8"))["rows"] == 1000


def test_the_docs_have_the_results_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    written = (root / "docs" / "measurements.md").read_text(encoding="utf-8")
    assert written == tables.document_of_all(), (
        "make it again: python -m viewkeep.bench.tables > docs/measurements.md"
    )


def test_many_views_have_a_line_each() -> None:
    """Each size of the change has the first method with its strategy, and how many times as long others take."""
    rows = [
        {"view": f"q{n}", "diff": 10, "share": 0.0001, "method": method, "seconds": seconds, "rounds": 1}
        | {"times_auto": round(seconds / 0.01, 2)}
        | ({"strategy": "id"} if method == "auto" else {})
        for n in range(6)
        for method, seconds in (("auto", 0.01), ("recompute", 0.025))
    ]
    machine = {"date": "2026-11-19T00:00:00", "cpu": "a processor", "cores": 2, "load_average": [0.5]}
    head = {"bench": "tpch", "engine": "duckdb", "scale": 1.0, "rows": 100, "machine": machine}
    lines = tables.markdown({**head, "medians": rows}).splitlines()
    assert lines[4] == "| view | 0.01% (10 changed rows): auto ms | recompute |"
    assert lines[6] == "| q0 | 10.0 id | 25.0 (2.5x) |"
    assert len(lines) == 12
