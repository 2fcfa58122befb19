"""viewkeep demo: the main job, on local Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.address import address
from viewkeep.cli.session import Session
from viewkeep.errors import ViewkeepError


def demo(
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="WHERE",
            help="Where to build it, spark:DIR or a directory, and keep it. "
            "Default: a temporary directory, removed at the end.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.0001, help="1 is 200k parts, 200k devices, 2M devices_parts."),
    ] = 1.0,
    debug: options.Debug = False,
) -> None:
    """Show the main job on local Spark: tables, a view, a change, a refresh, a check.

    Examples:

    ```
    viewkeep demo
    viewkeep demo --scale 0.1 --at ./shop
    ```
    """
    session = Session(debug=debug)
    status = session.attempt(lambda: _demo(session, at, scale))
    if isinstance(status, ViewkeepError):
        session.fail(1, status)
        session.finish()
    raise typer.Exit(status)


def _demo(session: Session, at: str | None, scale: float) -> int:
    # here, not above: what the demo needs should not slow down every other command
    import viewkeep.demo

    with _place(at) as where:
        return viewkeep.demo.run(where, scale, session.output)


@contextmanager
def _place(at: str | None) -> Iterator[str]:
    if at is not None:
        yield address(None, at)
        return
    with tempfile.TemporaryDirectory(prefix="viewkeep-demo-", ignore_cleanup_errors=True) as directory:
        yield f"spark:{Path(directory) / 'warehouse'}"
