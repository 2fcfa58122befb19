"""Dates and timestamps by patterns of letters: DATE_FORMAT, TO_DATE and TO_TIMESTAMP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.errors import Unsupported
from viewkeep.frontend import functions
from viewkeep.frontend.expressions.calls import call
from viewkeep.frontend.expressions.casts import cast
from viewkeep.frontend.expressions.rewritten import DAYS, MONTHS, filled, named
from viewkeep.frontend.typed import Rules, Typed

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing

# what a letter of a pattern stands for, of a moment `a`, where engines have no common letter for it
_FORMS = {
    "MMM": "MONTHNAME(a)", "MMMM": named("MONTH", MONTHS, 1), "E": "DAYNAME(a)",
    "EEEE": named("WEEKDAY", DAYS, 0), "M": "CAST(MONTH(a) AS STRING)", "d": "CAST(DAY(a) AS STRING)",
    "H": "CAST(HOUR(a) AS STRING)", "h": "CAST((HOUR(a) + 11) % 12 + 1 AS STRING)",
    "hh": "LPAD(CAST((HOUR(a) + 11) % 12 + 1 AS STRING), 2, '0')",
    "a": "CASE WHEN HOUR(a) < 12 THEN 'AM' WHEN HOUR(a) >= 12 THEN 'PM' END",
}  # fmt: skip


def _timetostr(typing: Typing, node: exp.TimeToStr) -> Typed:
    """DATE_FORMAT: in one call what every engine has letters for, and the rest beside it."""
    inner = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    given = node.args["format"]
    parts = functions.forms(given.name) if isinstance(given, exp.Literal) else None
    if parts is not None and any(part in _FORMS or part[0] == "'" for part in parts):
        made = [part if part[0] == "'" else _FORMS.get(part, f"DATE_FORMAT(a, '{part}')") for part in parts]
        return filled(typing, " || ".join(made), inner)
    return call(typing, node, "date_format", [inner, _pattern(typing, node, "yyyy MM dd HH mm ss")])


def _tsordstodate(typing: Typing, node: exp.TsOrDsToDate) -> Typed:
    if node.args.get("format") is None:
        return cast(typing, exp.Cast(this=node.this.copy(), to=t.DATE.sql()))
    return call(typing, node, "to_date", [node.this, _pattern(typing, node, "yyyy MM dd")])


def _strtotime(typing: Typing, node: exp.StrToTime) -> Typed:
    pattern = _pattern(typing, node, "yyyy MM dd HH mm ss")
    return call(typing, node, "to_timestamp", [node.this, pattern])


def _pattern(typing: Typing, node: Expr, allowed: str) -> exp.Literal:
    given = node.args["format"]
    text = functions.spark_pattern(given.name) if isinstance(given, exp.Literal) else "%"
    found = functions.pieces(text)
    letters = [p for p in found or [] if p in functions.PATTERN]
    reads = not isinstance(node, exp.TimeToStr)
    # a date without a year is one of 1970, and of 'ddMM' engines make what they like
    whole = {"yyyy", "MM", "dd"} <= set(letters) if reads else True
    twice = len(set(letters)) < len(letters) and reads
    if found is None or "%" in text or not whole or twice or not set(letters) <= set(allowed.split()):
        raise typing.fail(
            Unsupported, node, "this date pattern might mean different things on different engines",
            f"use a literal pattern of {allowed.replace(' ', ', ')} and signs between them",
        )  # fmt: skip
    return exp.Literal.string(text)


RULES: Rules = {
    exp.TimeToStr: _timetostr,
    exp.TsOrDsToDate: _tsordstodate,
    exp.StrToTime: _strtotime,
}
