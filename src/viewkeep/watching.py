"""Refreshing again and again: one round after the other, until someone says stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from viewkeep.errors import Unsupported
from viewkeep.results import Refresh


class Stop(Protocol):
    """What ends a watch: a threading.Event is one."""

    def is_set(self) -> bool:
        """Whether the watch is to end."""

    def wait(self, timeout: float) -> bool:
        """Waits so many seconds, or until the watch is to end; whether it is."""


def watch(
    refresh: Callable[[], list[Refresh]],
    interval: float,
    times: int | None = None,
    stop: Stop | None = None,
    on_refresh: Callable[[Sequence[Refresh]], None] | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> int:
    """Calls `refresh` every `interval` seconds; how many rounds there were.

    A round that takes longer delays the next one, and two never run at once. An error ends the watch, unless
    `on_error` takes it.
    """
    if interval < 0:
        raise Unsupported(f"an interval of {interval} seconds is none", hint="give 0 or more")
    stopped: Stop = stop if stop is not None else threading.Event()
    rounds = 0
    while not stopped.is_set() and (times is None or rounds < times):
        started = time.monotonic()
        try:
            done = refresh()
        except Exception as problem:
            if on_error is None:
                raise
            on_error(problem)
        else:
            if on_refresh is not None:
                on_refresh(done)
        rounds += 1
        if rounds != times:
            stopped.wait(max(0.0, started + interval - time.monotonic()))
    return rounds
