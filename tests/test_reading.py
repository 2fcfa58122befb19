"""A query of the user's own answers what a view of the same text holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import EngineError

TABLES = """
    CREATE TABLE t (k INT, g STRING, d DECIMAL(10,2), e DECIMAL(5,2), n INT, PRIMARY KEY (k));
    CREATE TABLE b (g STRING, x DOUBLE, n INT);
    INSERT INTO t VALUES (1, 'a', 10.00, 3.00, 1), (2, 'a', 5.55, 2.00, 2), (3, 'b', NULL, 1.00, 3),
                         (4, NULL, 7.25, 0.50, 4);
    INSERT INTO b VALUES ('a', 1.5, 1), ('a', 1.5, 1), ('b', 2.0, 0)
"""
QUERIES = (
    "SELECT k, d / e AS q FROM t",
    "SELECT g, AVG(d) AS m FROM t GROUP BY g",
    "SELECT g, SUM(d) / COUNT(*) AS m, PERCENTILE(n, 0.5) AS p FROM t GROUP BY g",
    "SELECT g, COLLECT_SET(n) AS s FROM t GROUP BY g",
    "SELECT d / e FROM t",
    "SELECT AVG(x) AS a, COUNT(*) AS c FROM b",
    "SELECT t.g, b.x / t.n AS z FROM t LEFT JOIN b ON t.g = b.g",
    "SELECT UPPER(g) AS u, x FROM b",
    "WITH c AS (SELECT g, AVG(d) AS m FROM t GROUP BY g) SELECT * FROM c",
    "SELECT g, d / e AS q FROM t UNION ALL SELECT g, x / 2 FROM b",
    "SELECT g, d / e AS q FROM t WHERE EXISTS (SELECT 1 FROM b WHERE b.g = t.g)",
    # what comes first among equal rows is decided as in a view
    "SELECT k, d / e AS q, ROW_NUMBER() OVER (ORDER BY n % 2) AS r FROM t",
    "SELECT x / 2 AS h, ROW_NUMBER() OVER (PARTITION BY n ORDER BY g) AS r FROM b",
    "SELECT h / 2 AS q FROM (SELECT x AS h, g FROM b ORDER BY n DESC LIMIT 2) AS c",
    "SELECT h / 2 AS q FROM (SELECT d AS h FROM t ORDER BY n % 2 LIMIT 3) AS c",
    "SELECT h / 2 AS q, LAG(h) OVER (ORDER BY h) AS l FROM (SELECT n AS h FROM t UNION ALL SELECT n FROM b) AS c",
    "SELECT x / 2 AS h FROM b EXCEPT ALL SELECT 0.75 AS h FROM t WHERE k = 1",
    # without a function or a division
    "SELECT * FROM (SELECT g, n, d FROM t) PIVOT (SUM(d) AS s, COUNT(*) AS c FOR n IN (1, 2))",
    "SELECT g, COUNT(*) AS c FROM t WHERE k > 9 GROUP BY ROLLUP (g)",
    "SELECT g, COUNT(*) AS c FROM t WHERE k > 9 GROUP BY CUBE (g)",
    "SELECT g, COUNT(*) AS c FROM t WHERE k > 9 GROUP BY GROUPING SETS ((g), ())",
    "SELECT k FROM t WHERE (g, n) NOT IN (SELECT b.g, b.n FROM b WHERE b.n = t.n)",
    "SELECT k FROM t LEFT SEMI JOIN b ON b.g = t.g",
    "SELECT k FROM t LEFT ANTI JOIN b ON b.g = t.g AND b.n > 0",
    "SELECT t.k, b.n FROM t FULL JOIN b ON b.n < t.n",
    "SELECT t.k, b.x FROM t FULL JOIN b ON b.g <=> t.g",
    "SELECT g, COUNT(*) AS c FROM t GROUP BY ALL",
    "SELECT * EXCEPT (d, e) FROM t",
    "SELECT k FROM (SELECT k, n FROM t) WHERE n > 1",
    "SELECT * FROM (SELECT k, g FROM t) NATURAL JOIN (SELECT g, n FROM b)",
    "SELECT * FROM t RIGHT JOIN (SELECT g, x FROM b) AS c USING (g)",
    "SELECT * FROM t NATURAL LEFT JOIN (SELECT n, x FROM b) AS c",
    "SELECT k, n << 33 AS a, -n << 1 AS b, n >> 33 AS c FROM t",
)


@pytest.fixture(params=["duckdb", "postgres"])
def vk(request: pytest.FixtureRequest) -> Iterator[viewkeep.Connection]:
    if request.param == "postgres":
        connection = request.getfixturevalue("postgres")
        connection.sql(TABLES)
        yield connection
        return
    with viewkeep.connect("duckdb:") as connection:
        connection.sql(TABLES)
        yield connection


def bag(result: viewkeep.Result) -> Counter[Any]:
    """Rows with the types of their values: 0.5 is not 0.50."""
    return Counter(repr(row) for row in result.rows)


def test_a_query_answers_what_its_view_holds(vk: viewkeep.Connection) -> None:
    for number, query in enumerate(QUERIES):
        vk.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        assert bag(vk.sql(query)) == bag(vk.sql(f"SELECT * FROM v{number}")), query


def test_order_and_limit_are_those_of_the_query(vk: viewkeep.Connection) -> None:
    by_name = vk.sql("SELECT k, d / e AS q FROM t ORDER BY q DESC LIMIT 2")
    assert by_name.columns == ("k", "q")
    assert by_name.rows == ((4, Decimal("14.50000000")), (1, Decimal("3.33333333")))
    by_number = vk.sql("SELECT k, d / e AS q FROM t ORDER BY 1 LIMIT 2 OFFSET 1")
    assert [row[0] for row in by_number.rows] == [2, 3]
    # a null comes first, as on Spark
    as_written = vk.sql("SELECT t.g, AVG(t.d) AS m FROM t GROUP BY t.g ORDER BY t.g")
    assert [row[0] for row in as_written.rows] == [None, "a", "b"]


def test_what_orders_need_not_be_selected(vk: viewkeep.Connection) -> None:
    assert vk.sql("SELECT k FROM t WHERE d IS NOT NULL ORDER BY d / e").rows == ((2,), (1,), (4,))


def test_views_are_read_like_tables(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE MATERIALIZED VIEW v AS SELECT g, d FROM t WHERE k < 3")
    assert vk.sql("SELECT AVG(d) AS m FROM v").rows == ((Decimal("7.775000"),),)


def test_a_query_that_no_view_can_be_is_the_engines(vk: viewkeep.Connection) -> None:
    assert vk.sql("SELECT 1 / 2 AS half").rows[0][0] in (0.5, Decimal("0.5"))


DUCKDB = {
    "SELECT CAST(d AS INT) FROM t WHERE k = 2": 5,
    "SELECT CAST(2.5 AS INT)": 2,
    "SELECT 'a%b' LIKE 'a\\\\%b' AND NOT 'axb' LIKE 'a\\\\%b' FROM t WHERE k = 1": True,
    "SELECT DATE '2024-01-31' + INTERVAL '1' MONTH FROM t WHERE k = 1": date(2024, 2, 29),
    "SELECT DAYOFWEEK(DATE '2024-01-31')": 4,
    "SELECT SUM(n) FROM t": 10,  # and not Decimal("10"), which is a string in JSON
    "SELECT SUM(n) OVER (ORDER BY k ROWS 1 PRECEDING) AS s FROM t ORDER BY s DESC LIMIT 1": 7,
}


@pytest.mark.parametrize("query", DUCKDB)
def test_what_duckdb_would_answer_otherwise(query: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(TABLES)
        ((value,),) = vk.sql(query).rows
        assert (type(value), value) == (type(DUCKDB[query]), DUCKDB[query])


def test_a_sum_of_integers_past_bigint_fails() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE t (k BIGINT, PRIMARY KEY (k))")
        vk.sql("INSERT INTO t VALUES (9223372036854775807), (1)")
        with pytest.raises(EngineError, match="out of the range of BIGINT"):
            vk.sql("SELECT SUM(k) FROM t")


def test_a_division_by_what_is_no_number_fails() -> None:
    with viewkeep.connect("duckdb:") as vk, pytest.raises(EngineError):
        vk.sql("SELECT 1 / 'abc'")
