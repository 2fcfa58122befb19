"""Selection: which rule fires for which diff, and what it reads."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, queries, reads, script, table
from viewkeep.algebra.expressions import text
from viewkeep.algebra.nodes import Select, walk

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
VIEW = "SELECT k, a, b FROM r WHERE a > 0"


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ("insert", ["KeepInsertsThatSatisfySelection"]),
        ("delete", ["KeepDeletesThatSatisfiedSelection"]),
        ("update:b", ["KeepUpdatesThatSatisfySelection"]),
        ("update:a", ["UpdateStaysInSelection", "UpdateLeavesSelection", "UpdateEntersSelection"]),
    ],
)
@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_rules(kinds: str, rules: list[str], strategy: str) -> None:
    view = compiled(VIEW, [R], strategy)
    assert fired(view, Select, r=kinds) == rules
    assert reads(script(view, r=kinds)) == set()


def predicates(view: str, kinds: str) -> list[str]:
    made = script(compiled(view, [R]), r=kinds)
    return [text(n.predicate) for q in queries(made) for n in walk(q) if isinstance(n, Select)]


def test_a_conditional_update_compares_before_and_after() -> None:
    found = predicates(VIEW, "update:a")
    assert len(found) == 3
    assert sum("pre:r_a > 0 AND r_a > 0" in p for p in found) == 1
    assert sum("pre:r_a > 0 AND NOT (COALESCE(r_a > 0, FALSE))" in p for p in found) == 1
    assert sum("NOT (COALESCE(pre:r_a > 0, FALSE)) AND r_a > 0" in p for p in found) == 1


def test_a_non_conditional_update_looks_at_both_values_of_the_condition() -> None:
    # another diff may answer for a change of `a` in the same row
    (predicate,) = predicates(VIEW, "update:b")
    assert "pre:r_a > 0" in predicate
    assert " r_a > 0" in predicate


def test_an_insert_looks_at_the_new_values_only() -> None:
    assert predicates(VIEW, "insert") == ["r_a > 0"]
    assert predicates(VIEW, "delete") == ["r_a > 0"]


OVER_JOIN = "SELECT r.k, s.k AS sk, r.b FROM r JOIN s ON r.k = s.k WHERE r.a + s.a > 0"


def test_a_condition_of_both_sides_is_the_joins_own() -> None:
    assert fired(compiled(OVER_JOIN, [R, S]), Select, r="update:a") == []


OVER_GROUPS = "SELECT b, SUM(a) AS m FROM r GROUP BY b HAVING SUM(a) > 10"


@pytest.mark.parametrize("kinds", ["insert", "delete", "update:a"])
def test_having_is_told_by_the_groups_diffs_alone(kinds: str) -> None:
    view = compiled(OVER_GROUPS, [R])
    rules = fired(view, Select, r=kinds)
    assert "UpdateEntersSelection" in rules
    assert "UpdateLeavesSelection" in rules
    assert "ReexamineUpdatesOfSelection" not in rules
    assert reads(script(view, r=kinds)) == {"stored cache_1"}


def test_a_diff_that_does_not_know_the_condition_passes_or_is_looked_up() -> None:
    # the join passes r's updates by r's ID, which knows nothing of the groups that HAVING looks at
    sql = (
        "SELECT r.k, r.b, x.m FROM r JOIN (SELECT b, SUM(a) AS m FROM s GROUP BY b) AS x ON r.a = x.b "
        "WHERE x.m + r.b > 3"
    )
    view = compiled(sql, [R, S])
    assert fired(view, Select, r="update:b") == []  # one condition: the join's
    _, rules = view.instantiated(changes(r="update:b"))
    assert "ReexamineUpdatesOfJoinColumns" in [d.rule for _, d in rules]
