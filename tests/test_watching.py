"""Watching: rounds, waits, ends and errors; the waiting is a test's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import viewkeep
from viewkeep.errors import UnknownView, Unsupported, ViewkeepError
from viewkeep.results import Refresh


class Waits:
    """An event that is never waited for: it takes down how long a wait would have been, and does something."""

    def __init__(self, *meanwhile: object) -> None:
        self.waited: list[float] = []
        self._meanwhile = list(meanwhile)
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float) -> bool:
        self.waited.append(timeout)
        step = self._meanwhile.pop(0) if self._meanwhile else "stop"
        if callable(step):
            step()
        self._set = step == "stop"
        return self._set


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with viewkeep.connect("duckdb:") as connection:
        connection.sql("CREATE TABLE t (k INT, x INT, PRIMARY KEY (k))")
        connection.sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(x) AS x FROM t")
        connection.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
        yield connection


def test_every_round_refreshes_what_changed_meanwhile(vk: viewkeep.Connection) -> None:
    waits = Waits(
        lambda: vk.sql("INSERT INTO t VALUES (1, 10)"), lambda: vk.sql("INSERT INTO t VALUES (2, 20)")
    )
    rounds: list[list[Refresh]] = []
    assert vk.watch(60.0, ["s"], stop=waits, on_refresh=lambda done: rounds.append(list(done))) == 3
    assert [[(r.view, r.strategy) for r in done] for done in rounds] == [
        [("s", "none")],
        [("s", "id")],
        [("s", "id")],
    ]
    assert vk.sql("SELECT x FROM s").rows == ((30,),)
    assert all(50 < wait <= 60 for wait in waits.waited), "a round's own time is taken off the wait"


def test_it_ends_after_so_many_rounds_without_a_wait_at_the_end(vk: viewkeep.Connection) -> None:
    waits = Waits(None, None)
    assert vk.watch(0.5, times=2, stop=waits) == 2
    assert len(waits.waited) == 1


def test_nothing_is_refreshed_where_it_was_stopped_before(vk: viewkeep.Connection) -> None:
    stop = threading.Event()
    stop.set()
    assert vk.watch(1.0, stop=stop) == 0


def test_an_error_is_raised_or_given_to_who_asked_for_it(vk: viewkeep.Connection) -> None:
    with pytest.raises(UnknownView):
        vk.watch(1.0, ["nope"], stop=Waits())
    errors: list[Exception] = []
    assert vk.watch(1.0, ["nope"], times=2, stop=Waits(None, None), on_error=errors.append) == 2
    assert [type(error) for error in errors] == [UnknownView, UnknownView]
    with pytest.raises(Unsupported):
        vk.watch(-1.0)


def test_an_error_of_the_callback_is_not_taken_for_one_of_the_refresh(vk: viewkeep.Connection) -> None:
    def fails(_: object) -> None:
        raise ViewkeepError("mine")

    with pytest.raises(ViewkeepError, match="mine"):
        vk.watch(1.0, times=1, on_refresh=fails, on_error=lambda _: None)


def test_streams_are_not_written_on_duckdb(vk: viewkeep.Connection) -> None:
    with pytest.raises(Unsupported, match="Spark"):
        vk.stream_into("t", name="feed")(object(), 0)
