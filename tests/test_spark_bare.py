"""Views on Spark that do without their caches: by tuple-based diffs or recomputed, and back; crashed, and seen
by sessions that know them otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import viewkeep
from viewkeep import chooser
from viewkeep.chooser import Choice, Kept, Past
from viewkeep.engines import choosing
from viewkeep.engines.spark import ways
from viewkeep.store import delta

from .helpers import Crash, crash_at
from .test_spark_log import START, TABLES, VIEWS, Way, batch, check, rows, wide, written_anew

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COST = VIEWS["cost"]
# two views over joins, of which one has a maximum, whose groups may have to be computed anew
MOST = "SELECT u.did, MAX(p.price) AS most, SUM(u.n) AS s FROM used u JOIN parts p ON u.pid = p.pid GROUP BY u.did"


@pytest.fixture
def vk(spark_engine: viewkeep.Connection) -> viewkeep.Connection:
    for statement in (*TABLES, *START):
        spark_engine.sql(statement)
    return spark_engine


Form = Callable[[Kept], Choice]
FORMS: dict[str, Form] = {
    "lean": lambda kept: Choice(False, "" if kept.is_bare else "as if it were cheaper", caches=False),
    "script": lambda kept: Choice(kept.is_bare, "its caches were missing"),
    "full": lambda kept: Choice(True, "as if it were cheaper"),
    "bare": lambda kept: Choice(True, "as if it were cheaper", caches=False),
}


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what the chooser chooses from now on."""
    chosen = ["script"]

    def weigh(*given: Any, **_: Any) -> Choice:
        return FORMS[chosen[0]](given[7])

    monkeypatch.setattr(ways, "weigh", weigh)
    return lambda form: chosen.__setitem__(0, form)


def named(spark: Any, view: str = "cost") -> set[str]:
    """The caches that the newest rows of a view name."""
    return set(delta.shown_state(spark, view).caches)


def newest(spark: Any, target: str = "cache_1") -> int:
    return int(delta.history(spark, delta.storage("cost", target), limit=1)[0].version)


def change(spark: Any, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement).collect()


def remember(vk: viewkeep.Connection, *past: Past) -> None:
    """Puts refreshes into the history that the chooser looks at, in the place of what was there."""
    vk.engine._history._past["cost"] = list(past)


def test_a_view_gives_up_its_caches_and_gets_them_back_as_it_is_worth(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (chooser, choosing):
        monkeypatch.setattr(module, "SMALL_TABLES", 0)
    monkeypatch.setattr(chooser, "LARGE_TABLES", 0)
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    measured = [Past("full", 2, 5.0, 2), Past("full", 2, 5.0, 1)] * 3
    remember(vk, *measured, *[Past("tuple", 1, 0.1)] * 3)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = vk.refresh("cost")  # its own script has never run, so nothing is known that would be too much
    assert (done.strategy, named(spark)) == ("id", {"cache_1"})
    remember(vk, *measured, *[Past("id", 1, 4.0), Past("tuple", 1, 0.1)] * 3)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = vk.refresh("cost")
    assert (done.strategy, done.commits, named(spark)) == ("tuple", 1, set())
    assert done.reason == (
        "parts: 1 updated; propagated as tuple-based diffs, without its caches, since with them it should take "
        "about 4.0 s"
    )
    assert vk.verify("cost")
    assert vk.sql("SELECT strategy, reason FROM viewkeep.history").rows[-1] == (done.strategy, done.reason)
    cache = newest(spark)
    for statement in (
        "DELETE FROM used WHERE did = 1 AND pid = 2",
        "INSERT INTO used VALUES (4, 3, 7)",
        "UPDATE parts SET price = price * 2 WHERE pid = 3",
        "DELETE FROM parts WHERE pid = 3",
    ):
        remember(vk, *measured, *[Past("id", 1, 4.0), Past("tuple", 1, 0.1)] * 3)
        change(spark, statement)
        (done,) = vk.refresh("cost")
        assert (done.strategy, done.reason.count("without its caches")) == ("tuple", 0)
        check(spark, f"after {statement}", "cost")
    assert (named(spark), newest(spark)) == (set(), cache)
    assert not vk.status()[0].problem
    remember(vk, *measured, *[Past("id", 1, 0.01), Past("tuple", 1, 4.9)] * 3)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = vk.refresh("cost")
    assert (done.strategy, done.reason) == ("full", "with its caches changes should take about 10 ms")
    assert named(spark) == {"cache_1"}
    remember(vk, *measured, *[Past("id", 1, 0.01), Past("tuple", 1, 4.9)] * 3)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = vk.refresh("cost")
    assert (done.strategy, done.commits) == ("id", 2)
    assert vk.verify("cost")
    check(spark, "at the end", "cost")


def test_what_recomputing_without_caches_took_is_known_as_that(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the log, by a session that was not there."""
    facts: list[chooser.Facts] = []

    def recomputed(policy: str, known: chooser.Facts) -> Choice:
        facts.append(replace(known, past=list(known.past)))
        return Choice(True)

    for module in (chooser, choosing):
        monkeypatch.setattr(module, "SMALL_TABLES", 0)
    monkeypatch.setattr(choosing, "choose", recomputed)
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    vk.refresh("cost")
    monkeypatch.setattr(choosing, "choose", lambda *given: Choice(True, caches=False))
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = vk.refresh("cost")
    assert (done.commits, named(spark)) == (1, set())
    monkeypatch.setattr(choosing, "choose", recomputed)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    viewkeep.connect(spark).refresh("cost")
    first, then = facts
    assert (first.kept.relations, first.kept.is_bare, first.lean) == (2, False, None)
    assert (then.kept.is_bare, then.lean.reads > 0) == (True, True)
    assert [(p.strategy, p.statements) for p in then.past] == [("full", 2), ("full", 2), ("full", 1)]
    assert then.kept.longest == then.past[1].seconds


@pytest.mark.parametrize("way", [written_anew, wide])
def test_views_change_their_form_at_random_moments(
    vk: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, take: Any, way: Way
) -> None:
    """With all kinds of change, folded, wide, and by sessions that know the view as it was before."""
    random = Random(f"bare {way.__name__}")
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    vk.sql(f"CREATE MATERIALIZED VIEW most AS {MOST}")
    sessions = [vk, viewkeep.connect(spark)]
    forms = ["lean", "script", "bare", "lean"]
    for number, form in enumerate(forms, 1):
        change(spark, *batch(random, number))
        take(form)
        with monkeypatch.context() as patched:
            way(patched)
            one = random.choice(sessions)
            done = one.refresh()
            if random.random() < 0.4:
                one.sql("OPTIMIZE MATERIALIZED VIEW cost")
        assert {r.strategy for r in done} <= {"id", "tuple", "groups", "full", "none"}
        for view, query in (("cost", COST), ("most", MOST)):
            told = f"{view} after batch {number}: {form}"
            assert rows(spark, f"SELECT * FROM {view}") == rows(spark, query), told
    assert all(vk.verify(view) for view in ("cost", "most"))


@pytest.mark.parametrize(
    ("before", "after", "among", "steps"),
    [
        ("script", "lean", "committ", 2),
        ("lean", "script", "computing", 2),
    ],
)
def test_a_crash_at_any_step_leaves_a_view_in_one_form_or_the_other(
    vk: viewkeep.Connection, spark: Any, take: Any, before: str, after: str, among: str, steps: int
) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    survived, step = False, 0
    forms = ["script", "lean", "full", "bare"]
    while not survived:
        step += 1
        change(spark, f"UPDATE parts SET price = price + {step} WHERE pid IN (1, 2)")
        take(before)
        vk.refresh("cost")
        old, was = rows(spark, COST), named(spark)
        change(
            spark,
            f"UPDATE parts SET price = price + {step} WHERE pid IN (1, 2)",
            f"INSERT INTO used VALUES ({10 + step}, 1, 1)",
        )
        new = rows(spark, COST)
        crashed = viewkeep.connect(spark)
        crashed.progress = crash_at(step, among)
        take(after)
        try:
            crashed.refresh("cost")
            survived = True
        except Crash:
            seen = rows(spark, "SELECT * FROM cost")
            assert seen in (old, new), f"half a view after step {step}"
            assert named(spark) == was or seen == new, f"half a form after step {step}"
        take(forms[step % len(forms)])
        viewkeep.connect(spark).refresh("cost")
        assert rows(spark, "SELECT * FROM cost") == new, f"not repaired after step {step}"
        change(spark, f"UPDATE parts SET price = price + {step} WHERE pid = 1")
        take("script")
        viewkeep.connect(spark).refresh("cost")
        check(spark, f"with caches after step {step}", "cost")
    assert step == steps + 1


@pytest.mark.parametrize(
    ("start", "own", "meanwhile"),
    [
        ("script", "script", "bare"),
        ("script", "lean", "script"),
        ("lean", "full", "lean"),
    ],
)
def test_a_session_that_knows_an_older_form_starts_over(
    vk: viewkeep.Connection, spark: Any, take: Any, start: str, own: str, meanwhile: str
) -> None:
    """Another refresh comes between its choice and its commit, and again before its next refresh."""
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    take(start)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    vk.refresh("cost")
    other, came = viewkeep.connect(spark), []

    def between(message: str) -> None:
        if message.startswith(("committing", "computing cache_1", "computing view")) and not came:
            came.append(message)
            take(meanwhile)
            change(spark, "UPDATE used SET n = n + 5 WHERE pid = 2")
            other.refresh("cost")
            take(own)

    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    take(own)
    vk.progress = between
    vk.refresh("cost")
    assert came
    vk.progress = lambda _: None
    check(spark, "after both", "cost")
    for form in (meanwhile, "script"):
        take(form)
        one, two = (other, vk) if form == meanwhile else (vk, other)
        change(spark, "UPDATE used SET n = n + 1 WHERE pid = 2")
        one.refresh("cost")
        change(spark, "UPDATE parts SET price = price + 1")
        two.refresh("cost")
        check(spark, f"after {form}", "cost")


def test_optimizing_empties_caches_that_are_given_up(vk: viewkeep.Connection, spark: Any, take: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    stale = viewkeep.connect(spark)
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    stale.refresh("cost")
    vk.refresh("cost")
    take("lean")
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 2")
    vk.refresh("cost")
    cached = spark.table("viewkeep.cost__cache_1")
    assert cached.count()
    vk.sql("OPTIMIZE MATERIALIZED VIEW cost")
    version = newest(spark)
    assert not spark.table("viewkeep.cost__cache_1").count()
    vk.sql("OPTIMIZE MATERIALIZED VIEW cost")
    assert newest(spark) == version, "there is nothing left to empty"
    take("script")  # as the other session would, which knows the caches of before
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    (done,) = stale.refresh("cost")
    assert (done.strategy, done.reason, named(spark)) == ("full", "its caches were missing", {"cache_1"})
    assert newest(spark) > version
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    assert stale.refresh("cost")[0].strategy == "id"
    check(spark, "at the end", "cost")


def test_a_view_that_is_always_recomputed_has_no_caches(vk: viewkeep.Connection, spark: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost WITH (refresh_policy = 'full') AS {COST}")
    vk.sql("CREATE MATERIALIZED VIEW dear AS SELECT did FROM cost WHERE cost > 20")
    assert not spark.catalog.tableExists("viewkeep.cost__cache_1")
    for full in (False, True):
        change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
        done = vk.refresh("cost", full=full)[0]
        assert (done.strategy, done.commits) == ("full", 1)
        assert vk.verify("cost")
    assert (named(spark), spark.catalog.tableExists("viewkeep.cost__cache_1")) == (set(), False)
    assert vk.explain("cost").steps
    vk.sql("OPTIMIZE MATERIALIZED VIEW cost")
    vk.refresh("dear")
    assert rows(spark, "SELECT * FROM dear") == rows(spark, f"SELECT did FROM ({COST}) WHERE cost > 20")
    vk.sql("DROP MATERIALIZED VIEW dear")
    vk.sql(f"CREATE OR REPLACE MATERIALIZED VIEW cost AS {COST}")
    assert named(spark) == {"cache_1"}
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    assert vk.refresh("cost")[0].strategy == "id"
    check(spark, "with caches", "cost")


def test_refreshing_full_brings_caches_back(vk: viewkeep.Connection, spark: Any, take: Any) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    take("lean")
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    vk.refresh("cost")
    assert named(spark) == set()
    vk.refresh("cost", full=True)
    assert named(spark) == {"cache_1"}
    take("lean")
    change(spark, "UPDATE parts SET price = price + 1 WHERE pid = 1")
    assert vk.refresh("cost")[0].strategy == "tuple"
    vk.sql("DROP MATERIALIZED VIEW cost")
    assert not spark.catalog.tableExists("viewkeep.cost__cache_1")


def test_a_view_of_before_is_not_bare(vk: viewkeep.Connection, spark: Any) -> None:
    """What a commit says of a view with its caches is what it always said."""
    vk.sql(f"CREATE MATERIALIZED VIEW cost AS {COST}")
    said = json.loads(delta.history(spark, delta.storage("cost", delta.ROWS), limit=1)[0].userMetadata)
    state = delta.shown_state(spark, "cost")
    assert (said["viewkeep"], set(said["caches"])) == (delta.FORMAT, {"cache_1"})
    assert not state.is_bare(("cache_1",))
    assert state.without_caches().is_bare(("cache_1",))
    assert not state.without_caches().is_bare(())
