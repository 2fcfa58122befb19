"""PIVOT: Spark's own answers, names and all, and views that are kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import viewkeep

# g, y, n (which of two columns to pivot by), x
ROWS = [
    (1, "p", "a", 1, 5), (2, "p", "a", 2, 3), (3, "q", "b", 1, 1), (4, "r", "c", -1, 2), (5, None, "a", 1, None),
    (6, "p", None, None, 7), (7, "q", "b", 2, None), (8, "", "", 0, 4),
]  # fmt: skip
LATER = [(9, "r", "a", 1, 1), (10, "s", "b", 2, 0), (11, "p", "b", -1, 9)]
PIVOTS = [
    "SELECT * FROM (SELECT g, y, x FROM t) PIVOT (SUM(x) FOR y IN ('a', 'b' AS bb, 'nobody'))",
    "SELECT * FROM (SELECT g, y, x FROM t) PIVOT (SUM(x) AS total FOR y IN ('a', 'b'))",
    "SELECT * FROM (SELECT g, y, x FROM t) PIVOT (COUNT(*) AS n, MAX(x + 1) AS m, COUNT(x) AS c FOR y IN ('a' AS first, 'b'))",
    "SELECT * FROM (SELECT y, x FROM t) PIVOT (COUNT(x) FOR y IN ('a', 'zz'))",
    "SELECT * FROM (SELECT g, n, x FROM t) PIVOT (AVG(x) FOR n IN (1, -1, 2 AS two))",
    "SELECT * FROM (SELECT g, n = 1 AS f, x FROM t) PIVOT (COUNT(DISTINCT x) FOR f IN (TRUE, FALSE))",
    "SELECT p.g, bb - a AS d FROM (SELECT g, y, x FROM t) AS q PIVOT (MIN(x) FOR y IN ('a', 'b' AS bb)) AS p WHERE bb > 0",
    "SELECT k, `1`, `2` FROM t PIVOT (SUM(x) FOR n IN (1, 2))",
]  # fmt: skip
DDL = "CREATE TABLE t (k INT, g STRING, y STRING, n INT, x INT, PRIMARY KEY (k))"


def values(rows: list[tuple[Any, ...]]) -> str:
    shown = ("NULL" if v is None else repr(v) for row in rows for v in row)
    return ", ".join(f"({', '.join(next(shown) for _ in row)})" for row in rows)


def answers(vk: viewkeep.Connection) -> list[tuple[tuple[str, ...], Counter[Any]]]:
    """The columns and the rows of each view after changes."""
    vk.sql(DDL)
    vk.sql(f"INSERT INTO t VALUES {values(ROWS)}")
    for number, query in enumerate(PIVOTS):
        vk.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    vk.sql(f"INSERT INTO t VALUES {values(LATER)}")
    vk.sql("UPDATE t SET y = 'b', x = 6 WHERE k = 2; DELETE FROM t WHERE k = 3")
    for done in vk.refresh():
        assert vk.verify(done.view)
    found = [vk.sql(f"SELECT * FROM v{number}") for number in range(len(PIVOTS))]
    return [(tuple(f.columns), Counter(f.rows)) for f in found]


def after_the_changes() -> list[tuple[Any, ...]]:
    rows = [(2, "p", "b", 2, 6) if row[0] == 2 else row for row in (*ROWS, *LATER)]
    return [row for row in rows if row[0] != 3]


EXPECTED = {
    0: (("g", "a", "bb", "nobody"), {("p", 5, 15, None), ("q", None, None, None), ("r", 1, None, None),
        (None, None, None, None), ("", None, None, None), ("s", None, 0, None)}),
    3: (("a", "zz"), {(2, None)}),
}  # fmt: skip


def test_on_duckdb() -> None:
    with viewkeep.connect("duckdb:") as vk:
        found = answers(vk)
    for number, (columns, rows) in EXPECTED.items():
        assert found[number] == (columns, Counter(rows))


@pytest.mark.xdist_group("postgres")
def test_on_postgres(postgres: viewkeep.Connection) -> None:
    with viewkeep.connect("duckdb:") as vk:
        assert answers(postgres) == answers(vk)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_as_spark(spark: Any) -> None:
    spark.createDataFrame(
        after_the_changes(), "k INT, g STRING, y STRING, n INT, x INT"
    ).createOrReplaceTempView("t")
    with viewkeep.connect("duckdb:") as vk:
        found = answers(vk)
    for query, (columns, rows) in zip(PIVOTS, found, strict=True):
        own = spark.sql(query)
        assert (tuple(own.columns), Counter(map(tuple, own.collect()))) == (columns, rows), query
