"""viewkeep status: where each view stands."""

from __future__ import annotations

from viewkeep.cli import options
from viewkeep.cli.human_form import show_statuses
from viewkeep.cli.json_form import of_status
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import UnknownView, ViewkeepError
from viewkeep.results import ViewStatus


def status(
    views: options.Views = None,
    engine: options.Engine = None,
    at: options.At = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List views: their rows, the changes that wait for a refresh, the strategy, the last refresh.

    Example:

    ```
    viewkeep status --at duckdb:shop.db
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _status(session, vk, views or []))
    session.finish()


def _status(session: Session, vk: Connection, views: list[str]) -> None:
    found = session.watched(vk, "looking at the views", lambda: _named(vk.status(), views))
    if isinstance(found, ViewkeepError):
        session.fail(1, found)
    elif session.json:
        for n, one in enumerate(found, start=1):
            session.emit(n, of_status(one))
    else:
        show_statuses(session.output, found)


def _named(statuses: list[ViewStatus], views: list[str]) -> list[ViewStatus]:
    """The statuses of the named views, in the order of the names; all if there are none."""
    if not views:
        return statuses
    by_name = {status.view.lower(): status for status in statuses}
    for view in views:
        if view.lower() not in by_name:
            known = ", ".join(status.view for status in statuses)
            raise UnknownView(
                f"there is no materialized view {view}",
                hint=f"there are: {known}" if known else "create one with CREATE MATERIALIZED VIEW",
            )
    return [by_name[view.lower()] for view in views]
