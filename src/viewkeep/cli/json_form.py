"""What calls give back, as the JSON objects that the documentation promises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from viewkeep.errors import ViewkeepError
from viewkeep.results import Explanation, Refresh, Regression, Result, Verification, ViewStatus

Form = dict[str, Any]

# The integers that every JSON reader holds exactly: a double has 53 bits of precision.
_EXACT = 2**53


def value(v: Any) -> Any:
    """A value of a row. What a JSON number cannot hold exactly is a string."""
    if v is None or isinstance(v, bool | str):
        return v
    if isinstance(v, int):
        return v if -_EXACT <= v <= _EXACT else str(v)
    if isinstance(v, float):
        return v if math.isfinite(v) else _not_finite(v)
    if isinstance(v, Decimal):
        return format(v, "f")
    if isinstance(v, date | datetime | time):
        return v.isoformat()
    if isinstance(v, Mapping):
        return {str(k): value(x) for k, x in v.items()}
    if isinstance(v, Sequence) and not isinstance(v, bytes):
        return [value(x) for x in v]
    return str(v)


def _not_finite(v: float) -> str:
    if math.isnan(v):
        return "NaN"
    return "Infinity" if v > 0 else "-Infinity"


def _rows(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [[value(v) for v in row] for row in rows]


def of_result(result: Result, view: str | None = None) -> list[Form]:
    """A statement's objects: one, but for a refresh of many views one each.

    `view` is the materialized view that the statement names, where the result does not say it.
    """
    detail = result.detail
    if result.kind == "refresh":
        return [of_refresh(refresh) for refresh in detail]
    if isinstance(detail, Verification):
        return [of_verification(detail)]
    if isinstance(detail, Explanation):
        return [of_explanation(detail)]
    if result.kind in ("select", "show"):
        return [{"kind": result.kind, "columns": list(result.columns), "rows": _rows(result.rows)}]
    form: Form = {"kind": result.kind}
    if view is not None:
        form["view"] = view
    if result.kind in ("dml", "create_view"):
        form["rows"] = detail if isinstance(detail, int) else None
    return [{**form, "message": result.message}]


def of_refresh(refresh: Refresh) -> Form:
    form: Form = {
        "kind": "refresh",
        "view": refresh.view,
        "strategy": refresh.strategy,
        "reason": refresh.reason,
        "seconds": round(refresh.seconds, 6),
        "changes_in": refresh.changes_in,
        "rows_changed": refresh.rows_changed,
        "diff_rows": refresh.diff_rows,
        "statements": refresh.statements,
    }
    # only Spark has jobs and tells what it read, and only Delta has commits
    for name in ("jobs", "commits", "rows_read"):
        if (count := getattr(refresh, name)) is not None:
            form[name] = count
    return form


def of_verification(verification: Verification) -> Form:
    form: Form = {
        "kind": "verify",
        "view": verification.view,
        "equal": verification.equal,
        "missing": verification.missing,
        "unexpected": verification.unexpected,
    }
    if not verification.equal:
        form["columns"] = list(verification.columns)
        form["missing_rows"] = _rows(verification.missing_rows)
        form["unexpected_rows"] = _rows(verification.unexpected_rows)
    return form


def of_explanation(explanation: Explanation, steps: bool = False) -> Form:
    form: Form = {
        "kind": "explain",
        "view": explanation.view,
        "text": str(explanation),
        "script": [{"title": title, "sql": sql} for title, sql in explanation.script],
    }
    if steps:
        form["steps"] = [{"pass": name, "plan": plan} for name, plan in explanation.steps]
    return form


def of_regression(view: str, model: Regression, group: Sequence[Any]) -> Form:
    form: Form = {"kind": "regression", "view": view}
    if group:
        form["group"] = [value(v) for v in group]
    if model.categories:
        form["categories"] = {
            name: [[value(v), value(c)] for v, c in values.items()]
            for name, values in model.categories.items()
        }
    return {
        **form,
        "label": model.label,
        "intercept": value(model.intercept),
        "coefficients": value(model.coefficients),
        "count": model.count,
        "rank": model.rank,
        "r2": value(model.r2),
        "rmse": value(model.rmse),
    }


def of_status(status: ViewStatus) -> Form:
    return {
        "kind": "status",
        "view": status.view,
        "rows": status.rows,
        "pending": status.pending,
        "stale": status.stale,
        "strategy": status.strategy,
        "refreshed": value(status.refreshed),
        "versions": value(status.versions),
        "tables": list(status.tables),
        "caches": list(status.caches),
        "problem": status.problem,
    }


def of_error(error: ViewkeepError, first_line: int | None = None) -> Form:
    """An error. Line and column count from the start of the statement, which is on `first_line` of a file."""
    place = error.place
    form: Form = {
        "kind": "error",
        "code": error.code,
        "message": error.message,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "hint": error.hint,
    }
    if place and first_line is not None:
        form["file_line"] = first_line + place.line - 1
    return form
