"""Dates and timestamps: intervals, days, and what is between two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend import signatures
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.typed import Rules, Typed, bracketed, made_call, said

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing

_IN_UNITS = {
    "YEAR": ("MONTH", 12), "QUARTER": ("", 0), "MONTH": ("MONTH", 1), "WEEK": ("DAY", 7), "DAY": ("DAY", 1),
    "HOUR": ("HOUR", 1), "MINUTE": ("MINUTE", 1), "SECOND": ("SECOND", 1),
}  # fmt: skip


def shifted(typing: Typing, node: Expr) -> Typed:
    """A date or timestamp plus or minus an interval that is written out."""
    swap = isinstance(node, exp.Add) and isinstance(node.this.unnest(), exp.Interval)
    value, step = (node.expression, node.this) if swap else (node.this, node.expression)
    bare = step.unnest()
    unit, count = interval(bare) if isinstance(bare, exp.Interval) else ("", 0)
    if not unit:
        raise typing.fail(
            Unsupported, node, f"{said(step)} is not an interval of one unit",
            "add one unit at a time: + INTERVAL '1' MONTH + INTERVAL '2' DAY",
        )  # fmt: skip
    moment = typing.type(value)
    if moment.type not in (t.DATE, t.TIMESTAMP):
        raise typing.fail(
            TypeMismatch, node, f"{said(node)} combines {moment.type} with an interval",
            "use a DATE or TIMESTAMP",
        )  # fmt: skip
    stays = moment.type == t.DATE and unit in ("MONTH", "DAY")
    of = moment.expression if stays else cast_to(moment, t.TIMESTAMP)
    kind = type(node) if count >= 0 else (exp.Sub if isinstance(node, exp.Add) else exp.Add)
    made: Expr = kind(
        this=bracketed(of),
        expression=exp.Interval(this=exp.Literal.string(str(abs(count))), unit=exp.Var(this=unit)),
    )
    if stays:  # DuckDB makes it a timestamp
        made = exp.Cast(this=made, to=t.DATE.sql())
    return Typed(made, t.DATE if stays else t.TIMESTAMP, moment.nullable)


def interval(node: exp.Interval) -> tuple[str, int]:
    """The unit and how many of it; no unit where it is none that is understood."""
    unit = node.args.get("unit")
    number = node.this.name if isinstance(node.this, exp.Literal) else ""
    word = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    digits = number.removeprefix("-").removeprefix("+")
    if word not in _IN_UNITS or not digits.isdigit() or len(digits) > 6:
        return "", 0
    plain, factor = _IN_UNITS[word]
    return plain, int(number) * factor


def days(typing: Typing, node: Expr, left: Typed, right: Typed) -> Typed:
    """date + days, days + date, date - days, as DATE_ADD and DATE_SUB."""
    if isinstance(node, exp.Add) and left.type != t.DATE:
        left, right = right, left
    if not (
        isinstance(node, (exp.Add, exp.Sub)) and left.type == t.DATE and signatures.fits("int", right.type)
    ):
        raise typing.fail(
            TypeMismatch, node, f"{said(node)} combines {left.type} with {right.type}",
            "use DATEDIFF for days between dates, DATE_ADD or an INTERVAL to move one",
        )  # fmt: skip
    name = "date_add" if isinstance(node, exp.Add) else "date_sub"
    parts = [left.expression, cast_to(right, t.INT)]
    return made_call(name, parts, t.DATE, left.nullable or right.nullable)


def _difference(typing: Typing, node: exp.TimestampDiff) -> Typed:
    """TIMESTAMPDIFF: whole units between two timestamps; not months, whose length is another each time."""
    unit = node.args["unit"].name.upper().removesuffix("S")
    if unit not in ("SECOND", "MINUTE", "HOUR", "DAY"):
        raise typing.refusal(node)
    typed = [typing.type(part) for part in (node.expression, node.this)]
    for part, its in zip((node.expression, node.this), typed, strict=True):
        if its.type != t.DATE:
            typing.need(part, its, t.TIMESTAMP)
    moments = [cast_to(its, t.TIMESTAMP) for its in typed]
    nullable = any(its.nullable for its in typed)
    return made_call("timestampdiff", [exp.Literal.string(unit), *moments], t.BIGINT, nullable)


def _seconds(typing: Typing, node: exp.StrToUnix) -> Typed:
    """UNIX_TIMESTAMP of a timestamp. Of nothing it is the time that it is; strings have many forms."""
    moment = typing.type(node.this)
    if moment.type != t.DATE:
        typing.need(node.this, moment, t.TIMESTAMP)
    return made_call("unix_timestamp", [cast_to(moment, t.TIMESTAMP)], t.BIGINT, moment.nullable)


RULES: Rules = {
    exp.StrToUnix: _seconds,
    exp.TimestampDiff: _difference,
}
