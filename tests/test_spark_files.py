"""Targets that are not small are looked up in their files: with what was appended since, and through Delta
wherever files alone do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import viewkeep
from viewkeep.engines.spark import files, nearby

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COST = "SELECT u.did, SUM(p.price * u.n) AS cost FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did"
PRICES = "UPDATE parts SET price = price + 1 WHERE pid = 1"


@pytest.fixture
def vk(spark_engine: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch) -> viewkeep.Connection:
    monkeypatch.setattr(nearby, "WHOLE", 0)
    for statement in (
        "CREATE TABLE parts (pid INT, price DECIMAL(10,2), PRIMARY KEY (pid))",
        "CREATE TABLE used (did INT, pid INT, n INT, PRIMARY KEY (did, pid))",
        "INSERT INTO parts VALUES (1, 10), (2, 20), (3, 30)",
        "INSERT INTO used VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 3, 1)",
        f"CREATE MATERIALIZED VIEW cost AS {COST}",
    ):
        spark_engine.sql(statement)
    return spark_engine


@contextmanager
def read_by_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """For each target that a refresh in the block looks up, whether its files are read."""
    found: list[bool] = []
    real = files.StoredFiles.of

    def of(self: Any, view: str, target: str, version: int) -> Any:
        listed = real(self, view, target, version)
        found.append(listed is not None)
        return listed

    with monkeypatch.context() as patch:
        patch.setattr(files.StoredFiles, "of", of)
        yield found


def refreshed(vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch, *changes: str) -> list[bool]:
    for change in changes:
        vk.sql(change)
    with read_by_files(monkeypatch) as found:
        assert vk.refresh("cost")[0].strategy == "id"
    assert vk.verify("cost")
    return found


def test_rows_that_came_since_the_files_were_listed_are_found(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(refreshed(vk, monkeypatch, PRICES))
    # a device that is in no file, a row of another that is, and then a change that both get
    assert all(refreshed(vk, monkeypatch, "INSERT INTO used VALUES (4, 1, 2), (3, 1, 7)"))
    assert all(refreshed(vk, monkeypatch, PRICES))
    assert all(refreshed(vk, monkeypatch, "DELETE FROM used WHERE did = 4", PRICES))
    assert all(refreshed(vk, monkeypatch, "INSERT INTO used VALUES (4, 1, 2)", PRICES))


def test_a_lookup_in_files_takes_fewer_jobs(vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs() -> int:
        vk.sql(PRICES)
        vk.sql("SELECT * FROM parts")  # whoever reads a changed table first has its log read
        return vk.refresh("cost")[0].jobs or 0

    jobs()
    by_files = jobs()
    monkeypatch.setattr(files.StoredFiles, "of", lambda self, *target: None)
    assert 0 < by_files <= jobs() - 2


def test_rows_that_a_vector_deletes_are_left_to_delta(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(refreshed(vk, monkeypatch, "DELETE FROM used WHERE did = 2", PRICES))
    vk.optimize("cost")  # what waited for rows of files is folded into them
    assert not any(refreshed(vk, monkeypatch, "INSERT INTO used VALUES (2, 1, 1)", PRICES))
    vk.refresh("cost", full=True)
    assert all(refreshed(vk, monkeypatch, PRICES))


def test_many_rows_that_were_appended_are_listed_with_the_others(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCAL_ROWS", 1)
    for number in range(3):
        insert = f"INSERT INTO used VALUES ({10 + number}, 1, 2), ({20 + number}, 1, 3)"
        assert all(refreshed(vk, monkeypatch, insert, PRICES))


def test_a_file_that_is_gone_is_not_taken_for_empty(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed(vk, monkeypatch, PRICES)
    for (name,) in spark.sql("SHOW TABLES IN viewkeep").select("tableName").collect():
        location = spark.sql(f"DESCRIBE DETAIL viewkeep.`{name}`").collect()[0].location
        for path in Path(location.removeprefix("file:")).glob("*.parquet"):
            path.unlink()
    vk.sql(PRICES)
    with pytest.raises(viewkeep.ViewkeepError):
        vk.refresh("cost")
    vk.refresh("cost", full=True)
    assert vk.verify("cost")
