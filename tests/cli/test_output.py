"""Drawing, where the output is piped."""

from __future__ import annotations

import io
import json
import sys

import pytest

from viewkeep.cli.output import Console

Captured = pytest.CaptureFixture[str]


def test_a_table_keeps_every_character_and_every_row_on_one_line(capsys: Captured) -> None:
    long = "x" * 500
    Console().table("numbers", ["n", "text"], [(1, long), (20, "two\nlines\x1b[31m"), (None, True)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "numbers"
    assert len(lines) == 6
    assert long in lines[3]
    assert r"two\nlines\x1b[31m" in lines[4]
    assert "NULL" in lines[5]
    assert "true" in lines[5]


def test_markup_in_data_is_data(capsys: Captured) -> None:
    Console().table("", ["[bold]"], [("[red]x[/red] :smile:",)])
    out = capsys.readouterr().out
    assert "[bold]" in out
    assert "[red]x[/red] :smile:" in out


def test_a_step_leaves_a_line_with_its_time(capsys: Captured) -> None:
    with Console().step("making tables") as update:
        update("making rows")
    captured = capsys.readouterr()
    assert captured.out.startswith("making tables ... 0.")
    assert captured.out.endswith(" s\n")
    assert captured.err == ""


def test_a_step_that_fails_says_so(capsys: Captured) -> None:
    with pytest.raises(ZeroDivisionError), Console().step("dividing"):
        raise ZeroDivisionError
    assert "dividing ... failed after" in capsys.readouterr().out


def test_bars_are_in_proportion_and_something_is_never_nothing(capsys: Captured) -> None:
    Console().bars(
        "seconds", [("id", 0.01, "10 ms"), ("half", 5, "5 s"), ("all", 10, "10 s"), ("no", 0, "0")]
    )
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "seconds"
    lengths = [line.count("█") + line.count("#") for line in lines]
    assert lengths == [1, 20, 40, 0]
    assert "10 ms" in lines[0]


def test_bars_of_nothing(capsys: Captured) -> None:
    Console().bars("seconds", [])
    assert capsys.readouterr().out.startswith("seconds")


def test_in_json_mode_only_json_is_written(capsys: Captured) -> None:
    console = Console(json=True)
    console.line("text")
    console.table("t", ["a"], [(1,)])
    console.bars("b", [("x", 1, "1")])
    with console.step("working"):
        console.json({"city": "Zürich"})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"city": "Zürich"}
    assert captured.out.count("\n") == 1
    assert captured.err == ""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_progress_on_standard_error_and_json_on_standard_output(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    console = Console(json=True)
    with console.waiting("outer") as update, console.waiting("inner"):
        console.json({"a": 1})
        update("changed")
    assert capsys.readouterr().out == '{"a": 1}\n'
    assert "outer" in terminal.getvalue()
    assert "inner" in terminal.getvalue()


def test_an_error_points_at_its_column(capsys: Captured) -> None:
    Console().error(
        "no such column", where="f.sql, line 7", excerpt=(7, "SELECT 世界, nope", 12), hint="spell it"
    )
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: f.sql, line 7: no such column"
    assert lines[1] == "    7 | SELECT 世界, nope"
    # each of the two characters before it is two cells wide on a terminal
    assert lines[2].index("^") == lines[1].index("nope") + 2
    assert lines[3] == "  hint: spell it"
