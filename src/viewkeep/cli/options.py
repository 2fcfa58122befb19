"""The arguments and options that commands share, so that each means the same everywhere."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

EngineName = Literal["spark", "duckdb", "postgres"]

Engine = Annotated[
    EngineName | None,
    typer.Option("--engine", help="The engine; not needed where --at names it.", show_default=False),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="WHERE",
        help="The warehouse: spark:DIR, duckdb:FILE, or a path that --engine reads "
        "(duckdb: an empty one is in memory). "
        "Default: $VIEWKEEP_AT, else spark:./warehouse.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print the traceback of an unexpected error.")]
Views = Annotated[
    list[str] | None,
    typer.Argument(metavar="VIEW", help="Names of views; none means all.", show_default=False),
]
