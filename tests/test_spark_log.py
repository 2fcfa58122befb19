"""Diffs that wait in a view's table on Spark: read through, folded, crashed, and read while all that goes on."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import viewkeep
from viewkeep.engines.spark import folding, nearby, relations, waiting
from viewkeep.engines.spark.engine import SparkEngine
from viewkeep.idiff.log import Layout
from viewkeep.store import delta

from .helpers import Crash, crash_at
from .oracle.harness import bag

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = (
    "CREATE TABLE parts (pid INT, price DECIMAL(10,2), kind STRING, PRIMARY KEY (pid))",
    "CREATE TABLE used (did INT, pid INT, n INT, PRIMARY KEY (did, pid))",
    "CREATE TABLE devices (did INT, owner STRING, PRIMARY KEY (did))",
)
START = (
    "INSERT INTO parts VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL)",
    "INSERT INTO devices VALUES (1, 'x'), (2, 'y'), (3, NULL)",
    "INSERT INTO used VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 3, 1)",
)
VIEWS = {
    "spj": "SELECT u.did, u.pid, p.price, u.n * 2 AS m, d.owner FROM used u JOIN parts p ON u.pid = p.pid "
    "JOIN devices d ON d.did = u.did WHERE p.kind IS NULL OR p.kind <> 'z'",
    "cost": "SELECT u.did, SUM(p.price * u.n) AS cost, COUNT(*) AS c FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did",
    "outside": "SELECT d.did, d.owner, u.pid FROM devices d LEFT JOIN used u ON u.did = d.did",
    "total": "SELECT SUM(n) AS s, COUNT(*) AS c FROM used",
    "ranked": "SELECT pid, did, RANK() OVER (PARTITION BY pid ORDER BY n DESC) AS r FROM used",
}


Way = Callable[[pytest.MonkeyPatch], None]


def merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are folded in by a MERGE."""
    monkeypatch.setattr(waiting, "writing_takes", lambda rows: 1.0)
    monkeypatch.setattr(waiting, "merging_takes", lambda rows, entries: 0.0)


def written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are folded in by writing all rows anew."""
    monkeypatch.setattr(waiting, "writing_takes", lambda rows: 0.0)
    monkeypatch.setattr(waiting, "merging_takes", lambda rows, entries: 1.0)


def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change is wide, and nothing is computed nearby."""
    monkeypatch.setattr(relations, "LOCAL_ROWS", 0)
    monkeypatch.setattr(nearby.Nearby, "answer", lambda self, *given: None)


def rows(spark: Any, query: str) -> Any:
    return bag(tuple(r) for r in spark.sql(query).collect())


@pytest.fixture
def vk(spark_engine: viewkeep.Connection) -> viewkeep.Connection:
    for statement in (*TABLES, *START):
        spark_engine.sql(statement)
    return spark_engine


def create(vk: viewkeep.Connection, *names: str) -> None:
    for name in names or VIEWS:
        vk.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def check(spark: Any, when: str, *names: str) -> None:
    for name in names or VIEWS:
        assert rows(spark, f"SELECT * FROM {name}") == rows(spark, VIEWS[name]), f"{name} differs {when}"


def batch(random: Random, number: int) -> list[str]:
    """Changes of all kinds; rows come back after they went, with the IDs that they had."""
    pid, did, other = random.randint(1, 4), random.randint(1, 4), random.randint(1, 4)
    every = [
        f"UPDATE parts SET price = price + {number} WHERE pid = {pid}",
        f"UPDATE parts SET kind = '{random.choice('az')}' WHERE pid = {other}",
        f"DELETE FROM used WHERE pid = {pid}",
        f"DELETE FROM devices WHERE did = {did}",
        f"MERGE INTO devices t USING (SELECT {other} AS did, 'o{number}' AS owner) s ON t.did = s.did "
        "WHEN MATCHED THEN UPDATE SET owner = s.owner WHEN NOT MATCHED THEN INSERT *",
        f"MERGE INTO used t USING (SELECT {did} AS did, {other} AS pid, {number} AS n) s "
        "ON t.did = s.did AND t.pid = s.pid WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *",
        f"UPDATE used SET n = n + {number} WHERE did = {did}",
    ]
    return random.sample(every, 3)


def entries(spark: Any, view: str) -> int:
    return int(
        spark.sql(f"SELECT COUNT(*) FROM viewkeep.{view}__rows WHERE `:ids` IS NOT NULL").collect()[0][0]
    )


@pytest.mark.parametrize("way", [merged, written_anew])
def test_views_are_read_through_waiting_diffs_and_folded_at_random_moments(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """Also by a session that has to read what waits, and where nothing fits the known shapes."""
    random = Random("log")
    create(vk)
    for number in range(1, 5):
        for statement in batch(random, number):
            spark.sql(statement).collect()
        if number == 3:
            monkeypatch.setattr(Layout, "has_room_for", lambda self, diffs: False)
        if number == 4:
            wide(monkeypatch)
        way(monkeypatch)
        one = viewkeep.connect(spark) if number % 2 == 0 else vk
        done = one.refresh()
        assert {r.strategy for r in done} <= {"id", "groups", "none"}
        for view in random.sample(list(VIEWS), 1):
            one.sql(f"OPTIMIZE MATERIALIZED VIEW {view}")
            assert entries(spark, view) == 0
        monkeypatch.undo()
        check(spark, f"after batch {number}")
    assert all(vk.verify(view) for view in ("spj", "ranked"))


def test_a_small_diff_is_stored_as_it_is_and_no_row_is_looked_for(
    vk: viewkeep.Connection, spark: Any
) -> None:
    create(vk, "spj")
    before = spark.sql("SELECT COUNT(*) FROM viewkeep.spj__rows").collect()[0][0]
    spark.sql("UPDATE parts SET price = 99 WHERE pid = 1").collect()
    done = vk.refresh("spj")[0]
    assert entries(spark, "spj") == 1, "one new price, for all who use the part"
    assert (done.diff_rows, done.commits) == (1, 1)
    assert done.jobs is not None
    assert done.jobs <= 4, "the feed, the diff, the commit, and what Delta looks up of the view's table"
    assert done.rows_changed == 2, "which is counted when it is asked for"
    assert spark.sql("SELECT COUNT(*) FROM viewkeep.spj__rows").collect()[0][0] == before + 1
    check(spark, "with a diff waiting", "spj")
    assert "1 waiting diffs" in vk.optimize("spj")
    assert spark.sql("SELECT COUNT(*) FROM viewkeep.spj__rows").collect()[0][0] == before
    check(spark, "folded", "spj")
    assert vk.refresh("spj")[0].strategy == "none"


def test_a_refresh_folds_when_reading_has_cost_as_much(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "WRITING", 2 * waiting.READING)
    monkeypatch.setattr(folding, "WRITING", 2 * waiting.READING)
    create(vk, "spj")
    waited = []
    for price in (1, 2, 3):
        spark.sql(f"UPDATE parts SET price = {price} WHERE pid = 1").collect()
        done = vk.refresh("spj")[0]
        waited.append(entries(spark, "spj"))
        assert ("folded" in done.reason) == (waited[-1] == 0)
        check(spark, f"at price {price}", "spj")
    assert waited[0] == 1
    assert 0 in waited


@pytest.mark.parametrize("way", [merged, written_anew])
def test_a_crash_while_folding_leaves_the_view_as_it_is(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """Here with commits as in a warehouse that one process holds: one session after the other."""
    monkeypatch.setattr(SparkEngine, "is_alone", lambda self: True)
    way(monkeypatch)
    monkeypatch.setattr(waiting, "WRITING", 0.0)
    monkeypatch.setattr(waiting.WaitingDiffs, "_price", lambda *target: 0.0)
    create(vk, "cost")
    step, survived = 0, False
    while not survived:
        step += 1
        spark.sql(f"UPDATE parts SET price = price + {step} WHERE pid IN (1, 2)").collect()
        crashed = viewkeep.connect(spark)
        crashed.progress = crash_at(step, "folding")
        try:
            crashed.refresh("cost")
            survived = True
        except Crash:
            pass
        again = viewkeep.connect(spark)
        again.refresh("cost")
        check(spark, f"after a crash at step {step}", "cost")
    assert step == 3, "two tables are folded"


OPERATIONS = {"merged": "MERGE", "written_anew": "WRITE"}


def commits(spark: Any, view: str, target: str = "rows") -> list[Any]:
    """Newest first."""
    table = f"viewkeep.{view}__{target}"
    return list(spark.sql(f"DESCRIBE HISTORY {table}").collect())


@pytest.mark.parametrize("way", [merged, written_anew])
def test_rows_that_come_after_folding_have_their_diffs(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """Rows that were there when diffs were folded in, and one that came back since."""
    way(monkeypatch)
    create(vk, "spj")
    was = spark.sql("SHOW TBLPROPERTIES viewkeep.spj__rows").collect()
    for number, other in enumerate(("DELETE FROM used WHERE did = 2", "INSERT INTO used VALUES (2, 1, 5)")):
        spark.sql(f"UPDATE parts SET price = {number} WHERE pid = 1").collect()
        spark.sql(other).collect()
        vk.refresh()
        assert entries(spark, "spj")
        check(spark, f"with diffs of refresh {number} waiting", "spj")
        vk.optimize("spj")
        assert entries(spark, "spj") == 0
        made = next(c.operation for c in commits(spark, "spj") if c.operation != "OPTIMIZE")
        assert made == OPERATIONS[way.__name__]
        check(spark, f"with diffs of refresh {number} folded in", "spj")
    assert spark.sql("SHOW TBLPROPERTIES viewkeep.spj__rows").collect() == was
    assert vk.verify("spj")


@pytest.mark.parametrize("way", [merged, written_anew])
def test_a_wide_change_tells_how_it_was_made_and_how_many_rows_changed(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """Diffs that waited reach rows too, which changed before."""
    create(vk, "spj", "cost")
    spark.sql("UPDATE parts SET price = 99 WHERE pid = 1").collect()
    spark.sql("UPDATE devices SET owner = 'w' WHERE did = 2").collect()
    assert {done.view: done.rows_changed for done in vk.refresh()} == {"spj": 2, "cost": 2}
    way(monkeypatch)
    wide(monkeypatch)
    spark.sql("UPDATE parts SET price = 98 WHERE pid IN (2, 3)").collect()
    spark.sql("DELETE FROM used WHERE did = 2").collect()
    spark.sql("INSERT INTO used VALUES (4, 1, 1), (3, 1, 1)").collect()
    done = {done.view: done for done in vk.refresh()}
    words = "merged into the rows" if way is merged else "all rows were written anew"
    for told in done.values():
        assert told.reason.endswith(f"; {words}, since the change is wide")
    check(spark, "after a wide change", "spj", "cost")
    assert (entries(spark, "spj"), entries(spark, "cost")) == (0, 0)
    # prices of (1, 2) and (3, 3), (2, 1) is gone, (3, 1) came; 4 is no device
    assert done["spj"].rows_changed == 4
    # the costs of 1 and 3, that of 2 is gone, that of 4 came
    assert done["cost"].rows_changed == 4
    assert commits(spark, "spj")[0].operation == OPERATIONS[way.__name__]


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("way", [merged, written_anew])
def test_others_that_write_while_diffs_are_folded_in_are_told(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way, is_alone: bool
) -> None:
    """What they wrote is not lost, and the view does not pass for up to date."""
    monkeypatch.setattr(SparkEngine, "is_alone", lambda self: is_alone)
    way(monkeypatch)
    create(vk, "spj")
    spark.sql("UPDATE parts SET price = 99 WHERE pid = 1").collect()
    vk.refresh("spj")
    real = delta.commit

    def later(*given: Any, **named: Any) -> int:
        spark.sql("UPDATE viewkeep.spj__rows SET price = 0 WHERE did = 1").collect()
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(delta, "commit", later)
        with pytest.raises(viewkeep.ViewkeepError) as problem:
            vk.optimize("spj")
    assert problem.value.code == "base_table_changed"
    assert commits(spark, "spj")[0].operation == "RESTORE"
    assert spark.sql("SELECT COUNT(*) FROM viewkeep.spj__rows WHERE price = 0").collect()[0][0]
    vk.refresh("spj", full=True)
    check(spark, "repaired", "spj")


@pytest.mark.parametrize("way", [merged, written_anew])
def test_of_two_that_fold_the_second_does_nothing(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    way(monkeypatch)
    create(vk, "spj")
    spark.sql("UPDATE parts SET price = 99 WHERE pid = 1").collect()
    vk.refresh("spj")
    other = viewkeep.connect(spark)

    def meanwhile(message: str) -> None:
        if message.startswith("folding"):
            other.optimize("spj")
            spark.sql("UPDATE parts SET price = 98 WHERE pid = 1").collect()
            other.refresh("spj")

    vk.progress = meanwhile
    with pytest.raises(viewkeep.ViewkeepError) as problem:
        vk.optimize("spj")
    vk.progress = lambda _: None
    assert problem.value.code == "concurrent_refresh"
    check(spark, "after two have folded", "spj")
    assert entries(spark, "spj") == 1, "that of the other's second refresh"
    vk.optimize("spj")
    check(spark, "folded at last", "spj")


def test_readers_see_whole_versions_only(vk: viewkeep.Connection, spark: Any) -> None:
    """Each change leaves all rows of the view with one price, and one row more."""
    create(vk, "spj")
    spark.sql("UPDATE parts SET price = 0, kind = 'a'").collect()
    vk.refresh("spj")
    seen: list[tuple[Any, ...]] = []
    stop = threading.Event()
    problems: list[Exception] = []

    def read() -> None:
        mine = spark.newSession()
        query = "SELECT MIN(price), MAX(price), COUNT(*) FROM spj"
        try:
            while not stop.is_set():
                seen.append(tuple(mine.sql(query).collect()[0]))
        except Exception as problem:
            problems.append(problem)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 5):
            spark.sql(f"UPDATE parts SET price = {number}").collect()
            spark.sql(
                f"INSERT INTO used VALUES (2, {number + 1}, {number})"
            ).collect() if number < 3 else None
            vk.refresh("spj")
            if number % 2 == 0:
                vk.optimize("spj")
    finally:
        stop.set()
        reader.join()
    assert not problems
    assert len(seen) > 4
    assert all(least == most for least, most, _ in seen)
    assert {(int(least), count) for least, _, count in seen} <= {(0, 4), (1, 5), (2, 6), (3, 6), (4, 6)}


def test_tables_may_change_during_a_refresh(vk: viewkeep.Connection, spark: Any) -> None:
    create(vk, "spj", "cost")
    spark.sql("UPDATE parts SET price = 11 WHERE pid = 1").collect()
    steps: list[str] = []

    def meanwhile(message: str) -> None:
        if message.startswith(("reading changes", "computing", "committing")) and len(steps) < 6:
            steps.append(message)
            spark.sql(f"UPDATE parts SET price = price + 1 WHERE pid = {len(steps) % 3 + 1}").collect()
            spark.sql(f"INSERT INTO used VALUES (9, {len(steps)}, 1)").collect()

    vk.progress = meanwhile
    for view in ("spj", "cost"):
        vk.refresh(view)
        assert vk.verify(view), "it shows some version of the tables"
    vk.progress = lambda _: None
    assert len(steps) == 6
    vk.refresh()
    check(spark, "in the end", "spj", "cost")


def test_a_column_that_is_added_to_a_table_does_not_matter(vk: viewkeep.Connection, spark: Any) -> None:
    create(vk, "spj", "cost")
    spark.sql("UPDATE parts SET price = 11 WHERE pid = 1").collect()
    spark.sql("ALTER TABLE parts ADD COLUMNS (colour STRING)").collect()
    spark.sql("INSERT INTO parts VALUES (5, 50, 'a', 'red')").collect()
    spark.sql("INSERT INTO used VALUES (1, 5, 2)").collect()
    spark.sql("UPDATE parts SET price = 12, colour = 'blue' WHERE pid = 1").collect()
    assert {r.strategy for r in vk.refresh()} == {"id"}
    check(spark, "with a new column", "spj", "cost")


def test_a_view_of_all_columns_is_compared_with_those_that_there_were(
    vk: viewkeep.Connection, spark: Any
) -> None:
    vk.sql(
        "CREATE MATERIALIZED VIEW every AS SELECT * FROM (parts p JOIN used USING (pid)) JOIN devices USING (did)"
    )
    spark.sql("ALTER TABLE parts ADD COLUMNS (colour STRING)").collect()
    spark.sql("UPDATE parts SET price = 12, colour = 'blue' WHERE pid = 1").collect()
    assert vk.verify("every")  # the update waits, and is no difference
    vk.refresh("every")
    assert vk.verify("every")


def test_a_change_feed_whose_files_are_gone(vk: viewkeep.Connection, spark: Any) -> None:
    create(vk, "total")
    spark.sql("UPDATE used SET n = n + 1").collect()
    shutil.rmtree(
        Path(spark.sql("DESCRIBE DETAIL used").first().location.removeprefix("file:")) / "_change_data"
    )
    with pytest.raises(viewkeep.ViewkeepError, match="cannot be read") as problem:
        vk.refresh("total")
    assert problem.value.code == "base_table_changed"
    vk.refresh("total", full=True)
    check(spark, "computed anew", "total")


def test_one_view_that_fails_does_not_stop_the_others(vk: viewkeep.Connection, spark: Any) -> None:
    create(vk, "spj", "cost", "total")
    spark.sql("UPDATE used SET n = n + 1").collect()
    spark.sql("ALTER TABLE viewkeep.cost__rows SET TBLPROPERTIES ('viewkeep.id' = 'another')").collect()
    spark.sql("DELETE FROM viewkeep.cost__rows WHERE did = 1").collect()
    with pytest.raises(viewkeep.ViewkeepError, match="1 of 3 views failed") as problem:
        vk.refresh()
    assert problem.value.code == "base_table_changed"
    check(spark, "though another failed", "spj", "total")
    vk.refresh("cost", full=True)
    check(spark, "repaired", "cost")


def test_a_view_replaced_by_another_session_is_not_refreshed_by_its_old_definition(
    vk: viewkeep.Connection, spark: Any
) -> None:
    create(vk, "total")
    other = viewkeep.connect(spark)
    other.sql("CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT did, SUM(n) AS s FROM used GROUP BY did")
    spark.sql("UPDATE used SET n = 7 WHERE did = 1").collect()
    with pytest.raises(viewkeep.ViewkeepError) as problem:
        vk.refresh("total")
    assert problem.value.code == "view_replaced"
    vk.refresh("total")
    assert rows(spark, "SELECT * FROM total") == rows(spark, "SELECT did, SUM(n) FROM used GROUP BY did")
