"""From a log of events to one row for each key that ends otherwise than it began, on DuckDB."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from tests.helpers import table
from viewkeep.capture.duckdb import PLACES, create_log
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.idiff.net import (
    LAST,
    NET_KIND,
    census,
    labels,
    net_changes,
    net_changes_by_enforced_key,
    summary,
    tally,
)

T = table("t", "k INT, a INT, s STRING", "k")

Event = tuple[int, int, Any, Any, Any]  # seq, sign, k, a, s


@pytest.fixture
def con() -> Any:
    made = duckdb.connect()
    made.execute("CREATE SCHEMA viewkeep; CREATE TABLE t (k INT, a INT, s VARCHAR)")
    create_log(made, T)
    return made


def net(con: Any, *events: Event, all_keys: bool = False) -> dict[Any, tuple[Any, ...]]:
    """key -> (kind, before, after)"""
    for event in events:
        con.execute('INSERT INTO viewkeep."log:t" VALUES (?, ?, ?, ?, ?)', event)
    made = net_changes(T, exp.select("*").from_(PLACES.log("t")), all_keys=all_keys)
    con.execute(f"CREATE OR REPLACE TEMP TABLE net AS {to_sql(made)}")
    rows = con.execute(f'SELECT k, "{NET_KIND}", "pre:a", "pre:s", a, s FROM net').fetchall()
    assert len({r[0] for r in rows}) == len(rows), "one row a key"
    return {r[0]: (r[1], r[2:4], r[4:6]) for r in rows}


NONE = (None, None)


def test_nothing(con: Any) -> None:
    assert net(con) == {}


def test_insert(con: Any) -> None:
    assert net(con, (1, 1, 1, 5, "x")) == {1: ("insert", NONE, (5, "x"))}


def test_delete(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x")) == {1: ("delete", (5, "x"), NONE)}


def test_update(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 1, 6, "x")) == {1: ("update", (5, "x"), (6, "x"))}


def test_the_order_in_which_events_were_written_does_not_count(con: Any) -> None:
    assert net(con, (1, 1, 1, 6, "x"), (1, -1, 1, 5, "x")) == {1: ("update", (5, "x"), (6, "x"))}


def test_update_to_the_same_is_nothing(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 1, 5, "x")) == {}


def test_update_there_and_back_is_nothing(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 1, 6, "x"), (2, -1, 1, 6, "x"), (2, 1, 1, 5, "x")) == {}


def test_key_update_is_a_delete_and_an_insert(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 2, 5, "x")) == {
        1: ("delete", (5, "x"), NONE),
        2: ("insert", NONE, (5, "x")),
    }


def test_keys_that_swap_are_two_updates(con: Any) -> None:
    events = [(1, -1, 1, 10, "x"), (1, -1, 2, 20, "y"), (1, 1, 2, 10, "x"), (1, 1, 1, 20, "y")]
    assert net(con, *events) == {
        1: ("update", (10, "x"), (20, "y")),
        2: ("update", (20, "y"), (10, "x")),
    }


def test_delete_then_insert_is_an_update(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (2, 1, 1, 6, "x")) == {1: ("update", (5, "x"), (6, "x"))}


def test_delete_then_insert_of_the_same_is_nothing(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (2, 1, 1, 5, "x")) == {}


def test_insert_then_delete_is_nothing(con: Any) -> None:
    assert net(con, (1, 1, 1, 5, "x"), (2, -1, 1, 5, "x")) == {}


def test_insert_update_delete(con: Any) -> None:
    events = [(1, 1, 1, 5, "x"), (2, -1, 1, 5, "x"), (2, 1, 1, 6, "x"), (3, -1, 1, 6, "x")]
    assert net(con, *events) == {}


def test_insert_then_updates_is_one_insert_of_the_last(con: Any) -> None:
    events = [(1, 1, 1, 5, "x"), (2, -1, 1, 5, "x"), (2, 1, 1, 6, "y"), (3, -1, 1, 6, "y"), (3, 1, 1, 7, "z")]
    assert net(con, *events) == {1: ("insert", NONE, (7, "z"))}


def test_update_then_delete_is_a_delete_of_the_first(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 1, 6, "x"), (2, -1, 1, 6, "x")) == {
        1: ("delete", (5, "x"), NONE)
    }


def test_delete_insert_delete_insert(con: Any) -> None:
    events = [(1, -1, 1, 5, "x"), (2, 1, 1, 6, "x"), (3, -1, 1, 6, "x"), (4, 1, 1, 9, "x")]
    assert net(con, *events) == {1: ("update", (5, "x"), (9, "x"))}


@pytest.mark.parametrize("count", [9, 10, 11, 100])
def test_statements_are_ordered_as_numbers(con: Any, count: int) -> None:
    events: list[Event] = [(1, 1, 1, 1, "x")]
    for n in range(2, count + 1):
        events += [(n, -1, 1, n - 1, "x"), (n, 1, 1, n, "x")]
    assert net(con, *reversed(events)) == {1: ("insert", NONE, (count, "x"))}


@pytest.mark.parametrize(
    ("old", "new"), [((None, "x"), (5, "x")), ((5, "x"), (None, "x")), ((5, None), (None, None))]
)
def test_nulls_are_values(con: Any, old: tuple[Any, Any], new: tuple[Any, Any]) -> None:
    assert net(con, (1, -1, 1, *old), (1, 1, 1, *new)) == {1: ("update", old, new)}


def test_a_row_of_nulls_is_a_row(con: Any) -> None:
    assert net(con, (1, 1, 1, None, None)) == {1: ("insert", NONE, NONE)}
    con.execute('DELETE FROM viewkeep."log:t"')
    assert net(con, (1, -1, 1, None, None)) == {1: ("delete", NONE, NONE)}
    con.execute('DELETE FROM viewkeep."log:t"')
    assert net(con, (1, -1, 1, None, None), (1, 1, 1, None, None)) == {}


def test_two_rows_that_came_for_one_key_are_a_duplicate(con: Any) -> None:
    assert net(con, (1, 1, 1, 5, "x"), (2, 1, 1, 6, "x"))[1][0] == "duplicate"


def test_two_rows_of_one_statement_for_one_key_are_a_duplicate(con: Any) -> None:
    assert net(con, (1, 1, 1, 5, "x"), (1, 1, 1, 6, "x"))[1][0] == "duplicate"


def test_an_update_and_a_second_row_are_a_duplicate(con: Any) -> None:
    assert net(con, (1, -1, 1, 5, "x"), (1, 1, 1, 6, "x"), (2, 1, 1, 7, "x"))[1][0] == "duplicate"


# Delta tables have no enforced keys: rows are appended first, and the ones they replace are deleted after.


def test_a_new_row_that_comes_before_the_old_one_goes_is_an_update(con: Any) -> None:
    assert net(con, (1, 1, 1, 6, "x"), (2, -1, 1, 5, "x")) == {1: ("update", (5, "x"), (6, "x"))}


def test_a_duplicate_of_which_one_went_again_is_the_other(con: Any) -> None:
    assert net(con, (1, 1, 1, 5, "x"), (2, 1, 1, 6, "x"), (3, -1, 1, 5, "x")) == {
        1: ("insert", NONE, (6, "x"))
    }


def test_other_keys_are_not_touched_by_a_duplicate(con: Any) -> None:
    found = net(con, (1, 1, 1, 5, "x"), (2, 1, 1, 6, "x"), (3, 1, 2, 7, "y"))
    assert found[2] == ("insert", NONE, (7, "y"))


def test_all_keys_keeps_what_ends_as_it_began(con: Any) -> None:
    events: list[Event] = [(1, 1, 1, 5, "x"), (2, -1, 1, 5, "x"), (3, -1, 2, 5, "x"), (4, 1, 2, 5, "x")]
    found = net(con, *events, all_keys=True)
    assert {k: v[0] for k, v in found.items()} == {1: "none", 2: "none"}
    assert con.execute(f'SELECT k, "{LAST}" FROM net ORDER BY k').fetchall() == [(1, 2), (2, 4)]


def test_summary_counts_kinds_and_changed_columns(con: Any) -> None:
    net(
        con,
        (1, 1, 1, 5, "x"),
        (1, -1, 2, 5, "x"),
        (1, -1, 3, 5, "x"),
        (1, 1, 3, 6, "x"),
        (1, -1, 4, 5, None),
        (1, 1, 4, 7, "y"),
        (1, 1, 5, 5, "x"),
        (2, 1, 5, 5, "x"),
    )
    row = con.execute(to_sql(summary(T, exp.table_("net")))).fetchone()
    assert dict(zip(labels(T), row, strict=True)) == {
        "insert": 1,
        "delete": 1,
        "update": 2,
        "duplicate": 1,
        "update:a": 2,
        "update:s": 1,
    }


def test_summary_of_nothing_is_zeros(con: Any) -> None:
    net(con)
    row = con.execute(to_sql(summary(T, exp.table_("net")))).fetchone()
    assert set(row) == {0}


def test_a_table_that_is_all_key() -> None:
    pairs = table("p", "x INT, y INT", "x y")
    made = duckdb.connect()
    made.execute("CREATE SCHEMA viewkeep; CREATE TABLE p (x INT, y INT)")
    create_log(made, pairs)
    made.execute('INSERT INTO viewkeep."log:p" VALUES (1,1,1,1), (1,-1,1,2), (2,-1,2,2), (3,1,2,2)')
    query = to_sql(net_changes(pairs, exp.select("*").from_(PLACES.log("p"))))
    rows = made.execute(f'SELECT x, y, "{NET_KIND}" FROM ({query}) ORDER BY ALL').fetchall()
    assert rows == [(1, 1, "insert"), (1, 2, "delete")]


@pytest.mark.parametrize("seed", range(20))
def test_where_keys_are_enforced_the_ends_tell_all(con: Any, seed: int) -> None:
    random = Random(seed)
    now: dict[int, tuple[Any, Any]] = {}
    events: list[Event] = []
    for seq in range(1, random.randint(2, 9)):
        for k in range(6):
            was = now.pop(k, None)
            if was is not None:
                events.append((seq, -1, k, *was))
            if random.random() < 0.6:
                now[k] = (random.choice([None, 1, 2]), random.choice([None, "x"]))
                events.append((seq, 1, k, *now[k]))
    random.shuffle(events)
    expected = net(con, *events)
    log = exp.select("*").from_(PLACES.log("t"))
    con.execute(f"CREATE OR REPLACE TEMP TABLE ends AS {to_sql(net_changes_by_enforced_key(T, log))}")
    rows = con.execute(f'SELECT k, "{NET_KIND}", "pre:a", "pre:s", a, s FROM ends').fetchall()
    assert len({r[0] for r in rows}) == len(rows)
    assert {r[0]: (r[1], r[2:4], r[4:6]) for r in rows} == expected


def test_a_census_gives_the_summary_of_fewer_columns(con: Any) -> None:
    net(
        con,
        (1, 1, 1, 5, "x"),
        (1, -1, 2, 5, "x"),
        (1, -1, 3, 5, "x"),
        (1, 1, 3, 6, "x"),
        (1, -1, 4, 5, None),
        (1, 1, 4, 5, "y"),
    )
    rows = con.execute(to_sql(census(T, exp.table_("net")))).fetchall()
    assert tally(T, T, rows) == {"insert": 1, "delete": 1, "update": 2, "update:a": 1, "update:s": 1}
    narrow = table("t", "k INT, a INT", "k")
    assert tally(narrow, T, rows) == {"insert": 1, "delete": 1, "update": 1, "update:a": 1}
    row = con.execute(to_sql(summary(narrow, exp.table_("net")))).fetchone()
    assert dict(zip(labels(narrow), row, strict=True)) == {**tally(narrow, T, rows), "duplicate": 0}
