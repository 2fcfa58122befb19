"""refresh, status, explain and verify: later commands find what an earlier one made."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from viewkeep.connection import Connection
from viewkeep.engines.duckdb.engine import DuckDBEngine
from viewkeep.errors import CorruptCatalog
from viewkeep.results import Verification

AT = ("--at", "duckdb:shop.db", "--json")

pytestmark = pytest.mark.usefixtures("shop")


def test_status_finds_the_view_and_counts_the_changes_that_wait(viewkeep: Run, sql: Run) -> None:
    (fresh,) = viewkeep("status", *AT).objects
    assert (fresh["n"], fresh["kind"], fresh["view"]) == (1, "status", "device_cost")
    assert (fresh["rows"], fresh["pending"], fresh["stale"]) == (2, 0, False)
    assert fresh["tables"] == ["parts", "devices_parts"]
    sql("UPDATE parts SET price = 11 WHERE pid = 'P1'")
    (stale,) = viewkeep("status", *AT).objects
    assert stale["pending"] > 0
    assert stale["stale"] is True


def test_status_of_a_view_that_is_not_there(viewkeep: Run) -> None:
    ran = viewkeep("status", "nope", *AT)
    assert ran.status == 1
    assert ran.objects[0]["code"] == "unknown_view"
    assert "device_cost" in ran.objects[0]["hint"]


def test_refresh_brings_all_views_up_to_date(viewkeep: Run, sql: Run) -> None:
    sql("CREATE MATERIALIZED VIEW cheap AS SELECT pid, price FROM parts WHERE price < 15")
    sql("UPDATE parts SET price = 11 WHERE pid = 'P1'")
    ran = viewkeep("refresh", *AT)
    assert ran.status == 0
    assert [(form["n"], form["view"]) for form in ran.objects] == [(1, "device_cost"), (2, "cheap")]
    assert {form["strategy"] for form in ran.objects} == {"id"}
    rows = sql("SELECT cost FROM device_cost ORDER BY cost", "--json").objects[0]["rows"]
    assert rows == [["11.00"], ["31.00"]]


def test_refresh_of_a_named_view_leaves_the_others(viewkeep: Run, sql: Run) -> None:
    sql("CREATE MATERIALIZED VIEW cheap AS SELECT pid, price FROM parts WHERE price < 15")
    sql("UPDATE parts SET price = 11 WHERE pid = 'P1'")
    assert [form["view"] for form in viewkeep("refresh", "cheap", *AT).objects] == ["cheap"]
    assert [form["stale"] for form in viewkeep("status", *AT).objects] == [True, False]


def test_refresh_in_full(viewkeep: Run) -> None:
    (done,) = viewkeep("refresh", "device_cost", "--full", *AT).objects
    assert done["strategy"] == "full"


def test_refresh_of_a_view_that_is_not_there(viewkeep: Run) -> None:
    ran = viewkeep("refresh", "nope", "--at", "duckdb:shop.db")
    assert ran.status == 1
    assert "error: there is no materialized view nope" in ran.err


def test_verify(viewkeep: Run) -> None:
    ran = viewkeep("verify", *AT)
    assert ran.status == 0
    assert ran.objects == [
        {"n": 1, "kind": "verify", "view": "device_cost", "equal": True, "missing": 0, "unexpected": 0}
    ]


def test_verify_is_status_1_if_any_view_differs(viewkeep: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "a": Verification("a", 0, 2, ("x",), unexpected_rows=((1,), (2,))),
        "b": Verification("b", 0, 0),
    }
    monkeypatch.setattr(Connection, "verify", lambda _, view: answers[view])
    ran = viewkeep("verify", "a", "b", *AT)
    assert ran.status == 1
    assert [form["equal"] for form in ran.objects] == [False, True]
    assert ran.objects[0]["unexpected_rows"] == [[1], [2]]


@pytest.mark.parametrize("command", ["refresh", "status", "explain", "verify"])
def test_a_catalog_that_cannot_be_read(viewkeep: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def corrupt(_: object) -> None:
        raise CorruptCatalog("the catalog cannot be read", hint="restore it")

    monkeypatch.setattr(DuckDBEngine, "views", corrupt)
    ran = viewkeep(command, *AT)
    assert ran.status == 1
    assert [form["code"] for form in ran.objects] == ["corrupt_catalog"]


def test_verify_goes_on_after_a_view_that_is_not_there(viewkeep: Run) -> None:
    ran = viewkeep("verify", "nope", "device_cost", *AT)
    assert ran.status == 1
    assert [(form["n"], form["kind"]) for form in ran.objects] == [(1, "error"), (2, "verify")]


def test_explain(viewkeep: Run) -> None:
    (form,) = viewkeep("explain", *AT).objects
    assert form["view"] == "device_cost"
    assert "delta script" in form["text"]
    assert "steps" not in form
    assert viewkeep("explain", "--at", "duckdb:shop.db").out.strip() == form["text"].strip()


def test_explain_steps(viewkeep: Run) -> None:
    (form,) = viewkeep("explain", "device_cost", "--steps", *AT).objects
    assert form["steps"][0].keys() == {"pass", "plan"}
    shown = viewkeep("explain", "device_cost", "--steps", "--at", "duckdb:shop.db").out
    assert f"after {form['steps'][0]['pass']}:" in shown


@pytest.mark.parametrize("command", ["refresh", "status"])
def test_no_views(viewkeep: Run, command: str) -> None:
    ran = viewkeep(command, "--at", "duckdb:other.db")
    assert ran.status == 0
    assert "there are no materialized views" in ran.out


def test_what_a_person_reads_of_status(viewkeep: Run) -> None:
    ran = viewkeep("status", "--at", "duckdb:shop.db")
    assert "changes waiting" in ran.out
    assert "parts, devices_parts" in ran.out
