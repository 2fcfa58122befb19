"""Marks (EXISTS, IN, ANY, ALL, semi- and antijoins): the left passes as if there were none; the right turns marks."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, reads, script, table
from viewkeep.algebra.nodes import MarkJoin, Select

R = table("r", "k INT, a INT, b INT", "k", required="b")
S = table("s", "k INT, a INT, b INT", "k", required="b")
EXISTS = "SELECT k, a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b)"
SEMI = "SELECT k, a FROM r LEFT SEMI JOIN s ON s.b = r.b"
ANTI = "SELECT k, a FROM r LEFT ANTI JOIN s ON s.b = r.b"
NOT_EXISTS = "SELECT k, a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.b = r.b)"


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ({"r": "insert"}, ["MarkInserts"]),
        ({"r": "delete"}, ["PassDeletesByMark"]),
        ({"r": "update:a"}, ["PassUpdatesByMark"]),
        ({"r": "update:b"}, ["ReexamineUpdatesOfMarkedColumns"] * 3),
        ({"s": "insert"}, ["TurnMarks"]),
        ({"s": "delete"}, ["TurnMarks"]),
        ({"s": "update:b"}, ["TurnMarks"]),
        ({"s": "update:a"}, []),
        ({"r": "delete", "s": "insert"}, ["PassDeletesByMark", "TurnMarks"]),
    ],
)
@pytest.mark.parametrize("view", [EXISTS, SEMI, ANTI, NOT_EXISTS])
def test_id_rules(view: str, kinds: dict[str, str], rules: list[str]) -> None:
    assert fired(compiled(view, [R, S]), MarkJoin, **kinds) == rules


@pytest.mark.parametrize("kinds", [{"r": "delete"}, {"s": "update:a"}])
def test_what_no_mark_depends_on_reads_nothing(kinds: dict[str, str]) -> None:
    assert reads(script(compiled(EXISTS, [R, S]), **kinds)) == set()


def test_a_turned_mark_is_an_update_that_the_selection_makes_a_row_of() -> None:
    # rows of the right bring no row and take none by themselves
    _, rules = compiled(EXISTS, [R, S]).instantiated(changes(s="insert"))
    turned = [d for n, d in rules if isinstance(n, MarkJoin)]
    assert [d.kind for d in turned] == ["update"]
    assert {d.rule for n, d in rules if isinstance(n, Select)} >= {
        "UpdateEntersSelection",
        "UpdateLeavesSelection",
    }


def test_marks_are_turned_by_any_condition() -> None:
    view = compiled("SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b < r.b)", [R, S])
    assert fired(view, MarkJoin, s="delete") == ["TurnMarks"]
    assert fired(view, MarkJoin, s="update:a") == []


@pytest.mark.parametrize("kinds", [{"r": "insert"}, {"r": "delete"}, {"r": "update:a"}, {"s": "delete"}])
def test_tuple_rules_compare_the_marked_rows(kinds: dict[str, str]) -> None:
    assert set(fired(compiled(EXISTS, [R, S], "tuple"), MarkJoin, **kinds)) == {"CompareMarkedRows"}


def test_tuple_rules_leave_the_right_side_s_values_alone() -> None:
    assert fired(compiled(EXISTS, [R, S], "tuple"), MarkJoin, s="update:a") == []
