"""When a correlated subquery is bound by its domain, and when a plain join will do."""

from __future__ import annotations

import pytest

from viewkeep.algebra.nodes import Scan, walk

from ..helpers import bound, table

TABLES = (table("a", "k INT, g INT, d INT", "k"), table("b", "k INT, g INT, d INT", "k"))

PLAIN = (
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.d < a.d AND b.g <> a.g)",
    "SELECT k FROM a WHERE g IN (SELECT g FROM b WHERE b.d > a.d)",
    "SELECT k, (SELECT MAX(d) FROM b WHERE b.g = a.g) AS m FROM a",
    "SELECT k, (SELECT COALESCE(SUM(d), 0) FROM b WHERE b.g = a.g + 1) AS m FROM a",
    "SELECT k, (SELECT d FROM b WHERE b.k = a.g) AS m FROM a",
    "SELECT k, (SELECT d FROM b WHERE b.g = a.g ORDER BY d LIMIT 1) AS m FROM a",
    "SELECT a.k, t.d FROM a, LATERAL (SELECT d FROM b WHERE b.d < a.d) AS t",
)
BY_DOMAIN = (
    "SELECT k, (SELECT MAX(d) FROM b WHERE b.d < a.d) AS m FROM a",
    "SELECT k, (SELECT SUM(b.d + a.d) FROM b WHERE b.g = a.g) AS m FROM a",
    "SELECT k, (SELECT d FROM b WHERE b.k + 1 = a.g) AS m FROM a",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.d < a.d LIMIT 1)",
    "SELECT a.k, t.d FROM a, LATERAL (SELECT DISTINCT d FROM b WHERE b.d < a.d) AS t",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g "
    "AND EXISTS (SELECT 1 FROM b AS c WHERE c.k = b.d AND c.d = a.d))",
)


def outer_scans(query: str) -> int:
    return sum(isinstance(n, Scan) and n.table == "a" for n in walk(bound(query, TABLES).plan))


@pytest.mark.parametrize("query", PLAIN)
def test_a_join_takes_the_condition_over(query: str) -> None:
    assert outer_scans(query) == 1
    assert not bound(query, TABLES).by_plan_only


@pytest.mark.parametrize("query", BY_DOMAIN)
def test_the_subquery_is_computed_for_each_outer_value(query: str) -> None:
    assert outer_scans(query) == 2
    assert bound(query, TABLES).by_plan_only


def test_the_domain_has_only_what_where_leaves() -> None:
    plan = bound("SELECT k, (SELECT MAX(d) FROM b WHERE b.d < a.d) AS m FROM a WHERE g = 7", TABLES).plan
    conditions = [n.predicate.sql() for n in walk(plan) if hasattr(n, "predicate")]
    assert sum('"a_g' in c and "= 7" in c for c in conditions) == 2
