"""Diffs laid over a cache: its change relation."""

from __future__ import annotations

import pytest

from tests.helpers import COST, compiled, script
from viewkeep.algebra.expressions import text
from viewkeep.algebra.nodes import Join, Node, Select, walk
from viewkeep.algebra.script_nodes import LeftJoin, Stored, Union
from viewkeep.idiff.changes import KIND


def change_relation(**kinds: str) -> Node:
    return script(compiled(COST), **kinds).by_name["changes_cache_1"].query


def test_one_diff_is_joined_with_the_cache() -> None:
    made = change_relation(parts="update:price")
    assert [type(n) for n in walk(made) if isinstance(n, (Join, LeftJoin))] == [Join]


def test_several_diffs_are_laid_over_each_row() -> None:
    made = change_relation(parts="update:price delete")
    assert [type(n) for n in walk(made) if isinstance(n, (Join, LeftJoin))] == [LeftJoin, LeftJoin]


def test_a_row_that_no_diff_hits_is_no_change() -> None:
    made = change_relation(parts="update:price delete")
    conditions = " ".join(text(n.predicate) for n in walk(made) if isinstance(n, Select))
    assert "hit:1 IS TRUE OR hit:2 IS TRUE" in conditions


def test_inserts_alone_do_not_read_the_cache() -> None:
    assert not [n for n in walk(change_relation(parts="insert")) if isinstance(n, Stored)]


def test_inserts_and_deletes_read_it_once() -> None:
    made = change_relation(links="insert delete")
    assert len([n for n in walk(made) if isinstance(n, Stored)]) == 1
    assert isinstance(made, Union)


def test_rows_found_from_both_sides_of_a_join_count_once() -> None:
    made = change_relation(parts="insert", links="insert")
    assert any(isinstance(n, Union) and n.distinct for n in walk(made))


def test_the_columns_of_a_change_relation() -> None:
    for kinds in ({"parts": "update:price"}, {"parts": "insert"}, {"links": "insert delete"}):
        assert change_relation(**kinds).names == ("p_pid", "did", "value", "pre:value", KIND)


def test_a_delete_wins_over_an_update_of_the_same_row() -> None:
    made = change_relation(parts="update:price", links="delete")
    kinds = [i.expression for n in walk(made) for i in getattr(n, "items", ()) if i.name == KIND]
    assert any("THEN 'delete' ELSE 'update'" in text(k) for k in kinds)


@pytest.mark.parametrize(
    ("kinds", "made"),
    [
        ("insert", [("insert", set())]),
        ("delete", [("delete", set())]),
        ("update:price", [("update", {"value"})]),
        ("insert update:price", [("insert", set()), ("update", {"value"})]),
    ],
)
def test_a_cache_is_changed_in_the_ways_of_its_diffs_alone(
    kinds: str, made: list[tuple[str, set[str]]]
) -> None:
    """No statement for kinds of change that cannot be, and no column that stays is written."""
    view = compiled(COST)
    (cache,) = [a for a in script(view, parts=kinds).applies if a.target.role == "input cache"]
    found = [(d.kind, set(d.changed)) for d in cache.diffs]
    assert sorted(found) == sorted(made)
