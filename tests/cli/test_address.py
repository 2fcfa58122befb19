"""--engine, --at and VIEWKEEP_AT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from viewkeep.cli.address import address
from viewkeep.errors import EngineError


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIEWKEEP_AT", raising=False)


@pytest.mark.parametrize(
    ("engine", "at", "expected"),
    [
        (None, None, "spark:./warehouse"),
        ("spark", None, "spark:./warehouse"),
        ("duckdb", None, "duckdb:"),
        ("duckdb", "", "duckdb:"),
        ("duckdb", "shop.db", "duckdb:shop.db"),
        ("spark", "shop", "spark:shop"),
        (None, "duckdb:shop", "duckdb:shop"),
        ("duckdb", "duckdb:shop", "duckdb:shop"),
        (None, "shop", "spark:shop"),
        (None, "shop.db", "duckdb:shop.db"),
        (None, "shop.duckdb", "duckdb:shop.duckdb"),
        ("postgres", None, "postgres://"),
        ("postgres", "shop", "postgres:///shop"),
        ("postgres", "postgresql://host/shop", "postgresql://host/shop"),
        (None, "postgresql://host/shop", "postgresql://host/shop"),
    ],
)
def test_address(engine: str | None, at: str | None, expected: str) -> None:
    assert address(engine, at) == expected


def test_a_file_is_never_a_spark_warehouse(tmp_path: Path) -> None:
    file = tmp_path / "shop"
    file.touch()
    assert address(None, str(file)) == f"duckdb:{file}"


@pytest.mark.parametrize(
    ("engine", "at", "expected"),
    [
        (None, None, "duckdb:env.db"),
        ("duckdb", None, "duckdb:env.db"),
        # another engine than the variable's was asked for
        ("spark", None, "spark:./warehouse"),
        (None, "spark:x", "spark:x"),
    ],
)
def test_the_variable(
    engine: str | None, at: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWKEEP_AT", "duckdb:env.db")
    assert address(engine, at) == expected


def test_an_engine_and_an_address_that_do_not_fit() -> None:
    with pytest.raises(EngineError):
        address("duckdb", "spark:shop")


def test_a_server_that_is_not_there(viewkeep: Run) -> None:
    where = "postgresql://nobody:secret@127.0.0.1:1/none"
    ran = viewkeep("run", "-", "--at", where, "--json", stdin="SELECT 1")
    assert ran.status == 1
    assert ran.objects[0]["code"] == "engine"
    assert "secret" not in ran.out + ran.err


def test_commands_use_the_variable(viewkeep: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VIEWKEEP_AT", "duckdb:env.db")
    assert viewkeep("status").status == 0
    assert (tmp_path / "env.db").exists()


@pytest.mark.parametrize("at", ["duckb:shop.db", "spork:shop", "foo:bar"])
def test_an_engine_that_nobody_knows_is_no_path(at: str) -> None:
    with pytest.raises(EngineError, match=f"no engine {at.partition(':')[0]}"):
        address(None, at)
    assert address("duckdb", at) == f"duckdb:{at}"


@pytest.mark.parametrize("at", ["s3a://bucket/shop", "C:\\shop"])
def test_paths_with_a_colon(at: str) -> None:
    assert address(None, at) == f"spark:{at}"
