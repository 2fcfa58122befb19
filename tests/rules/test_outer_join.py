"""Outer joins: what leaves partners as they are passes by its ID; what changes partners is compared."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, nodes, reads, script, table
from viewkeep.algebra.nodes import OuterJoin, Scan

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
LEFT = "SELECT r.k, s.k AS sk, r.a, s.a AS sa FROM r LEFT JOIN s ON r.b = s.b"
RIGHT = "SELECT r.k, s.k AS sk, r.a, s.a AS sa FROM s RIGHT JOIN r ON r.b = s.b"
FULL = "SELECT r.k, s.k AS sk, r.a, s.a AS sa FROM r FULL JOIN s ON r.b = s.b"
COMPARED = ["ComparePartners"] * 2


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ({"r": "insert"}, ["JoinInsertsWithOtherInput"]),
        ({"r": "delete"}, ["PassDeletesThroughOuterJoin"]),
        ({"r": "update:a"}, ["PassUpdatesThroughOuterJoin"]),
        ({"s": "update:a"}, ["PassUpdatesThroughOuterJoin"]),
        ({"s": "insert"}, COMPARED),
        ({"s": "delete"}, COMPARED),
        ({"r": "update:b"}, [*COMPARED, "ComparePartners"]),
        ({"s": "update:b"}, [*COMPARED, "ComparePartners"]),
        ({"r": "delete", "s": "update:a"}, ["PassDeletesThroughOuterJoin", "PassUpdatesThroughOuterJoin"]),
        ({"r": "insert", "s": "insert"}, ["JoinInsertsWithOtherInput", *COMPARED]),
    ],
)
@pytest.mark.parametrize("view", [LEFT, RIGHT])
def test_id_rules_of_one_sided_joins(view: str, kinds: dict[str, str], rules: list[str]) -> None:
    assert fired(compiled(view, [R, S]), OuterJoin, **kinds) == rules


@pytest.mark.parametrize("kinds", ["insert", "delete"])
@pytest.mark.parametrize("side", ["r", "s"])
def test_in_a_full_join_rows_of_both_sides_take_padded_rows_with_them(side: str, kinds: str) -> None:
    # the row of r that goes was the partner of a row of s, which stays and is padded now
    rules = fired(compiled(FULL, [R, S]), OuterJoin, **{side: kinds})
    assert rules == COMPARED
    assert not any(rule.startswith(("Pass", "JoinInserts")) for rule in rules)


def test_a_full_join_passes_updates_of_values() -> None:
    view = compiled(FULL, [R, S])
    assert fired(view, OuterJoin, r="update:a", s="update:a") == ["PassUpdatesThroughOuterJoin"] * 2
    assert reads(script(view, r="update:a", s="update:a")) == set()


@pytest.mark.parametrize("kinds", [{"r": "update:a"}, {"r": "delete"}, {"s": "update:a"}])
def test_what_passes_reads_nothing(kinds: dict[str, str]) -> None:
    assert reads(script(compiled(LEFT, [R, S]), **kinds)) == set()


def test_a_passed_delete_names_the_padded_row_too() -> None:
    # by r's ID alone: whether the row was padded need not be known
    _, rules = compiled(LEFT, [R, S]).instantiated(changes(r="delete"))
    assert [d.ids for n, d in rules if isinstance(n, OuterJoin)] == [("r_k",)]


def test_partners_are_looked_for_before_and_after() -> None:
    # the padded row comes with the last partner's going, so both states of s are read
    made = script(compiled(LEFT, [R, S]), s="delete")
    assert {(n.table, n.state) for n in nodes(made, Scan)} >= {("s", "pre"), ("s", "post")}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kinds", [{"r": "insert"}, {"r": "delete"}, {"r": "update:a"}, {"s": "update:a"}])
@pytest.mark.parametrize("view", [LEFT, FULL])
def test_tuple_rules_compare_everything(view: str, kinds: dict[str, str]) -> None:
    found = compiled(view, [R, S], "tuple")
    assert set(fired(found, OuterJoin, **kinds)) == {"CompareJoinedRows"}
    for apply in script(found, **kinds).applies:
        assert all(set(d.ids) == set(apply.target.node.ids) for d in apply.diffs)


def test_an_outer_join_that_a_condition_makes_inner_may_not_pass_partners_away() -> None:
    # a condition of the left side alone stays in the join: it decides on partners, not on rows
    view = compiled("SELECT r.k, s.a FROM r LEFT JOIN s ON r.b = s.b AND r.a > 0", [R, S])
    assert "PassUpdatesThroughOuterJoin" not in fired(view, OuterJoin, r="update:a")
    assert fired(view, OuterJoin, s="update:a") == ["PassUpdatesThroughOuterJoin"]
