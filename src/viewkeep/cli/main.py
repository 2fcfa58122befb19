"""The command line, assembled."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from viewkeep import __version__
from viewkeep.cli import bench, demo, explain, pipelines, refresh, regression, run, status, verify, watch

app = typer.Typer(
    name="viewkeep",
    add_completion=False,
    rich_markup_mode="markdown",
    # commands report unexpected errors themselves, in one form; see session.py
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# in the order of --help: first what a new user runs
app.command()(demo.demo)
app.command()(run.run)
app.command()(refresh.refresh)
app.command()(watch.watch)
app.add_typer(pipelines.app, name="pipelines")
app.command()(status.status)
app.command()(explain.explain)
app.command()(verify.verify)
app.command()(regression.regression)
app.command()(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"viewkeep {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def viewkeep(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version."),
    ] = False,
) -> None:
    """Keep materialized views exactly equal to their queries while tables change.

    Examples:

    ```
    viewkeep demo
    viewkeep run shop.sql --at duckdb:shop.db
    viewkeep refresh --at duckdb:shop.db
    ```
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # a character that the terminal cannot show is no reason to fail
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app()


if __name__ == "__main__":
    main()
