"""The command line as a whole, and the commands that lead elsewhere."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

import viewkeep as package
from tests.cli.conftest import Run
from viewkeep.cli.output import Console
from viewkeep.errors import Unavailable

COMMANDS = ["demo", "run", "refresh", "status", "explain", "verify", "bench"]


def test_version(viewkeep: Run) -> None:
    ran = viewkeep("--version")
    assert ran.status == 0
    assert ran.out == f"viewkeep {package.__version__}\n"


def test_no_arguments_print_help(viewkeep: Run) -> None:
    ran = viewkeep()
    assert ran.status == 0
    assert all(command in ran.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(viewkeep: Run, command: str) -> None:
    ran = viewkeep(command, "--help")
    assert ran.status == 0
    assert "Example" in ran.out
    assert f"viewkeep {command}" in ran.out


def test_an_unknown_command(viewkeep: Run) -> None:
    assert viewkeep("nope").status == 2


def fake(monkeypatch: pytest.MonkeyPatch, name: str, status: int = 0) -> list[tuple[Any, ...]]:
    """Puts a module in the place of `name` whose run() remembers its calls."""
    calls: list[tuple[Any, ...]] = []

    def run(*arguments: Any, **options: Any) -> int:
        calls.append((*arguments, options))
        return status

    module = ModuleType(name)
    module.run = run  # type: ignore[attr-defined]
    parent, _, last = name.rpartition(".")
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys.modules[parent], last, module, raising=False)
    return calls


def test_demo_runs_in_a_directory_that_goes_away(viewkeep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake(monkeypatch, "viewkeep.demo", status=3)
    assert viewkeep("demo", "--scale", "0.5").status == 3
    ((at, scale, output, options),) = calls
    assert at.startswith("spark:")
    assert scale == 0.5
    assert isinstance(output, Console)
    assert options == {}


def test_demo_keeps_the_directory_that_it_is_given(viewkeep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake(monkeypatch, "viewkeep.demo")
    assert viewkeep("demo", "--at", "here").status == 0
    assert calls[0][:2] == ("spark:here", 1.0)


def test_demo_that_cannot_start_says_why(viewkeep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "viewkeep.demo")

    def refuses(*_: Any) -> int:
        raise Unavailable("no Spark here", hint="install it")

    monkeypatch.setattr(sys.modules["viewkeep.demo"], "run", refuses)
    ran = viewkeep("demo")
    assert ran.status == 1
    assert "error: no Spark here" in ran.err


def test_bench_passes_its_options_on(viewkeep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    if "viewkeep.bench" not in sys.modules:
        fake(monkeypatch, "viewkeep.bench")
    calls = fake(monkeypatch, "viewkeep.bench.runner")
    assert viewkeep("bench", "devices").status == 0
    name, options = calls[0]
    assert isinstance(options.pop("output"), Console)
    assert name == "devices"
    assert options == {
        "engine": "duckdb", "scale": 0.1, "views": None, "methods": None, "diffs": None,
        "repeat": 5, "waiting": 0, "sweep": False, "json": False, "at": None, "data": None,
    }  # fmt: skip
    viewkeep(
        "bench", "devices", "--view", "spj", "--method", "id", "--method", "tuple", "--diff", "10", "--json"
    )
    _, options = calls[1]
    assert (options["views"], options["methods"], options["diffs"]) == (["spj"], ["id", "tuple"], ["10"])
    assert options["json"] is True
