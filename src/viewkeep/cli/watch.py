"""viewkeep watch: views brought up to date again and again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.human_form import show_refreshes
from viewkeep.cli.json_form import of_refresh
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.results import Refresh

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`5s`, `500ms`, `2m`, `1h`, or seconds as a plain number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no interval; write 500ms, 5s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def watch(
    views: options.Views = None,
    engine: options.Engine = None,
    at: options.At = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="From one round to the next: 500ms, 5s, 2m, 1h.")
    ] = "5s",
    times: Annotated[
        int | None, typer.Option("--times", metavar="N", min=1, help="Stop after so many rounds.")
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Refresh views again and again: all, or the named ones. Ctrl-C ends it.

    Only rounds in which something changed are shown. A round that fails is reported, and the next one tries
    again; the exit status is then 1.

    Examples:

    ```
    viewkeep watch --at spark:./warehouse --interval 30s
    viewkeep watch device_cost --at duckdb:shop.db --interval 500ms --times 10 --json
    ```
    """
    every = seconds(interval)
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _watch(session, vk, views or [], every, times))
    session.finish()


def _watch(session: Session, vk: Connection, views: list[str], every: float, times: int | None) -> None:
    shown = 0

    def done(refreshes: Sequence[Refresh]) -> None:
        nonlocal shown
        changed = [refresh for refresh in refreshes if refresh.strategy != "none"]
        if session.json:
            for refresh in changed:
                shown += 1
                session.emit(shown, of_refresh(refresh))
        elif changed:
            show_refreshes(session.output, changed)

    def failed(problem: Exception) -> None:
        nonlocal shown
        shown += 1
        session.fail(shown, session.as_error(problem))

    with session.output.waiting("watching") as update, suppress(KeyboardInterrupt):
        vk.progress = update
        vk.watch(every, views, times=times, on_refresh=done, on_error=failed)
