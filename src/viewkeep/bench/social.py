"""Users, whom they follow, and what they write: the tables of the social-media experiments of the papers.

Six tables with the proportions of figure 9a of the idIVM paper (Katsis et al., SIGMOD 2015), and its eight
views, by what figure 9b and section 7.1 say of them; and the four tables of chapter 9 of GraphIVM. The
papers' own generator (BSMA-Gen) is not used: rows come from row numbers by whole-number arithmetic, the same
on every engine. Who is followed, retweeted and mentioned follows a power law: the user of rank x is picked
with a density of x^(-2/3).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viewkeep.bench.keys import mixed
from viewkeep.bench.workload import MergeJob

# figure 9a, for one user
FRIENDS, TWEETS, CITIES, EVENTS = 100, 20, 200, 1_000
_USERS_AT_SCALE_1 = 1_000_000
# tweets have the time of their number, so a range of time is a share of all tweets
_RANGE = 0.1
_FINE = 1_000_000

_OF_USER = "u.uid, u.tweetsnum, u.favornum"
# The paper's tuple-based scripts have no caches: what a changed user is joined with is computed again.
WITHOUT_CACHES = ", updatable = 'users', view_tree = 'off'"
WITH_INNER_AGGREGATES = ("q7", "q11", "q18")


def _views(tweets: int) -> dict[str, str]:
    start, end = round(tweets * 0.4), round(tweets * (0.4 + _RANGE))
    within = f"BETWEEN {start} AND {end}"
    return {
        # mentioned users within a time range
        "q7": f"SELECT {_OF_USER}, q.n FROM users u JOIN (SELECT me.uid, COUNT(*) AS n FROM mentions me "
        f"JOIN microblog m ON m.mid = me.mid WHERE m.time {within} GROUP BY me.uid) q ON q.uid = u.uid",
        # users who are retweeted within a time range: four relations
        "q10": f"SELECT {_OF_USER}, m.mid, r.remid, w.city FROM users u JOIN microblog m ON m.uid = u.uid "
        f"JOIN retweets r ON r.mid = m.mid JOIN users w ON w.uid = r.uid WHERE r.time {within}",
        # pairs of retweeting users, grouped by how often they retweet
        "q11": f"SELECT {_OF_USER}, q.author, q.times FROM users u JOIN (SELECT r.uid AS reader, "
        "m.uid AS author, COUNT(*) AS times FROM retweets r JOIN microblog m ON m.mid = r.mid "
        "GROUP BY r.uid, m.uid) q ON q.reader = u.uid",
        # users talking about events within a time range
        "q15": f"SELECT {_OF_USER}, m.mid, e.eventid FROM users u JOIN microblog m ON m.uid = u.uid "
        f"JOIN rel_event_microblog e ON e.mid = m.mid WHERE m.time {within}",
        # pairwise count of mentions
        "q18": f"SELECT {_OF_USER}, q.mentioned, q.n FROM users u JOIN (SELECT m.uid AS author, "
        "me.uid AS mentioned, COUNT(*) AS n FROM mentions me JOIN microblog m ON m.mid = me.mid "
        "GROUP BY m.uid, me.uid) q ON q.author = u.uid",
        # aggregate of friends of friends within the same city
        "qs1": "SELECT a.uid, SUM(u.tweetsnum) AS tweetsnum, SUM(u.favornum) AS favornum FROM users a "
        "JOIN friendlist f ON f.uid = a.uid JOIN friendlist g ON g.uid = f.friendid "
        "JOIN users u ON u.uid = g.friendid WHERE u.city = a.city GROUP BY a.uid",
        # aggregate of retweeters for every user
        "qs2": "SELECT m.uid, SUM(u.tweetsnum) AS tweetsnum, SUM(u.favornum) AS favornum FROM microblog m "
        "JOIN retweets r ON r.mid = m.mid JOIN users u ON u.uid = r.uid GROUP BY m.uid",
        # aggregate of users who tweet about topics
        "qs3": "SELECT e.eventid, SUM(u.tweetsnum) AS tweetsnum, SUM(u.favornum) AS favornum "
        "FROM rel_event_microblog e JOIN microblog m ON m.mid = e.mid JOIN users u ON u.uid = m.uid "
        "GROUP BY e.eventid",
    }


def _cubed(share: str, count: int) -> str:
    """A whole number below `count` for a share in millionths, small ones far more often than large ones."""
    return f"(({share}) * ({share}) DIV {_FINE} * ({share}) DIV {_FINE} * {count} DIV {_FINE})"


def ranked(number: str, salt: int, count: int) -> str:
    """A whole number below `count`, small ones far more often than large ones."""
    return _cubed(f"{mixed(number, salt)} % {_FINE}", count)


def skewed(number: str, salt: int, count: int) -> str:
    """A key below `count`, some far more often than others: ranks are spread over the keys."""
    return f"{ranked(number, salt, count)} * {_factor(count)} % {count}"


def unlike(number: str, salt: int, count: int, place: str, of: int) -> str:
    """A key below `count` as `skewed` draws it, one of `of` draws that are all different. The draw at each
    place has its own part of the distribution, so its rank, which also counts the places before it, is
    higher than theirs; together they follow the same power law."""
    share = f"(({place}) * {_FINE} + {mixed(number, salt)} % {_FINE}) DIV {of}"
    return f"({place} + {_cubed(share, count - of + 1)}) * {_factor(count)} % {count}"


def _factor(count: int) -> int:
    return next(p for p in (7_919, 104_729) if count % p)


@dataclass(frozen=True)
class Social:
    """The six tables and eight views: scale 1 is 1M users, 100M friends and 20M tweets."""

    scale: float = 1

    @property
    def users(self) -> int:
        return max(50, round(_USERS_AT_SCALE_1 * self.scale))

    @property
    def tweets(self) -> int:
        return self.users * TWEETS

    @property
    def friends(self) -> int:
        """How many friends each user has."""
        return min(FRIENDS, self.users)

    @property
    def views(self) -> Mapping[str, str]:
        return _views(self.tweets)

    @property
    def methods(self) -> Sequence[str]:
        return ("id", "tuple", "recompute")

    @property
    def sizes(self) -> Sequence[str]:
        return ("100",)

    @property
    def merges(self) -> Mapping[str, MergeJob]:
        return {}

    @property
    def recomputes(self) -> Mapping[str, str]:
        return {}

    @property
    def some_rows(self) -> Mapping[str, str]:
        return {}

    @property
    def largest(self) -> str:
        return "friendlist"

    @property
    def changing(self) -> Sequence[str]:
        return ("users",)

    @property
    def changeable(self) -> int:
        return self.users

    @property
    def exact(self) -> bool:
        return True

    def prepare(self, folder: Path) -> None:
        """Nothing: the engine makes the rows from numbers."""

    def load(self, engine: str, folder: Path) -> Sequence[tuple[str, str]]:
        users, tweets = self.users, self.tweets
        # of ten tweets, one is retweeted twice, two mention two users each, four are about two events each
        made = [
            ("users", "uid BIGINT, city INT, tweetsnum INT, favornum INT, PRIMARY KEY (uid)",
             f"id, CAST({mixed('id', 1)} % {CITIES} AS INT), CAST({mixed('id', 2)} % 1000 AS INT), "
             f"CAST({mixed('id', 3)} % 500 AS INT)", users),
            ("friendlist", "uid BIGINT, friendid BIGINT, PRIMARY KEY (uid, friendid)",
             f"id % {users}, {unlike('id', 4, users, f'id DIV {users}', self.friends)}",
             users * self.friends),
            ("microblog", "mid BIGINT, uid BIGINT, time BIGINT, PRIMARY KEY (mid)",
             f"id, {mixed('id', 5)} % {users}, id", tweets),
            ("retweets", "remid BIGINT, mid BIGINT, uid BIGINT, time BIGINT, PRIMARY KEY (remid)",
             f"id, (id DIV 2) * 10, {skewed('id', 6, users)}, (id DIV 2) * 10 + {mixed('id', 7)} % 100",
             tweets // 5),
            ("mentions", "mid BIGINT, uid BIGINT, PRIMARY KEY (mid, uid)",
             f"(id DIV 2) * 5 + 1, {unlike('id', 8, users, 'id % 2', 2)}", tweets * 2 // 5),
            ("rel_event_microblog", "mid BIGINT, eventid BIGINT, PRIMARY KEY (mid, eventid)",
             f"(id DIV 4) * 5 + id DIV 2 % 2 + 2, {unlike('id', 9, EVENTS, 'id % 2', 2)}", tweets * 4 // 5),
        ]  # fmt: skip
        return [step for name, columns, row, count in made for step in filled(name, columns, row, count)]

    def change(self, rows: int, number: int) -> Sequence[str]:
        drawn = random.Random(f"{rows} users, change {number}").sample(range(self.users), rows)
        listed = ", ".join(map(str, drawn))
        return [
            "UPDATE users SET tweetsnum = CAST(tweetsnum + 1 AS INT), favornum = CAST(favornum + 1 AS INT) "
            f"WHERE uid IN ({listed})"
        ]


def filled(name: str, columns: str, row: str, count: int) -> list[tuple[str, str]]:
    """The statements that make a table and fill it, a row for each number."""
    return [
        (f"creating {name}", f"CREATE TABLE {name} ({columns})"),
        (
            f"filling {name} from {count:,} numbers",
            f"INSERT INTO {name} SELECT {row} FROM range(0, {count}) AS t(id)",
        ),
    ]


def graph_tables(
    users: int, followers: int = 11, tweets: int = 6, retweets: int = 7
) -> list[tuple[str, str]]:
    """The four tables of GraphIVM, figures 9.1 and 9.2, with so many rows for each user; its small data set
    has a hundred followers for each, or all users if there are fewer. Tweets and retweets are numbered in
    the order of time; a retweet is of a tweet that was there before it, the more likely the less time has
    passed."""
    many, followers = users * tweets, min(followers, users)
    now, age = f"id * {tweets} DIV {retweets}", ranked("id", 13, many)
    original = f"CASE WHEN {now} > {age} THEN {now} - {age} - 1 ELSE 0 END"
    made = [
        ("users", "userid BIGINT, PRIMARY KEY (userid)", "id", users),
        ("follower", "userid BIGINT, followerid BIGINT, PRIMARY KEY (userid, followerid)",
         f"{unlike('id', 11, users, f'id DIV {users}', followers)}, id % {users}", users * followers),
        ("tweet", "userid BIGINT, tweetid BIGINT, tweetdate BIGINT, PRIMARY KEY (tweetid)",
         f"{mixed('id', 12)} % {users}, id, id", many),
        ("retweet", "userid BIGINT, tweetid BIGINT, tweetdate BIGINT, retweettweetid BIGINT, "
         "PRIMARY KEY (tweetid)", f"{skewed('id', 14, users)}, id, {now}, {original}", users * retweets),
    ]  # fmt: skip
    return [step for name, columns, row, count in made for step in filled(name, columns, row, count)]
