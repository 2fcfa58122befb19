"""Generalized projection: diffs pass, and keep what they know."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, reads, script, table
from viewkeep.algebra.nodes import Project
from viewkeep.idiff.diff import Diff

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")


def diffs(sql: str, **kinds: str) -> list[Diff]:
    _, rules = compiled(sql, [R, S]).instantiated(changes(**kinds))
    return [d for n, d in rules if isinstance(n, Project)]


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ("insert", ["ProjectInserts"]),
        ("delete", ["ProjectDeletes"]),
        ("update:a", ["ProjectUpdates"]),
        ("update:b", []),
    ],
)
def test_rules(kinds: str, rules: list[str]) -> None:
    view = compiled("SELECT a + 1 AS x FROM r", [R])
    assert fired(view, Project, r=kinds) == rules
    assert reads(script(view, r=kinds)) == set()


def test_a_dropped_update_makes_no_script_at_all() -> None:
    made = script(compiled("SELECT a FROM r", [R]), r="update:b")
    assert (made.lets, made.applies) == ((), ())


def test_only_the_items_that_the_update_reaches_change() -> None:
    # a and b are of one update diff here; an item of neither does not change
    (made,) = diffs("SELECT k + 1 AS x, a AS y, a + b AS z, b AS w FROM r", r="update:a")
    assert made.changed == {"y", "z", "w"}
    (made,) = diffs("SELECT k + 1 AS x, a AS y, b AS z FROM r WHERE b > 0", r="update:a")
    assert made.changed == {"y"}


def test_an_id_keeps_its_hidden_name() -> None:
    (made,) = diffs("SELECT a AS x FROM r", r="delete")
    assert made.ids == ("r_k",)


def test_an_id_goes_by_the_users_name() -> None:
    (made,) = diffs("SELECT a AS x, k AS me FROM r", r="update:a")
    assert made.ids == ("me",)
    assert made.changed == {"x"}


def test_an_expression_over_both_sides_is_looked_up() -> None:
    view = compiled("SELECT r.k, s.k AS sk, r.b + s.b AS z FROM r JOIN s ON r.a = s.k", [R, S])
    assert fired(view, Project, r="update:b") == ["LookUpWhatProjectedUpdatesNeed"]
    made = script(view, r="update:b")
    assert "s" in reads(made)
    assert "r" not in reads(made), "the rows of r are in its diff"


def test_a_lookup_makes_no_row_come_or_go() -> None:
    made = diffs("SELECT r.k, s.k AS sk, r.b + s.b AS z FROM r JOIN s ON r.a = s.k", r="update:b")
    assert {d.kind for d in made} == {"update"}


def test_an_update_that_gives_the_same_value_is_dropped_by_the_query() -> None:
    (made,) = diffs("SELECT k, a * 0 AS z FROM r", r="update:a")
    assert "z" in made.changed
    assert "IS DISTINCT FROM" in str(made.query.predicate.sql("spark"))  # type: ignore[attr-defined]
