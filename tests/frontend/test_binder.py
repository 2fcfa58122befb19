"""Names: what a query may call what, and what is refused, where."""

from __future__ import annotations

import pytest

from tests.helpers import bound, table
from viewkeep.algebra.nodes import Aggregate, Join, Scan, walk
from viewkeep.algebra.printing import tree
from viewkeep.catalog.models import Table
from viewkeep.errors import Place, ViewkeepError
from viewkeep.frontend.binder import Bound

R = table(
    "r", "k INT, a INT, b INT, s STRING, d DATE, t TIMESTAMP, p DECIMAL(10;2), x DOUBLE, f BOOLEAN", "k"
)
S = table("s", "k INT, a INT, c INT", "k")
U = table("u", "a INT, k INT, c INT, e STRING", "k")
STRANGE = Table("strange", (), (), (), {"z": "UUID"})
ODD = Table("odd", R.columns[:2], ("k",), (), {"z": "UUID"})
TABLES = [R, S, U, STRANGE, ODD]


def made(sql: str) -> Bound:
    return bound(sql, TABLES)


def names(sql: str) -> tuple[str, ...]:
    return made(sql).names


# --- what is taken ---


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM s", ("k", "a", "c")),
        ("SELECT s.* FROM s", ("k", "a", "c")),
        ("SELECT S.* FROM s", ("k", "a", "c")),
        ("SELECT x.* FROM s AS x", ("k", "a", "c")),
        ("SELECT s.*, r.b FROM s, r", ("k", "a", "c", "b")),
        ("SELECT r.b, s.* FROM s CROSS JOIN r", ("b", "k", "a", "c")),
        ("SELECT * FROM s JOIN (SELECT b FROM r) AS y ON s.a = y.b", ("k", "a", "c", "b")),
        ("SELECT * FROM s JOIN (SELECT k, b FROM r) AS y USING (k)", ("k", "a", "c", "b")),
        ("SELECT * FROM s NATURAL JOIN (SELECT a, k, b FROM r) AS y", ("k", "a", "c", "b")),
        ("SELECT * FROM s NATURAL JOIN (SELECT b FROM r) AS y", ("k", "a", "c", "b")),
        ("SELECT y.* FROM s JOIN (SELECT k, b FROM r) AS y USING (k)", ("k", "b")),
        ("SELECT K, A FROM S", ("K", "A")),
        ("SELECT k AS K1, a k2 FROM s", ("K1", "k2")),
        ("SELECT `k` AS `a b` FROM `s`", ("a b",)),
        ("SELECT (a) FROM s", ("a",)),
        ("WITH y AS (SELECT a FROM s) SELECT * FROM y", ("a",)),
        ("WITH y (z) AS (SELECT a FROM s) SELECT * FROM y", ("z",)),
        ("WITH y AS (SELECT a FROM s), z AS (SELECT a + 1 AS b FROM y) SELECT b FROM z", ("b",)),
        ("WITH y AS (SELECT k, a FROM s) SELECT p.k, q.a FROM y AS p JOIN y AS q ON p.k = q.k", ("k", "a")),
        ("WITH s AS (SELECT b AS only FROM r) SELECT * FROM s", ("only",)),
        ("SELECT * FROM (SELECT k, a FROM s) AS y (m, n)", ("m", "n")),
        ("SELECT m FROM s AS y (m, n, o)", ("m",)),
        ("SELECT * FROM (WITH y AS (SELECT a FROM s) SELECT a AS i FROM y) AS z", ("i",)),
        ("SELECT a FROM (SELECT a FROM s)", ("a",)),
        ("(SELECT a FROM s)", ("a",)),
        ("SELECT x.a FROM (s AS x JOIN r AS y ON x.k = y.k)", ("a",)),
    ],
)
def test_columns(sql: str, expected: tuple[str, ...]) -> None:
    assert names(sql) == expected


def test_columns_of_using_come_in_its_order() -> None:
    assert names("SELECT * FROM s JOIN (SELECT k, a, b FROM r) AS y USING (a, k)") == ("a", "k", "c", "b")


def test_using_equates() -> None:
    (join,) = [
        n
        for n in walk(made("SELECT * FROM s JOIN (SELECT k, b FROM r) AS y USING (k)").plan)
        if isinstance(n, Join)
    ]
    assert join.condition is not None
    assert join.condition.sql("spark") == "`s_k` = `k`"


def test_natural_join_equates_every_shared_column() -> None:
    shown = tree(made("SELECT e FROM s NATURAL JOIN u").plan)
    assert "s_k = u_k AND s_a = u_a AND s_c = u_c" in shown


def test_both_qualifiers_of_a_using_column_can_be_called() -> None:
    assert names("SELECT s.k AS x, r.k AS y, k AS z FROM s JOIN r USING (k)") == ("x", "y", "z")


def test_three_tables_with_using() -> None:
    assert names("SELECT k, b, e FROM s JOIN r USING (k) JOIN u USING (k)") == ("k", "b", "e")


def test_self_join_has_a_scan_for_each() -> None:
    scans = [n for n in walk(made("SELECT x.k FROM r x, r y WHERE x.a = y.b").plan) if isinstance(n, Scan)]
    assert [s.alias for s in scans] == ["x", "y"]
    assert not set(scans[0].names) & set(scans[1].names)


def test_every_use_of_a_cte_has_its_own_columns() -> None:
    plan = made("WITH y AS (SELECT k, a FROM s) SELECT p.k FROM y AS p, y AS q WHERE p.a = q.a").plan
    scans = [n for n in walk(plan) if isinstance(n, Scan)]
    assert len(scans) == 2
    assert not set(scans[0].names) & set(scans[1].names)


def test_names_that_spark_gives() -> None:
    assert names("SELECT COUNT(*), SUM(a) FROM s") == ("count(1)", "sum(a)")


@pytest.mark.xfail(strict=True, reason="Spark calls it (a + 1), viewkeep a + 1")
def test_the_name_that_spark_gives_to_arithmetic() -> None:
    assert names("SELECT a + 1 FROM s") == ("(a + 1)",)


# --- grouping ---


def keys(sql: str) -> tuple[str, ...]:
    (node,) = [n for n in walk(made(sql).plan) if isinstance(n, Aggregate)]
    return node.keys


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT a, SUM(c) AS m FROM s GROUP BY a", 1),
        ("SELECT a, SUM(c) AS m FROM s GROUP BY 1", 1),
        ("SELECT SUM(c) AS m, a, k FROM s GROUP BY 2, 3", 2),
        ("SELECT a AS g, SUM(c) AS m FROM s GROUP BY g", 1),
        ("SELECT a + 1 AS g, SUM(c) AS m FROM s GROUP BY g", 1),
        ("SELECT a + 1 AS g, SUM(c) AS m FROM s GROUP BY a + 1", 1),
        ("SELECT (a + 1) * 2 AS g, SUM(c) AS m FROM s GROUP BY a + 1", 1),
        ("SELECT a + c AS g, COUNT(*) AS m FROM s GROUP BY a, c", 2),
        ("SELECT a FROM s GROUP BY a", 1),
        ("SELECT COUNT(*) AS m FROM s GROUP BY a, a", 1),
        ("SELECT s.a, COUNT(*) AS m FROM s GROUP BY a", 1),
        ("SELECT a, COUNT(*) AS m FROM s GROUP BY s.a", 1),
        ("SELECT A, COUNT(*) AS m FROM s GROUP BY a", 1),
        ("SELECT COUNT(*) AS m FROM s", 0),
        ("SELECT 1 + SUM(a) AS m FROM s", 0),
        ("SELECT 1 AS one FROM s HAVING COUNT(*) > 1", 0),
        ("SELECT a, COUNT(*) AS m FROM s GROUP BY a HAVING a > 1 AND SUM(c) > 2", 1),
    ],
)
def test_group_by(sql: str, count: int) -> None:
    assert len(keys(sql)) == count


def test_a_column_comes_before_an_alias_in_group_by() -> None:
    # Spark resolves names in GROUP BY against the input first
    plan = made("SELECT a AS c, SUM(k) AS m FROM s GROUP BY c, a").plan
    assert tree(plan).count("s_c") >= 1


def test_the_same_aggregate_is_kept_once() -> None:
    (node,) = [
        n
        for n in walk(made("SELECT SUM(a) AS x, AVG(a) AS y, COUNT(a) AS z FROM s").plan)
        if isinstance(n, Aggregate)
    ]
    assert [m.function for m in node.measures] == ["rows", "count", "sum"]


# --- what is refused ---


REFUSED = [
    # (SQL with ^ before the place, code)
    ("SELECT ^1 AS x", "unsupported"),
    ("SELECT ^COUNT(a, c) AS m FROM s", "unsupported"),
    ("SELECT ^SUM(SUM(a)) AS m FROM s", "unsupported"),
    ("SELECT a FROM s WHERE ^SUM(a) > 1", "unsupported"),
    ("SELECT s.a FROM s JOIN r ON ^SUM(s.a) = r.a", "unsupported"),
    ("SELECT a, COUNT(*) AS m FROM s GROUP BY a, ^SUM(c)", "unsupported"),
    ("SELECT SUM(c) AS m FROM s GROUP BY 1", "unsupported"),
    ("SELECT k, ^a FROM s GROUP BY k", "unsupported"),
    ("SELECT ^a, COUNT(*) AS m FROM s", "unsupported"),
    ("SELECT a FROM s HAVING ^a > 1", "unsupported"),
    ("SELECT a FROM s ^TABLESAMPLE (10 PERCENT)", "unsupported"),
    ("SELECT * REPLACE (1 AS a) FROM s", "unsupported"),
    ("SELECT * EXCEPT (^nope) FROM s", "unknown_column"),
    ("SELECT s.* EXCEPT (^r.k) FROM s, r", "unknown_column"),
    ("SELECT a, (SELECT MAX(r.a) FROM r WHERE r.b = s.^c) AS x FROM s GROUP BY a", "unsupported"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.a = s.a HAVING ^COUNT(*) < 3)", "unsupported"),
    ("SELECT a FROM s LATERAL VIEW EXPLODE(ARRAY(1)) t AS q", "unsupported"),
    ("SELECT k FROM ^VALUES (1) AS t(k)", "unsupported"),
    ("SELECT k FROM RANGE(3) AS t(k)", "unsupported"),
    ("WITH RECURSIVE y AS (SELECT a FROM s) SELECT a FROM y", "unsupported"),
    ("SELECT /*+ BROADCAST(s) */ a FROM s", "unsupported"),
    ("SELECT ^RAND() AS x FROM s", "unsupported"),
    ("SELECT ^UUID() AS x FROM s", "unsupported"),
    ("SELECT ^CURRENT_TIMESTAMP() AS x FROM s", "unsupported"),
    ("SELECT ^NOW() AS x FROM s", "unsupported"),
    ("SELECT ^my_function(a) AS x FROM s", "unknown_function"),
    ("SELECT ^SOUNDEX(s) AS x FROM r", "unsupported"),
    ("SELECT ^CURRENT_DATE AS x FROM s", "unsupported"),
    ("SELECT a, 1 +\n ^UNIX_TIMESTAMP() AS x FROM s", "unsupported"),
    ("SELECT ^s.s.a AS x FROM s", "unsupported"),
    ("SELECT ^z FROM odd", "unsupported"),
    ("SELECT * FROM odd", "unsupported"),
    ("SELECT a FROM ^nope", "unknown_table"),
    ("SELECT nope.* FROM s", "unknown_table"),
    ("SELECT COUNT(*) AS n FROM ^strange", "unsupported"),
    ("SELECT ^nope FROM s", "unknown_column"),
    ("SELECT a,\n  ^nope FROM s", "unknown_column"),
    ("SELECT ^s.nope FROM s", "unknown_column"),
    ("SELECT ^y.a FROM s", "unknown_column"),
    ("SELECT ^s.a FROM s AS x", "unknown_column"),
    ("SELECT a FROM s WHERE a > 1\n AND ^b > 2", "unknown_column"),
    ("SELECT a FROM s JOIN r USING (nope)", "unknown_column"),
    ("SELECT a, COUNT(*) AS m FROM s GROUP BY ^nope", "unknown_column"),
    ("SELECT a, COUNT(*) AS m FROM s GROUP BY 7", "unknown_column"),
    ("SELECT a, COUNT(*) AS m FROM s GROUP BY 0", "unknown_column"),
    ("SELECT y.a FROM s, (SELECT ^s.a FROM r) AS y", "unknown_column"),
    ("SELECT ^a FROM s, r", "ambiguous_column"),
    ("SELECT s.a FROM s JOIN r ON ^k = 1", "ambiguous_column"),
    ("SELECT s.a FROM s, ^s", "ambiguous_column"),
    ("SELECT x.a FROM s AS x JOIN ^r AS x ON TRUE", "ambiguous_column"),
    ("SELECT a, c AS a FROM s", "ambiguous_column"),
    ("SELECT a, c AS A FROM s", "ambiguous_column"),
    ("SELECT * FROM s, r", "ambiguous_column"),
    ("SELECT s.a FROM s JOIN (SELECT s AS a FROM r) AS y USING (a)", "type_mismatch"),
    ("SELECT m FROM (SELECT k, a FROM s) AS y (m)", "type_mismatch"),
    ("SELECT a FROM s WHERE ^a", "type_mismatch"),
    ("SELECT a FROM s WHERE ^a + 1", "type_mismatch"),
    ("SELECT s.a FROM s JOIN r ON s.^a", "type_mismatch"),
    ("SELECT ^SUM(s) AS m FROM r", "type_mismatch"),
    ("SELECT ^AVG(d) AS m FROM r", "type_mismatch"),
    ("SELECT ^s + 1 AS x FROM r", "type_mismatch"),
    ("SELECT ^a = s AS x FROM r", "type_mismatch"),
    ("SELECT ^s > d AS x FROM r", "type_mismatch"),
    ("SELECT CASE WHEN f THEN a ELSE s END AS x FROM r", "type_mismatch"),
    ("SELECT ^COALESCE(a, s) AS x FROM r", "type_mismatch"),
    ("SELECT NOT ^a AS x FROM r", "type_mismatch"),
    ("SELECT f AND ^a AS x FROM r", "type_mismatch"),
    ("SELECT -^s AS x FROM r", "type_mismatch"),
    ("SELECT UPPER(^a) AS x FROM r", "type_mismatch"),
    ("SELECT LENGTH(^a) AS x FROM r", "type_mismatch"),
    ("SELECT s || ^a AS x FROM r", "type_mismatch"),
    ("SELECT YEAR(^s) AS x FROM r", "type_mismatch"),
    ("SELECT DATE_ADD(d, ^s) AS x FROM r", "type_mismatch"),
    ("SELECT ^d - d AS x FROM r", "type_mismatch"),
    ("SELECT ^d + 1.5 AS x FROM r", "type_mismatch"),
    ("SELECT ^a + INTERVAL 1 DAY AS x FROM r", "type_mismatch"),
    ("SELECT ^s & 1 AS x FROM r", "type_mismatch"),
    ("SELECT ^ROUND(s) AS x FROM r", "type_mismatch"),
    ("SELECT ^x DIV 2 AS y FROM r", "type_mismatch"),
    ("SELECT ^a LIKE 'x' AS x FROM r", "type_mismatch"),
    ("SELECT ^s LIKE s AS x FROM r", "unsupported"),
    ("SELECT ^s RLIKE '(?=x)' AS x FROM r", "unsupported"),
    ("SELECT ^s RLIKE s AS x FROM r", "unsupported"),
    ("SELECT ^s LIKE 'a\\\\b' AS x FROM r", "unsupported"),
    ("SELECT CAST(^x AS STRING) AS y FROM r", "unsupported"),
    ("SELECT CAST(^a AS TIMESTAMP) AS y FROM r", "unsupported"),
    ("SELECT TRY_CAST(^s AS TIMESTAMP) AS y FROM r", "unsupported"),
    ("SELECT CAST(^a AS BINARY) AS y FROM r", "unsupported"),
    ("SELECT ^ROUND(x, a) AS y FROM r", "unsupported"),
    ("SELECT CEIL(^x, 1) AS y FROM r", "unsupported"),
    ("SELECT ^LOCATE('a', s, k) AS y FROM r", "unsupported"),
    ("SELECT ^d + INTERVAL 1 MONTH 2 DAYS AS y FROM r", "unsupported"),
    ("SELECT ^a | b & 1 AS y FROM r", "unsupported"),
    ("SELECT ^DATE_FORMAT(d, 'yy') AS y FROM r", "unsupported"),
    ("SELECT ^TO_DATE(s, 'd/M/yy') AS y FROM r", "unsupported"),
    ("SELECT ^DATE_TRUNC('eon', t) AS y FROM r", "unsupported"),
    ("SELECT EXTRACT(MILLENNIUM FROM ^t) AS y FROM r", "unsupported"),
    ("SELECT ^a[0] AS y FROM r", "type_mismatch"),
    ("SELECT a FROM s LIMIT a", "unsupported"),
    ("SELECT a FROM s UNION SELECT a, c FROM s", "type_mismatch"),
    ("SELECT a FROM s INTERSECT SELECT s FROM r", "type_mismatch"),
    ("SELECT a FROM s WHERE a IN (SELECT k, a FROM r)", "type_mismatch"),
    ("SELECT a FROM s WHERE ^a IN (SELECT s FROM r)", "type_mismatch"),
    ("SELECT (SELECT k, a FROM r) AS x FROM s", "type_mismatch"),
    ("SELECT s.a FROM s LEFT JOIN r ON EXISTS (SELECT 1 FROM r AS x WHERE x.k = s.k AND x.a = ^r.nope)", "unknown_column"),
    ("SELECT s.a FROM s LEFT JOIN r ON ^k IN (SELECT k FROM r)", "ambiguous_column"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r WHERE r.k = ^s.nope)", "unknown_column"),
    ("SELECT ^ROW_NUMBER() OVER () AS m FROM s", "unsupported"),
    ("SELECT ^LAG(a) OVER (PARTITION BY c) AS m FROM s", "unsupported"),
    ("SELECT SUM(DISTINCT a) OVER () AS m FROM s", "unsupported"),
    ("SELECT ^SUM(a) OVER (ORDER BY k, a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM s", "unsupported"),
    ("SELECT ^SUM(a) OVER (ORDER BY k RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) AS m FROM s", "unsupported"),
    ("SELECT SUM(a) OVER nope AS m FROM s", "unsupported"),
    ("SELECT a FROM s QUALIFY ROW_NUMBER() OVER (ORDER BY a)", "type_mismatch"),
    ("SELECT DISTINCT a FROM s ORDER BY c LIMIT 1", "unsupported"),
    ("SELECT a FROM s ORDER BY ^7 LIMIT 1", "unknown_column"),
    ("SELECT ^FIRST(a) AS m FROM s", "unsupported"),
    ("SELECT ^APPROX_COUNT_DISTINCT(a) AS m FROM s", "unsupported"),
    ("SELECT PERCENTILE(^a, 0.5, 2) AS m FROM s", "unsupported"),
    ("SELECT PERCENTILE(^a, 1.5) AS m FROM s", "unsupported"),
    ("SELECT LISTAGG(^a, ',') AS m FROM s", "type_mismatch"),
    ("SELECT LISTAGG(DISTINCT ^s, ',') WITHIN GROUP (ORDER BY a) AS m FROM r", "unsupported"),
    ("SELECT DISTINCT m FROM (SELECT k, COLLECT_LIST(a) AS m FROM s GROUP BY k) AS q", "unsupported"),
    ("SELECT m, COUNT(*) AS n FROM (SELECT k, COLLECT_SET(a) AS m FROM s GROUP BY k) AS q GROUP BY ^m", "unsupported"),
    ("SELECT CAST(^m AS STRING) AS x FROM (SELECT k, COLLECT_SET(a) AS m FROM s GROUP BY k) AS q", "unsupported"),
    ("SELECT ^ARRAY_CONTAINS(COLLECT_SET(a), 'x') AS x FROM s", "type_mismatch"),
    ("SELECT ^STDDEV(s) AS m FROM r", "type_mismatch"),
    ("SELECT ^BOOL_AND(a) AS m FROM r", "type_mismatch"),
    ("SELECT a, ^GROUPING(c) AS g FROM s GROUP BY ROLLUP (a)", "unsupported"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "code"), REFUSED, ids=[sql for sql, _ in REFUSED])
def test_refused(marked: str, code: str) -> None:
    sql = marked.replace("^", "")
    with pytest.raises(ViewkeepError) as caught:
        made(sql)
    assert caught.value.code == code
    assert caught.value.message
    assert caught.value.hint
    assert caught.value.place is not None
    if "^" in marked:
        before = marked[: marked.index("^")]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        if "TABLESAMPLE" in marked or "ORDER BY a" in marked or "LIMIT" in marked or "VALUES" in marked:
            assert caught.value.place.line == line
        else:
            assert caught.value.place == Place(line, column)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(s.*) AS c FROM s",  # KeyError '*'
        "SELECT a FROM s WHERE s.* = 1",  # KeyError '*'
        "SELECT COUNT() AS c FROM s",  # AttributeError
        "SELECT a, COUNT(*) AS c FROM s GROUP BY 1.5",  # ValueError
        "SELECT SUBSTRING(s, 1.5) AS c FROM r",  # ValueError
        "SELECT CAST(a AS DECIMAL(50, 2)) AS c FROM s",  # taken, as DECIMAL(38, 0)
        "SELECT CAST(a AS DECIMAL(5, 7)) AS c FROM s",  # taken
        "SELECT a FROM r WHERE d = DATE 'today'",  # Spark reads this as the current date
        "SELECT a FROM r WHERE t < TIMESTAMP 'now'",
        "SELECT a FROM r WHERE d > 'abc'",
        "SELECT SUM(a) AS m, viewkeep_decimal_quotient(SUM(a), SUM(a), 9, 9, 9, 9, 9, 9) AS q FROM s",
    ],
)
def test_should_be_refused(sql: str) -> None:
    with pytest.raises(ViewkeepError) as caught:
        made(sql)
    assert caught.value.hint


def test_the_place_of_having() -> None:
    test_refused("SELECT a FROM s GROUP BY a HAVING ^SUM(c)", "type_mismatch")


def message(sql: str) -> str:
    with pytest.raises(ViewkeepError) as caught:
        made(sql)
    return caught.value.message


@pytest.mark.parametrize("sql", ["SELECT a RLIKE '(?=x)' AS y FROM s", "SELECT a = e AS y FROM u"])
def test_messages_speak_the_users_language(sql: str) -> None:
    assert "_a" not in message(sql)
