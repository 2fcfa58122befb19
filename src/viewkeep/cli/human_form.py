"""What calls give back, as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.cli.output import Console
from viewkeep.errors import ViewkeepError
from viewkeep.frontend.statements import Statement
from viewkeep.results import Explanation, Refresh, Result, Verification, ViewStatus

# More than anyone reads; drawing a million rows would take minutes.
_MOST_ROWS = 1000


def show_result(output: Console, result: Result, statement: Statement) -> None:
    """What a statement did: a line or two, or a table."""
    if result.kind == "refresh":
        show_refreshes(output, result.detail)
    elif isinstance(result.detail, Verification):
        show_verification(output, result.detail)
    elif isinstance(result.detail, Explanation):
        show_explanation(output, result.detail)
    elif result.kind in ("select", "show"):
        _show_rows(output, result)
    elif result.kind == "dml":
        output.line(f"{statement.text.split(maxsplit=1)[0].lower()}: {_done(result)}")
    else:
        output.line(result.message)


def _done(result: Result) -> str:
    return _rows(result.detail) if isinstance(result.detail, int) else result.message


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _show_rows(output: Console, result: Result) -> None:
    count = len(result.rows)
    caption = _rows(count)
    if count > _MOST_ROWS:
        caption += f", the first {_MOST_ROWS:,} shown; --json prints all"
    output.table("", result.columns, result.rows[:_MOST_ROWS], caption)


def show_refreshes(output: Console, refreshes: Sequence[Refresh]) -> None:
    if not refreshes:
        _no_views(output)
    for refresh in refreshes:
        counts = [
            (refresh.changes_in, "base rows changed"),
            (refresh.diff_rows, "diff rows"),
            (refresh.rows_changed, "stored rows changed"),
            (refresh.statements, "statements"),
            (refresh.jobs, "jobs"),
            (refresh.commits, "commits"),
            (refresh.rows_read, "rows read"),
        ]
        told = ", ".join(f"{count:,} {what}" for count, what in counts if count is not None)
        output.line(
            f"refreshed {refresh.view} in {refresh.seconds:.3f} s, strategy {refresh.strategy}: {told}"
        )
        if refresh.reason:
            output.line(f"  why: {refresh.reason}")


def show_verification(output: Console, verification: Verification) -> None:
    output.line(str(verification), style="green" if verification.equal else "red")


def show_explanation(output: Console, explanation: Explanation, steps: bool = False) -> None:
    output.line(explanation.steps_text() if steps else str(explanation))


def show_statuses(output: Console, statuses: Sequence[ViewStatus]) -> None:
    if not statuses:
        _no_views(output)
        return
    rows = [
        (s.view, s.rows, s.pending, s.strategy, _moment(s), ", ".join(s.tables), s.problem) for s in statuses
    ]
    columns = ["view", "rows", "changes waiting", "strategy", "refreshed", "tables", "problem"]
    if not any(s.problem for s in statuses):
        columns, rows = columns[:-1], [row[:-1] for row in rows]  # type: ignore[misc]
    output.table("", columns, rows)


def _moment(status: ViewStatus) -> str:
    return status.refreshed.isoformat(" ", "seconds") if status.refreshed else "never"


def _no_views(output: Console) -> None:
    output.line("there are no materialized views here")


def show_error(
    output: Console, error: ViewkeepError, statement: Statement | None = None, source: str = ""
) -> None:
    """An error, with its place in the user's text where it has one. `source` is the name of the file."""
    place = error.place
    if place is None or statement is None:
        where = f"{source}, line {statement.first_line}" if statement and source else source
        output.error(error.message, where=where, hint=error.hint)
        return
    line = statement.first_line + place.line - 1
    where = f"{source}, line {line}, column {place.column}".removeprefix(", ")
    lines = statement.text.splitlines()
    excerpt = (line, lines[place.line - 1], place.column) if place.line <= len(lines) else None
    output.error(error.message, where=where, excerpt=excerpt, hint=error.hint)
