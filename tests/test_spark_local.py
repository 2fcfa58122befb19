"""A warehouse directory, of which viewkeep starts a Spark of its own: a process each time."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from weakref import WeakSet

import pytest

from viewkeep.engines.spark import local
from viewkeep.engines.spark.engine import SparkEngine

from .helpers import quick_java


def test_who_holds_a_warehouse_is_alone_until_its_session_is_given_to_another_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder, other = (object.__new__(kind) for kind in (local.LocalSparkEngine, SparkEngine))
    monkeypatch.setattr(local, "OPEN", WeakSet([holder]))
    assert holder.is_alone()
    local.OPEN.add(other)
    assert not holder.is_alone()
    assert not other.is_alone()


@pytest.mark.spark
def test_a_local_warehouse_outlives_the_process_and_has_one_owner(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "viewkeep.cli.main", *arguments]
        return subprocess.run(
            command, env=quick_java(), capture_output=True, text=True, timeout=300, check=False
        )

    where = f"spark:{tmp_path / 'warehouse'}"
    script = tmp_path / "make.sql"
    script.write_text(
        "CREATE TABLE t (k INT, x INT, PRIMARY KEY (k));\n"
        "INSERT INTO t VALUES (1, 10), (2, 20);\n"
        "CREATE MATERIALIZED VIEW s AS SELECT COUNT(*) AS n, SUM(x) AS x FROM t;\n"
        "UPDATE t SET x = 5 WHERE k = 1;\n"
    )
    made = run("run", str(script), "--at", where, "--json")
    assert made.returncode == 0, made.stderr
    more = tmp_path / "more.sql"
    more.write_text("REFRESH MATERIALIZED VIEW s;\nSELECT * FROM s;\nVERIFY MATERIALIZED VIEW s;\n")
    found = run("run", str(more), "--at", where, "--json")
    assert found.returncode == 0, found.stderr
    objects = [json.loads(line) for line in found.stdout.splitlines()]
    assert objects[0]["strategy"] == "id"
    assert objects[1]["rows"] == [[2, 25]]
    assert objects[2]["equal"] is True
    with (tmp_path / "warehouse" / ".viewkeep.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = run("status", "--at", where, "--json")
    assert held.returncode == 1
    assert json.loads(held.stdout.splitlines()[0])["code"] == "warehouse_held"
