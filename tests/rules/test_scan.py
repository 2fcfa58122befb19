"""Which i-diffs a base table's changes become."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, table
from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import BaseDiff

R = table("r", "k INT, a INT, b INT, c INT", "k")
VIEW = "SELECT k, a, b FROM r WHERE a > 0"


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ("insert", ["InsertIntoBaseTable"]),
        ("delete", ["DeleteFromBaseTable"]),
        ("insert delete", ["InsertIntoBaseTable", "DeleteFromBaseTable"]),
        ("update:a", ["UpdateOfBaseTable"]),
        ("update:a update:b", ["UpdateOfBaseTable", "UpdateOfBaseTable"]),
        ("update:c", []),
        ("", []),
    ],
)
def test_one_diff_for_each_kind_that_is_there(kinds: str, rules: list[str]) -> None:
    assert fired(compiled(VIEW, [R]), Scan, r=kinds) == rules


def test_changes_of_other_tables_are_nothing_to_it() -> None:
    assert fired(compiled(VIEW, [R]), Scan, other="insert delete update:a") == []


def test_conditional_columns_have_an_update_diff_of_their_own() -> None:
    _, rules = compiled(VIEW, [R]).instantiated(changes(r="update:a update:b"))
    found = [d for n, d in rules if isinstance(n, Scan)]
    assert [d.changed for d in found] == [{"r_a"}, {"r_b"}]
    assert [d.query.changed for d in found if isinstance(d.query, BaseDiff)] == [("a",), ("b",)]


def test_diffs_know_every_column_that_the_plan_uses_and_no_other() -> None:
    _, rules = compiled(VIEW, [R]).instantiated(changes(r="insert delete update:a"))
    for node, diff in rules:
        if isinstance(node, Scan):
            assert diff.ids == ("r_k",)
            assert diff.known == ("r_a", "r_b")
            assert diff.exact


def test_an_update_diff_carries_both_values_but_the_key_once() -> None:
    _, rules = compiled(VIEW, [R]).instantiated(changes(r="update:b"))
    assert rules[0][1].query.names == ("r_k", "r_a", "r_b", "pre:r_a", "pre:r_b")


def test_a_table_scanned_twice_enters_twice() -> None:
    view = compiled("SELECT x.k, y.a FROM r x JOIN r y ON x.b = y.b", [R])
    _, rules = view.instantiated(changes(r="insert"))
    assert [n.alias for n, _ in rules if isinstance(n, Scan)] == ["x", "y"]


def test_each_scan_has_the_updates_that_concern_it() -> None:
    view = compiled("SELECT x.k, y.c FROM r x JOIN r y ON x.b = y.k", [R])
    _, rules = view.instantiated(changes(r="update:c"))
    assert [n.alias for n, _ in rules if isinstance(n, Scan)] == ["y"]
