"""Changes on PostgreSQL that statements do not make by themselves, and triggers that are not what they were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import viewkeep
from viewkeep.engines.postgres.session import Failure, Session
from viewkeep.errors import BaseTableChanged, Unsupported

pytestmark = pytest.mark.xdist_group("postgres")

VIEWS = {
    "sums": "SELECT grp, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY grp",
    "large": "SELECT id, x FROM t WHERE x > 15",
}
EAGER = "WITH (maintenance = 'eager') "
OPTIONS = pytest.mark.parametrize("options", ["", EAGER], ids=["deferred", "eager"])


@pytest.fixture
def other(postgres_address: str) -> Iterator[Session]:
    """A client that knows nothing of viewkeep."""
    session = Session(postgres_address)
    yield session
    session.close()


@pytest.fixture
def vk(postgres: viewkeep.Connection, other: Session) -> viewkeep.Connection:
    other.run("CREATE TABLE t (id int PRIMARY KEY, grp int, x int)")
    other.run("INSERT INTO t SELECT i, i % 3, i * 10 FROM generate_series(1, 9) AS i")
    return postgres


def create(vk: viewkeep.Connection, options: str = "") -> None:
    for name, query in VIEWS.items():
        vk.sql(f"CREATE MATERIALIZED VIEW {name} {options}AS {query}")


def assert_right(vk: viewkeep.Connection, other: Session) -> None:
    for name, query in VIEWS.items():
        assert sorted(map(str, other.rows(f"SELECT * FROM {name}"))) == sorted(map(str, other.rows(query)))
        assert vk.verify(name)


def trigger(other: Session, name: str, when: str, body: str) -> None:
    other.run(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$"
    )
    other.run(f"CREATE TRIGGER {name} {when} ON t FOR EACH ROW EXECUTE FUNCTION {name}()")


@OPTIONS
@pytest.mark.parametrize(
    ("when", "body", "statement"),
    [
        (
            "AFTER INSERT",
            "UPDATE t SET x = x + 1000, grp = NEW.id WHERE id = NEW.id",
            "INSERT INTO t VALUES (100, 5, 5), (101, 6, 6)",
        ),
        ("AFTER INSERT", "DELETE FROM t WHERE id = NEW.id", "INSERT INTO t VALUES (100, 5, 5)"),
        ("BEFORE INSERT", "DELETE FROM t WHERE id = NEW.id", "INSERT INTO t VALUES (4, 5, 5), (5, 6, 6)"),
        ("AFTER DELETE", "INSERT INTO t VALUES (OLD.id, 8, 88)", "DELETE FROM t WHERE id < 4"),
        ("AFTER UPDATE OF grp", "UPDATE t SET x = x + 7 WHERE id = NEW.id", "UPDATE t SET grp = 1, x = 1"),
    ],
)
def test_triggers_that_change_rows_of_their_statement(
    vk: viewkeep.Connection, other: Session, options: str, when: str, body: str, statement: str
) -> None:
    """The statement in the trigger is logged first, whichever changed the row first."""
    create(vk, options)
    trigger(other, "nested", when, body)
    other.run(statement)
    vk.refresh()
    assert_right(vk, other)
    other.run("BEGIN")
    other.run("UPDATE t SET x = x + 1")
    other.run("DELETE FROM t WHERE id > 6")
    other.run("COMMIT")
    vk.refresh()
    assert_right(vk, other)


def test_cascades_are_maintained_when_all_of_them_are_over(
    postgres: viewkeep.Connection, other: Session
) -> None:
    other.run("CREATE TABLE a (id int PRIMARY KEY, n int)")
    other.run(
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE, x int)"
    )
    other.run("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
    other.run("INSERT INTO b VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4)")
    query = "SELECT a.id, a.n, b.x FROM a JOIN b ON a.id = b.a"
    postgres.sql(f"CREATE MATERIALIZED VIEW v {EAGER}AS {query}")
    for immediate in (False, True):
        other.run("BEGIN")
        if immediate:
            other.run("SET CONSTRAINTS ALL IMMEDIATE")
        other.run("UPDATE a SET id = id + 10")
        other.run(f"DELETE FROM a WHERE id = {21 if immediate else 13}")
        other.run("COMMIT")
        assert sorted(other.rows("SELECT * FROM v")) == sorted(other.rows(query))
        assert postgres.verify("v")


def test_a_trigger_does_not_lead_a_view_that_follows_at_once(vk: viewkeep.Connection, other: Session) -> None:
    create(vk, EAGER)
    trigger(other, "nested", "AFTER INSERT", "UPDATE t SET x = x + 1000 WHERE id = NEW.id")
    other.run("BEGIN")
    other.run("SET CONSTRAINTS ALL IMMEDIATE")
    other.run("INSERT INTO t VALUES (50, 1, 5), (51, 2, 6)")
    other.run("UPDATE t SET x = x + 1")
    other.run("COMMIT")
    assert_right(vk, other)


@OPTIONS
def test_rows_that_come_from_elsewhere(vk: viewkeep.Connection, other: Session, options: str) -> None:
    create(vk, options)
    other.run("SET session_replication_role = replica")
    other.run("UPDATE t SET x = x + 1")
    other.run("TRUNCATE t")
    other.run("INSERT INTO t VALUES (1, 2, 30)")
    vk.refresh()
    assert_right(vk, other)


@OPTIONS
@pytest.mark.parametrize(
    "gap",
    [
        "ALTER TABLE t DISABLE TRIGGER USER; UPDATE t SET x = x + 1; ALTER TABLE t ENABLE TRIGGER USER",
        "ALTER TABLE t DISABLE TRIGGER ALL; UPDATE t SET x = x + 1",
        'DROP TRIGGER "viewkeep:update" ON t; UPDATE t SET x = x + 1',
        "CREATE TABLE n (LIKE t INCLUDING ALL); ALTER TABLE t RENAME TO old; ALTER TABLE n RENAME TO t; "
        "INSERT INTO t VALUES (1, 2, 30); INSERT INTO old VALUES (70, 1, 1)",
    ],
)
def test_a_gap_in_the_log_is_noticed(vk: viewkeep.Connection, other: Session, options: str, gap: str) -> None:
    create(vk, options)
    other.run(gap)
    assert all("may not have been logged" in status.problem for status in vk.status())
    with pytest.raises(BaseTableChanged, match="may not have been logged"):
        vk.refresh("sums")
    assert vk.refresh("sums", full=True)[0].strategy == "full"
    other.run("UPDATE t SET x = x + 1")
    vk.refresh("sums")
    with pytest.raises(BaseTableChanged):  # it is the log that is whole again, not this view
        vk.refresh("large")
    vk.refresh("large", full=True)
    other.run("DELETE FROM t WHERE id = 1")
    assert {done.strategy for done in vk.refresh()} == {"none" if options else "id"}
    assert_right(vk, other)


def test_a_new_view_after_a_gap(vk: viewkeep.Connection, other: Session) -> None:
    create(vk)
    other.run('DROP TRIGGER "viewkeep:update" ON t')
    vk.sql("CREATE MATERIALIZED VIEW late AS SELECT id, x FROM t")
    other.run("UPDATE t SET x = x + 1")
    vk.refresh("late")
    assert vk.verify("late")


def test_a_table_that_was_renamed_can_be_written_to(vk: viewkeep.Connection, other: Session) -> None:
    create(vk)
    other.run("ALTER TABLE t RENAME TO old")
    for name in VIEWS:
        vk.drop(name)
    other.run("INSERT INTO old VALUES (70, 1, 1)")


def test_tables_that_are_written_by_way_of_others(vk: viewkeep.Connection, other: Session) -> None:
    other.run("CREATE TABLE p (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)")
    other.run("CREATE TABLE part PARTITION OF p FOR VALUES FROM (0) TO (100)")
    other.run("CREATE TABLE parent (id int PRIMARY KEY, x int)")
    other.run("CREATE TABLE child () INHERITS (parent)")
    other.run("CREATE TABLE fed (id int PRIMARY KEY, x int)")
    other.run("SET allow_system_table_mods = on")
    other.run("INSERT INTO pg_subscription_rel VALUES (1, 'fed'::regclass, 'r', NULL)")
    for name in ("p", "part", "parent", "child", "fed"):
        with pytest.raises(Unsupported, match="would not be seen") as refused:
            vk.sql(f"CREATE MATERIALIZED VIEW v AS SELECT x FROM {name}")
        assert refused.value.place is not None
    other.run("DELETE FROM pg_subscription_rel")
    vk.sql("INSERT INTO p VALUES (1, 1)")  # what is no view may use them
    assert vk.sql("SELECT x FROM p").rows == ((1,),)


def test_a_table_that_views_read_stays_by_itself(vk: viewkeep.Connection, other: Session) -> None:
    create(vk)
    other.run("CREATE TABLE p (id int PRIMARY KEY, grp int, x int) PARTITION BY RANGE (id)")
    with pytest.raises(Failure, match="viewkeep:alone"):
        other.run("ALTER TABLE p ATTACH PARTITION t FOR VALUES FROM (0) TO (100)")
    other.run("CREATE TABLE parent (id int, grp int, x int)")
    with pytest.raises(Failure, match="viewkeep:alone"):
        other.run("ALTER TABLE t INHERIT parent")
    other.run("CREATE TABLE child () INHERITS (t)")
    with pytest.raises(BaseTableChanged, match="inherit"):
        vk.refresh()
    other.run("DROP TABLE child")
    vk.refresh()
    assert_right(vk, other)
