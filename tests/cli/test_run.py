"""viewkeep run: the JSON form of every kind of statement, errors, and the exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SHOP, Run
from viewkeep.connection import Connection
from viewkeep.results import Refresh, Result, Verification

TABLE = "CREATE TABLE t (a INT, PRIMARY KEY (a));"


def one(run: Run, text: str) -> dict[str, Any]:
    """The object of the only statement."""
    ran = run(text, "--json")
    (form,) = ran.objects
    assert form.pop("n") == 1
    return form


def test_creating_and_filling_tables(sql: Run) -> None:
    ran = sql(SHOP, "--json")
    assert ran.status == 0
    assert [form["n"] for form in ran.objects] == [1, 2, 3, 4, 5]
    assert [form["kind"] for form in ran.objects] == ["create_table"] * 2 + ["dml"] * 2 + ["create_view"]
    assert "parts" in ran.objects[0]["message"]
    assert ran.objects[2]["rows"] == 2
    assert ran.objects[4]["view"] == "device_cost"
    assert ran.objects[4]["rows"] == 2


@pytest.mark.usefixtures("shop")
def test_select(sql: Run) -> None:
    assert one(sql, "SELECT did, cost FROM device_cost ORDER BY did") == {
        "kind": "select",
        "columns": ["did", "cost"],
        "rows": [["D1", "30.00"], ["D2", "10.00"]],
    }


@pytest.mark.usefixtures("shop")
def test_refresh(sql: Run) -> None:
    ran = sql(
        "UPDATE parts SET price = 11 WHERE pid = 'P1'; REFRESH MATERIALIZED VIEW device_cost;", "--json"
    )
    assert ran.objects[0]["kind"] == "dml"
    refreshed = ran.objects[1]
    assert list(refreshed) == [
        "n", "kind", "view", "strategy", "reason", "seconds",
        "changes_in", "rows_changed", "diff_rows", "statements",
    ]  # fmt: skip
    assert (refreshed["n"], refreshed["kind"], refreshed["view"]) == (2, "refresh", "device_cost")
    assert refreshed["strategy"] == "id"
    assert refreshed["reason"]
    assert refreshed["seconds"] > 0
    assert refreshed["changes_in"] == 1
    assert refreshed["statements"] >= 1


@pytest.mark.usefixtures("shop")
def test_refreshing_all_views_gives_an_object_each_under_one_number(sql: Run) -> None:
    sql("CREATE MATERIALIZED VIEW cheap AS SELECT pid, price FROM parts WHERE price < 15")
    ran = sql("SELECT 1 AS x; REFRESH MATERIALIZED VIEWS; SELECT 2 AS x", "--json")
    assert [form["n"] for form in ran.objects] == [1, 2, 2, 3]
    assert [form.get("view") for form in ran.objects] == [None, "device_cost", "cheap", None]


@pytest.mark.usefixtures("shop")
def test_verify(sql: Run) -> None:
    ran = sql("VERIFY MATERIALIZED VIEW device_cost", "--json")
    assert ran.status == 0
    assert ran.objects == [
        {"n": 1, "kind": "verify", "view": "device_cost", "equal": True, "missing": 0, "unexpected": 0}
    ]


@pytest.mark.usefixtures("shop")
def test_a_view_that_differs_is_status_1_and_says_how(sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    differs = Verification("v", 1, 0, ("a",), missing_rows=((1,),))
    monkeypatch.setattr(Connection, "verify", lambda *_: differs)
    ran = sql("VERIFY MATERIALIZED VIEW device_cost; SELECT 1 AS x", "--json")
    assert ran.status == 1
    assert ran.objects[0]["equal"] is False
    assert ran.objects[0]["missing_rows"] == [[1]]
    assert ran.objects[0]["unexpected_rows"] == []
    # a difference is an answer, not an error: the run goes on
    assert ran.objects[1]["kind"] == "select"


@pytest.mark.usefixtures("shop")
def test_explain(sql: Run) -> None:
    form = one(sql, "EXPLAIN MATERIALIZED VIEW device_cost")
    assert form["kind"] == "explain"
    assert form["view"] == "device_cost"
    assert "device_cost" in form["text"]
    assert form["script"]
    assert all(step["title"] and step["sql"] for step in form["script"])


@pytest.mark.usefixtures("shop")
def test_show(sql: Run) -> None:
    form = one(sql, "SHOW MATERIALIZED VIEWS")
    assert form["kind"] == "show"
    assert form["columns"][0] == "view"
    assert [row[0] for row in form["rows"]] == ["device_cost"]


@pytest.mark.usefixtures("shop")
def test_drop(sql: Run) -> None:
    form = one(sql, "DROP MATERIALIZED VIEW device_cost")
    assert form["kind"] == "drop"
    assert form["view"] == "device_cost"
    assert one(sql, "DROP TABLE parts")["kind"] == "drop"


def test_jobs_and_commits_are_there_where_the_engine_counts_them(
    sql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = [Refresh("v", "id", "why", 0.5, jobs=3, commits=1)]
    monkeypatch.setattr(Connection, "run", lambda *_: Result("refresh", detail=done))
    form = one(sql, "REFRESH MATERIALIZED VIEW v")
    assert (form["jobs"], form["commits"]) == (3, 1)


# --- errors ---


def test_an_error_has_its_place_in_the_statement_and_in_the_file(sql: Run) -> None:
    view = "CREATE MATERIALIZED VIEW v AS\nSELECT a,\n  nope FROM t;"
    ran = sql(f"{TABLE}\n\n{view}", "--json")
    assert ran.status == 1
    error = ran.objects[1]
    assert error["n"] == 2
    assert error["kind"] == "error"
    assert error["code"] == "unknown_column"
    assert "nope" in error["message"]
    assert error["hint"]
    assert (error["line"], error["column"], error["file_line"]) == (3, 3, 5)


def test_an_error_without_a_place_has_null_for_it(sql: Run) -> None:
    error = one(sql, "REFRESH MATERIALIZED VIEW nope")
    assert error["code"] == "unknown_view"
    assert error["line"] is None
    assert error["column"] is None
    assert "file_line" not in error


def test_the_first_error_ends_the_run(sql: Run) -> None:
    ran = sql("REFRESH MATERIALIZED VIEW nope; SELECT 1 AS x", "--json")
    assert ran.status == 1
    assert [form["kind"] for form in ran.objects] == ["error"]


def test_keep_going_goes_on_and_the_status_is_still_1(sql: Run) -> None:
    ran = sql("REFRESH MATERIALIZED VIEW nope; SELECT 1 AS x", "--json", "--keep-going")
    assert ran.status == 1
    assert [(form["n"], form["kind"]) for form in ran.objects] == [(1, "error"), (2, "select")]


def test_an_unexpected_exception_is_an_error_too(sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Result:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(Connection, "run", breaks)
    quiet = sql("SELECT 1", "--json")
    assert quiet.status == 1
    assert quiet.objects[0]["kind"] == "error"
    assert quiet.objects[0]["code"] == "internal"
    assert quiet.objects[0]["message"] == "ZeroDivisionError: oh"
    assert "Traceback" not in quiet.err
    assert "Traceback" in sql("SELECT 1", "--json", "--debug").err


def test_a_quote_left_open_is_an_error_before_anything_runs(sql: Run) -> None:
    ran = sql(f"{TABLE} SELECT 'abc", "--json")
    assert ran.status == 1
    assert [(form["n"], form["code"]) for form in ran.objects] == [(1, "syntax")]


def test_a_file_that_is_not_there(viewkeep: Run) -> None:
    ran = viewkeep("run", "nope.sql", "--engine", "duckdb", "--json")
    assert ran.status == 1
    assert ran.objects[0]["code"] == "cannot_read"


def test_a_file_that_is_not_utf_8(viewkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "latin.sql").write_bytes("SELECT 'Zürich'".encode("latin-1"))
    assert viewkeep("run", "latin.sql", "--engine", "duckdb", "--json").objects[0]["code"] == "cannot_read"


# --- input and output ---


def test_standard_input(viewkeep: Run) -> None:
    ran = viewkeep("run", "-", "--engine", "duckdb", "--json", stdin="SELECT 1 AS x; SELECT 2 AS y;")
    assert ran.status == 0
    assert [form["rows"] for form in ran.objects] == [[[1]], [[2]]]


def test_an_empty_script_works(sql: Run) -> None:
    ran = sql("-- nothing\n", "--json")
    assert (ran.status, ran.out) == (0, "")


def test_a_byte_order_mark_is_not_sql(viewkeep: Run, tmp_path: Path) -> None:
    (tmp_path / "mark.sql").write_bytes(b"\xef\xbb\xbfSELECT 1 AS x")
    assert viewkeep("run", "mark.sql", "--engine", "duckdb", "--json").objects[0]["rows"] == [[1]]


def test_json_mode_writes_nothing_else(sql: Run) -> None:
    assert sql(SHOP, "--json").err == ""


def test_what_a_person_reads(sql: Run) -> None:
    ran = sql(
        SHOP + "UPDATE parts SET price = 11 WHERE pid = 'P1';\n"
        "REFRESH MATERIALIZED VIEW device_cost;\n"
        "VERIFY MATERIALIZED VIEW device_cost;\n"
        "SELECT did, cost, CAST(NULL AS INT) AS nothing FROM device_cost ORDER BY did;"
    )
    assert ran.status == 0
    assert ran.err == ""
    assert "created table parts with key (pid)" in ran.out
    assert "update: 1 row\n" in ran.out
    assert "refreshed device_cost in" in ran.out
    assert "strategy id" in ran.out
    assert "device_cost equals its query" in ran.out
    assert "31.00" in ran.out
    assert "NULL" in ran.out
    assert "2 rows" in ran.out


def test_a_person_sees_where_the_mistake_is(sql: Run) -> None:
    ran = sql(f"{TABLE}\nCREATE MATERIALIZED VIEW v AS\n\tSELECT nope FROM t;")
    assert ran.status == 1
    assert "script.sql, line 3, column 9: there is no column nope" in ran.err
    shown, caret = ran.err.splitlines()[1:3]
    assert shown == "    3 |     SELECT nope FROM t"
    assert caret.index("^") == shown.index("nope")
    assert "hint: " in ran.err
    assert "nope" not in ran.out
