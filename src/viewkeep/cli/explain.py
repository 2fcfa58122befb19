"""viewkeep explain: what a refresh will do."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.human_form import show_explanation
from viewkeep.cli.json_form import of_explanation
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError


def explain(
    views: options.Views = None,
    engine: options.Engine = None,
    at: options.At = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Show the plan after every pass of the compiler instead.")
    ] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show what a refresh does: the plan, what is stored, and the delta script in the engine's own SQL.

    Nothing is changed.

    Examples:

    ```
    viewkeep explain device_cost --at duckdb:shop.db
    viewkeep explain device_cost --steps --at duckdb:shop.db
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _explain(session, vk, session.chosen(vk, views), steps))
    session.finish()


def _explain(session: Session, vk: Connection, views: list[str], steps: bool) -> None:
    for n, view in enumerate(views, start=1):
        explanation = session.watched(vk, f"explaining {view}", partial(vk.explain, view))
        if isinstance(explanation, ViewkeepError):
            session.fail(n, explanation)
        elif session.json:
            session.emit(n, of_explanation(explanation, steps))
        else:
            if n > 1:
                session.output.line()
            show_explanation(session.output, explanation, steps)
