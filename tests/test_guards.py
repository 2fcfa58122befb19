"""Statements that would break views are refused, or logged; none is let through unseen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewkeep
from viewkeep.errors import AlreadyExists, DependentViews, Unsupported

from .helpers import contents


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with viewkeep.connect("duckdb:") as opened:
        opened.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2)")
        opened.sql("CREATE TABLE u (k INT PRIMARY KEY, a INT); INSERT INTO u VALUES (2, 20), (3, 30)")
        opened.sql("CREATE MATERIALIZED VIEW v AS SELECT k, a FROM t")
        yield opened


@pytest.mark.parametrize("plain", ["CREATE VIEW p AS SELECT k FROM t", "CREATE TEMP VIEW p AS SELECT 1 AS k"])
def test_a_plain_view_tells_no_changes(vk: viewkeep.Connection, plain: str) -> None:
    vk.sql(plain)
    with pytest.raises(Unsupported, match="p is a plain view") as refused:
        vk.sql("CREATE MATERIALIZED VIEW w AS SELECT *\nFROM p")
    assert refused.value.place is not None
    assert refused.value.place.line == 2
    assert "MATERIALIZED VIEW" in refused.value.hint
    assert len(vk.sql("SELECT k / 1 AS k FROM p")) > 0  # reading it is another matter


@pytest.mark.parametrize("source", ["viewkeep.history", "information_schema.tables"])
def test_catalogs_tell_no_changes(vk: viewkeep.Connection, source: str) -> None:
    with pytest.raises(Unsupported):
        vk.sql(f"CREATE MATERIALIZED VIEW w AS SELECT * FROM {source}")


def test_schemas_with_views_or_their_tables_stay(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE SCHEMA s; CREATE SCHEMA w; CREATE SCHEMA empty")
    vk.sql("CREATE TABLE s.x (k INT PRIMARY KEY)")
    vk.sql("CREATE MATERIALIZED VIEW w.over AS SELECT k FROM s.x")
    for schema in ("s", "S", "w"):
        with pytest.raises(DependentViews, match=r"w\.over"):
            vk.sql(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(Unsupported):
        vk.sql("DROP SCHEMA viewkeep CASCADE")
    vk.sql("DROP SCHEMA empty CASCADE")
    vk.sql("DROP MATERIALIZED VIEW w.over; DROP SCHEMA s CASCADE")
    assert vk.verify("v")


@pytest.mark.parametrize(
    "statement",
    ["ALTER VIEW v RENAME TO x", "ALTER TABLE v ADD COLUMN x INT", "ALTER TABLE main.v ALTER a SET NOT NULL"],
)
def test_views_cannot_be_altered(vk: viewkeep.Connection, statement: str) -> None:
    with pytest.raises(Unsupported, match="is a materialized view"):
        vk.sql(statement)


@pytest.mark.parametrize(
    "statement",
    ["CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "CREATE VIEW IF NOT EXISTS V AS SELECT 1 AS a",
     "CREATE TEMP VIEW v AS SELECT 1 AS a", "CREATE OR REPLACE TEMPORARY VIEW t AS SELECT 1 AS k"],
)  # fmt: skip
def test_a_plain_view_does_not_take_a_name(vk: viewkeep.Connection, statement: str) -> None:
    with pytest.raises(AlreadyExists):
        vk.sql(statement)
    assert contents(vk, "v") == contents(vk, "t")


def test_a_temporary_view_of_its_own_name_may_be_replaced(vk: viewkeep.Connection) -> None:
    for n in (1, 2):
        vk.sql(f"CREATE OR REPLACE TEMP VIEW p AS SELECT {n} AS a")
    assert vk.sql("SELECT a FROM p").rows == ((2,),)


@pytest.mark.parametrize(
    "statement",
    ["CREATE TEMPORARY TABLE x (k INT)", "CREATE TABLE other.main.x (k INT)", "DROP TABLE t, u", "TRUNCATE TABLE t, u",
     "INSERT INTO viewkeep.`view:v:rows` VALUES (9, 9)", "DROP TABLE viewkeep.`view:v:rows`",
     "DELETE FROM viewkeep.views"],
)  # fmt: skip
def test_what_would_do_something_else_than_it_says(vk: viewkeep.Connection, statement: str) -> None:
    with pytest.raises(Unsupported):
        vk.sql(statement)


@pytest.mark.parametrize(
    "statement",
    ["COPY t FROM 'nowhere.csv'", "EXPLAIN ANALYZE INSERT INTO t VALUES (3, 3)", "EXECUTE p", "IMPORT DATABASE 'x'"],
)  # fmt: skip
def test_what_is_not_logged_is_refused(vk: viewkeep.Connection, statement: str) -> None:
    vk.sql("PREPARE p AS INSERT INTO t VALUES (3, 3)")
    with pytest.raises(Unsupported, match="may change tables"):
        vk.sql(statement)
    assert contents(vk, "v") == contents(vk, "t")


@pytest.mark.parametrize(
    "statement",
    ["INSERT OR REPLACE INTO t VALUES (1, 9), (5, 5)", "INSERT INTO t VALUES (1, 9) ON CONFLICT (k) DO UPDATE SET a = 7",
     "INSERT INTO t VALUES (1, 9), (6, 6) ON CONFLICT DO NOTHING", "INSERT OR IGNORE INTO t VALUES (1, 9)",
     "UPDATE t SET a = u.a FROM u WHERE u.k = t.k", "UPDATE t SET a = x.a FROM u AS x",
     "DELETE FROM t USING u WHERE u.k = t.k", "UPDATE t SET k = 3 - k", "WITH x AS (SELECT 8, 8) INSERT INTO t SELECT * FROM x",
     "ALTER TABLE t ADD COLUMNS (b INT, c STRING)", "ALTER TABLE main.t ADD COLUMN b INT"],
)  # fmt: skip
def test_what_a_view_follows(vk: viewkeep.Connection, statement: str) -> None:
    before = contents(vk, "t")
    vk.sql(statement)
    assert "ALTER" in statement or "IGNORE" in statement or contents(vk, "t") != before
    vk.sql("UPDATE t SET a = a + 1 WHERE k = 1")
    vk.refresh()
    assert contents(vk, "v") == contents(vk, "(SELECT k, a FROM t)")


def test_a_view_over_a_column_that_was_added(vk: viewkeep.Connection) -> None:
    vk.sql("ALTER TABLE t ADD COLUMN b INT; UPDATE t SET b = k")
    vk.sql("CREATE MATERIALIZED VIEW w AS SELECT b, SUM(a) AS a FROM t GROUP BY b")
    vk.sql("UPDATE t SET b = 7, a = 5 WHERE k = 2; INSERT INTO t VALUES (3, 3, 7)")
    vk.refresh()
    assert contents(vk, "w") == contents(vk, "(SELECT b, SUM(a)::BIGINT FROM t GROUP BY b)")
    assert contents(vk, "v") == contents(vk, "(SELECT k, a FROM t)")


def test_other_alterations_are_refused(vk: viewkeep.Connection) -> None:
    for change in ("RENAME TO x", "DROP COLUMN a", "ALTER COLUMN a TYPE BIGINT", "RENAME a TO b"):
        for name in ("t", "T", "main.t"):
            with pytest.raises(DependentViews):
                vk.sql(f"ALTER TABLE {name} {change}")


def test_messages_say_what_was_not_done(vk: viewkeep.Connection) -> None:
    assert "exists already" in vk.sql("CREATE TABLE IF NOT EXISTS t (k INT)").message
    assert "there is no table" in vk.sql("DROP TABLE IF EXISTS nowhere").message


def test_what_engines_tell_is_shown(vk: viewkeep.Connection) -> None:
    vk.sql("UPDATE t SET a = 9")
    vk.refresh()
    shown = vk.sql("SHOW TABLES")
    assert shown.kind == "show"
    assert shown.rows == (("t",), ("u",), ("v",))
    assert vk.sql("DESCRIBE t").kind == "show"
    assert vk.sql("RESET threads").kind == "dml"
