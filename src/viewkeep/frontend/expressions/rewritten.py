"""Functions that are others in other words, with Spark's meaning to the last case.

A template is Spark's SQL over a and b, which stand for the arguments; what it says is typed like any other
expression, so nothing about these functions is known to an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, substitute
from viewkeep.errors import Unsupported
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.expressions.dates import shifted
from viewkeep.frontend.expressions.numbers import whole_number
from viewkeep.frontend.functions import bare
from viewkeep.frontend.typed import Rules, Typed, bracketed, made_call

if TYPE_CHECKING:
    from viewkeep.frontend.typing import Typing

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December")  # fmt: skip
_NEXT = {
    word: n
    for n, words in enumerate(
        ("MO MON MONDAY", "TU TUE TUESDAY", "WE WED WEDNESDAY", "TH THU THURSDAY", "FR FRI FRIDAY",
         "SA SAT SATURDAY", "SU SUN SUNDAY")
    )
    for word in words.split()
}  # fmt: skip


def named(function: str, names: Sequence[str], first: int) -> str:
    """What a number that a function gives is called."""
    branches = " ".join(f"WHEN {n} THEN '{name}'" for n, name in enumerate(names, first))
    return f"CASE {function}(a) {branches} END"


_WHOLE_MONTHS = "CAST((YEAR(a) - YEAR(b)) * 12 + MONTH(a) - MONTH(b) AS DOUBLE)"
_SECONDS = " - ".join(
    f"CAST(DAY({x}) * 86400 + HOUR({x}) * 3600 + MINUTE({x}) * 60 + SECOND({x}) AS DOUBLE)" for x in "ab"
)
_MONTHS_BETWEEN = f"{_WHOLE_MONTHS} + ({_SECONDS}) / CAST(2678400 AS DOUBLE)"
_TEMPLATES: Mapping[type[Expr], str] = {
    exp.Nanvl: "CASE WHEN ISNAN(a) THEN CAST(b AS DOUBLE) ELSE CAST(a AS DOUBLE) END",
    exp.EqualNull: "a <=> b",
    # by what Java multiplies with
    exp.Degrees: "CAST(a AS DOUBLE) * 57.29577951308232E0",
    exp.Radians: "CAST(a AS DOUBLE) * 0.017453292519943295E0",
    exp.Dayname: named("WEEKDAY", [name[:3] for name in DAYS], 0),
    exp.Monthname: named("MONTH", [name[:3] for name in MONTHS], 1),
    exp.RegexpSubstr: "NULLIF(REGEXP_EXTRACT(a, b, 0), '')",
}
_PARTS = {
    "isodow": "WEEKDAY(a) + 1", "dayofweek_iso": "WEEKDAY(a) + 1", "dow_iso": "WEEKDAY(a) + 1",
    # a week is of the year that its Thursday is in
    "yearofweek": "YEAR(DATE_ADD(a, 3 - WEEKDAY(a)))",
}  # fmt: skip


def filled(typing: Typing, text: str, *arguments: Expr) -> Typed:
    """The template over these arguments, typed."""
    made = {name: bracketed(part.copy()) for name, part in zip("ab", arguments, strict=False)}
    return typing.type(substitute(_template(text), made))


@cache
def _template(text: str) -> Expr:
    return sqlglot.parse_one(text, dialect="spark")


def _by_template(typing: Typing, node: Expr) -> Typed:
    arguments = [node.this] + ([node.expression] if node.args.get("expression") else [])
    return filled(typing, _TEMPLATES[type(node)], *arguments)


def _literal(typing: Typing, node: Expr, part: Expr, what: str) -> int:
    number = whole_number(part)
    if number is None:
        raise typing.fail(Unsupported, node, f"{what} is not a literal whole number", "write it out")
    return number


def _pi(typing: Typing, node: exp.Pi) -> Typed:
    return Typed(exp.Cast(this=exp.Literal.number("3.141592653589793"), to=t.DOUBLE.sql()), t.DOUBLE, False)


def _decode(typing: Typing, node: exp.DecodeCase) -> Typed:
    """DECODE(x, 1, 'a', 2, 'b', 'c'): CASE over null-safe equality. Of integers Spark makes a BIGINT."""
    value, *rest = node.expressions
    results = [*rest[1::2], *(rest[-1:] if len(rest) % 2 else [])]
    for part in results:
        typing.need(part, typing.type(part), t.STRING)
    branches = [
        exp.If(
            this=exp.NullSafeEQ(this=bracketed(value.copy()), expression=bracketed(a.copy())), true=b.copy()
        )
        for a, b in zip(rest[::2], rest[1::2], strict=False)
    ]
    return typing.type(exp.Case(ifs=branches, default=rest[-1].copy() if len(rest) % 2 else None))


def _overlay(typing: Typing, node: exp.Overlay) -> Typed:
    start = _literal(typing, node, node.args["from_"], "where OVERLAY starts")
    length = node.args.get("for_")
    count = _literal(typing, node, length, "how much OVERLAY covers") if length is not None else -1
    rest = str(start + count) if count >= 0 else f"{start} + LENGTH(b)"
    text = f"SUBSTRING(a, 1, {start - 1}) || b || SUBSTRING(a, {rest})"
    return filled(typing, text, node.this, node.expression)


def _located(typing: Typing, node: exp.StrPosition) -> Typed:
    """LOCATE with a start. Nothing is found before the first character, and '' always at the first."""
    start = _literal(typing, node, node.args["position"], "where LOCATE starts")
    if start < 1:
        return filled(typing, "INSTR(a, b) * 0", node.this, node.args["substr"])
    found = f"INSTR(SUBSTRING(a, {start}), b)"
    text = f"CASE WHEN b = '' THEN INSTR(a, b) WHEN {found} > 0 THEN {found} + {start - 1} ELSE {found} END"
    return filled(typing, text, node.this, node.args["substr"])


def _months_between(typing: Typing, node: exp.MonthsBetween) -> Typed:
    """Whole months between equal days and between last days of months; else a month has 31 days."""
    sides = [typing.type(part) for part in (bare(node.this), bare(node.expression))]
    for part, its in zip((node.this, node.expression), sides, strict=True):
        if its.type not in (t.DATE, t.TIMESTAMP):
            typing.need(part, its, t.TIMESTAMP)
    rounding = node.args.get("roundoff") or exp.true()
    if not isinstance(rounding, exp.Boolean):
        raise typing.refusal(node)
    exact = f"FLOOR(({_MONTHS_BETWEEN}) * 1E8 + 0.5E0) / 1E8" if rounding.this else _MONTHS_BETWEEN
    last = " AND ".join(f"DAY({x}) = DAY(LAST_DAY({x}))" for x in "ab")
    text = f"CASE WHEN DAY(a) = DAY(b) OR {last} THEN {_WHOLE_MONTHS} ELSE {exact} END"
    return filled(typing, text, bare(node.this), bare(node.expression))


def _next_day(typing: Typing, node: exp.NextDay) -> Typed:
    day = _NEXT.get(node.expression.name.upper()) if isinstance(node.expression, exp.Literal) else None
    if day is None:
        raise typing.fail(Unsupported, node, "NEXT_DAY needs a literal day of the week", "NEXT_DAY(d, 'MON')")
    return filled(typing, f"DATE_ADD(a, PMOD({day - 1} - WEEKDAY(a), 7) + 1)", bare(node.this))


def _moved(typing: Typing, node: exp.TimestampAdd) -> Typed:
    """DATEADD(unit, n, moment): a timestamp, also for a date."""
    count = _literal(typing, node, node.expression, "how many units are added")
    moment = exp.Cast(this=bare(node.this).copy(), to=t.TIMESTAMP.sql())
    step = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this=node.args["unit"].name))
    return shifted(typing, exp.Add(this=moment, expression=step))


def _difference(typing: Typing, node: exp.DateDiff) -> Typed:
    """DATEDIFF(unit, from, to)."""
    sides = [bare(part).copy() for part in (node.this, node.expression)]
    return typing.type(exp.TimestampDiff(this=sides[0], expression=sides[1], unit=node.args["unit"].copy()))


def _extract(typing: Typing, node: exp.Extract) -> Typed:
    """What no function of the table gives. Seconds have a fraction."""
    if node.this.name.lower() in ("second", "seconds", "s", "sec"):
        moment = typing.type(bare(node.expression))
        if moment.type != t.DATE:
            typing.need(node.expression, moment, t.TIMESTAMP)
        given = [cast_to(moment, t.TIMESTAMP)]
        return made_call("second_fraction", given, t.decimal(8, 6), moment.nullable)
    if (text := _PARTS.get(node.this.name.lower())) is None:
        raise typing.refusal(node)
    return filled(typing, text, bare(node.expression))


def _from_unixtime(typing: Typing, node: exp.UnixToStr) -> Typed:
    moment = exp.Anonymous(this="timestamp_seconds", expressions=[node.this.copy()])
    return typing.type(exp.TimeToStr(this=moment, format=node.args["format"].copy()))


def _substring_index(typing: Typing, node: exp.SubstringIndex) -> Typed:
    """What is before the n-th delimiter, or behind it from the end."""
    delimiter = node.args["delimiter"]
    count = _literal(typing, node, node.args["count"], "the count of SUBSTRING_INDEX")
    word = delimiter.name if isinstance(delimiter, exp.Literal) and delimiter.is_string else ""
    # of 'aa' in 'aaa' Spark finds two
    overlaps = any(word[n:] == word[:-n] for n in range(1, len(word)))
    if not word or overlaps or count == 0:
        raise typing.fail(
            Unsupported, node, "SUBSTRING_INDEX needs a literal delimiter, and a count other than 0",
            "SUBSTRING_INDEX(s, '.', 2)",
        )  # fmt: skip
    call = exp.Anonymous(this="substring_index", expressions=[node.this.copy(), delimiter.copy()])
    call.append("expressions", exp.Literal.number(count))
    return typing.type(call)


RULES: Rules = {
    **dict.fromkeys(_TEMPLATES, _by_template),
    exp.Pi: _pi,
    exp.DecodeCase: _decode,
    exp.Overlay: _overlay,
    exp.StrPosition: _located,
    exp.MonthsBetween: _months_between,
    exp.NextDay: _next_day,
    exp.TimestampAdd: _moved,
    exp.DateDiff: _difference,
    exp.Extract: _extract,
    exp.UnixToStr: _from_unixtime,
    exp.SubstringIndex: _substring_index,
}
