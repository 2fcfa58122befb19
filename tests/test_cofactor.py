"""COFACTOR over joins, on all engines: what is kept is what NumPy computes from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import viewkeep
from viewkeep.algebra.cofactors import upper_half
from viewkeep.errors import EngineError

TABLES = (
    "CREATE TABLE house (hid INT, postcode INT, city STRING, area INT, price DECIMAL(10,2), PRIMARY KEY (hid))",
    "CREATE TABLE shop (sid INT, postcode INT, size BIGINT, distance DOUBLE, PRIMARY KEY (sid))",
    "CREATE TABLE people (postcode INT, salary DECIMAL(10,2), PRIMARY KEY (postcode))",
)
FROM = "FROM house NATURAL JOIN shop NATURAL JOIN people"
ARGUMENTS = ("area", "price", "size", "distance", "salary")
MATRIX = f"COFACTOR({', '.join(ARGUMENTS)})"
VIEWS = {
    "whole": f"SELECT {MATRIX} {FROM}",
    "by_city": f"SELECT city, COUNT(*) AS pairs, {MATRIX} {FROM} GROUP BY city",
    "categories": f"SELECT COFACTOR({', '.join(ARGUMENTS)}, CATEGORY(city)) {FROM}",
    "filtered": f"SELECT {MATRIX} AS m, MAX(price) AS top {FROM} WHERE distance < 3",
}


def fresh(random: Random, table: str, key: int) -> str:
    def some(*values: object) -> str:
        return str(random.choice([*values, "NULL"] if random.random() < 0.3 else values))

    postcode, city = some(1, 2, 3), some("'Oslo'", "'Rome'")
    rows = {
        "house": f"({key}, {postcode}, {city}, {some(50, 70, 90, 2000000)}, {some(100.25, 7.5, 0)})",
        "shop": f"({key}, {postcode}, {some(300000000, 10, -1)}, {some(0.5, 1.25, 4)})",
        "people": f"({key}, {some(1000.25, 2500)})",
    }
    return f"INSERT INTO {table} VALUES {rows[table]}"


def batch(random: Random) -> Iterator[str]:
    for _ in range(random.randint(1, 5)):
        table, key = random.choice([("house", "hid"), ("shop", "sid"), ("people", "postcode")])
        number = random.randint(1, 3 if table == "people" else 9)
        style = random.choice(["write", "write", "write", "delete", "value", "join"])
        if style in ("write", "delete"):
            yield f"DELETE FROM {table} WHERE {key} = {number}"
        if style == "write":
            yield fresh(random, table, number)
        if style == "value":
            column, new = random.choice([("area", "area + 1"), ("price", "NULL"), ("price", "3.50")]) if table == "house" else random.choice([("distance", "2.5"), ("size", "NULL")])  # fmt: skip
            if table != "people":
                yield f"UPDATE {table} SET {column} = {new} WHERE {key} = {number}"
        if style == "join" and table != "people":
            yield f"UPDATE {table} SET postcode = {random.randint(1, 3)} WHERE {key} = {number}"


BATCHES: list[list[str]] = [list(batch(Random(n))) for n in range(6)]
BATCHES += [["DELETE FROM shop"], [fresh(Random(9), "shop", 1), "DELETE FROM house WHERE city = 'Rome'"]]
KEYS = {"house": range(1, 10), "shop": range(1, 10), "people": range(1, 4)}
START = [
    f"INSERT INTO {table} VALUES " + ", ".join(fresh(Random(n), table, n).split("VALUES ")[1] for n in keys)
    for table, keys in KEYS.items()
]
# each statement is a commit there, and takes a second
ON_SPARK = (
    "INSERT INTO house VALUES (20, 2, 'Bonn', 75, 12.25), (21, NULL, 'Bonn', 75, 12.25)",
    "UPDATE house SET area = area + 1, price = NULL WHERE hid IN (2, 3)",
    "UPDATE shop SET postcode = 2, distance = 2.5 WHERE sid < 4",
    "DELETE FROM people WHERE postcode = 1",
)


def expected(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The matrix of rows of the arguments, by NumPy: exactly, as fractions, whatever their type."""
    known = [[Fraction(v) for v in row] for row in rows if None not in row]
    if not known:
        return [0] * (1 + len(ARGUMENTS) + len(list(upper_half(ARGUMENTS))))
    values = np.array(known, dtype=object)
    products = values.T @ values
    upper = [products[i, j] for i, j in upper_half(range(len(ARGUMENTS)))]
    return [len(known), *values.sum(axis=0), *upper]


def assert_right(vk: viewkeep.Connection, when: str, views: Sequence[str] = tuple(VIEWS)) -> None:
    """Each view, from the rows of the join as the engine has them."""
    rows = vk.sql(f"SELECT city, distance, price, {', '.join(ARGUMENTS)} {FROM}").rows
    [whole] = vk.sql("SELECT * FROM whole").rows
    assert [Fraction(v) for v in whole] == expected([row[3:] for row in rows]), when
    by_city = {row[0]: row for row in vk.sql("SELECT * FROM by_city").rows}
    assert set(by_city) == {row[0] for row in rows}, when
    for city, found in by_city.items():
        own = [row for row in rows if row[0] == city]
        assert found[1] == len(own), when
        assert [Fraction(v) for v in found[2:]] == expected([row[3:] for row in own]), when
    categories = {row[0]: row[1:] for row in vk.sql("SELECT * FROM categories").rows}
    counting = [row for row in rows if None not in (row[0], *row[3:])]
    assert set(categories) == {row[0] for row in counting}, when
    for city, matrix in categories.items():
        own = [row[3:] for row in counting if row[0] == city]
        assert [Fraction(v) for v in matrix] == expected(own), when
    if "filtered" not in views:
        return
    [filtered] = vk.sql("SELECT * FROM filtered").rows
    near = [row for row in rows if row[1] is not None and row[1] < 3]
    assert [Fraction(v) for v in filtered[:-1]] == expected([row[3:] for row in near]), when
    assert filtered[-1] == max((row[2] for row in near if row[2] is not None), default=None), when


def prepared(vk: viewkeep.Connection, views: Sequence[str] = tuple(VIEWS)) -> None:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    for name in views:
        vk.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def test_on_duckdb() -> None:
    with viewkeep.connect("duckdb:") as vk:
        prepared(vk)
        assert_right(vk, "at creation")
        for number, statements in enumerate(BATCHES):
            for statement in statements:
                vk.sql(statement)
            assert not {done.strategy for done in vk.refresh()} & {"full"}
            assert_right(vk, f"after batch {number}: {statements}")
        assert all(vk.verify(view) for view in VIEWS)


@pytest.mark.xdist_group("postgres")
def test_on_postgres(postgres: viewkeep.Connection) -> None:
    prepared(postgres)
    assert_right(postgres, "at creation")
    for number in range(0, len(BATCHES), 3):
        for statements in BATCHES[number : number + 3]:
            for statement in statements:
                postgres.sql(statement)
        postgres.refresh()
        assert_right(postgres, f"after batch {number}")
    assert all(postgres.verify(view) for view in VIEWS)
    _has_a_model(postgres)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_on_spark(spark_engine: viewkeep.Connection) -> None:
    views = ("whole", "by_city", "categories")
    prepared(spark_engine, views)
    for statement in ON_SPARK:
        spark_engine.sql(statement)
    assert {done.strategy for done in spark_engine.refresh()} <= {"id", "groups"}
    assert_right(spark_engine, "after all kinds of change", views)
    assert all(spark_engine.verify(view) for view in views)
    _has_a_model(spark_engine)


def _has_a_model(vk: viewkeep.Connection) -> None:
    rows = ", ".join(f"({30 + n}, 7, 'Kiel', {50 + 10 * n}, {100 + 30 * n})" for n in range(4))
    vk.sql(f"INSERT INTO house VALUES {rows}")
    vk.sql("INSERT INTO shop VALUES (30, 7, 1, 1.0)")
    vk.sql("INSERT INTO people VALUES (7, 1000)")
    vk.refresh("by_city")
    model = vk.regression("by_city", "price", ["area", "salary"], group={"city": "Kiel"})
    assert isinstance(model, viewkeep.Regression)
    assert model["area"] == pytest.approx(3)
    assert (model["salary"], model.rank, model.count) == (0.0, 1, 4)


def test_views_that_are_kept_when_a_table_changes() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(TABLES[0] + ";" + TABLES[1])
        vk.sql(
            "CREATE MATERIALIZED VIEW v WITH (maintenance = 'eager') AS SELECT COFACTOR(area, size) FROM house NATURAL JOIN shop"
        )
        vk.sql(
            "INSERT INTO house VALUES (1, 1, 'Oslo', 5, 1), (2, 1, 'Oslo', 7, 1); INSERT INTO shop VALUES (1, 1, 10, 1)"
        )
        assert vk.sql("SELECT * FROM v").rows == ((2, 12, 20, 74, 120, 200),)


def test_after_reopening(tmp_path: Path) -> None:
    where = f"duckdb:{tmp_path / 'homes.db'}"
    with viewkeep.connect(where) as vk:
        prepared(vk)
        vk.sql(
            "CREATE MATERIALIZED VIEW ordered WITH (variable_order = 'Postcode') AS SELECT SUM(area * size) AS x FROM house NATURAL JOIN shop"
        )
    with viewkeep.connect(where) as vk:
        for statements in BATCHES[:3]:
            for statement in statements:
                vk.sql(statement)
        vk.refresh()
        assert_right(vk, "after reopening")
        assert vk.verify("ordered")
        assert "postcode" in vk.explain("ordered").variable_order


def test_a_view_over_a_cofactor() -> None:
    with viewkeep.connect("duckdb:") as vk:
        prepared(vk)
        vk.sql("CREATE MATERIALIZED VIEW mean AS SELECT city, sum_area / n AS area FROM by_city WHERE n > 0")
        for statements in BATCHES[:4]:
            for statement in statements:
                vk.sql(statement)
            vk.refresh()
            assert vk.verify("mean")


def test_filter_and_expressions() -> None:
    with viewkeep.connect("duckdb:") as vk:
        prepared(vk, ())
        vk.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT city, COFACTOR(area * 2, CASE WHEN price > 50 THEN 1 ELSE 0 END AS dear) "
            f"FILTER (WHERE distance > 1) AS m {FROM} GROUP BY city"
        )
        assert vk.explain("v").view_tree
        for statements in BATCHES[:6]:
            for statement in statements:
                vk.sql(statement)
            vk.refresh()
            plain = (
                "SELECT city, COUNT(area), COALESCE(SUM(area * 2), 0), COALESCE(SUM(d), 0), COALESCE(SUM(CAST(area * 2 AS BIGINT) * area * 2), 0), "
                "COALESCE(SUM(area * 2 * d), 0), COALESCE(SUM(d * d), 0) FROM (SELECT city, CASE WHEN distance > 1 THEN area END AS area, "
                f"CASE WHEN distance > 1 AND area IS NOT NULL THEN CASE WHEN price > 50 THEN 1 ELSE 0 END END AS d {FROM}) GROUP BY city"
            )
            assert set(vk.sql("SELECT * FROM v").rows) == set(vk.sql(plain).rows)


def test_an_overflow_is_an_error_and_leaves_the_view() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(
            "CREATE TABLE r (k INT, a INT, x BIGINT, PRIMARY KEY (k)); CREATE TABLE s (k INT, a INT, y BIGINT, PRIMARY KEY (k))"
        )
        vk.sql("INSERT INTO r VALUES (1, 1, 2); INSERT INTO s VALUES (1, 1, 3)")
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(x, y) FROM r JOIN s ON r.a = s.a")
        vk.sql("INSERT INTO r VALUES (2, 1, 9000000000000000000)")
        with pytest.raises(EngineError):
            vk.refresh()
        assert vk.sql("SELECT sum_x, sum_x_y FROM v").rows == ((2, 6),)
        vk.sql("DELETE FROM r WHERE k = 2")
        vk.refresh()
        assert vk.verify("v")


def test_what_has_no_partner_does_not_overflow() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(
            "CREATE TABLE r (k INT, a INT, x BIGINT, PRIMARY KEY (k)); CREATE TABLE s (k INT, a INT, y BIGINT, PRIMARY KEY (k))"
        )
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(x, y) FROM r JOIN s ON r.a = s.a")
        vk.sql(
            "INSERT INTO r VALUES (1, 2, 4000000000000000000), (2, 2, 6000000000000000000), (3, 1, 2); INSERT INTO s VALUES (1, 1, 3)"
        )
        vk.refresh()
        assert vk.sql("SELECT * FROM v").rows == ((1, 2, 3, 4, 6, 9),)


def test_decimals_are_exact() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(
            "CREATE TABLE r (k INT, a INT, x DECIMAL(12,3), PRIMARY KEY (k)); CREATE TABLE s (k INT, a INT, y DECIMAL(12,2), PRIMARY KEY (k))"
        )
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT COFACTOR(x, y) FROM r JOIN s ON r.a = s.a")
        assert vk.explain("v").view_tree
        vk.sql(
            "INSERT INTO r VALUES (1, 1, 99999999.999), (2, 1, 0.001); INSERT INTO s VALUES (1, 1, 9999999999.99), (2, 1, -0.01)"
        )
        vk.refresh()
        [found] = vk.sql("SELECT sum_x_y, sum_x_x FROM v").rows
        assert found == (Decimal("999999999998000000.00000"), Decimal("19999999999600000.000004"))
