"""Where sums are pushed past joins, where they are not, and what the views below hold."""

from __future__ import annotations

import pytest

import viewkeep
from tests.helpers import bound, changes, table
from viewkeep.algebra import types as t
from viewkeep.algebra.nodes import Aggregate, Join, Scan, Select, walk
from viewkeep.algebra.script_nodes import Stored
from viewkeep.catalog.models import Table
from viewkeep.errors import Unsupported
from viewkeep.frontend.normalize import normalize
from viewkeep.passes.compiler import Compiled, compile_view
from viewkeep.passes.view_tree import view_tree

R = table("r", "id INT, a INT, b INT, s STRING, m DECIMAL(12;2)", "id", required="m")
S = table("s", "id INT, a INT, c INT, x BIGINT, big BIGINT, y DOUBLE, fine DECIMAL(20;10)", "id")
T = table("t", "c INT, e INT, d DECIMAL(12;2)", "c")
TABLES = (R, S, T)
FROM = "FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c"


def made(sql: str, **options: str) -> Compiled:
    tables = {x.name: x for x in TABLES}
    return compile_view(bound(sql, TABLES), tables, "id", options=options)


def views(sql: str, **options: str) -> list[Aggregate]:
    """The views of the tree that a query gets, those below first."""
    found = made(sql, **{"view_tree": "on", **options})
    assert found.tree is not None, found.no_tree
    return [n for n in reversed(list(walk(found.plan))) if isinstance(n, Aggregate)]


def reason(sql: str) -> str:
    found = view_tree(normalize(bound(sql, TABLES).plan))
    assert found.tree is None
    return found.reason


# --- it fires ---


def test_each_view_is_an_aggregate() -> None:
    found = views(f"SELECT SUM(r.b * s.x * t.e) AS v {FROM}")
    # t is not summed first: its key is what it is joined by
    assert [(v.view, v.keys) for v in found] == [
        ("V_s[a, c]", ("s_a", "s_c")),
        ("V_r[a]", ("r_a",)),
        ("V_r_s@a[c]", ("s_c",)),
        ("V_r_s_t@c[]", ()),
    ]


def test_the_views_are_the_caches_and_no_join_is() -> None:
    found = made(f"SELECT r.a, SUM(r.b * s.x) AS v {FROM} GROUP BY r.a", view_tree="on")
    roles = [target.role for target in found.placement.targets]
    assert roles[-1] == "view"
    assert set(roles[:-1]) == {"output cache"}
    assert all(isinstance(target.node, Aggregate) for target in found.placement.targets)


def test_a_change_is_joined_with_views_and_not_with_tables() -> None:
    found = made(f"SELECT SUM(r.b * s.x * t.d) AS v {FROM}", view_tree="on")
    script = found.script(changes(r="update:b"))
    read = [n for let in script.lets for n in walk(let.query) if isinstance(n, (Scan, Stored))]
    assert {n.table for n in read if isinstance(n, Scan)} <= {"t"}  # which is one row a key
    assert any(isinstance(n, Stored) for n in read)


def test_the_same_columns_of_the_same_types() -> None:
    query = f"SELECT r.a, COUNT(*) AS n, SUM(r.b) AS b, SUM(r.m * t.d) AS m, AVG(s.y) AS y {FROM} GROUP BY r.a HAVING COUNT(*) > 1"
    plain, tree = made(query), made(query, view_tree="on")
    assert tree.tree is not None
    assert tree.names == plain.names
    assert [c.type for c in tree.plan.columns[:5]] == [c.type for c in plain.plan.columns[:5]]
    assert [c.nullable for c in tree.plan.columns[:5]] == [c.nullable for c in plain.plan.columns[:5]]


def test_conditions_of_one_table_stay_below() -> None:
    found = views(f"SELECT SUM(r.b * s.x) AS v {FROM} WHERE r.s = 'x' AND t.e > 1")
    [of_r] = [v for v in found if v.view == "V_r[a]"]
    [condition] = [n.predicate for n in walk(of_r) if isinstance(n, Select)]
    assert condition.sql() == "\"r_s\" = 'x'"


def test_cofactor_has_a_tree_by_default_and_other_sums_have_not() -> None:
    assert made(f"SELECT COFACTOR(b, x) {FROM}").tree is not None
    assert made(f"SELECT COFACTOR(b, x) {FROM}", view_tree="off").tree is None
    assert made(f"SELECT SUM(b * x) AS v {FROM}").tree is None
    assert made(f"SELECT SUM(b * x) AS v {FROM}", variable_order="a - c").tree is not None
    assert made("SELECT COFACTOR(b, m) FROM r").tree is None


def test_parts_of_products_are_shared() -> None:
    found = views(f"SELECT COFACTOR(b, m, x) {FROM}")
    [of_r] = [v for v in found if v.view == "V_r[a]"]
    # how many, b, m, bb, bm and mm: of a table that has two of the three
    assert len(of_r.measures) == 6
    [of_s] = [v for v in found if v.view == "V_s[a, c]"]
    assert len(of_s.measures) == 3


def test_sums_on_the_way_are_wide() -> None:
    found = views(
        f"SELECT SUM(r.b) AS b, SUM(s.x) AS x, SUM(s.x * s.big) AS xx, SUM(r.m) AS m, SUM(s.y) AS y {FROM}"
    )
    [of_r] = [v for v in found if v.view == "V_r[a]"]
    assert [m.column.type for m in of_r.measures if m.function == "sum"] == [
        t.BIGINT,
        t.BIGINT,
        t.decimal(22, 2),
    ]
    [of_s] = [v for v in found if v.view == "V_s[a, c]"]
    kinds = {m.column.type for m in of_s.measures if m.function == "sum"}
    assert {t.decimal(30, 0), t.decimal(38, 0), t.DOUBLE} <= kinds
    assert [m.column.type for m in found[-1].measures if m.column.name == "value_2_sum"] == [t.BIGINT]


def test_a_table_twice() -> None:
    found = views("SELECT p.a, SUM(p.b * q.b) AS v FROM r AS p JOIN r AS q ON p.a = q.a GROUP BY p.a")
    assert {v.view for v in found} == {"V_p[a]", "V_q[a]", "V_p_q@a[a]"}


def test_keys_that_are_computed() -> None:
    found = views(f"SELECT r.b + 1 AS k, SUM(s.x) AS v {FROM} GROUP BY r.b + 1")
    assert found[-1].keys == ("key",)


def test_columns_of_one_table_that_are_equal_through_another() -> None:
    found = views("SELECT SUM(r.b) AS v FROM r JOIN s ON r.a = s.a AND r.id = s.a")
    assert [n.predicate.sql() for n in walk(found[-1]) if isinstance(n, Select)] == ['"r_id" = "r_a"']


def test_a_given_order() -> None:
    first, second = (
        made(f"SELECT SUM(r.b * t.e) AS v {FROM}", variable_order=order) for order in ("a - c", "C - {A}")
    )
    assert first.tree is not None
    assert second.tree is not None
    assert [root.name for root in first.tree.order.roots] == ["a"]
    assert [root.name for root in second.tree.order.roots] == ["c"]
    with pytest.raises(Unsupported, match="c is missing"):
        made(f"SELECT SUM(r.b) AS v {FROM}", variable_order="a")


# --- it does not ---


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT SUM(b) AS v FROM r", "no join"),
        ("SELECT r.id, s.x FROM r JOIN s ON r.a = s.a", "no aggregate"),
        (f"SELECT SUM(r.b + s.x) AS v {FROM}", "looks at several tables"),
        (f"SELECT MAX(r.b) AS v {FROM}", "MAX is no sum"),
        (f"SELECT STDDEV(r.b) AS v {FROM}", "ANY is no sum"),
        (f"SELECT SUM(r.b / s.x) AS v {FROM}", "looks at several tables"),
        (f"SELECT SUM(s.x / s.big) AS v {FROM}", "may fail for rows that the join drops"),
        (f"SELECT SUM(CAST(r.s AS INT)) AS v {FROM}", "may fail"),
        (f"SELECT r.b + s.x AS k, COUNT(*) AS n {FROM} GROUP BY r.b + s.x", "looks at several tables"),
        ("SELECT SUM(r.b) AS v FROM r JOIN s ON r.a < s.a", "no equality of two columns"),
        ("SELECT SUM(r.b) AS v FROM r JOIN s ON r.a = s.x", "columns of two types"),
        ("SELECT SUM(r.b) AS v FROM r CROSS JOIN s", "joined by no equality"),
        ("SELECT SUM(r.b) AS v FROM r LEFT JOIN s ON r.a = s.a", "inner joins"),
        (f"SELECT SUM(s.fine * r.m) AS v {FROM}", "38 digits"),
        ("SELECT SUM(q.n) AS v FROM r JOIN (SELECT a, COUNT(*) AS n FROM s GROUP BY a) AS q ON r.a = q.a", "inner joins"),
        ("SELECT s, SUM(b) AS v FROM r JOIN t ON r.a = t.c GROUP BY ROLLUP (s)", "inner joins"),
    ],
)  # fmt: skip
def test_where_it_does_not_apply(query: str, why: str) -> None:
    assert why in reason(query)


def test_the_plan_is_left_as_it_is() -> None:
    plan = normalize(bound(f"SELECT MAX(r.b) AS v {FROM}", TABLES).plan)
    assert view_tree(plan).plan is plan


# --- the options ---


@pytest.fixture
def vk() -> viewkeep.Connection:
    made = viewkeep.connect("duckdb:")
    for given in TABLES:
        made.sql(_ddl(given))
    return made


def _ddl(given: Table) -> str:
    columns = ", ".join(f"{c.name} {c.type}" for c in given.columns)
    return f"CREATE TABLE {given.name} ({columns}, PRIMARY KEY ({', '.join(given.key)}))"


@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        ("view_tree = 'on'", f"SELECT MAX(b) AS v {FROM}", "no view tree: MAX is no sum"),
        ("variable_order = 'a'", "SELECT SUM(b) AS v FROM r", "no view tree: there is no join"),
        ("variable_order = 'a', view_tree = 'off'", f"SELECT SUM(b) AS v {FROM}", "wants none"),
        ("view_tree = 'maybe'", f"SELECT SUM(b) AS v {FROM}", "no option view_tree = maybe"),
        ("variable_order = 'a - {c'", f"SELECT SUM(b) AS v {FROM}", "not closed"),
        ("variable_order = 'a - z'", f"SELECT SUM(b) AS v {FROM}", "c is missing"),
    ],
)
def test_options_that_are_refused(vk: viewkeep.Connection, options: str, query: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message) as caught:
        vk.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")
    assert caught.value.hint


def test_explain_shows_the_tree(vk: viewkeep.Connection) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW v WITH (variable_order = 'C - A') AS SELECT SUM(b * e) AS v {FROM}")
    explained = vk.explain("v")
    assert explained.variable_order.startswith("c\n")
    assert "V_r_s_t@c[] = ⊕ c  stored" in explained.view_tree
    assert explained.variable_order.splitlines()[0] in str(explained)
    assert any(line.startswith("view tree: V_") for line in explained.caches)
    assert "view_tree" in dict(explained.steps)


def test_explain_says_why_there_is_none(vk: viewkeep.Connection) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW v AS SELECT MAX(b) AS top, COFACTOR(b, e) {FROM}")
    assert "no view tree: MAX is no sum" in vk.explain("v").caches
    vk.sql("CREATE MATERIALIZED VIEW w AS SELECT COFACTOR(b, m) FROM r")
    assert not [line for line in vk.explain("w").caches if "view tree" in line]


def test_a_join_below_is_not_stored(vk: viewkeep.Connection) -> None:
    found = made("SELECT COFACTOR(b, e) FROM r JOIN t ON r.a = t.c")
    assert [target.role for target in found.placement.targets] == ["output cache", "view"]
    assert isinstance(found.placement.root, Aggregate)
    assert any(isinstance(n, Join) for n in walk(found.placement.root))
