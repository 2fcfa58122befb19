"""The social-media tables: their proportions, and that every view over them is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewkeep
from viewkeep.bench.social import EVENTS, FRIENDS, TWEETS, Social, graph_tables


@pytest.fixture(scope="module")
def vk() -> viewkeep.Connection:
    made = viewkeep.connect("duckdb:")
    for _, statement in Social(0.0002).load("duckdb", Path()):
        made.sql(statement)
    return made


def number(vk: viewkeep.Connection, query: str) -> float:
    return float(vk.sql(query).rows[0][0])


def test_the_proportions(vk: viewkeep.Connection) -> None:
    """Figure 9a of the paper, but for pairs that were drawn twice."""
    users = number(vk, "SELECT COUNT(*) AS n FROM users")
    tweets = number(vk, "SELECT COUNT(*) AS n FROM microblog")
    assert (users, tweets) == (200, 200 * TWEETS)
    assert number(vk, "SELECT COUNT(*) AS n FROM retweets") == tweets * 0.1 * 2
    for table, expected in (("mentions", tweets * 0.2 * 2), ("rel_event_microblog", tweets * 0.4 * 2)):
        assert 0.9 * expected <= number(vk, f"SELECT COUNT(*) AS n FROM {table}") <= expected
    # with so few users, many are followed by everybody
    assert number(vk, "SELECT COUNT(*) AS n FROM friendlist") > users * FRIENDS / 3
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


def test_the_four_tables_of_graphs() -> None:
    with viewkeep.connect("duckdb:") as vk:
        for _, statement in graph_tables(300, followers=20):
            vk.sql(statement)
        assert number(vk, "SELECT COUNT(*) AS n FROM tweet") == 1800
        assert number(vk, "SELECT COUNT(*) AS n FROM retweet") == 2100
        assert number(vk, "SELECT COUNT(*) AS n FROM follower") > 3000
        missing = (
            "SELECT COUNT(*) AS n FROM retweet LEFT ANTI JOIN tweet ON tweet.tweetid = retweet.retweettweetid"
        )
        assert number(vk, missing) == 0
