"""Recomputing: which aggregates leave out groups, and that no row is lost by it."""

from __future__ import annotations

import pytest

import viewkeep
from tests.helpers import compiled, table
from viewkeep.algebra.nodes import walk
from viewkeep.algebra.script_nodes import SemiJoin
from viewkeep.passes.reduce_groups import reduce_groups

P = table("p", "k INT, brand INT", "k")
L = table("l", "k INT, p INT, q INT", "k")

BELOW_AVERAGE = (
    "SELECT l.k, l.q FROM l JOIN p ON p.k = l.p WHERE p.brand = 1 "
    "AND l.q < (SELECT AVG(m.q) FROM l AS m WHERE m.p = p.k)"
)


def reducers(query: str) -> list[tuple[tuple[str, str], ...]]:
    plan = reduce_groups(compiled(query, [P, L]).plan)
    return [n.on for n in walk(plan) if isinstance(n, SemiJoin)]


def test_groups_that_the_other_side_does_not_name_are_left_out() -> None:
    ((pair,),) = reducers(BELOW_AVERAGE)
    assert pair[1] == "p_k"  # the parts of the brand, and not the lines that are joined with them


def test_a_left_join_keeps_its_left_rows() -> None:
    query = (
        "SELECT x.k, s.n FROM (SELECT k FROM p WHERE brand = 1) AS x "
        "LEFT JOIN (SELECT p, COUNT(*) AS n FROM l GROUP BY p) AS s ON s.p = x.k"
    )
    assert len(reducers(query)) == 1


@pytest.mark.parametrize(
    "query",
    [
        # nothing would be left out
        "SELECT p.k, s.n FROM p JOIN (SELECT p, COUNT(*) AS n FROM l GROUP BY p) AS s ON s.p = p.k",
        # not by the group's column
        "SELECT p.k, s.p FROM p JOIN (SELECT p, COUNT(*) AS n FROM l GROUP BY p) AS s ON s.n = p.k WHERE p.brand = 1",
        # one group, which is there over no rows, too
        "SELECT p.k, s.n FROM p JOIN (SELECT COUNT(*) AS n FROM l) AS s ON s.n = p.k WHERE p.brand = 1",
        # every group is asked for
        "SELECT s.p, s.n, x.k FROM (SELECT p, COUNT(*) AS n FROM l GROUP BY p) AS s "
        "LEFT JOIN (SELECT k FROM p WHERE brand = 1) AS x ON s.p = x.k",
    ],
)
def test_where_it_does_not_apply(query: str) -> None:
    assert reducers(query) == []


def test_a_view_that_is_always_recomputed_equals_its_query() -> None:
    vk = viewkeep.connect("duckdb:")
    vk.sql("CREATE TABLE p (k INT, brand INT, PRIMARY KEY (k))")
    vk.sql("CREATE TABLE l (k INT, p INT, q INT, PRIMARY KEY (k))")
    vk.sql("INSERT INTO p VALUES (1, 1), (2, 2), (3, 1), (4, NULL)")
    vk.sql("INSERT INTO l VALUES (1, 1, 10), (2, 1, 20), (3, 2, 10), (4, 2, 20), (5, 3, 7), (6, NULL, 1)")
    vk.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS {BELOW_AVERAGE}")
    assert vk.sql("SELECT k FROM v").rows == ((1,),)
    vk.sql("UPDATE p SET brand = 1 WHERE k = 2; INSERT INTO l VALUES (7, 3, 9)")
    assert vk.refresh("v")[0].strategy == "full"
    assert sorted(vk.sql("SELECT k FROM v").rows) == [(1,), (3,), (5,)]
    assert vk.verify("v")
