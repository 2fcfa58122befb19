"""viewkeep pipelines: the materialized views of a Spark Declarative Pipelines project, kept incrementally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewkeep import pipelines
from viewkeep.cli import options
from viewkeep.cli.human_form import show_refreshes
from viewkeep.cli.json_form import of_error, of_refresh
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError

if TYPE_CHECKING:
    from viewkeep.pipelines.runs import Outcome, Run

app = typer.Typer(help="Keep the materialized views of a Spark Declarative Pipelines project.")

SpecPath = Annotated[
    str | None,
    typer.Option(
        "--spec",
        metavar="PATH",
        help="The project's spark-pipeline.yml. Default: that of this directory, or of the nearest above it.",
        show_default=False,
    ),
]
# said of a view that a dry run finds
_WOULD = {"create": "would be created", "replace": "would be replaced", "refresh": "would be refreshed"}


@app.command("run")
def run(
    spec: SpecPath = None,
    engine: options.Engine = None,
    at: options.At = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compute the views from scratch, whatever changed.")
    ] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Bring the materialized views of a project up to date.

    New views are created, views whose definition changed are replaced, the others are refreshed by what
    changed in their tables. A view that fails does not stop the others; the exit status is then 1.

    Examples:

    ```
    viewkeep pipelines run --at spark:./warehouse
    viewkeep pipelines run --spec shop/spark-pipeline.yml --at spark:./warehouse --json
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _report(session, vk, lambda: pipelines.run(vk, spec, full)))
    session.finish()


@app.command("dry-run")
def dry_run(
    spec: SpecPath = None,
    engine: options.Engine = None,
    at: options.At = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Check a project, and say what a run would do. Changes nothing.

    Examples:

    ```
    viewkeep pipelines dry-run --at spark:./warehouse
    ```
    """
    session = Session(json=json, debug=debug)
    session.on_warehouse(engine, at, lambda vk: _report(session, vk, lambda: pipelines.dry_run(vk, spec)))
    session.finish()


def _report(session: Session, vk: Connection, call: Any) -> None:
    done: Run | ViewkeepError = session.watched(vk, "reading the project", call)
    if isinstance(done, ViewkeepError):
        session.fail(1, done)
        return
    session.ok = session.ok and done.ok
    if not done.outcomes:
        session.output.line(f"pipeline {done.pipeline} defines no views")
    for n, outcome in enumerate(done.outcomes, start=1):
        if session.json:
            session.emit(n, _form(outcome, done.dry))
        else:
            _show(session, outcome, done.dry)


def _form(outcome: Outcome, dry: bool) -> dict[str, Any]:
    where = {"file": outcome.file, "file_line": outcome.line} if outcome.file else {}
    if outcome.error is not None:
        return {**of_error(outcome.error), "view": outcome.view, **where}
    if outcome.action == "left":
        return {"kind": "left", "view": outcome.view, "message": "; ".join(outcome.notes), "sql": outcome.sql}
    if dry:
        return {"kind": "plan", "view": outcome.view, "action": outcome.action, "sql": outcome.sql, **where}
    if outcome.refresh is not None:
        return of_refresh(outcome.refresh)
    return {"kind": "create_view", "view": outcome.view, "rows": outcome.rows, "message": _made(outcome)}


def _show(session: Session, outcome: Outcome, dry: bool) -> None:
    where = f"{outcome.file}:{outcome.line}" if outcome.file else ""
    if outcome.error is not None:
        message = f"{outcome.view}: {outcome.error.message}"
        session.output.error(message, where=where, hint=outcome.error.hint)
        return
    if outcome.action == "left":
        session.output.line(f"left {outcome.view} alone")
    elif dry:
        session.output.line(f"{outcome.view} {_WOULD[outcome.action]}  ({where})")
    elif outcome.refresh is not None:
        show_refreshes(session.output, [outcome.refresh])
    else:
        session.output.line(_made(outcome))
    for note in outcome.notes:
        session.output.line(f"  note: {note}")


def _made(outcome: Outcome) -> str:
    verb = "replaced" if outcome.action == "replace" else "created"
    return f"{verb} materialized view {outcome.view}: {outcome.rows} rows"
