"""The type of every scalar expression a view may use, by Spark's rules; all else is refused with a place.

A whitelist on purpose: what is not here might mean something else on another engine, or change its mind
between two refreshes. The rules for each kind of expression are in expressions/.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import TypeMismatch, Unsupported, ViewkeepError
from viewkeep.frontend import functions
from viewkeep.frontend.expressions import (
    arrays,
    calls,
    casts,
    choices,
    conditions,
    date_patterns,
    dates,
    leaves,
    numbers,
    regexes,
    rewritten,
    text,
)
from viewkeep.frontend.typed import Rules, Typed, said

RULES: Rules = {
    **leaves.RULES, **conditions.RULES, **numbers.RULES, **dates.RULES, **text.RULES, **choices.RULES,
    **casts.RULES, **arrays.RULES, **regexes.RULES, **rewritten.RULES,
    **date_patterns.RULES,
}  # fmt: skip
NON_DETERMINISTIC = (
    exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid,
    exp.CurrentUser, exp.Localtimestamp, exp.CurrentCatalog, exp.CurrentDatabase,
    exp.CurrentSchema, exp.SessionUser, exp.Randstr, exp.CurrentTimezone, exp.CurrentVersion,
)  # fmt: skip
SUBQUERIES = (exp.Subquery, exp.Exists, exp.Select, exp.Any, exp.All)
# the arguments of syntax nodes that the rules read; `safe`, `typed` and `big_int` only mark a dialect
_READ = {
    "this", "expression", "expressions", "low", "high", "symmetric", "ifs", "default", "true", "false", "to",
    "start", "length", "position", "is_string", "quoted", "table", "query", "unnest", "safe", "typed",
    "big_int", "negate", "decimals", "format", "coalesce", "flatten", "ignore_nulls", "asc",
    "nulls_first", "offset", "unit", "replacement", "group", "null_if_pos_overflow", "from_", "for_",
    "roundoff", "substr", "delimiter", "count",
}  # fmt: skip


class Typing:
    """Types expressions over plan columns. `fail` makes an error at a syntax node's place."""

    def __init__(
        self,
        column_type: Callable[[str], tuple[Type, bool]],
        fail: Callable[[type[ViewkeepError], Expr, str, str], ViewkeepError],
    ) -> None:
        self.column_type = column_type
        self.fail = fail

    def condition(self, node: Expr, what: str) -> Expr:
        """A WHERE, ON or HAVING condition: it must be boolean."""
        typed = self.type(node)
        if typed.type not in (t.BOOLEAN, t.NULL):
            raise self.fail(
                TypeMismatch, node, f"{what} must be true or false, but this is {typed.type}",
                "compare it with something",
            )  # fmt: skip
        return typed.expression

    def type(self, node: Expr) -> Typed:
        """The expression, typed; comparisons of dates with string literals become dates."""
        if "typed" in node.meta:
            return Typed(node, *node.meta["typed"])
        call = functions.called(node)
        if call is not None:
            return calls.call(self, node, *call)
        if isinstance(node, exp.Anonymous) and not node.meta_get("made"):
            return calls.named(self, node)
        # sqlglot may hang meaning anywhere, as NOT on a LIKE; what is not read is refused
        rule = RULES.get(type(node))
        if rule is None or {key for key, value in node.args.items() if value} - _READ:
            raise self.refusal(node)
        return rule(self, node)

    def refusal(self, node: Expr) -> ViewkeepError:
        """Why an expression cannot stand in a view."""
        if node.find(*NON_DETERMINISTIC):
            return self.changing(node)
        if isinstance(node, SUBQUERIES):
            hint = "join with a derived table or a CTE"
            return self.fail(Unsupported, node, "a subquery cannot stand here", hint)
        if isinstance(node, exp.Window):
            return self.fail(
                Unsupported, node, "a window function cannot stand here",
                "use it in the SELECT list or in QUALIFY",
            )  # fmt: skip
        if isinstance(node, exp.AggFunc):
            return self.fail(
                Unsupported, node, f"the aggregate {said(node)} cannot be used here",
                "aggregates stand in the SELECT list and in HAVING",
            )  # fmt: skip
        return self.fail(
            Unsupported, node, f"{said(node)} is not supported in a view",
            "see docs/reference/sql.md for the functions and operators that are",
        )  # fmt: skip

    def changing(self, node: Expr) -> ViewkeepError:
        """That a function has no value to keep."""
        return self.fail(
            Unsupported, node,
            f"{said(node)} gives another value each time, so no stored view can equal it",
            "store the value in a column when the row is written",
        )  # fmt: skip

    def need(self, node: Expr, typed: Typed, wanted: Type) -> None:
        """Refuses a value of another type, and says where."""
        if typed.type not in (wanted, t.NULL):
            raise self.fail(
                TypeMismatch, node,
                f"{said(node)} is {typed.type} where {wanted} is needed",
                f"use CAST({said(node)} AS {wanted})",
            )  # fmt: skip

    def aligned(self, whole: Expr, parts: list[Expr]) -> list[Typed]:
        """The parts, typed, and comparable with each other; string literals beside dates become dates."""
        typed = [self.type(part) for part in parts]
        moment = next((p.type for p in typed if p.type in (t.DATE, t.TIMESTAMP)), None)
        if moment is not None:
            typed = [
                Typed(exp.Cast(this=p.expression, to=moment.sql()), moment, False)
                if isinstance(p.expression, exp.Literal) and p.type == t.STRING
                else p
                for p in typed
            ]
            for p in typed:
                if isinstance(p.expression, exp.Cast) and isinstance(p.expression.this, exp.Literal):
                    self.moment(p.expression.this, moment)
        if self._common_or_none(typed) is None:
            kinds = ", ".join(str(k) for k in dict.fromkeys(p.type for p in typed))
            raise self.fail(
                TypeMismatch, whole, f"{said(whole)} mixes {kinds}",
                "use CAST to bring all to one type",
            )  # fmt: skip
        return typed

    def common(self, parts: list[Typed]) -> Type:
        """The type that aligned values are brought to."""
        common = self._common_or_none(parts)
        assert common is not None  # _aligned refused it otherwise
        return common

    def _common_or_none(self, parts: list[Typed]) -> Type | None:
        common: Type | None = t.NULL
        for part in parts:
            common = t.widest(common, part.type) if common is not None else None
        return common

    def moment(self, node: exp.Literal, kind: Type) -> None:
        """A date or timestamp must be written out: engines read 'today' and short forms differently."""
        try:
            made = date.fromisoformat if kind == t.DATE else datetime.fromisoformat
            made(node.name)
        except ValueError as problem:
            raise self.fail(
                TypeMismatch, node, f"{node.name!r} is no {kind}",
                "write 2026-01-31, or 2026-01-31 12:30:00 for a timestamp",
            ) from problem  # fmt: skip
