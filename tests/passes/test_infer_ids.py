"""Every subview carries its IDs; the user never sees those that were added."""

from __future__ import annotations

import pytest

from tests.helpers import SPJ, bound, compiled, con, shop, table
from viewkeep.algebra.nodes import Project, walk
from viewkeep.algebra.printing import tree
from viewkeep.frontend.normalize import normalize
from viewkeep.passes.infer_ids import infer_ids

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
L = table("l", "rk INT, sk INT, q INT", "rk sk")


def plan(sql: str) -> Project:
    made = infer_ids(normalize(bound(sql, [R, S, L]).plan))
    assert isinstance(made, Project)
    return made


def test_a_missing_key_is_added_behind_the_users_columns() -> None:
    assert plan("SELECT a AS x FROM r").names == ("x", "r_k")
    assert plan("SELECT a AS x FROM r").ids == ("r_k",)


def test_a_key_that_is_there_is_not_added_again() -> None:
    made = plan("SELECT k, a FROM r")
    assert len(made.names) == 2
    assert made.ids == (made.names[0],)


def test_a_key_under_another_name_will_do() -> None:
    assert plan("SELECT k AS x, a AS y FROM r").ids == ("x",)


def test_a_computed_key_will_not() -> None:
    assert plan("SELECT k + 1 AS x FROM r").ids == ("r_k",)


def test_an_equal_column_will_do_in_its_place() -> None:
    made = plan("SELECT l.q AS q, r.k AS x, s.k AS y FROM l JOIN r ON l.rk = r.k JOIN s ON l.sk = s.k")
    assert made.names == ("q", "x", "y")
    assert made.ids == ("x", "y")


def test_columns_that_a_where_equates_are_equal_too() -> None:
    made = plan("SELECT r.a AS x, s.k AS y FROM r, s WHERE r.k = s.k")
    assert made.names == ("x", "y")
    assert made.ids == ("y",)


def test_null_safe_equality_is_no_such_equality() -> None:
    # both may be null there; here they are keys, but the class says "non-null"
    assert set(plan("SELECT r.a AS x, s.k AS y FROM r JOIN s ON r.k <=> s.k").ids) == {"r_k", "y"}


def test_an_or_equates_nothing() -> None:
    assert set(plan("SELECT s.k AS y FROM r JOIN s ON r.k = s.k OR r.a = s.a").ids) == {"r_k", "y"}


def test_a_group_is_known_by_its_keys() -> None:
    made = plan("SELECT SUM(b) AS m FROM r GROUP BY a")
    assert made.names == ("m", "a")
    assert made.ids == ("a",)


def test_one_row_has_no_ids() -> None:
    assert plan("SELECT COUNT(*) AS c FROM r").ids == ()


def test_retouching_goes_all_the_way_up() -> None:
    made = plan("SELECT x.b AS b FROM (SELECT a AS b FROM r) AS x JOIN (SELECT q FROM l) AS y ON x.b = y.q")
    assert set(made.ids) == {"r_k", "l_rk", "l_sk"}
    for node in walk(made):
        assert set(node.ids) <= set(node.names)


def test_every_operator_of_a_deep_plan_has_its_ids() -> None:
    sql = (
        "SELECT x.m AS m FROM (SELECT r.a AS a, SUM(s.b) AS m FROM r JOIN s ON r.b = s.k GROUP BY r.a) AS x "
        "JOIN (SELECT COUNT(*) AS c FROM l) AS n ON x.m > n.c JOIN l ON l.q = x.a"
    )
    for node in walk(plan(sql)):
        assert set(node.ids) <= set(node.names), tree(node)


def test_the_printed_plan_shows_ids() -> None:
    assert tree(plan("SELECT a AS x FROM r"), ids=True) == (
        "Project r_a AS x, r_k  [r_k]\n  Scan r AS r  [r_k]"
    )


def test_self_join_keeps_both_sides_apart() -> None:
    made = plan("SELECT x.a AS a FROM r AS x JOIN r AS y ON x.b = y.b")
    assert set(made.ids) == {"x_k", "y_k"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT category FROM devices",
        "SELECT p.label AS label FROM parts p JOIN links l ON p.pid = l.pid",
        "SELECT SUM(qty) AS m FROM links GROUP BY pid",
        "SELECT x.m AS m FROM (SELECT pid, SUM(qty) AS m FROM links GROUP BY pid) AS x",
    ],
)
def test_the_user_never_sees_hidden_ids(sql: str) -> None:
    with shop() as vk:
        vk.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        assert len(vk.sql("SELECT * FROM v").columns) == 1
        described = con(vk).execute("DESCRIBE v").fetchall()
        assert len(described) == 1
        vk.sql(
            "UPDATE links SET qty = 9; DELETE FROM parts WHERE pid = 1; INSERT INTO devices VALUES (9, 'x')"
        )
        vk.refresh()
        assert len(vk.sql("SELECT * FROM v").columns) == 1


def test_visible_names() -> None:
    made = compiled(SPJ)
    assert [n for n, _ in made.visible] == ["did", "pid", "price"]
