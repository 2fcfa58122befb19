"""viewkeep verify: views compared with their queries."""

from __future__ import annotations

from functools import partial

from viewkeep.cli import options
from viewkeep.cli.human_form import show_verification
from viewkeep.cli.json_form import of_verification
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError


def verify(
    views: options.Views = None,
    engine: options.Engine = None,
    at: options.At = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Recompute views and compare: is each what its query returns, at the versions that it shows?

    The exit status is 1 if any differs. Nothing is changed: `viewkeep refresh --full` repairs a view.

    Example:

    ```
    viewkeep verify --at duckdb:shop.db
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _verify(session, vk, session.chosen(vk, views)))
    session.finish()


def _verify(session: Session, vk: Connection, views: list[str]) -> None:
    for n, view in enumerate(views, start=1):
        verified = session.watched(vk, f"verifying {view}", partial(vk.verify, view))
        if isinstance(verified, ViewkeepError):
            session.fail(n, verified)
            continue
        session.ok = session.ok and verified.equal
        if session.json:
            session.emit(n, of_verification(verified))
        else:
            show_verification(session.output, verified)
