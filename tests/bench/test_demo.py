"""The demo, on DuckDB: the same statements as on Spark, in seconds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from viewkeep import demo
from viewkeep.cli.output import Console
from viewkeep.connection import Connection
from viewkeep.results import Verification

SCALE = 0.001  # 200 parts


def test_it_ends_with_both_views_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert demo.run(f"duckdb:{tmp_path}/shop.db", SCALE, Console()) == 0
    out = capsys.readouterr().out
    assert "spj equals its query" in out
    assert "cost equals its query" in out
    assert "apply update_rows to view rows" in out
    assert f"viewkeep status --at duckdb:{tmp_path}/shop.db" in out


def test_every_round_changes_both_views(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run("duckdb:", SCALE, Console()) == 0
    refreshed = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[1:2] == ["id"]]
    assert [words[0] for words in refreshed] == ["spj", "cost"] * 3


def test_what_the_first_refreshes_took_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run("duckdb:", SCALE, Console()) == 0
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "first refresh of its kind" in line]
    assert len(re.findall(r"\d\.\d+", told)) == 6


def test_a_view_that_differs_sets_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Connection, "verify", lambda self, view: Verification(view, 1, 0))
    assert demo.run("duckdb:", SCALE, Console()) == 1
    assert "differs" in capsys.readouterr().err


def test_why_is_short() -> None:
    reason = "parts: 50 inserted, 5 deleted; devices: 7 updated; propagated as ID-based diffs"
    assert demo._why(reason) == "parts +50 -5, devices ~7"
