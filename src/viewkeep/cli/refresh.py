"""viewkeep refresh: views brought up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.human_form import show_refreshes
from viewkeep.cli.json_form import of_refresh
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError


def refresh(
    views: options.Views = None,
    engine: options.Engine = None,
    at: options.At = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compute the views from scratch, whatever changed.")
    ] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Bring views up to date: all, or the named ones.

    Together they then show one version of their base tables. Each reports the strategy that ran, why, and
    what it cost.

    Examples:

    ```
    viewkeep refresh --at duckdb:shop.db
    viewkeep refresh device_cost --full --at spark:./warehouse
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _refresh(session, vk, views or [], full))
    session.finish()


def _refresh(session: Session, vk: Connection, views: list[str], full: bool) -> None:
    done = session.watched(vk, "refreshing", lambda: vk.refresh(*views, full=full))
    if isinstance(done, ViewkeepError):
        session.fail(1, done)
    elif session.json:
        for n, one in enumerate(done, start=1):
            session.emit(n, of_refresh(one))
    else:
        show_refreshes(session.output, done)
