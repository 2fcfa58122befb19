"""The command line in this process, on DuckDB files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from viewkeep.cli.main import app

SHOP = """\
CREATE TABLE parts (pid STRING, price DECIMAL(10,2), PRIMARY KEY (pid));
CREATE TABLE devices_parts (did STRING, pid STRING, PRIMARY KEY (did, pid));
INSERT INTO parts VALUES ('P1', 10.00), ('P2', 20.00);
INSERT INTO devices_parts VALUES ('D1', 'P1'), ('D2', 'P1'), ('D1', 'P2');
CREATE MATERIALIZED VIEW device_cost AS
SELECT dp.did, SUM(p.price) AS cost
FROM parts p JOIN devices_parts dp ON p.pid = dp.pid
GROUP BY dp.did;
"""


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Standard output, every line of it a JSON object."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def viewkeep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIEWKEEP_AT", raising=False)

    def run(*arguments: str, stdin: str | None = None) -> Ran:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def sql(viewkeep: Run, tmp_path: Path) -> Run:
    """Runs a script, from a file, on a DuckDB file; both stay for later commands."""

    def run(text: str, *arguments: str) -> Ran:
        (tmp_path / "script.sql").write_text(text, encoding="utf-8")
        return viewkeep("run", "script.sql", "--at", "duckdb:shop.db", *arguments)

    return run


@pytest.fixture
def shop(sql: Run) -> None:
    """A warehouse with a view, made by an earlier command."""
    assert sql(SHOP).status == 0
