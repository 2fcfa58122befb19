"""Statements that change tables write what they would write on Spark, where DuckDB would not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import Unsupported

TABLES = """
    CREATE TABLE t (k INT, n INT, d DECIMAL(10,2), s STRING, day DATE, PRIMARY KEY (k));
    CREATE TABLE u (k INT, n INT, d DECIMAL(10,2), s STRING, day DATE, PRIMARY KEY (k));
    INSERT INTO t VALUES (1, 7, 1.55, 'a%b', DATE '2024-01-31'), (2, -7, 2.50, 'axb', DATE '2024-02-29'),
                         (3, NULL, NULL, NULL, NULL);
    CREATE MATERIALIZED VIEW v AS SELECT n, COUNT(*) AS c FROM u GROUP BY n;
    INSERT INTO u SELECT * FROM t
"""


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with viewkeep.connect("duckdb:") as made:
        made.sql(TABLES)
        yield made


def rows(vk: viewkeep.Connection, columns: str) -> list[tuple[Any, ...]]:
    """The columns of u, after a refresh that was right."""
    vk.refresh()
    assert vk.verify("v")
    return list(vk.sql(f"SELECT {columns} FROM u ORDER BY k").rows)


UPDATES = {
    "n = n / 2": ("n", [3, -3, None]),
    "n = d": ("n", [1, 2, None]),
    "n = 1.5": ("n", [1, 1, 1]),
    "n = CAST(d AS INT)": ("n", [1, 2, None]),
    "u.n = DAYOFWEEK(u.day)": ("n", [4, 5, None]),
    "d = d / 3": ("d", [Decimal("0.52"), Decimal("0.83"), None]),
    "s = SUBSTRING(s, -4, 2), n = n DIV 2": ("s, n", [("a", 3), ("a", -3), (None, None)]),
    "day = day + INTERVAL 1 MONTH": ("day", [date(2024, 2, 29), date(2024, 3, 29), None]),
    "n = (SELECT COUNT(*) FROM t)": ("n", [3, 3, 3]),
}


@pytest.mark.parametrize("assignment", UPDATES)
def test_update(vk: viewkeep.Connection, assignment: str) -> None:
    columns, wanted = UPDATES[assignment]
    vk.sql(f"UPDATE u SET {assignment}")
    assert rows(vk, columns) == [w if isinstance(w, tuple) else (w,) for w in wanted]


def test_update_by_an_alias(vk: viewkeep.Connection) -> None:
    vk.sql("UPDATE u AS x SET x.n = x.n / 2 WHERE x.k % 2 = 1 AND x.k IN (SELECT k FROM t)")
    assert rows(vk, "n") == [(3,), (-7,), (None,)]


def test_delete(vk: viewkeep.Connection) -> None:
    vk.sql("DELETE FROM u WHERE s LIKE 'a\\\\%b' AND DAYOFWEEK(day) = 4")
    assert rows(vk, "k") == [(2,), (3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO u (k, n, s) SELECT k + 10, d, SUBSTRING(s, -2) FROM t WHERE k = 2",
        "INSERT INTO u BY NAME SELECT SUBSTRING(s, -2) AS s, d AS n, k + 10 AS k FROM t WHERE k = 2",
        "WITH c AS (SELECT * FROM t WHERE k = 2) INSERT INTO u (k, n, s) SELECT k + 10, d, SUBSTRING(s, -2) FROM c",
        "INSERT INTO u (k, n, s) VALUES (12, 5 / 2, SUBSTRING('axb', -2))",
        "INSERT INTO u (n, s, k) VALUES (2.5, 'xb', 12)",
        "MERGE INTO u USING (SELECT k + 10 AS k, d, s FROM t WHERE k DIV 2 = 1 AND n < 0) AS x ON u.k = x.k "
        "WHEN NOT MATCHED THEN INSERT (k, n, s) VALUES (x.k, x.d, SUBSTRING(x.s, -2))",
        "MERGE INTO u USING (SELECT 12 AS k) AS x ON u.k = x.k "
        "WHEN NOT MATCHED THEN INSERT VALUES (x.k, 5 / 2, NULL, SUBSTRING('axb', -2), NULL)",
    ],
)
def test_insert(vk: viewkeep.Connection, statement: str) -> None:
    vk.sql(statement)
    assert rows(vk, "k, n, s")[-1] == (12, 2, "xb")


def test_insert_overwrite(vk: viewkeep.Connection) -> None:
    vk.sql("INSERT OVERWRITE u SELECT k, n / 2, d, s, day FROM u WHERE k < 3")
    assert rows(vk, "k, n") == [(1, 3), (2, -3)]


def test_merge(vk: viewkeep.Connection) -> None:
    vk.sql(
        "MERGE INTO u AS a USING t AS b ON a.k = b.k AND a.s LIKE 'a\\\\%b' "
        "WHEN MATCHED AND DAYOFWEEK(b.day) = 4 THEN UPDATE SET a.n = b.d + a.d, s = LPAD(b.s, 5, '*') "
        "WHEN NOT MATCHED BY SOURCE AND a.n / 2 < 0 THEN DELETE"
    )
    assert rows(vk, "k, n, s") == [(1, 3, "**a%b"), (3, None, None)]


def test_a_table_of_a_query_has_the_types_of_spark(vk: viewkeep.Connection) -> None:
    vk.sql(
        "CREATE TABLE w AS SELECT SUM(n) AS s, AVG(d) AS m, SUM(d) / 3 AS q, MAX(CAST(d AS INT)) AS i FROM t"
    )
    assert vk.sql("SELECT * FROM w").rows == ((0, Decimal("2.025000"), Decimal("1.35000000"), 2),)
    vk.sql("CREATE MATERIALIZED VIEW over AS SELECT s + 1 AS s FROM w")
    # a query that is not taken by its plan
    vk.sql("CREATE TABLE x AS SELECT SUM(n) OVER (ORDER BY s ROWS 1 PRECEDING) AS s FROM t")
    vk.sql("CREATE MATERIALIZED VIEW over2 AS SELECT s + 1 AS s FROM x")


@pytest.mark.parametrize("shown", ["COLLECT_LIST(n) AS x", "CAST(1 AS FLOAT) AS x"])
def test_a_table_of_a_query_with_a_type_that_none_has(vk: viewkeep.Connection, shown: str) -> None:
    with pytest.raises(Unsupported, match="column x has"):
        vk.sql(f"CREATE TABLE w AS SELECT {shown} FROM t")
