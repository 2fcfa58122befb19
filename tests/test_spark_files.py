"""Targets that are not small are looked up in their files: with what was appended since, and through Delta
wherever files alone do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import viewkeep
from viewkeep.engines.spark import counters, files, folding, nearby, refresh
from viewkeep.store import delta

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
    monkeypatch.setattr(folding, "MERGING", 0.0)
    vk.optimize("cost")  # what waited for rows of files is merged into them
    assert not any(refreshed(vk, monkeypatch, "INSERT INTO used VALUES (2, 1, 1)", PRICES))
    vk.refresh("cost", full=True)
    assert all(refreshed(vk, monkeypatch, PRICES))


def test_rows_that_were_written_anew_are_looked_up_in_files(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As entries of several refreshes leave them, when these are folded in; and what is appended since."""
    random = Random("anew")
    for number in range(4):
        changes = (
            f"UPDATE parts SET price = price + {number} WHERE pid = {random.randint(1, 3)}",
            f"DELETE FROM used WHERE did = {random.randint(1, 3)}",
            f"MERGE INTO used t USING (SELECT {random.randint(1, 4)} AS did, {random.randint(1, 3)} AS pid) s "
            "ON t.did = s.did AND t.pid = s.pid WHEN MATCHED THEN UPDATE SET n = n + 1 "
            f"WHEN NOT MATCHED THEN INSERT (did, pid, n) VALUES (s.did, s.pid, {number})",
        )
        assert all(refreshed(vk, monkeypatch, PRICES, *random.sample(changes, 2)))
        if number % 2:
            vk.optimize("cost")
            assert vk.verify("cost")
    vectors = [
        row.operation
        for (name,) in spark.sql("SHOW TABLES IN viewkeep").select("tableName").collect()
        for row in spark.sql(f"DESCRIBE HISTORY viewkeep.`{name}`").collect()
    ]
    assert "MERGE" not in vectors


def test_a_part_that_was_overwritten_does_not_make_files_plain(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that a vector deletes in other files would come back."""
    spark.sql("CREATE TABLE viewkeep.some__rows (a INT) USING delta "
              "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')").collect()  # fmt: skip
    try:
        spark.sql("INSERT INTO viewkeep.some__rows SELECT id FROM RANGE(0, 10, 1, 1)").collect()
        spark.sql("DELETE FROM viewkeep.some__rows WHERE a = 3").collect()
        spark.sql("INSERT INTO viewkeep.some__rows REPLACE WHERE a = 20 VALUES (20)").collect()
        assert not delta.has_plain_files(spark, "some", "rows", 3)
        spark.sql("INSERT OVERWRITE viewkeep.some__rows VALUES (1)").collect()
        assert delta.has_plain_files(spark, "some", "rows", 4)
    finally:
        spark.sql("DROP TABLE viewkeep.some__rows").collect()


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


def jobs_of_a_refresh(vk: viewkeep.Connection) -> int:
    vk.sql(PRICES)
    vk.sql("SELECT * FROM parts")  # whoever reads a changed table first has its log read
    return vk.refresh("cost")[0].jobs or 0


def test_files_on_this_machine_are_looked_through_without_a_job(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_of_a_refresh(vk)
    here = jobs_of_a_refresh(vk)
    assert vk.verify("cost")
    monkeypatch.setattr(files, "_on_this_machine", lambda paths: None)
    vk.refresh("cost", full=True)
    jobs_of_a_refresh(vk)
    assert 0 < here <= jobs_of_a_refresh(vk) - 2
    assert vk.verify("cost")


def test_a_large_cache_is_left_to_spark_and_the_rows_of_the_view_are_not(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_of_a_refresh(vk)
    here = jobs_of_a_refresh(vk)
    monkeypatch.setattr(nearby, "LOOKED_THROUGH", 0)
    assert jobs_of_a_refresh(vk) == here + 1
    assert vk.verify("cost")


def test_more_values_than_spark_is_given_are_looked_for_here(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of prices alone reads its cache and its rows, and no table."""
    query = "SELECT u.did, SUM(p.price) AS total FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did"
    vk.sql(f"CREATE MATERIALIZED VIEW total AS {query}")

    def jobs_of_all_prices() -> int:
        vk.sql("UPDATE parts SET price = price + 1")
        vk.sql("SELECT * FROM parts")
        return vk.refresh("total")[0].jobs or 0

    jobs_of_all_prices()
    here = jobs_of_all_prices()
    for module in (nearby, refresh):
        monkeypatch.setattr(module, "MOST_VALUES", 1)
    assert jobs_of_all_prices() == here
    assert vk.verify("total")
    monkeypatch.setattr(nearby, "LOOKED_THROUGH", 0)  # Spark joins, without a list of values
    assert jobs_of_all_prices() > here
    assert vk.verify("total")


def test_rows_that_are_looked_through_are_counted(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "rows_read", lambda context, jobs: 2)  # the events, as Spark counts
    vk.sql(PRICES)
    assert vk.refresh("cost")[0].rows_read == 2 + 4 + 3  # all rows of the cache, and all groups


def test_files_that_only_spark_can_read_are_read_by_spark(
    vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = files.OnThisMachine(("/gone.parquet",), 1, 1).table
    monkeypatch.setattr(files.OnThisMachine, "table", gone)
    assert all(refreshed(vk, monkeypatch, PRICES))
    assert all(refreshed(vk, monkeypatch, "INSERT INTO used VALUES (4, 1, 2)", PRICES))


def test_values_of_all_types_are_found_in_files(
    spark_engine: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearby, "WHOLE", 0)
    query = "SELECT d, b, s, x, COUNT(*) AS n, SUM(m) AS m FROM l JOIN r ON l.k = r.k GROUP BY d, b, s, x"
    for statement in (
        "CREATE TABLE l (k INT, d DATE, b BOOLEAN, s SMALLINT, x DECIMAL(30, 3), PRIMARY KEY (k))",
        "CREATE TABLE r (i INT, k INT, m DECIMAL(4, 2), PRIMARY KEY (i))",
        "INSERT INTO l VALUES (1, DATE '0001-01-01', true, -1, 1e20), (2, DATE '9999-12-31', false, 7, -0.001), "
        "(3, NULL, NULL, NULL, NULL)",
        "INSERT INTO r VALUES (1, 1, 1.5), (2, 1, NULL), (3, 2, 99.5), (4, 3, -1), (5, 3, 2)",
        f"CREATE MATERIALIZED VIEW many AS {query}",
    ):
        spark_engine.sql(statement)
    monkeypatch.setattr(nearby, "LOOKED_THROUGH", 100)
    for change in (
        "UPDATE r SET m = m + 0.25 WHERE i < 5",
        "DELETE FROM r WHERE i = 4",
        "UPDATE l SET d = DATE '1582-10-10' WHERE k IN (1, 3)",
        "INSERT INTO r VALUES (6, 3, NULL), (7, 1, 5)",
    ):
        spark_engine.sql(change)
        assert spark_engine.refresh("many")[0].strategy == "id"
        assert spark_engine.verify("many")


def test_files_are_on_this_machine_if_all_of_them_are(tmp_path: Path) -> None:
    def written(name: str, said: dict[str, str]) -> str:
        path = tmp_path / name
        pq.write_table(pa.table({"a": [1, 2]}).replace_schema_metadata(said), path)
        return f"file:{path}"

    one, two = written("1.parquet", {}), written("2 b=c.parquet", {})
    found = files._on_this_machine([one, two.replace("file:/", "file:///")])
    assert found is not None
    assert (len(found.paths), found.rows, found.group) == (2, 4, 2)
    assert nearby.answered(nearby.embedded(), exp.select("*").from_(found.table), {}).num_rows == 4
    (tmp_path / "text").write_text("no Parquet")
    others = (
        f"file:{tmp_path}/text",
        f"file:{tmp_path}/gone.parquet",
        "s3://bucket/1.parquet",
        written("[1].parquet", {}),
        written("old.parquet", {"org.apache.spark.legacyDateTime": ""}),
    )
    assert [files._on_this_machine([one, other]) for other in others] == [None] * len(others)
