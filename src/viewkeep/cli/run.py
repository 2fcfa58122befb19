"""viewkeep run: a file of SQL statements, one after the other."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from viewkeep.cli import options
from viewkeep.cli.human_form import show_result
from viewkeep.cli.json_form import of_result
from viewkeep.cli.session import Session
from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError
from viewkeep.frontend.statements import CreateView, OnView, Statement, parse, split
from viewkeep.results import Result, Verification

_SHOWN_CHARACTERS = 60


class CannotRead(ViewkeepError):
    """The file with the SQL cannot be read."""

    code = "cannot_read"


def run(
    file: Annotated[str, typer.Argument(metavar="FILE.sql", help="The SQL file; - is standard input.")],
    engine: options.Engine = None,
    at: options.At = None,
    json: options.Json = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a statement that fails.")
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Run the SQL statements of a file.

    Statements end with a semicolon. The first that fails ends the run, unless --keep-going is given. The exit
    status is 0 where every statement worked and every VERIFY found its view equal, else 1.

    Examples:

    ```
    viewkeep run shop.sql --at duckdb:shop.db
    echo 'SHOW MATERIALIZED VIEWS' | viewkeep run - --at duckdb:shop.db --json
    ```
    """
    session = Session(json=json, debug=debug)
    source = "standard input" if file == "-" else file
    # before the warehouse is opened: a quote left open should not cost the start of a JVM
    statements = session.attempt(lambda: list(split(_read(file))))
    if isinstance(statements, ViewkeepError):
        session.fail(1, statements, source=source if statements.place else "")
        session.finish()
    session.on_warehouse(engine, at, lambda vk: _run_all(session, vk, statements, source, keep_going))
    session.finish()


def _read(file: str) -> str:
    try:
        # "-sig": editors on some systems put a byte order mark first
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise CannotRead(f"{file} cannot be read: {problem.strerror}", hint="check the path") from problem
    except UnicodeDecodeError as problem:
        raise CannotRead(f"{file} is not UTF-8 text: {problem}", hint="save it as UTF-8") from problem


def _run_all(
    session: Session, vk: Connection, statements: list[Statement], source: str, keep_going: bool
) -> None:
    for n, statement in enumerate(statements, start=1):
        result = session.watched(vk, _title(statement), partial(vk.run, statement))
        if isinstance(result, ViewkeepError):
            session.fail(n, result, statement, source)
            if not keep_going:
                return
        else:
            _report(session, n, statement, result)


def _report(session: Session, n: int, statement: Statement, result: Result) -> None:
    if isinstance(result.detail, Verification) and not result.detail.equal:
        session.ok = False
    if session.json:
        for form in of_result(result, _view_of(statement)):
            session.emit(n, form)
    else:
        show_result(session.output, result, statement)


def _view_of(statement: Statement) -> str | None:
    """The materialized view that a statement names."""
    parsed = parse(statement)
    return parsed.name if isinstance(parsed, CreateView | OnView) else None


def _title(statement: Statement) -> str:
    text = " ".join(statement.text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
