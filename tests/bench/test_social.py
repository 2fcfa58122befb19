"""The social-media tables: their proportions, and that every view over them is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewkeep
from viewkeep.bench.social import EVENTS, FRIENDS, TWEETS, Social, graph_tables, unlike


@pytest.fixture(scope="module")
def vk() -> viewkeep.Connection:
    made = viewkeep.connect("duckdb:")
    for _, statement in Social(0.0002).load("duckdb", Path()):
        made.sql(statement)
    return made


def number(vk: viewkeep.Connection, query: str) -> float:
    return float(vk.sql(query).rows[0][0])


def test_the_proportions(vk: viewkeep.Connection) -> None:
    """Figure 9a of the paper."""
    users = number(vk, "SELECT COUNT(*) AS n FROM users")
    tweets = number(vk, "SELECT COUNT(*) AS n FROM microblog")
    assert (users, tweets) == (200, 200 * TWEETS)
    for table, expected in (
        ("friendlist", users * FRIENDS),
        ("retweets", tweets * 0.1 * 2),
        ("mentions", tweets * 0.2 * 2),
        ("rel_event_microblog", tweets * 0.4 * 2),
    ):
        assert number(vk, f"SELECT COUNT(*) AS n FROM {table}") == expected
    for table, column, count in (
        ("mentions", "mid", 800),
        ("rel_event_microblog", "mid", 1600),
        ("retweets", "mid", 400),
    ):
        assert number(vk, f"SELECT COUNT(DISTINCT {column}) AS n FROM {table}") == count


@pytest.mark.parametrize(
    ("table", "column", "other", "key"),
    [
        ("friendlist", "uid", "users", "uid"),
        ("friendlist", "friendid", "users", "uid"),
        ("microblog", "uid", "users", "uid"),
        ("retweets", "mid", "microblog", "mid"),
        ("retweets", "uid", "users", "uid"),
        ("mentions", "mid", "microblog", "mid"),
        ("mentions", "uid", "users", "uid"),
        ("rel_event_microblog", "mid", "microblog", "mid"),
    ],
)
def test_every_row_names_one_that_is_there(
    vk: viewkeep.Connection, table: str, column: str, other: str, key: str
) -> None:
    query = f"SELECT COUNT(*) AS n FROM {table} LEFT ANTI JOIN {other} o ON o.{key} = {table}.{column}"
    assert number(vk, query) == 0


def test_few_are_popular(vk: viewkeep.Connection) -> None:
    """Of a power law with this exponent, the first tenth of the ranks get nearly half of all."""
    counts = vk.sql(
        "SELECT eventid, COUNT(*) AS n FROM rel_event_microblog GROUP BY eventid ORDER BY n DESC"
    ).rows
    total, first = sum(n for _, n in counts), sum(n for _, n in counts[: EVENTS // 10])
    assert 0.35 < first / total < 0.75


@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_the_views_are_kept(vk: viewkeep.Connection, strategy: str) -> None:
    workload = Social(0.0002)
    for name, query in workload.views.items():
        vk.sql(f"CREATE MATERIALIZED VIEW {name}_{strategy} WITH (strategy = '{strategy}') AS {query}")
    for statement in workload.change(100, 1):
        vk.sql(statement)
    for name, query in workload.views.items():
        (done,) = vk.refresh(f"{name}_{strategy}")
        assert done.strategy == strategy
        assert done.rows_changed
        assert sorted(vk.sql(f"SELECT * FROM {name}_{strategy}").rows) == sorted(vk.sql(query).rows)


@pytest.mark.parametrize(("count", "of"), [(1000, 2), (1000, 100), (100, 100), (7, 3)])
def test_what_one_draws_is_all_different(count: int, of: int) -> None:
    """Also where as many are drawn as there are."""
    drawn = unlike("id", 5, count, f"id % {of}", of)
    draws = f"SELECT id DIV {of} AS who, {drawn} AS what FROM range(0, {of * 50}) AS t(id)"
    with viewkeep.connect("duckdb:") as vk:
        sets = vk.sql(f"SELECT who, COUNT(DISTINCT what) AS n FROM ({draws}) AS q GROUP BY who").rows
        assert [n for _, n in sets] == [of] * 50
        assert number(vk, f"SELECT MIN(what) AS n FROM ({draws}) AS q") >= 0
        assert number(vk, f"SELECT MAX(what) AS n FROM ({draws}) AS q") < count


def test_the_four_tables_of_graphs() -> None:
    with viewkeep.connect("duckdb:") as vk:
        for _, statement in graph_tables(300, followers=20):
            vk.sql(statement)
        assert number(vk, "SELECT COUNT(*) AS n FROM follower") == 6000
        many = "SELECT userid, COUNT(*) AS n FROM follower GROUP BY userid ORDER BY n DESC"
        followed = [n for _, n in vk.sql(many).rows]
        assert sum(followed[:30]) > 0.35 * 6000
        assert number(vk, "SELECT COUNT(*) AS n FROM tweet") == 1800
        assert number(vk, "SELECT COUNT(*) AS n FROM retweet") == 2100
        missing = (
            "SELECT COUNT(*) AS n FROM retweet LEFT ANTI JOIN tweet ON tweet.tweetid = retweet.retweettweetid"
        )
        assert number(vk, missing) == 0
