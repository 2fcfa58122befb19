"""Queries that fill targets are put to Spark with the selected tables first."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from viewkeep.engines.spark.filling import selected_first

TABLES = "FROM a AS t1 JOIN b AS t2 ON t1.x = t2.x JOIN c AS t3 ON t2.y = t3.y"
AS_IT_IS = [
    f"SELECT t1.x {TABLES}",
    f"SELECT t1.x {TABLES} WHERE t1.p = 1 AND t3.p = 1",
    f"SELECT t1.x, ROW_NUMBER() OVER (PARTITION BY t1.x) AS n {TABLES} WHERE t3.p = 1",
    "SELECT t1.x FROM a AS t1 LEFT JOIN b AS t2 ON t1.x = t2.x JOIN c AS t3 ON t2.y = t3.y WHERE t3.p = 1",
    "SELECT t1.x FROM a AS t1 CROSS JOIN b AS t2 JOIN c AS t3 ON t2.y = t3.y WHERE t3.p = 1",
    "SELECT t1.x FROM a AS t1 JOIN c AS t3 ON t1.x = t3.y WHERE t3.p = 1",
    "SELECT t1.x FROM a AS t1 JOIN b AS t2 ON t1.x = t2.x JOIN c AS t3 ON t2.y = t3.y "
    "AND t3.p IN (SELECT u.p FROM a AS u) WHERE t3.p = 1",
]


@pytest.mark.parametrize("query", AS_IT_IS)
def test_what_gains_nothing_or_is_not_the_same_stays_as_it_is(query: str) -> None:
    assert selected_first(sqlglot.parse_one(query, dialect="spark")).sql("spark") == query


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT t1.x, t3.y {TABLES} WHERE t3.p = 1",
        f"SELECT t1.x, t3.y {TABLES} AND t1.p = t3.p WHERE t3.p = 1 AND t1.p < t2.p",
        f"SELECT s.x, COUNT(*) AS n FROM (SELECT t1.x {TABLES} WHERE t2.p = 1) AS s GROUP BY s.x",
    ],
)
def test_the_query_in_another_order_is_the_same_query(query: str) -> None:
    con = duckdb.connect()
    for name, columns in (("a", "x, p"), ("b", "x, y, p"), ("c", "y, p")):
        values = ", ".join(f"(i % {3 + n})" for n, _ in enumerate(columns.split(", ")))
        con.execute(
            f"CREATE TABLE {name} AS SELECT * FROM (SELECT {values} FROM range(20) r(i)) t({columns})"
        )
    tree = sqlglot.parse_one(query, dialect="spark")
    other = selected_first(tree.copy()).sql("duckdb")
    assert other != tree.sql("duckdb")
    assert sorted(con.execute(other).fetchall()) == sorted(con.execute(tree.sql("duckdb")).fetchall())
    assert con.execute(other).fetchall()
