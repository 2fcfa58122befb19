"""Sessions of Spark Connect have no JVM at hand: views are kept there all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .helpers import quick_java


@pytest.mark.spark
def test_views_are_kept_in_a_session_of_spark_connect(tmp_path: Path) -> None:
    script = Path(__file__).parent / "connect_session.py"
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "warehouse")],
        cwd=tmp_path,
        env=quick_java(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert "connect" in found["session"]
    # how many jobs ran is not known there
    assert found["spj"] == {"strategy": "id", "rows_changed": 4, "jobs": None}
    assert found["cost"] == {"strategy": "id", "rows_changed": 4, "jobs": None}
    assert "classic sessions" in found["pipelines"]
    assert found["verified"] == [True, True]
    assert found["rows"] == [[1, "31.00", 2], [2, "11.00", 1], [4, "11.00", 1]]
