"""Views over views: equal to their query over the base tables, refreshed together, and safe from each other."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep
from viewkeep import errors

from .helpers import contents, shop

DEVICE_COST = "SELECT l.did, SUM(p.price) AS cost FROM links l JOIN parts p ON p.pid = l.pid GROUP BY l.did"
DEAR = (
    "SELECT c.did, d.category, c.cost FROM device_cost AS c JOIN devices d ON d.did = c.did WHERE c.cost > 10"
)
BY_CATEGORY = (
    "WITH most AS (SELECT category, MAX(cost) AS most FROM dear GROUP BY category) "
    "SELECT m.category, m.most, (SELECT COUNT(*) FROM device_cost) AS devices FROM most m"
)


@pytest.fixture
def vk() -> Any:
    with shop() as vk:
        vk.sql(f"CREATE MATERIALIZED VIEW device_cost AS {DEVICE_COST}")
        vk.sql(f"CREATE MATERIALIZED VIEW dear AS {DEAR}")
        vk.sql(f"CREATE MATERIALIZED VIEW by_category AS {BY_CATEGORY}")
        yield vk


def test_all_are_right_after_a_change_of_the_tables(vk: viewkeep.Connection) -> None:
    for change in (
        "UPDATE parts SET price = 100.00 WHERE pid = 1",
        "DELETE FROM links WHERE did = 1",
        "INSERT INTO links VALUES (3, 2, 1); UPDATE devices SET category = 'phone' WHERE did = 3",
    ):
        vk.sql(change)
        vk.refresh()
        for name in ("device_cost", "dear", "by_category"):
            assert vk.verify(name), f"{name} after {change}"
        assert contents(vk, "dear") == contents(vk, f"({DEAR})")
        assert contents(vk, "by_category") == contents(vk, f"({BY_CATEGORY})")


def test_views_below_come_along_and_the_one_asked_for_is_told_first(vk: viewkeep.Connection) -> None:
    vk.sql("UPDATE parts SET price = 100.00 WHERE pid = 1")
    done = vk.refresh("by_category")
    assert [refresh.view for refresh in done] == ["by_category", "device_cost", "dear"]
    assert {refresh.strategy for refresh in done} == {"id"}
    assert not any(status.stale for status in vk.status())


def test_a_view_alone_may_be_ahead_of_the_views_above_it(vk: viewkeep.Connection) -> None:
    before = contents(vk, "dear")
    vk.sql("UPDATE parts SET price = 100.00 WHERE pid = 1")
    vk.refresh("device_cost")
    assert contents(vk, "dear") == before
    assert vk.verify("dear")


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("DROP MATERIALIZED VIEW device_cost", errors.DependentViews),
        (f"CREATE OR REPLACE MATERIALIZED VIEW device_cost AS {DEVICE_COST}", errors.DependentViews),
        ("CREATE OR REPLACE MATERIALIZED VIEW device_cost AS SELECT did FROM dear", errors.Unsupported),
        ("CREATE OR REPLACE MATERIALIZED VIEW dear AS SELECT did FROM dear", errors.Unsupported),
        (
            "CREATE MATERIALIZED VIEW w AS WITH parts AS (SELECT * FROM device_cost) SELECT * FROM parts",
            errors.Unsupported,
        ),
        ("CREATE MATERIALIZED VIEW w AS SELECT nope FROM device_cost", errors.UnknownColumn),
    ],
)
def test_refused(vk: viewkeep.Connection, statement: str, kind: type[viewkeep.ViewkeepError]) -> None:
    before = {name: contents(vk, name) for name in ("device_cost", "dear", "by_category")}
    with pytest.raises(kind):
        vk.sql(statement)
    vk.refresh()
    assert before == {name: contents(vk, name) for name in before}


def test_they_are_dropped_from_the_top(vk: viewkeep.Connection) -> None:
    for name in ("by_category", "dear", "device_cost"):
        vk.sql(f"DROP MATERIALIZED VIEW {name}")
    assert vk.status() == []


def test_a_cte_and_a_schema_do_not_stand_in_the_way(vk: viewkeep.Connection) -> None:
    vk.sql(
        "CREATE MATERIALIZED VIEW w AS WITH dear AS (SELECT did FROM devices) "
        "SELECT dear.did, c.cost FROM dear LEFT JOIN main.device_cost AS c ON c.did = dear.did"
    )
    vk.sql("DELETE FROM links WHERE did = 2")
    vk.refresh("w")
    assert vk.verify("w")


def test_another_session_finds_them(tmp_path: Any) -> None:
    where = f"duckdb:{tmp_path / 'shop.db'}"
    with shop(where) as vk:
        vk.sql(f"CREATE MATERIALIZED VIEW device_cost AS {DEVICE_COST}")
        vk.sql(f"CREATE MATERIALIZED VIEW dear AS {DEAR}")
    with viewkeep.connect(where) as vk:
        vk.sql("UPDATE parts SET price = 77.00 WHERE pid = 2")
        vk.refresh("dear")
        assert vk.verify("dear")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_on_spark(spark_engine: viewkeep.Connection, spark: Any) -> None:
    vk = spark_engine
    vk.sql("CREATE TABLE sales (sid INT, shop STRING, amount INT, PRIMARY KEY (sid))")
    vk.sql("INSERT INTO sales VALUES (1, 'a', 10), (2, 'a', 5), (3, 'b', 7)")
    vk.sql("CREATE MATERIALIZED VIEW by_shop AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop")
    vk.sql("CREATE MATERIALIZED VIEW best AS SELECT shop, total FROM by_shop WHERE total > 8")
    spark.sql("UPDATE sales SET amount = 20 WHERE sid = 3").collect()
    assert {refresh.strategy for refresh in vk.refresh("best")} == {"id"}
    assert vk.verify("best")
    assert sorted(tuple(r) for r in spark.sql("SELECT * FROM best").collect()) == [("a", 15), ("b", 20)]
