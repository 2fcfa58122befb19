"""Join: what passes by its own ID reads nothing; what moves is compared, before and after."""

from __future__ import annotations

import pytest

from tests.helpers import SPJ, changes, compiled, fired, nodes, reads, script, table
from viewkeep.algebra.nodes import Join, Scan
from viewkeep.algebra.script_nodes import LeftJoin, SemiJoin

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
PAIR = "SELECT r.k, s.k AS sk, r.a, s.a AS sa FROM r JOIN s ON r.b = s.b"


@pytest.mark.parametrize(
    "kinds", [{"parts": "update:price"}, {"parts": "delete"}, {"links": "delete"}, {"devices": "delete"}]
)
def test_non_conditional_updates_and_deletes_read_nothing(kinds: dict[str, str]) -> None:
    made = script(compiled(SPJ), **kinds)
    assert made.applies
    assert reads(made) == set()
    assert nodes(made, Join, SemiJoin, LeftJoin) == []
    assert len(made.applies) == 1
    assert made.lets == ()


def test_everything_that_is_not_conditional_at_once_reads_nothing() -> None:
    made = script(compiled(SPJ), parts="update:price delete", links="delete", devices="delete")
    assert reads(made) == set()
    assert sorted(d.kind for d in made.applies[0].diffs) == ["delete", "delete", "delete", "update"]


def test_one_diff_row_names_many_view_rows() -> None:
    made = script(compiled(SPJ), parts="update:price")
    ((diff,),) = [a.diffs for a in made.applies]
    assert diff.ids == ("pid",)
    assert set(diff.ids) < set(made.applies[0].target.node.ids)


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ({"r": "insert"}, ["JoinInsertsWithOtherInput"]),
        ({"r": "delete"}, ["PassDeletesThroughJoin"]),
        ({"s": "delete"}, ["PassDeletesThroughJoin"]),
        ({"r": "update:a"}, ["PassUpdatesThroughJoin"]),
        ({"r": "update:b"}, ["ReexamineUpdatesOfJoinColumns"] * 3),
        ({"r": "update:a update:b"}, ["ReexamineUpdatesOfJoinColumns"] * 3 + ["PassUpdatesThroughJoin"]),
        ({"r": "insert", "s": "insert"}, ["JoinInsertsWithOtherInput"] * 2),
    ],
)
def test_id_rules(kinds: dict[str, str], rules: list[str]) -> None:
    assert fired(compiled(PAIR, [R, S]), Join, **kinds) == rules


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ({"r": "insert"}, ["JoinInsertsWithOtherInput"]),
        ({"r": "delete"}, ["JoinOutDeletes"]),
        ({"r": "update:a"}, ["JoinOutUpdates"]),
        ({"r": "update:b"}, ["JoinOutUpdatesOfJoinColumns"] * 3),
        ({"r": "delete", "s": "delete"}, ["ComparePairsTouchedFromBothSides"] * 2),
        ({"r": "update:a", "s": "delete"}, ["ComparePairsTouchedFromBothSides"] * 3),
    ],
)
def test_tuple_rules(kinds: dict[str, str], rules: list[str]) -> None:
    view = compiled(PAIR, [R, S], "tuple")
    assert fired(view, Join, **kinds) == rules
    assert reads(script(view, **kinds)), "tuple-based diffs are joined out"


@pytest.mark.parametrize("kinds", [{"r": "update:a"}, {"r": "delete"}, {"r": "update:b"}])
def test_a_tuple_based_diff_names_whole_rows(kinds: dict[str, str]) -> None:
    made = script(compiled(PAIR, [R, S], "tuple"), **kinds)
    for apply in made.applies:
        for diff in apply.diffs:
            assert set(diff.ids) == set(apply.target.node.ids)


def test_a_conditional_update_is_deleted_by_full_id() -> None:
    _, rules = compiled(PAIR, [R, S]).instantiated(changes(r="update:b"))
    deletes = [d for n, d in rules if isinstance(n, Join) and d.kind == "delete"]
    assert [d.ids for d in deletes] == [("r_k", "s_k")]


def states(made: object) -> set[tuple[str, str]]:
    return {(n.table, n.state) for n in nodes(made, Scan)}  # type: ignore[attr-defined, arg-type]


def test_a_conditional_update_reads_the_other_side_before_and_after() -> None:
    view = compiled(PAIR, [R, S])
    assert states(script(view, r="update:b")) == {("s", "post")}, "s does not change: one state is both"
    assert states(script(view, r="update:b", s="insert")) >= {("s", "pre"), ("s", "post")}


def test_two_conditional_updates_read_no_after_state_for_what_goes() -> None:
    made = script(compiled(PAIR, [R, S]), r="update:b", s="update:b")
    assert states(made) == {("r", "pre"), ("r", "post"), ("s", "pre"), ("s", "post")}


def test_inserts_read_the_other_side_after_the_change() -> None:
    made = script(compiled(PAIR, [R, S]), r="insert", s="delete update:a")
    assert states(made) == {("s", "post")}


def test_ids_that_the_join_equates_are_one() -> None:
    view = compiled("SELECT r.a, s.b FROM r JOIN s ON r.k = s.k", [R, S])
    made = script(view, s="update:b")
    ((diff,),) = [a.diffs for a in made.applies]
    assert diff.ids == ("r_k",)
    assert reads(made) == set()


def test_a_cross_join_passes_updates() -> None:
    view = compiled("SELECT r.a, s.b FROM r CROSS JOIN s", [R, S])
    assert fired(view, Join, r="update:a") == ["PassUpdatesThroughJoin"]
    assert reads(script(view, r="update:a", s="update:b")) == set()


def test_a_join_on_keys_of_other_types_keeps_both_ids() -> None:
    big = table("t", "k BIGINT, a INT", "k")
    view = compiled("SELECT r.a, t.a AS ta FROM r JOIN t ON r.k = t.k", [R, big])
    assert set(view.plan.ids) == {"r_k", "t_k"}
