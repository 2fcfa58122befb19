"""The type of every scalar expression a view may use, by Spark's rules; all else is refused with a place.

A whitelist on purpose: what is not here might mean something else on another engine, or change its mind
between two refreshes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import TypeMismatch, Unsupported, ViewkeepError

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
TO_STRING = (exp.Lower, exp.Upper, exp.Trim)
DATE_PARTS = (exp.Year, exp.Month, exp.Day)
NON_DETERMINISTIC = (
    exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid,
    exp.CurrentUser,
)  # fmt: skip
SUBQUERIES = (exp.Subquery, exp.Exists, exp.Select, exp.Any, exp.All)


# the arguments of syntax nodes that this module reads; `safe`, `typed` and `big_int` only mark a dialect
_READ = {
    "this", "expression", "expressions", "low", "high", "symmetric", "ifs", "default", "true", "false", "to",
    "start", "length", "position", "is_string", "quoted", "table", "query", "unnest", "safe", "typed",
    "big_int",
}  # fmt: skip
QUOTIENT = "viewkeep_decimal_quotient"


def said(node: Expr) -> str:
    """An expression as the user wrote it: plan columns under the names that they were called by."""

    def unbind(part: Expr) -> Expr:
        return part.meta["written"].copy() if "written" in part.meta else part

    return node.transform(unbind).sql("spark")


def decimal_quotient(
    numerator: Expr, numerator_type: Type, denominator: Expr, denominator_type: Type, result: Type
) -> Expr:
    """numerator / denominator, rounded half up to a decimal type once.

    Each engine spells it its own way: Spark's division cuts digits of large types first, DuckDB's
    answers a double. Arguments: the two values, then precision and scale of the result, of each value.
    """
    above, below = t.as_decimal(numerator_type), t.as_decimal(denominator_type)
    sizes = (result, above, below)
    numbers = [exp.Literal.number(n) for s in sizes for n in (s.precision, s.scale)]
    made = exp.Anonymous(this=QUOTIENT, expressions=[numerator.copy(), denominator.copy(), *numbers])
    made.meta["made"] = True  # by us: a user cannot call it
    return made


@dataclass(frozen=True)
class Typed:
    """An expression with its type, and whether it may be null."""

    expression: Expr
    type: Type
    nullable: bool


class Typing:
    """Types expressions over plan columns. `fail` makes an error at a syntax node's place."""

    def __init__(
        self,
        column_type: Callable[[str], tuple[Type, bool]],
        fail: Callable[[type[ViewkeepError], Expr, str, str], ViewkeepError],
    ) -> None:
        self._column_type = column_type
        self._fail = fail

    def condition(self, node: Expr, what: str) -> Expr:
        """A WHERE, ON or HAVING condition: it must be boolean."""
        typed = self.type(node)
        if typed.type not in (t.BOOLEAN, t.NULL):
            raise self._fail(
                TypeMismatch, node, f"{what} must be true or false, but this is {typed.type}",
                "compare it with something",
            )  # fmt: skip
        return typed.expression

    def type(self, node: Expr) -> Typed:
        """The expression, typed; comparisons of dates with string literals become dates."""
        unread = {key for key, value in node.args.items() if value} - _READ
        if unread and not (
            isinstance(node, exp.Like) and unread == {"negate"}
        ):  # sqlglot may hang meaning there, as NOT on a LIKE; what is not read is refused
            raise self._refusal(node)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            typed: Typed = method(node)
            return typed
        if isinstance(node, COMPARISONS):
            return self._comparison(node)
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node)
        if isinstance(node, TO_STRING):
            return self._string_function(node)
        if isinstance(node, DATE_PARTS):
            return self._date_part(node)
        raise self._refusal(node)

    def _refusal(self, node: Expr) -> ViewkeepError:
        if isinstance(node, NON_DETERMINISTIC):
            return self._fail(
                Unsupported, node,
                f"{said(node)} gives another value each time, so no stored view can equal it",
                "store the value in a column when the row is written",
            )  # fmt: skip
        if isinstance(node, SUBQUERIES):
            return self._fail(
                Unsupported, node, "a subquery in an expression is not supported yet",
                "join with a derived table or a CTE instead",
            )  # fmt: skip
        if isinstance(node, exp.Window):
            return self._fail(
                Unsupported, node, "window functions are not supported yet",
                "aggregate with GROUP BY in a derived table and join it",
            )  # fmt: skip
        if isinstance(node, exp.AggFunc):
            return self._fail(
                Unsupported, node, f"the aggregate {said(node)} cannot be used here",
                "SUM, COUNT and AVG are supported, in a SELECT list or HAVING",
            )  # fmt: skip
        return self._fail(
            Unsupported, node, f"{said(node)} is not supported in a view",
            "see docs/reference/sql.md for the functions and operators that are",
        )  # fmt: skip

    # --- leaves ---

    def _column(self, node: exp.Column) -> Typed:
        kind, nullable = self._column_type(node.name)
        return Typed(node, kind, nullable)

    def _literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return Typed(node, t.STRING, False)
        digits = node.name
        if "e" in digits.lower():
            return Typed(node, t.DOUBLE, False)
        if "." in digits:
            whole, _, fraction = digits.partition(".")
            precision = max(len(whole.lstrip("0")) + len(fraction), len(fraction), 1)
            if precision > t.MAX_PRECISION:
                raise self._fail(
                    TypeMismatch, node, f"{digits} has more than 38 digits", "write fewer digits"
                )
            return Typed(node, t.decimal(precision, len(fraction)), False)
        value = int(digits)
        if value < 2**31:
            return Typed(node, t.INT, False)
        if value < 2**63:
            return Typed(node, t.BIGINT, False)
        return Typed(node, t.decimal(len(digits), 0), False)

    def _boolean(self, node: exp.Boolean) -> Typed:
        return Typed(node, t.BOOLEAN, False)

    def _null(self, node: exp.Null) -> Typed:
        return Typed(node, t.NULL, True)

    def _paren(self, node: exp.Paren) -> Typed:
        inner = self.type(node.this)
        return Typed(exp.Paren(this=inner.expression), inner.type, inner.nullable)

    # --- logic ---

    def _logic(self, node: exp.Binary) -> Typed:
        sides = [self.type(node.left), self.type(node.right)]
        for side, part in zip(sides, (node.left, node.right), strict=True):
            self._need(part, side, t.BOOLEAN)
        made = type(node)(this=sides[0].expression, expression=sides[1].expression)
        return Typed(made, t.BOOLEAN, any(s.nullable for s in sides))

    _and = _logic
    _or = _logic

    def _not(self, node: exp.Not) -> Typed:
        inner = self.type(node.this)
        self._need(node.this, inner, t.BOOLEAN)
        return Typed(exp.Not(this=inner.expression), t.BOOLEAN, inner.nullable)

    def _is(self, node: exp.Is) -> Typed:
        inner = self.type(node.this)
        if not isinstance(node.expression, (exp.Null, exp.Boolean)):
            raise self._refusal(node)
        if isinstance(node.expression, exp.Boolean):
            self._need(node.this, inner, t.BOOLEAN)
        made = exp.Is(this=inner.expression, expression=node.expression)
        return Typed(made, t.BOOLEAN, False)

    def _comparison(self, node: Expr) -> Typed:
        left, right = self._aligned(node, [node.this, node.expression])
        null_safe = isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ))
        made = type(node)(this=left.expression, expression=right.expression)
        return Typed(made, t.BOOLEAN, not null_safe and (left.nullable or right.nullable))

    def _between(self, node: exp.Between) -> Typed:
        if node.args.get("symmetric"):
            raise self._refusal(node)
        parts = self._aligned(node, [node.this, node.args["low"], node.args["high"]])
        value, low, high = (p.expression for p in parts)
        made = exp.Between(this=value, low=low, high=high)
        return Typed(made, t.BOOLEAN, any(p.nullable for p in parts))

    def _in(self, node: exp.In) -> Typed:
        if node.args.get("query") or node.args.get("unnest") or not node.expressions:
            raise self._fail(
                Unsupported, node, "IN with a subquery is not supported yet",
                "join with a derived table or a CTE instead",
            )  # fmt: skip
        parts = self._aligned(node, [node.this, *node.expressions])
        made = exp.In(this=parts[0].expression, expressions=[p.expression for p in parts[1:]])
        return Typed(made, t.BOOLEAN, any(p.nullable for p in parts))

    def _like(self, node: exp.Like) -> Typed:
        value, pattern = self.type(node.this), self.type(node.expression)
        self._need(node.this, value, t.STRING)
        self._need(node.expression, pattern, t.STRING)
        if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.name:
            raise self._fail(
                Unsupported, node, "LIKE needs a literal pattern without backslashes",
                "write the pattern as a string with % and _",
            )  # fmt: skip
        made: Expr = exp.Like(this=value.expression, expression=pattern.expression)
        if node.args.get("negate"):
            made = exp.Not(this=made)
        return Typed(made, t.BOOLEAN, value.nullable)

    # --- values ---

    def _arithmetic(self, node: Expr) -> Typed:
        left, right = self.type(node.this), self.type(node.expression)
        kinds = [_beside_decimal(p, other) for p, other in ((left, right), (right, left))]
        result = t.arithmetic(type(node), *kinds)
        if result is None:
            raise self._fail(
                TypeMismatch, node,
                f"{said(node)} combines {left.type} with {right.type}",
                "use CAST(... AS type) to make both numbers",
            )  # fmt: skip
        made = type(node)(this=left.expression, expression=right.expression)
        if isinstance(node, exp.Div) and result.kind == "decimal":
            made = decimal_quotient(left.expression, kinds[0], right.expression, kinds[1], result)
        return Typed(made, result, left.nullable or right.nullable)

    def _neg(self, node: exp.Neg) -> Typed:
        inner = self.type(node.this)
        if not inner.type.is_numeric:
            raise self._fail(TypeMismatch, node, f"- needs a number, not {inner.type}", "use CAST")
        return Typed(exp.Neg(this=inner.expression), inner.type, inner.nullable)

    def _abs(self, node: exp.Abs) -> Typed:
        inner = self.type(node.this)
        if not inner.type.is_numeric:
            raise self._fail(TypeMismatch, node, f"ABS needs a number, not {inner.type}", "use CAST")
        return Typed(exp.Abs(this=inner.expression), inner.type, inner.nullable)

    def _case(self, node: exp.Case) -> Typed:
        conditions = []
        for branch in node.args["ifs"]:
            test = branch.this
            if node.this is not None:
                test = exp.EQ(this=node.this.copy(), expression=test.copy())
            conditions.append(self.condition(test, "WHEN"))
        default = node.args.get("default")
        results = [branch.args["true"] for branch in node.args["ifs"]]
        parts = self._aligned(node, results + ([default] if default is not None else []))
        made = exp.Case(
            ifs=[
                exp.If(this=test, true=part.expression) for test, part in zip(conditions, parts, strict=False)
            ],
            default=parts[-1].expression if default is not None else None,
        )
        nullable = default is None or any(p.nullable for p in parts)
        return Typed(made, self._common(parts), nullable)

    def _if(self, node: exp.If) -> Typed:
        branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
        default = node.args.get("false")
        return self._case(exp.Case(ifs=[branch], default=default.copy() if default else None))

    def _coalesce(self, node: exp.Coalesce) -> Typed:
        parts = self._aligned(node, [node.this, *node.expressions])
        made = exp.Coalesce(this=parts[0].expression, expressions=[p.expression for p in parts[1:]])
        return Typed(made, self._common(parts), all(p.nullable for p in parts))

    def _nullif(self, node: exp.Nullif) -> Typed:
        left, right = self._aligned(node, [node.this, node.expression])
        made = exp.Nullif(this=left.expression, expression=right.expression)
        return Typed(made, left.type, True)

    def _trycast(self, node: exp.TryCast) -> Typed:
        if node.args.get("safe"):
            raise self._refusal(node)  # TRY_CAST, which is NULL where CAST fails
        return self._cast(node)  # how sqlglot reads CAST in this dialect

    def _cast(self, node: exp.Cast) -> Typed:
        inner = self.type(node.this)
        target = t.from_sql(node.to)
        if target is None:
            raise self._fail(
                Unsupported, node, f"viewkeep has no type {node.to.sql('spark')}",
                "use BOOLEAN, an integer type, DOUBLE, DECIMAL, STRING, DATE or TIMESTAMP",
            )  # fmt: skip
        exact = inner.type == t.NULL or inner.type == target or _same_on_every_engine(inner.type, target)
        literal = isinstance(node.this, exp.Literal) and target in (t.DATE, t.TIMESTAMP)
        if literal:
            self._moment(node.this, target)
        if not (exact or literal):
            raise self._fail(
                Unsupported, node, f"CAST from {inner.type} to {target} differs between engines",
                "cast between numbers, from integers and strings to STRING, or store the column so",
            )  # fmt: skip
        made = exp.Cast(this=inner.expression, to=target.sql())
        return Typed(made, target, inner.nullable)

    def _string_function(self, node: Expr) -> Typed:
        if isinstance(node, exp.Trim) and (node.args.get("position") or node.expression):
            raise self._refusal(node)
        inner = self.type(node.this)
        self._need(node.this, inner, t.STRING)
        return Typed(type(node)(this=inner.expression), t.STRING, inner.nullable)

    def _length(self, node: exp.Length) -> Typed:
        inner = self.type(node.this)
        self._need(node.this, inner, t.STRING)
        return Typed(exp.Length(this=inner.expression), t.INT, inner.nullable)

    def _concat(self, node: exp.Concat) -> Typed:
        return self._concatenated(node, node.expressions)

    def _dpipe(self, node: exp.DPipe) -> Typed:
        return self._concatenated(node, [node.left, node.right])

    def _concatenated(self, node: Expr, parts: list[Expr]) -> Typed:
        typed = [self.type(part) for part in parts]
        for part, its in zip(parts, typed, strict=True):
            self._need(part, its, t.STRING)
        joined = typed[0].expression
        for more in typed[1:]:  # || is NULL where a part is, on every engine; CONCAT is not
            joined = exp.DPipe(this=joined, expression=more.expression, safe=True)
        return Typed(joined, t.STRING, any(its.nullable for its in typed))

    def _substring(self, node: exp.Substring) -> Typed:
        inner = self.type(node.this)
        self._need(node.this, inner, t.STRING)
        start, length = node.args.get("start"), node.args.get("length")
        bounds = [b for b in (start, length) if b is not None]
        whole = all(isinstance(b, exp.Literal) and b.name.isdigit() for b in bounds)
        if not whole or start is None or int(start.name) < 1:
            raise self._fail(
                Unsupported, node, "SUBSTRING needs a start of 1 or more and literal bounds",
                "write SUBSTRING(column, 1, 3)",
            )  # fmt: skip
        made = exp.Substring(this=inner.expression, start=start, length=length)
        return Typed(made, t.STRING, inner.nullable)

    def _date_part(self, node: Expr) -> Typed:
        bare = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        inner = self.type(bare)
        if inner.type not in (t.DATE, t.TIMESTAMP):
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs a date, not {inner.type}",
                "use DATE '2026-01-31' or a DATE column",
            )  # fmt: skip
        return Typed(type(node)(this=inner.expression), t.INT, inner.nullable)

    # --- helpers ---

    def _moment(self, node: exp.Literal, kind: Type) -> None:
        """A date or timestamp must be written out: engines read 'today' and short forms differently."""
        try:
            made = date.fromisoformat if kind == t.DATE else datetime.fromisoformat
            made(node.name)
        except ValueError as problem:
            raise self._fail(
                TypeMismatch, node, f"{node.name!r} is no {kind}",
                "write 2026-01-31, or 2026-01-31 12:30:00 for a timestamp",
            ) from problem  # fmt: skip

    def _need(self, node: Expr, typed: Typed, wanted: Type) -> None:
        if typed.type not in (wanted, t.NULL):
            raise self._fail(
                TypeMismatch, node,
                f"{said(node)} is {typed.type} where {wanted} is needed",
                f"use CAST({said(node)} AS {wanted})",
            )  # fmt: skip

    def _aligned(self, whole: Expr, parts: list[Expr]) -> list[Typed]:
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
                    self._moment(p.expression.this, moment)
        if self._common_or_none(typed) is None:
            kinds = ", ".join(str(k) for k in dict.fromkeys(p.type for p in typed))
            raise self._fail(
                TypeMismatch, whole, f"{said(whole)} mixes {kinds}",
                "use CAST to bring all to one type",
            )  # fmt: skip
        return typed

    def _common(self, parts: list[Typed]) -> Type:
        common = self._common_or_none(parts)
        assert common is not None  # _aligned refused it otherwise
        return common

    def _common_or_none(self, parts: list[Typed]) -> Type | None:
        common: Type | None = t.NULL
        for part in parts:
            common = t.widest(common, part.type) if common is not None else None
        return common


def _beside_decimal(part: Typed, other: Typed) -> Type:
    """An integer literal next to a decimal counts only the digits that it has, as Spark sees it."""
    bare = part.expression.unnest()
    literal = bare.this if isinstance(bare, exp.Neg) else bare
    if other.type.kind == "decimal" and part.type.is_integer and isinstance(literal, exp.Literal):
        return t.decimal(len(literal.name), 0)
    return part.type


def _same_on_every_engine(source: Type, target: Type) -> bool:
    """Whether a cast gives the same value everywhere: widening numbers, and text of exact values."""
    if source.is_numeric and target == t.DOUBLE:
        return True
    if source.is_exact and target.is_integer:
        return source.is_integer
    if source.is_exact and target.kind == "decimal":
        return True
    if target == t.STRING:
        return source.is_integer or source in (t.STRING, t.DATE)
    return source == t.DATE and target == t.TIMESTAMP
