"""Grouping: where deltas come from, and what is stored."""

from __future__ import annotations

import pytest

from tests.helpers import COST, SHOP, compiled, fired, nodes, reads, script, table
from viewkeep.algebra.nodes import Aggregate, Scan
from viewkeep.passes.compiler import Compiled

R = table("r", "k INT, a INT, b INT, x DOUBLE", "k")
S = table("s", "k INT, a INT, b INT", "k")
ONE = "SELECT a, SUM(b) AS m, COUNT(*) AS c FROM r GROUP BY a"


def roles(view: Compiled) -> list[tuple[str, str]]:
    return [(x.name, x.role) for x in view.placement.targets]


@pytest.mark.parametrize(
    "kinds", ["insert", "delete", "update:a", "update:b", "insert delete update:a update:b"]
)
@pytest.mark.parametrize("strategy", ["id", "tuple"])
@pytest.mark.parametrize(
    "sql", [ONE, ONE.replace(" GROUP", " WHERE b > 0 GROUP"), "SELECT AVG(a + b) AS m FROM r"]
)
def test_one_table_needs_no_lookup(kinds: str, strategy: str, sql: str) -> None:
    view = compiled(sql, [R], strategy)
    assert roles(view) == [("rows", "view")]
    assert nodes(script(view, r=kinds), Scan) == []
    assert reads(script(view, r=kinds)) == {"stored rows"}


def test_rules_of_groups() -> None:
    assert fired(compiled(ONE, [R]), Aggregate, r="insert") == ["AddDeltasToGroups"] * 3


def test_without_keys_no_group_comes_or_goes() -> None:
    view = compiled("SELECT COUNT(*) AS c FROM r", [R])
    assert fired(view, Aggregate, r="insert delete") == ["AddDeltasToGroups"]


def test_a_change_that_no_group_looks_at_fires_nothing() -> None:
    assert fired(compiled(ONE, [R]), Aggregate, r="update:x") == []
    assert script(compiled(ONE, [R]), r="update:x").applies == ()


def test_counts_and_sums_of_what_may_be_null() -> None:
    measures = {(m.function, m.argument) for n in [compiled(ONE, [R]).placement.root] for m in n.measures}  # type: ignore[attr-defined]
    assert {f for f, _ in measures} == {"rows", "sum", "count"}


def test_a_column_that_is_never_null_needs_no_count() -> None:
    view = compiled(
        "SELECT a, SUM(b) AS m FROM q GROUP BY a", [table("q", "k INT, a INT, b INT", "k", required="b")]
    )
    assert [m.function for m in view.placement.root.measures] == ["rows", "sum"]  # type: ignore[attr-defined]


def test_only_doubles_are_watched_for_drift() -> None:
    def lets(column: str) -> set[str]:
        made = script(compiled(f"SELECT a, SUM({column}) AS m FROM r GROUP BY a", [R]), r="insert")
        return {let.name for let in made.lets}

    assert "recomputed" not in lets("b")
    assert {"stale", "recomputed", "groups_exact"} <= lets("x")


def test_recomputing_is_skipped_where_nothing_stale() -> None:
    made = script(compiled("SELECT a, SUM(x) AS m FROM r GROUP BY a", [R]), r="insert")
    assert made.by_name["recomputed"].unless_empty == "stale"


# --- caches ---


def test_over_key_joins_the_input_is_stored() -> None:
    view = compiled(COST)
    assert roles(view) == [("cache_1", "input cache"), ("rows", "view")]
    assert reads(script(view, parts="update:price")) == {"stored cache_1", "stored rows"}
    assert reads(script(view, parts="delete", links="delete", devices="delete")) == {
        "stored cache_1",
        "stored rows",
    }


def test_the_tuple_strategy_has_no_input_cache() -> None:
    view = compiled(COST, strategy="tuple")
    assert roles(view) == [("rows", "view")]
    assert reads(script(view, parts="update:price")) == {"links", "devices", "stored rows"}


MANY = "SELECT r.a, SUM(s.a) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a"


def test_over_a_many_to_many_join_nothing_is_stored_but_the_view() -> None:
    view = compiled(MANY, [R, S])
    assert roles(view) == [("rows", "view")]
    assert any("many-to-many" in reason for reason in view.placement.reasons)
    assert "r" in reads(script(view, s="update:a"))


FRIENDS = "FROM r AS a JOIN s AS f ON f.a = a.k JOIN s AS g ON g.a = f.b JOIN r AS u ON u.k = g.b"


def test_a_many_to_many_join_is_cached_where_another_equality_ties_its_sides() -> None:
    """Friends of friends in the same city: few of all pairs."""
    tied = compiled(f"SELECT a.k, SUM(u.a) AS m {FRIENDS} WHERE u.b = a.b GROUP BY a.k", [R, S])
    assert roles(tied) == [("cache_1", "input cache"), ("rows", "view")]
    assert reads(script(tied, r="update:a")) == {"stored cache_1", "stored rows"}
    untied = compiled(f"SELECT a.k, SUM(u.a) AS m {FRIENDS} GROUP BY a.k", [R, S])
    assert roles(untied) == [("rows", "view")]


def test_the_same_columns_once_more_tie_nothing() -> None:
    """Each row of a side meets all of the other with its b, whatever the third table has."""
    third = "JOIN r AS t ON t.b = r.b AND t.b = s.b"
    view = compiled(f"SELECT r.a, SUM(s.a) AS m FROM r JOIN s ON r.b = s.b {third} GROUP BY r.a", [R, S])
    assert roles(view) == [("rows", "view")]


def test_over_a_cross_join_nothing_is_stored_but_the_view() -> None:
    assert roles(compiled("SELECT r.a, COUNT(*) AS m FROM r CROSS JOIN s GROUP BY r.a", [R, S])) == [
        ("rows", "view")
    ]


@pytest.mark.parametrize(
    ("own", "other", "theirs", "stored"),
    [("b", "s", "b", True), ("a", "s", "b", False), ("b", "z", "b", False)],
)
def test_a_declared_foreign_key_makes_the_join_a_key_join(
    own: str, other: str, theirs: str, stored: bool
) -> None:
    r = table("r", "k INT, a INT, b INT", "k", foreign=[(own, other, theirs)])
    assert (("cache_1", "input cache") in roles(compiled(MANY, [r, S]))) is stored


def test_a_foreign_key_of_the_right_side() -> None:
    s = table("s", "k INT, a INT, b INT", "k", foreign=[("b", "r", "b")])
    assert ("cache_1", "input cache") in roles(compiled(MANY, [R, s]))


def test_half_a_key_is_no_key() -> None:
    sql = "SELECT l.qty, SUM(p.price) AS m FROM parts p JOIN links l ON p.label = 'x' AND l.did = p.pid GROUP BY l.qty"
    assert roles(compiled(sql)) == [("cache_1", "input cache"), ("rows", "view")], "p by its whole key"
    two = table("two", "did INT, other INT", "did other")
    sql = "SELECT l.qty, COUNT(*) AS m FROM two t JOIN links l ON t.did = l.did GROUP BY l.qty"
    assert roles(compiled(sql, [*SHOP, two])) == [("rows", "view")]


def test_nested_aggregates_have_an_output_cache() -> None:
    sql = "SELECT x.m, COUNT(*) AS c FROM (SELECT a, SUM(b) AS m FROM r GROUP BY a) AS x GROUP BY x.m"
    view = compiled(sql, [R])
    assert roles(view) == [("cache_1", "output cache"), ("rows", "view")]
    assert reads(script(view, r="insert update:b")) == {"stored cache_1", "stored rows"}


def test_an_aggregate_below_a_join_has_an_output_cache() -> None:
    sql = "SELECT s.k, x.m FROM s JOIN (SELECT a, SUM(b) AS m FROM r GROUP BY a) AS x ON s.a = x.a"
    view = compiled(sql, [R, S])
    assert roles(view) == [("cache_1", "output cache"), ("rows", "view")]
    made = script(view, r="update:b")
    assert "r" not in reads(made)


def test_having_makes_the_output_a_cache() -> None:
    view = compiled(ONE + " HAVING COUNT(*) > 1", [R])
    assert roles(view) == [("cache_1", "output cache"), ("rows", "view")]
