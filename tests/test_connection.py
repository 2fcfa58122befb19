"""The Python surface on DuckDB: refresh, explain, verify, status, reopening, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

import viewkeep
from viewkeep.engines.duckdb import engine
from viewkeep.errors import AlreadyExists, SyntaxProblem, UnknownView, Unsupported

from .helpers import COST, SPJ, con, contents, log_of, shop, stored_as


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with shop() as made:
        yield made


def view(vk: viewkeep.Connection, name: str, query: str, strategy: str = "id") -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")


def assert_right(vk: viewkeep.Connection, name: str, query: str) -> None:
    assert contents(vk, name) == contents(vk, f"({query})")


# --- sql ---


def test_select(vk: viewkeep.Connection) -> None:
    result = vk.sql("SELECT pid, price FROM parts ORDER BY pid LIMIT 2")
    assert result.kind == "select"
    assert result.columns == ("pid", "price")
    assert result.rows == ((1, Decimal("10.00")), (2, Decimal("20.00")))
    assert len(result) == 2
    assert result.df().num_rows == 2


def test_the_last_statements_result(vk: viewkeep.Connection) -> None:
    assert vk.sql("DELETE FROM links; SELECT COUNT(*) AS n FROM links").rows == ((0,),)


def test_only_queries_have_frames(vk: viewkeep.Connection) -> None:
    with pytest.raises(TypeError):
        vk.sql("DELETE FROM links").df()


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", ";;"])
def test_nothing_to_run(vk: viewkeep.Connection, text: str) -> None:
    with pytest.raises(SyntaxProblem):
        vk.sql(text)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CREATE TABLE z (k INT, PRIMARY KEY (k))", "create_table"),
        ("INSERT INTO parts VALUES (9, 9, 'z')", "dml"),
        ("UPDATE parts SET price = 1", "dml"),
        ("DELETE FROM parts", "dml"),
        ("SELECT * FROM v", "select"),
        ("REFRESH MATERIALIZED VIEW v", "refresh"),
        ("REFRESH MATERIALIZED VIEWS", "refresh"),
        ("EXPLAIN MATERIALIZED VIEW v", "explain"),
        ("VERIFY MATERIALIZED VIEW v", "verify"),
        ("SHOW MATERIALIZED VIEWS", "show"),
        ("DROP MATERIALIZED VIEW v", "drop"),
        ("DROP MATERIALIZED VIEW IF EXISTS nope", "drop"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT did FROM devices", "create_view"),
    ],
)
def test_kinds(vk: viewkeep.Connection, statement: str, kind: str) -> None:
    view(vk, "v", SPJ)
    assert vk.sql(statement).kind == kind


def test_show(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    shown = vk.sql("SHOW MATERIALIZED VIEWS")
    assert shown.columns[0] == "view"
    assert [row[0] for row in shown.rows] == ["v"]


def test_rows_affected(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    assert vk.sql("UPDATE parts SET price = 1 WHERE pid < 3").detail == 2
    assert vk.sql("INSERT INTO devices VALUES (8, 'x'), (9, 'x')").detail == 2
    assert vk.sql("DELETE FROM links WHERE pid = 1").detail == 2
    assert vk.sql("UPDATE parts SET price = 1 WHERE pid = 77").detail == 0


def test_names_of_views_have_no_case(vk: viewkeep.Connection) -> None:
    view(vk, "MyView", SPJ)
    assert vk.refresh("myview")[0].view == "MyView"
    with pytest.raises(AlreadyExists):
        view(vk, "MYVIEW", SPJ)


def test_or_replace(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    vk.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT did FROM devices")
    assert vk.sql("SELECT * FROM v").columns == ("did",)
    vk.sql("INSERT INTO devices VALUES (9, 'x')")
    vk.refresh()
    assert_right(vk, "v", "SELECT did FROM devices")
    assert len(vk.status()) == 1


@pytest.mark.parametrize("options", ["strategy = 'fast'", "colour = 'red'", "strategy = 'id', x = 1"])
def test_unknown_options(vk: viewkeep.Connection, options: str) -> None:
    with pytest.raises(Unsupported) as caught:
        vk.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {SPJ}")
    assert "strategy" in caught.value.hint
    assert vk.status() == []


# --- refresh ---


@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_strategies_that_are_reported(vk: viewkeep.Connection, strategy: str) -> None:
    view(vk, "v", COST, strategy)
    assert [(r.view, r.strategy) for r in vk.refresh()] == [("v", "none")]
    vk.sql("UPDATE parts SET price = price + 1")
    (done,) = vk.refresh("v")
    assert done.strategy == strategy
    assert done.changes_in == 3
    assert done.seconds > 0
    assert "3 updated" in done.reason
    assert_right(vk, "v", COST)
    (done,) = vk.refresh("v", full=True)
    assert (done.strategy, done.reason) == ("full", "asked for")
    assert_right(vk, "v", COST)
    assert vk.refresh()[0].strategy == "none"


def test_changes_that_cancel_out_are_no_change(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    vk.sql("UPDATE parts SET price = price + 1; UPDATE parts SET price = price - 1")
    vk.sql("INSERT INTO parts VALUES (9, 9, 'x'); DELETE FROM parts WHERE pid = 9")
    (done,) = vk.refresh()
    assert (done.strategy, done.changes_in, done.rows_changed, done.statements) == ("none", 0, 0, 0)


def test_changes_that_the_view_does_not_look_at(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    vk.sql("UPDATE parts SET label = 'new'")
    (done,) = vk.refresh()
    assert (done.rows_changed, done.diff_rows, done.statements) == (0, 0, 0)
    assert vk.status()[0].pending == 0


def test_named_views_all_views_and_full(vk: viewkeep.Connection) -> None:
    view(vk, "a", COST)
    view(vk, "b", SPJ, "tuple")
    vk.sql("UPDATE parts SET price = 5 WHERE pid = 1")
    assert [(r.view, r.strategy) for r in vk.refresh("b")] == [("b", "tuple")]
    assert_right(vk, "b", SPJ)
    assert [(r.view, r.strategy) for r in vk.refresh()] == [("a", "id"), ("b", "none")]
    assert_right(vk, "a", COST)
    assert [r.strategy for r in vk.refresh("b", "a", full=True)] == ["full", "full"]


def test_a_view_that_lags_behind_catches_up(vk: viewkeep.Connection) -> None:
    view(vk, "a", COST)
    view(vk, "b", SPJ)
    for price in (5, 6, 7):
        vk.sql(f"UPDATE parts SET price = {price} WHERE pid = 1")
        vk.refresh("b")
    vk.sql("DELETE FROM links WHERE did = 1")
    vk.refresh("b")
    vk.refresh("a")
    assert_right(vk, "a", COST)
    assert_right(vk, "b", SPJ)


@pytest.mark.parametrize(("bound", "least"), [("SEEN_STATEMENTS", 1), ("SEEN_ROWS", 1)])
def test_the_log_is_trimmed_when_all_views_have_seen_it(
    vk: viewkeep.Connection, bound: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, bound, least)
    view(vk, "a", COST)
    view(vk, "b", SPJ)
    vk.sql("UPDATE parts SET price = 5 WHERE pid = 1")

    def logged() -> int:
        return int(con(vk).execute(f"SELECT count(*) FROM {log_of('parts')}").fetchone()[0])

    assert logged() == 2
    vk.refresh("a")
    assert logged() == 2
    vk.refresh("b")
    assert logged() == 0


def test_the_same_view_twice(vk: viewkeep.Connection) -> None:
    view(vk, "a", COST)
    vk.sql("UPDATE parts SET price = 5 WHERE pid = 1")
    assert [r.strategy for r in vk.refresh("a", "a")] == ["id", "none"]
    assert_right(vk, "a", COST)


@pytest.mark.parametrize("call", ["refresh", "explain", "verify", "drop"])
def test_a_view_that_is_not_there(vk: viewkeep.Connection, call: str) -> None:
    view(vk, "a", COST)
    with pytest.raises(UnknownView) as caught:
        getattr(vk, call)("nope")
    assert "a" in caught.value.hint


def test_one_unknown_name_refreshes_nothing(vk: viewkeep.Connection) -> None:
    view(vk, "a", COST)
    vk.sql("UPDATE parts SET price = 5")
    before = contents(vk, "a")
    with pytest.raises(UnknownView):
        vk.refresh("a", "nope")
    assert contents(vk, "a") == before


def test_no_views_at_all(vk: viewkeep.Connection) -> None:
    assert vk.refresh() == []
    assert vk.status() == []


def many(vk: viewkeep.Connection) -> None:
    """1000 parts, two devices that have each of them."""
    vk.sql("DELETE FROM parts; DELETE FROM links")
    con(vk).execute("INSERT INTO parts SELECT i, i, 'p' FROM range(1000) t(i)")
    con(vk).execute("INSERT INTO links SELECT d, i, 1 FROM range(1000) t(i), range(1, 3) u(d)")


def test_counts_of_an_update_of_200_prices(vk: viewkeep.Connection) -> None:
    many(vk)
    view(vk, "v", SPJ)
    vk.sql("UPDATE parts SET price = price + 1 WHERE pid < 200")
    (done,) = vk.refresh()
    assert done.strategy == "id"
    assert done.changes_in == 200
    assert done.diff_rows == 200
    assert done.rows_changed == 400
    assert done.statements == 1
    assert_right(vk, "v", SPJ)


def test_counts_of_the_same_by_tuples(vk: viewkeep.Connection) -> None:
    many(vk)
    view(vk, "v", SPJ, "tuple")
    vk.sql("UPDATE parts SET price = price + 1 WHERE pid < 200")
    (done,) = vk.refresh()
    assert (done.changes_in, done.diff_rows, done.rows_changed) == (200, 400, 400)


def test_counts_of_groups(vk: viewkeep.Connection) -> None:
    many(vk)
    view(vk, "v", COST)
    vk.sql("UPDATE parts SET price = price + 1 WHERE pid < 200")
    (done,) = vk.refresh()
    assert (done.changes_in, done.diff_rows, done.rows_changed) == (200, 2, 2)


def test_counts_of_every_kind_of_change(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    vk.sql("INSERT INTO links VALUES (2, 2, 1), (2, 3, 1); DELETE FROM links WHERE did = 1 AND pid = 1")
    vk.sql("UPDATE parts SET price = 99 WHERE pid = 2")
    (done,) = vk.refresh()
    assert done.changes_in == 4
    assert done.statements == 3
    assert "2 inserted" in done.reason
    assert "1 deleted" in done.reason
    assert_right(vk, "v", SPJ)


def test_rows_changed_of_a_full_refresh(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    assert vk.refresh(full=True)[0].rows_changed == 3


# --- status ---


def test_status(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    (fresh,) = vk.status()
    assert (fresh.view, fresh.rows, fresh.pending, fresh.stale, fresh.strategy) == ("v", 2, 0, False, "id")
    assert fresh.tables == ("parts", "links", "devices")
    assert fresh.caches == ("cache_1",)
    assert set(fresh.versions) == {"parts", "links", "devices"}
    assert isinstance(fresh.refreshed, datetime)
    assert fresh.problem == ""
    vk.sql("DELETE FROM parts WHERE pid = 1")
    (stale,) = vk.status()
    assert (stale.rows, stale.pending, stale.stale) == (2, 1, True)


@pytest.mark.parametrize(
    ("statements", "pending"),
    [
        ("UPDATE parts SET price = 5 WHERE pid = 1", 1),
        ("UPDATE parts SET price = 5", 3),
        ("UPDATE parts SET price = 5; UPDATE parts SET price = 6", 3),
        ("UPDATE parts SET price = price", 0),
        ("INSERT INTO parts VALUES (9, 1, 'x'); DELETE FROM parts WHERE pid = 9", 0),
        ("UPDATE parts SET price = 5 WHERE pid = 1; INSERT INTO devices VALUES (9, 'x')", 2),
        ("UPDATE parts SET pid = 7 WHERE pid = 1", 2),
    ],
)
def test_pending_counts_changed_rows(vk: viewkeep.Connection, statements: str, pending: int) -> None:
    view(vk, "v", COST)
    vk.sql(statements)
    (status,) = vk.status()
    assert status.pending == pending
    assert status.stale is (pending > 0)


def test_views_are_listed_in_the_order_of_creation(vk: viewkeep.Connection) -> None:
    for name in ("c", "a", "b"):
        view(vk, name, SPJ)
    assert [s.view for s in vk.status()] == ["c", "a", "b"]


# --- verify ---


def test_verify_of_a_fresh_and_of_a_stale_view(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    assert vk.verify("v")
    # a view that waits for changes equals its query at the versions that it shows
    vk.sql(
        "UPDATE parts SET price = 7; DELETE FROM links WHERE did = 1; INSERT INTO devices VALUES (9, 'phone')"
    )
    found = vk.verify("v")
    assert found
    assert found.equal
    assert "equals its query" in str(found)
    vk.refresh()
    assert vk.verify("v")


@pytest.mark.parametrize(
    ("tamper", "missing", "unexpected"),
    [
        ("DELETE FROM ROWS WHERE did = 1 AND pid = 2", 1, 0),
        ("UPDATE ROWS SET price = 0 WHERE did = 1 AND pid = 2", 1, 1),
        ("INSERT INTO ROWS SELECT * FROM ROWS LIMIT 1", 0, 1),
        ("DELETE FROM ROWS", 3, 0),
        ("UPDATE ROWS SET price = NULL", 3, 3),
    ],
)
def test_verify_finds_tampering(vk: viewkeep.Connection, tamper: str, missing: int, unexpected: int) -> None:
    view(vk, "v", SPJ)
    con(vk).execute(tamper.replace("ROWS", stored_as("v")))
    found = vk.verify("v")
    assert not found
    assert (found.missing, found.unexpected) == (missing, unexpected)
    assert len(found.missing_rows) == missing
    assert len(found.unexpected_rows) == unexpected
    assert found.columns == ("did", "pid", "price")
    assert "differs" in str(found)
    vk.refresh(full=True)
    assert vk.verify("v")


def test_verify_changes_nothing(vk: viewkeep.Connection) -> None:
    view(vk, "v", SPJ)
    vk.sql("DELETE FROM links")
    before = contents(vk, "v")
    vk.verify("v")
    assert contents(vk, "v") == before
    assert vk.status()[0].pending == 4


def test_verify_tells_doubles_apart_that_differ_by_more_than_rounding(vk: viewkeep.Connection) -> None:
    vk.sql(
        "CREATE TABLE m (k INT, x DOUBLE, PRIMARY KEY (k)); INSERT INTO m VALUES (1, 0.1), (2, 0.2), (3, 0.3)"
    )
    view(vk, "v", "SELECT SUM(x) AS s FROM m")
    described = con(vk).execute(f"DESCRIBE {stored_as('v')}").fetchall()
    column = next(row[0] for row in described if row[0].endswith("_sum"))
    con(vk).execute(f'UPDATE {stored_as("v")} SET "{column}" = 0.6 + 1e-13')
    assert vk.verify("v")
    con(vk).execute(f'UPDATE {stored_as("v")} SET "{column}" = 0.6001')
    assert not vk.verify("v")


def test_verify_tells_of_tampered_caches_only_where_they_show(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    con(vk).execute(f"DELETE FROM {stored_as('v')} WHERE did = 2")
    found = vk.verify("v")
    assert (found.missing, found.missing_rows) == (1, ((2, Decimal("10.00")),))


# --- explain ---


def test_explain(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    made = vk.explain("v")
    text = str(made)
    for part in (
        "view v",
        "plan",
        "Aggregate by",
        "Scan parts AS p",
        "cache_1",
        "input cache",
        "delta script",
    ):
        assert part in text
    assert "update(p_pid; p_price)" in text
    assert "insert(" in text
    assert any("price" in d for d in made.diffs)
    assert any("MERGE" in sql or "UPDATE" in sql for _, sql in made.script)
    assert "[did" in made.plan
    assert [name for name, _ in made.steps][:3] == ["bind", "normalize", "infer_ids"]
    assert "after place_caches" in made.steps_text()


def test_every_statement_of_the_explained_script_is_sql(vk: viewkeep.Connection) -> None:
    import sqlglot

    view(vk, "v", COST)
    for _, sql in vk.explain("v").script:
        assert sqlglot.parse_one(sql, read="duckdb") is not None


def test_explain_changes_nothing(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    vk.sql("DELETE FROM links")
    vk.explain("v")
    assert vk.status()[0].pending == 4


# --- reopening ---


def test_reopening_goes_on_where_it_stopped(tmp_path: Path) -> None:
    where = f"duckdb:{tmp_path / 'shop.db'}"
    with shop(where) as vk:
        view(vk, "v", COST)
        view(vk, "w", SPJ, "tuple")
        vk.sql("UPDATE parts SET price = 7")
        vk.refresh("w")
    with viewkeep.connect(where) as vk:
        assert [(s.view, s.stale, s.strategy) for s in vk.status()] == [
            ("v", True, "id"),
            ("w", False, "tuple"),
        ]
        vk.sql("DELETE FROM links WHERE did = 1 AND pid = 2")
    with viewkeep.connect(where) as vk:
        assert [r.strategy for r in vk.refresh()] == ["id", "tuple"]
        assert_right(vk, "v", COST)
        assert_right(vk, "w", SPJ)
        assert vk.verify("v")
        vk.sql("DROP MATERIALIZED VIEW v")
    with viewkeep.connect(where) as vk:
        assert [s.view for s in vk.status()] == ["w"]


# --- threads ---


def in_threads(count: int, work: object) -> list[BaseException]:
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)  # type: ignore[operator]
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_two_threads_refresh_at_once(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)
    view(vk, "w", SPJ)
    vk.sql("UPDATE parts SET price = price + 1; DELETE FROM links WHERE did = 2")
    strategies: list[str] = []

    def work(_: int) -> None:
        for _ in range(20):
            strategies.extend(r.strategy for r in vk.refresh())

    assert in_threads(2, work) == []
    assert strategies.count("id") == 2, "no change is applied twice"
    assert_right(vk, "v", COST)
    assert_right(vk, "w", SPJ)


def test_one_thread_writes_while_others_refresh_and_read(vk: viewkeep.Connection) -> None:
    view(vk, "v", COST)

    def work(number: int) -> None:
        for n in range(20):
            if number == 0:
                vk.sql(f"UPDATE parts SET price = {n}.50 WHERE pid = 1")
            elif number == 1:
                vk.refresh()
            else:
                assert vk.sql("SELECT * FROM v").columns == ("did", "cost")
                assert vk.status()[0].rows == 2

    assert in_threads(3, work) == []
    vk.refresh()
    assert_right(vk, "v", COST)
