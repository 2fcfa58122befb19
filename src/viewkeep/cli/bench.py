"""viewkeep bench: measurements."""

from __future__ import annotations

from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.session import Session
from viewkeep.errors import ViewkeepError

_DEFAULT_DIFF = 200


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The workload, for example devices.")],
    engine: Annotated[options.EngineName, typer.Option("--engine", help="The engine.")] = "duckdb",
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="WHERE", help="Where to build the tables, and keep them.", show_default=False
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.0001, help="devices: 1 is 1M parts, 1M devices, 10M devices_parts."),
    ] = 0.1,
    view: Annotated[
        list[str] | None,
        typer.Option("--view", help="Measure this view only; may be repeated.", show_default=False),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Measure this method only; may be repeated.", show_default=False),
    ] = None,
    diff: Annotated[
        list[int] | None,
        typer.Option(
            "--diff", min=1, help="Rows that change; may be repeated.", show_default=str(_DEFAULT_DIFF)
        ),
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Measurements of each.")] = 5,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Measure what refreshes cost, by method and size of the change.

    Examples:

    ```
    viewkeep bench devices
    viewkeep bench devices --engine spark --scale 1 --method id --method recompute --json
    ```
    """
    session = Session(json=json, debug=debug)

    def measure() -> int:
        from viewkeep.bench import runner

        return runner.run(
            name,
            engine=engine,
            scale=scale,
            views=view,
            methods=method,
            diffs=diff or [_DEFAULT_DIFF],
            repeat=repeat,
            json=json,
            at=at,
            output=session.output,
        )

    status = session.attempt(measure)
    if isinstance(status, ViewkeepError):
        session.fail(1, status)
        session.finish()
    raise typer.Exit(status)
