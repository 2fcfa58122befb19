"""What only the Spark engine has: crashes between commits, two refreshes at once, tables that others change."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    CorruptCatalog,
    DuplicateKey,
    NoKey,
    Unsupported,
    ViewkeepError,
)

from .helpers import Crash, crash_at
from .oracle.harness import bag

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COST = "SELECT did, SUM(price) AS cost, COUNT(*) AS n FROM parts NATURAL JOIN devices_parts GROUP BY did"
SPJ = "SELECT did, pid, price FROM parts NATURAL JOIN devices_parts"


@pytest.fixture
def vk(spark_engine: viewkeep.Connection) -> viewkeep.Connection:
    spark_engine.sql("CREATE TABLE parts (pid STRING, price DECIMAL(10,2), PRIMARY KEY (pid))")
    spark_engine.sql("CREATE TABLE devices_parts (did STRING, pid STRING, PRIMARY KEY (did, pid))")
    spark_engine.sql("INSERT INTO parts VALUES ('P1', 10), ('P2', 20), ('P3', 30)")
    spark_engine.sql(
        "INSERT INTO devices_parts VALUES ('D1', 'P1'), ('D1', 'P2'), ('D2', 'P1'), ('D3', 'P3')"
    )
    return spark_engine


def rows(spark: Any, query: str) -> Any:
    return bag(tuple(r) for r in spark.sql(query).collect())


def test_a_crash_at_any_step_leaves_the_old_view_or_the_new_one(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    survived = False
    step = 0
    while not survived:
        step += 1
        old = rows(spark, COST)
        spark.sql(f"UPDATE parts SET price = price + {step} WHERE pid IN ('P1', 'P2')").collect()
        if step % 3 == 0:
            spark.sql(f"INSERT INTO devices_parts VALUES ('N{step}', 'P1')").collect()
        new = rows(spark, COST)
        crashed = viewkeep.connect(spark)
        crashed.progress = crash_at(step)
        try:
            crashed.refresh("cost")
            survived = True
        except Crash:
            assert rows(spark, "SELECT * FROM cost") in (old, new), f"half a view after step {step}"
        again = viewkeep.connect(spark)
        repaired = again.refresh("cost")[0]
        assert rows(spark, "SELECT * FROM cost") == new, f"not repaired after step {step}"
        assert repaired.strategy == ("none" if survived else repaired.strategy), "nothing is applied twice"
    assert step > 6, "the refresh was expected to have more steps than that"


def test_a_view_that_fails_to_fill_leaves_nothing_behind(vk: viewkeep.Connection, spark: Any) -> None:
    vk.progress = crash_at(1, "rows")
    with pytest.raises(Crash):
        vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    vk.progress = lambda _: None
    assert vk.status() == []
    assert not [t for t in spark.sql("SHOW TABLES IN viewkeep").collect() if t.tableName.startswith("cost")]
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    assert vk.verify("cost")


def test_of_two_refreshes_at_once_one_wins_and_nothing_is_applied_twice(
    vk: viewkeep.Connection, spark: Any
) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    other = viewkeep.connect(spark)
    spark.sql("UPDATE parts SET price = 99 WHERE pid = 'P1'").collect()
    seen = []

    def meanwhile(message: str) -> None:
        seen.append(message)
        if message.startswith("committing") and len([m for m in seen if m.startswith("committing")]) == 1:
            other.refresh("cost")

    vk.progress = meanwhile
    done = vk.refresh("cost")[0]
    assert any("came first" in message for message in seen)
    assert done.strategy == "none"
    assert rows(spark, "SELECT * FROM cost") == rows(spark, COST)


def test_keys_are_checked_at_creation_and_on_what_a_batch_inserts(
    vk: viewkeep.Connection, spark: Any
) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW spj AS {SPJ}")
    before = rows(spark, "SELECT * FROM spj")
    spark.sql("INSERT INTO parts VALUES ('P1', 1)").collect()
    with pytest.raises(DuplicateKey, match="P1") as problem:
        vk.refresh("spj")
    assert problem.value.hint
    assert rows(spark, "SELECT * FROM spj") == before
    with pytest.raises(DuplicateKey):
        vk.sql("CREATE MATERIALIZED VIEW twin AS SELECT pid FROM parts")
    spark.sql("DELETE FROM parts WHERE pid = 'P1' AND price = 1").collect()
    vk.refresh("spj")
    assert rows(spark, "SELECT * FROM spj") == rows(spark, SPJ)
    spark.sql("INSERT INTO parts VALUES ('P8', 1), ('P8', 2)").collect()
    with pytest.raises(DuplicateKey, match="P8"):
        vk.refresh("spj")


def test_a_table_of_the_users_own_gets_its_key_declared(vk: viewkeep.Connection, spark: Any) -> None:
    spark.sql("CREATE TABLE own (a INT, b STRING) USING delta").collect()
    spark.sql("INSERT INTO own VALUES (1, 'x'), (2, 'y')").collect()
    with pytest.raises(NoKey) as problem:
        vk.sql("CREATE MATERIALIZED VIEW v WITH (strategy = 'id') AS SELECT b FROM own")
    assert "ADD PRIMARY KEY" in problem.value.hint
    vk.sql("ALTER TABLE own ADD PRIMARY KEY (a)")
    vk.sql("CREATE MATERIALIZED VIEW v AS SELECT b FROM own")
    spark.sql("UPDATE own SET b = 'z' WHERE a = 2").collect()
    assert vk.refresh("v")[0].strategy == "id"
    assert rows(spark, "SELECT * FROM v") == rows(spark, "SELECT b FROM own")
    assert spark.table("v").columns == ["b"], "hidden IDs never show"


def test_a_base_table_dropped_replaced_or_altered_is_told(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW spj AS {SPJ}")
    before = rows(spark, "SELECT * FROM spj")
    spark.sql("DROP TABLE parts").collect()
    with pytest.raises(BaseTableChanged, match="parts"):
        vk.refresh("spj")
    vk.sql("CREATE TABLE parts (pid STRING, price DECIMAL(10,2), PRIMARY KEY (pid))")
    with pytest.raises(BaseTableChanged) as problem:
        vk.refresh("spj")
    assert "FULL" in problem.value.hint
    assert rows(spark, "SELECT * FROM spj") == before
    assert vk.refresh("spj", full=True)[0].strategy == "full"
    assert rows(spark, "SELECT * FROM spj") == rows(spark, SPJ)
    spark.sql("DROP TABLE parts").collect()
    vk.sql("CREATE TABLE parts (pid STRING, cost DECIMAL(10,2), PRIMARY KEY (pid))")
    with pytest.raises(BaseTableChanged, match="price"):
        vk.refresh("spj")


def test_rows_of_a_view_that_someone_else_changed_are_told(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW spj AS {SPJ}")
    spark.sql("DELETE FROM viewkeep.spj__rows WHERE pid = 'P1'").collect()
    assert not vk.verify("spj")
    spark.sql("UPDATE parts SET price = 11 WHERE pid = 'P2'").collect()
    # one that remembers where the view stands notices when it has committed: others must notice after it, too
    for session in (viewkeep.connect(spark), vk, viewkeep.connect(spark), vk):
        with pytest.raises(BaseTableChanged, match="someone else"):
            session.refresh("spj")
    vk.refresh("spj", full=True)
    assert vk.verify("spj")


def test_a_corrupt_catalog_is_told(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW spj AS {SPJ}")
    doc = spark.sql("SHOW TBLPROPERTIES viewkeep.spj__rows ('viewkeep.view')").collect()[0].value
    spark.sql("ALTER TABLE viewkeep.spj__rows SET TBLPROPERTIES ('viewkeep.view' = 'nonsense')").collect()
    with pytest.raises(CorruptCatalog):
        viewkeep.connect(spark).status()
    escaped = doc.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE viewkeep.spj__rows SET TBLPROPERTIES ('viewkeep.view' = '{escaped}')").collect()
    assert viewkeep.connect(spark).verify("spj")


def test_nothing_of_viewkeep_shows_in_the_users_session(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    spark.sql("UPDATE parts SET price = 11 WHERE pid = 'P1'").collect()
    settings = dict(spark.conf.getAll)
    done = vk.refresh()[0]
    assert done.jobs is not None
    assert done.jobs > 0
    assert done.commits == 2
    assert dict(spark.conf.getAll) == settings
    assert not [t for t in spark.sql("SHOW TABLES").collect() if t.isTemporary]
    assert vk.sql("SELECT * FROM cost").df().columns == ["did", "cost", "n"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM devices_parts dp JOIN parts p USING (pid)",
        "SELECT dp.*, p.price FROM devices_parts dp JOIN parts p USING (pid)",
        "SELECT p.*, dp.did FROM devices_parts dp JOIN parts p USING (pid)",
        "SELECT * FROM parts NATURAL JOIN devices_parts",
    ],
)
def test_a_star_means_what_spark_means_by_it(vk: viewkeep.Connection, spark: Any, query: str) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert spark.table("v").columns == spark.sql(query).columns
    assert rows(spark, "SELECT * FROM v") == rows(spark, query)


def test_views_are_not_written_to_and_mistakes_have_a_place(vk: viewkeep.Connection) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW spj AS {SPJ}")
    with pytest.raises(Unsupported, match="materialized view"):
        vk.sql("DELETE FROM spj")
    with pytest.raises(ViewkeepError) as problem:
        vk.sql("CREATE MATERIALIZED VIEW w AS\nSELECT pid, colour FROM parts")
    assert problem.value.code == "unknown_column"
    assert problem.value.place is not None
    assert (problem.value.place.line, problem.value.place.column) == (2, 13)


def test_zero_and_minus_zero_are_one_key(vk: viewkeep.Connection, spark: Any) -> None:
    """They are equal, though their hashes differ."""
    spark.sql("CREATE TABLE odd (d DOUBLE, x INT) USING delta").collect()
    spark.sql("INSERT INTO odd VALUES (0.0D, 1), (-0.0D, 2), (1.0D, 3)").collect()
    with pytest.raises(DuplicateKey, match="more than once"):
        vk.sql("ALTER TABLE odd ADD PRIMARY KEY (d)")
    spark.sql("DELETE FROM odd WHERE x = 2").collect()
    vk.sql("ALTER TABLE odd ADD PRIMARY KEY (d)")


def test_plain_views_and_feeds_that_cannot_be_read_are_told(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE TABLE restored (k INT, a INT, PRIMARY KEY (k))")
    vk.sql("INSERT INTO restored VALUES (1, 1), (2, 2)")
    vk.sql("CREATE VIEW plain_restored AS SELECT k FROM restored")
    for statement in (
        "CREATE MATERIALIZED VIEW over_restored AS SELECT k FROM plain_restored",
        "CREATE TEMPORARY TABLE passing (k INT)",
        "DROP DATABASE viewkeep CASCADE",
    ):
        with pytest.raises(Unsupported):
            vk.sql(statement)
    vk.sql("CREATE MATERIALIZED VIEW over_restored AS SELECT a, COUNT(*) AS n FROM restored GROUP BY a")
    with pytest.raises(AlreadyExists):
        vk.sql("CREATE OR REPLACE VIEW over_restored AS SELECT 1 AS a")
    vk.sql("ALTER TABLE restored ADD COLUMN z INT; INSERT INTO restored VALUES (3, 1, 5)")
    vk.sql("RESTORE TABLE restored TO VERSION AS OF 1")
    (status,) = (s for s in vk.status() if s.view == "over_restored")
    assert "restored" in status.problem
    assert status.stale
    vk.sql("DROP MATERIALIZED VIEW over_restored; DROP VIEW plain_restored; DROP TABLE restored")


@pytest.mark.parametrize(
    "query",
    [
        # Delta answers it from its statistics, with dates of another class than was asked for
        "SELECT MAX(day) AS last FROM sold",
        "SELECT pid, (SELECT MAX(day) FROM sold) AS last FROM parts",
        # Spark cannot plan EXCEPT ALL of it
        "SELECT pid, (SELECT MAX(day) FROM sold AS s WHERE s.pid = p.pid) AS last FROM parts AS p",
    ],
)
def test_scalar_subqueries_and_days_of_whole_tables_are_verified(vk: viewkeep.Connection, query: str) -> None:
    vk.sql("CREATE TABLE sold (sid INT, pid STRING, day DATE, PRIMARY KEY (sid))")
    vk.sql("INSERT INTO sold VALUES (1, 'P1', DATE '2026-01-01'), (2, 'P2', DATE '2026-01-02')")
    vk.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    vk.sql("INSERT INTO sold VALUES (3, 'P1', DATE '2026-01-03')")
    vk.refresh()
    assert vk.verify("v")
    vk.sql("DELETE FROM sold WHERE sid = 3")
    assert vk.verify("v")  # over the versions that it shows
    vk.engine._session.sql("DELETE FROM viewkeep.v__rows")  # type: ignore[attr-defined]
    assert not vk.verify("v")
