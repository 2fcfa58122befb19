"""Conditions next to their tables, projections merged, columns pruned."""

from __future__ import annotations

from tests.helpers import bound, table
from viewkeep.algebra.printing import tree
from viewkeep.frontend.normalize import normalize

R = table("r", "k INT, a INT, b INT, x DOUBLE", "k")
S = table("s", "k INT, a INT, b INT", "k")


def shown(sql: str) -> str:
    return tree(normalize(bound(sql, [R, S]).plan))


def test_a_where_becomes_the_joins_condition() -> None:
    assert shown("SELECT r.a AS x FROM r, s WHERE r.b = s.b AND r.a > 1 AND s.a < 2") == (
        "Project r_a AS x\n"
        "  Join r_b = s_b\n"
        "    Select r_a > 1\n"
        "      Scan r AS r\n"
        "    Select s_a < 2\n"
        "      Scan s AS s"
    )


def test_an_on_condition_of_one_side_goes_down_too() -> None:
    assert "  Join everything\n    Select r_a > 1\n" in shown("SELECT s.a AS x FROM r JOIN s ON r.a > 1")


def test_a_disjunction_stays_where_all_its_columns_are() -> None:
    made = shown("SELECT s.a AS x FROM r JOIN s ON r.a = 1 OR s.a = 2")
    assert "Join (r_a = 1 OR s_a = 2)" in made


def test_conditions_go_through_projections() -> None:
    assert shown("SELECT y.z AS z FROM (SELECT a + 1 AS z FROM r) AS y WHERE y.z * 2 > 3") == (
        "Project r_a + 1 AS z_2\n  Select (r_a + 1) * 2 > 3\n    Scan r AS r"
    )


def test_projections_merge() -> None:
    assert shown("SELECT z.y * 2 AS w FROM (SELECT x.v - 1 AS y FROM (SELECT a AS v FROM r) AS x) AS z") == (
        "Project (r_a - 1) * 2 AS w\n  Scan r AS r"
    )


def test_a_condition_on_group_keys_goes_below_the_aggregate() -> None:
    made = shown("SELECT a, SUM(b) AS m FROM r GROUP BY a HAVING a > 1 AND SUM(b) > 2")
    lines = made.splitlines()
    assert next(n for n, text in enumerate(lines) if "r_a > 1" in text) > next(
        n for n, text in enumerate(lines) if "Aggregate" in text
    )
    assert "b_sum" not in lines[-2]
    assert sum("Select" in text for text in lines) == 2


def test_a_condition_without_columns_stays_above_the_aggregate() -> None:
    # below it would leave groups of no rows out; above a keyless one it drops the row
    made = shown("SELECT COUNT(*) AS c FROM r HAVING 1 = 0").splitlines()
    assert made[1].strip().startswith("Select")
    assert made[2].strip().startswith("Aggregate")


def test_a_where_below_a_keyless_aggregate_stays_below() -> None:
    made = shown("SELECT COUNT(*) AS c FROM r WHERE a > 1").splitlines()
    assert [text.split()[0] for text in made] == ["Project", "Aggregate", "Project", "Select", "Scan"]


def test_columns_that_nothing_reads_are_pruned_but_keys_stay() -> None:
    made = normalize(bound("SELECT a FROM r WHERE b > 0", [R]).plan)
    scan = made.input.inputs[0]
    assert scan.names == ("r_k", "r_a", "r_b")


def test_measures_that_nothing_reads_are_pruned_but_the_row_count_stays() -> None:
    made = shown("SELECT y.a AS a FROM (SELECT a, SUM(b) AS m, AVG(x) AS n FROM r GROUP BY a) AS y")
    assert "rows(*)" in made
    assert "sum(" not in made
    assert "mass(" not in made


def test_a_sum_of_doubles_keeps_what_bounds_its_drift() -> None:
    made = shown("SELECT y.n AS n FROM (SELECT a, SUM(b) AS m, SUM(x) AS n FROM r GROUP BY a) AS y")
    assert "mass(" in made
    assert "magnitude(" in made
    assert made.count("sum(") == 1


def test_selections_of_nested_queries_meet() -> None:
    made = shown("SELECT y.a AS a FROM (SELECT a, b FROM r WHERE a > 1) AS y WHERE y.b > 2")
    assert "Select r_a > 1 AND r_b > 2" in made


def test_what_all_alternatives_ask_for_is_a_condition_of_its_own() -> None:
    made = shown("SELECT r.k FROM r JOIN s ON (r.b = s.b AND r.a = 1 AND s.a = 2) OR (r.b = s.b AND s.a = 3)")
    assert "Join r_b = s_b AND ((r_a = 1 AND s_a = 2) OR s_a = 3)" in made
    made = shown("SELECT k FROM r WHERE (a = 1 AND b = 2) OR a = 1")
    assert made.endswith("Select r_a = 1\n    Scan r AS r")


def test_alternatives_that_share_nothing_stay() -> None:
    assert "Select ((r_a = 1 AND r_b = 2) OR (r_a = 2 AND r_b = 1))" in shown(
        "SELECT k FROM r WHERE (a = 1 AND b = 2) OR (a = 2 AND b = 1)"
    )
