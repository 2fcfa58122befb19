"""The type of every scalar expression a view may use, by Spark's rules; all else is refused with a place.

A whitelist on purpose: what is not here might mean something else on another engine, or change its mind
between two refreshes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.errors import TypeMismatch, UnknownFunction, Unsupported, ViewkeepError
from viewkeep.frontend import functions
from viewkeep.frontend.regex import portable

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
NON_DETERMINISTIC = (
    exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid,
    exp.CurrentUser, exp.Localtimestamp, exp.CurrentCatalog, exp.CurrentDatabase,
    exp.CurrentSchema, exp.SessionUser, exp.Randstr, exp.CurrentTimezone, exp.CurrentVersion,
)  # fmt: skip
SUBQUERIES = (exp.Subquery, exp.Exists, exp.Select, exp.Any, exp.All)


# the arguments of syntax nodes that this module reads; `safe`, `typed` and `big_int` only mark a dialect
_READ = {
    "this", "expression", "expressions", "low", "high", "symmetric", "ifs", "default", "true", "false", "to",
    "start", "length", "position", "is_string", "quoted", "table", "query", "unnest", "safe", "typed",
    "big_int", "negate", "decimals", "format", "coalesce", "flatten", "ignore_nulls",
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


def mean(kind: Type, total: Expr, count: Expr) -> Expr:
    """AVG of values of a type, from their sum and how many there are; NULL where there is none."""
    if kind.kind == "decimal":
        result = decimal_quotient(total, t.sum_type(kind), count, t.BIGINT, t.avg_type(kind))
    else:
        sides = [exp.Cast(this=side.copy(), to=t.DOUBLE.sql()) for side in (total, count)]
        result = exp.Div(this=sides[0], expression=sides[1])
    some = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=result)])


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
        if "typed" in node.meta:
            return Typed(node, *node.meta["typed"])
        call = functions.called(node)
        if call is not None:
            return self._call(node, *call)
        if isinstance(node, exp.Anonymous) and not node.meta.get("made"):
            return self._named(node)
        # sqlglot may hang meaning anywhere, as NOT on a LIKE; what is not read is refused
        if {key for key, value in node.args.items() if value} - _READ:
            raise self._refusal(node)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            typed: Typed = method(node)
            return typed
        if isinstance(node, COMPARISONS):
            return self._comparison(node)
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node)
        if isinstance(node, BITWISE):
            return self._bitwise(node)
        if isinstance(node, SHIFTS):
            return self._shift(node)
        raise self._refusal(node)

    def _refusal(self, node: Expr) -> ViewkeepError:
        if node.find(*NON_DETERMINISTIC):
            return self._changing(node)
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

    def _changing(self, node: Expr) -> ViewkeepError:
        return self._fail(
            Unsupported, node,
            f"{said(node)} gives another value each time, so no stored view can equal it",
            "store the value in a column when the row is written",
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

    def _like(self, node: Expr, escape: str = "\\") -> Typed:
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self._like_several(node, escape)
        value, pattern = self.type(node.this), self.type(node.expression)
        self._need(node.this, value, t.STRING)
        self._need(node.expression, pattern, t.STRING)
        if not isinstance(node.expression, exp.Literal) or not _escapes_well(node.expression.name, escape):
            raise self._fail(
                Unsupported, node, "LIKE needs a literal pattern, and only %, _ and \\ can be escaped in it",
                "write the pattern as a string with % and _",
            )  # fmt: skip
        sides: list[Expr] = [value.expression, pattern.expression]
        if isinstance(node, exp.ILike):  # as Spark defines it
            sides = [exp.Lower(this=side) for side in sides]
        made: Expr = exp.Like(this=_bracketed(sides[0]), expression=sides[1])
        if escape in node.expression.name:
            made = exp.Escape(this=made, expression=exp.Literal.string(escape))
        if node.args.get("negate"):
            made = exp.Not(this=made)
        return Typed(made, t.BOOLEAN, value.nullable)

    _ilike = _like

    def _like_several(self, node: Expr, escape: str) -> Typed:
        """LIKE ANY and LIKE ALL: one LIKE for each pattern."""
        patterns = node.expression.this.unnest()
        listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
        each = [
            self._like(type(node)(this=node.this.copy(), expression=one.copy()), escape) for one in listed
        ]
        joined = each[0].expression
        kind = exp.Or if isinstance(node.expression, exp.Any) else exp.And
        for more in each[1:]:
            joined = kind(this=joined, expression=more.expression)
        made: Expr = exp.Paren(this=joined)
        if node.args.get("negate"):
            raise self._fail(
                Unsupported, node, "NOT LIKE ANY and NOT LIKE ALL are easily misread",
                "write NOT (s LIKE ANY (...))",
            )  # fmt: skip
        return Typed(made, t.BOOLEAN, each[0].nullable)

    def _escape(self, node: exp.Escape) -> Typed:
        mark = node.expression
        if not isinstance(node.this, (exp.Like, exp.ILike)) or len(mark.name) != 1 or mark.name in "%_":
            raise self._refusal(node)
        return self._like(node.this, mark.name)

    def _regexplike(self, node: exp.RegexpLike) -> Typed:
        value = self.type(node.this)
        self._need(node.this, value, t.STRING)
        pattern = node.expression
        ours = portable(pattern.name) if isinstance(pattern, exp.Literal) and pattern.is_string else None
        if ours is None:
            raise self._fail(
                Unsupported, node, "this regular expression might mean different things on different engines",
                "use a literal pattern of letters, digits, . ^ $ | * + ? {n,m} ( ) [...], \\\\d \\\\w \\\\s",
            )  # fmt: skip
        return made_call(
            "rlike", [value.expression, pattern, exp.Literal.string(ours)], t.BOOLEAN, value.nullable
        )

    # --- values ---

    def _arithmetic(self, node: Expr) -> Typed:
        if isinstance(node, (exp.Add, exp.Sub)) and node.find(exp.Interval):
            return self._shifted(node)
        left, right = self.type(node.this), self.type(node.expression)
        if t.DATE in (left.type, right.type):
            return self._days(node, left, right)
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
        if isinstance(node, exp.Mod) and result == t.DOUBLE:  # by zero it fails, which is not so everywhere
            sides = [self._cast_to(side, t.DOUBLE) for side in (left, right)]
            made = made_call("mod_double", sides, result, True).expression
        return Typed(made, result, left.nullable or right.nullable)

    def _shifted(self, node: Expr) -> Typed:
        """A date or timestamp plus or minus an interval that is written out."""
        swap = isinstance(node, exp.Add) and isinstance(node.this.unnest(), exp.Interval)
        value, interval = (node.expression, node.this) if swap else (node.this, node.expression)
        bare = interval.unnest()
        unit, count = self._interval(bare) if isinstance(bare, exp.Interval) else ("", 0)
        if not unit:
            raise self._fail(
                Unsupported, node, f"{said(interval)} is not an interval of one unit",
                "add one unit at a time: + INTERVAL '1' MONTH + INTERVAL '2' DAY",
            )  # fmt: skip
        moment = self.type(value)
        if moment.type not in (t.DATE, t.TIMESTAMP):
            raise self._fail(
                TypeMismatch, node, f"{said(node)} combines {moment.type} with an interval",
                "use a DATE or TIMESTAMP",
            )  # fmt: skip
        stays = moment.type == t.DATE and unit in ("MONTH", "DAY")
        of = moment.expression if stays else self._cast_to(moment, t.TIMESTAMP)
        kind = type(node) if count >= 0 else (exp.Sub if isinstance(node, exp.Add) else exp.Add)
        made: Expr = kind(
            this=_bracketed(of),
            expression=exp.Interval(this=exp.Literal.string(str(abs(count))), unit=exp.Var(this=unit)),
        )
        if stays:  # DuckDB makes it a timestamp
            made = exp.Cast(this=made, to=t.DATE.sql())
        return Typed(made, t.DATE if stays else t.TIMESTAMP, moment.nullable)

    def _interval(self, node: exp.Interval) -> tuple[str, int]:
        """The unit and how many of it; no unit where it is none that is understood."""
        unit = node.args.get("unit")
        number = node.this.name if isinstance(node.this, exp.Literal) else ""
        word = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
        digits = number.removeprefix("-").removeprefix("+")
        if word not in _IN_UNITS or not digits.isdigit() or len(digits) > 6:
            return "", 0
        plain, factor = _IN_UNITS[word]
        return plain, int(number) * factor

    def _days(self, node: Expr, left: Typed, right: Typed) -> Typed:
        """date + days, days + date, date - days, as DATE_ADD and DATE_SUB."""
        if isinstance(node, exp.Add) and left.type != t.DATE:
            left, right = right, left
        if not (
            isinstance(node, (exp.Add, exp.Sub)) and left.type == t.DATE and functions.fits("int", right.type)
        ):
            raise self._fail(
                TypeMismatch, node, f"{said(node)} combines {left.type} with {right.type}",
                "use DATEDIFF for days between dates, DATE_ADD or an INTERVAL to move one",
            )  # fmt: skip
        name = "date_add" if isinstance(node, exp.Add) else "date_sub"
        parts = [left.expression, self._cast_to(right, t.INT)]
        return made_call(name, parts, t.DATE, left.nullable or right.nullable)

    def _intdiv(self, node: exp.IntDiv) -> Typed:
        left, right = self.type(node.this), self.type(node.expression)
        for part, side in ((node.this, left), (node.expression, right)):
            if not functions.fits("bigint", side.type):
                raise self._fail(
                    TypeMismatch, part, f"DIV needs integers, not {side.type}", "use CAST, or FLOOR and /"
                )
        sides = [self._cast_to(side, t.BIGINT) for side in (left, right)]
        return made_call("div", sides, t.BIGINT, left.nullable or right.nullable)

    def _bitwise(self, node: Expr) -> Typed:
        for part in (node.this, node.expression):
            if isinstance(part, (*BITWISE, *SHIFTS)) and type(part) is not type(node):
                raise self._fail(  # sqlglot reads a | b & c from left to right; Spark reads & first
                    Unsupported, node, "which of &, ^, | and shifts comes first is not clear here",
                    "put brackets around one of them",
                )  # fmt: skip
        left, right = self._integers(node, [node.this, node.expression])
        result = t.widest(left.type, right.type)
        assert result is not None  # both are integers
        sides = [exp.Cast(this=side.expression, to=result.sql()) for side in (left, right)]
        name = f"bit{node.key.removeprefix('bitwise')}"
        return made_call(name, sides, result, left.nullable or right.nullable)

    def _bitwisenot(self, node: exp.BitwiseNot) -> Typed:
        (inner,) = self._integers(node, [node.this])
        return Typed(exp.BitwiseNot(this=_bracketed(inner.expression)), inner.type, inner.nullable)

    def _shift(self, node: Expr) -> Typed:
        value, count = self._integers(node, [node.this, node.expression])
        if count.type == t.BIGINT:
            raise self._fail(TypeMismatch, node, "a shift is by an INT, not BIGINT", "use CAST")
        result = t.BIGINT if value.type == t.BIGINT else t.INT
        name = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
        sides = [self._cast_to(value, result), self._cast_to(count, t.INT)]
        return made_call(f"{name}_{result.kind}", sides, result, value.nullable or count.nullable)

    def _integers(self, whole: Expr, parts: list[Expr]) -> list[Typed]:
        typed = [self.type(part) for part in parts]
        for part, its in zip(parts, typed, strict=True):
            if not its.type.is_integer:
                raise self._fail(
                    TypeMismatch, part, f"{said(whole)} needs integers, not {its.type}", "use CAST"
                )
        return typed

    def _neg(self, node: exp.Neg) -> Typed:
        inner = self.type(node.this)
        if not inner.type.is_numeric:
            raise self._fail(TypeMismatch, node, f"- needs a number, not {inner.type}", "use CAST")
        made: Expr = exp.Neg(this=_bracketed(inner.expression))
        if isinstance(node.this, exp.Literal):  # Spark reads the minus as a part of the number
            for digits, narrow in (("2147483648", t.INT), ("9223372036854775808", t.BIGINT)):
                if node.this.name == digits:
                    return Typed(exp.Cast(this=made, to=narrow.sql()), narrow, False)
        return Typed(made, inner.type, inner.nullable)

    _negative = _neg

    def _round(self, node: exp.Round) -> Typed:
        inner, places = self.type(node.this), node.args.get("decimals")
        scale = _whole_number(places) if places is not None else 0
        if not inner.type.is_numeric:
            raise self._fail(TypeMismatch, node, f"ROUND needs a number, not {inner.type}", "use CAST")
        if scale is None or not -18 <= scale <= 18:
            raise self._fail(
                Unsupported, node, "ROUND needs a literal number of digits, from -18 to 18", "ROUND(x, 2)"
            )
        digits = exp.Literal.number(scale)
        if inner.type.is_integer:
            if scale >= 0:
                return inner
            kind = exp.Literal.string(str(inner.type))
            return made_call("round_integer", [inner.expression, digits, kind], inner.type, inner.nullable)
        if inner.type == t.DOUBLE:
            return made_call("round_double", [inner.expression, digits], t.DOUBLE, inner.nullable)
        result = functions.rounded(inner.type, scale)
        kind = exp.Literal.string(str(result))
        return made_call("round_decimal", [inner.expression, digits, kind], result, inner.nullable)

    def _extreme(self, node: Expr) -> Typed:
        if not node.expressions:
            raise self._refusal(node)
        parts = self._aligned(node, [node.this, *node.expressions])
        return made_call(
            node.key, [p.expression for p in parts], self._common(parts), all(p.nullable for p in parts)
        )

    _greatest = _extreme
    _least = _extreme

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

    def _nvl2(self, node: exp.Nvl2) -> Typed:
        test = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
        branch = exp.If(this=test, true=node.args["true"].copy())
        return self._case(exp.Case(ifs=[branch], default=node.args["false"].copy()))

    # --- casts ---

    def _trycast(self, node: exp.TryCast) -> Typed:
        # sqlglot reads CAST as this too; `safe` tells TRY_CAST, which is NULL where CAST fails
        return self._cast(node, attempt=bool(node.args.get("safe")))

    def _cast(self, node: exp.Cast, attempt: bool = False) -> Typed:
        inner = self.type(node.this)
        target = t.from_sql(node.to)
        if target is None:
            raise self._fail(
                Unsupported, node, f"viewkeep has no type {node.to.sql('spark')}",
                "use BOOLEAN, an integer type, DOUBLE, DECIMAL, STRING, DATE or TIMESTAMP",
            )  # fmt: skip
        literal = isinstance(node.this, exp.Literal) and target in (t.DATE, t.TIMESTAMP)
        if literal and inner.type == t.STRING and not attempt:
            self._moment(node.this, target)
            return Typed(exp.Cast(this=inner.expression, to=target.sql()), target, False)
        if not castable(inner.type, target) or (attempt and target == t.TIMESTAMP and inner.type == t.STRING):
            raise self._fail(
                Unsupported, node,
                f"{'TRY_' if attempt else ''}CAST from {inner.type} to {target} differs between engines",
                "ROUND or CAST to DECIMAL first" if inner.type == t.DOUBLE else "store the column so",
            )  # fmt: skip
        if attempt and inner.type not in (t.NULL, target):
            kinds = [exp.Literal.string(str(kind)) for kind in (inner.type, target)]
            return made_call(functions.TRY_CAST, [inner.expression, *kinds], target, True)
        nullable = inner.nullable or (inner.type == t.DOUBLE and target.kind == "decimal")  # of NaN
        return Typed(self._cast_to(inner, target), target, nullable)

    def _cast_to(self, value: Typed, target: Type) -> Expr:
        """The value in another type that it can be cast to."""
        if value.type == target:
            return value.expression
        if value.type == t.NULL or _same_on_every_engine(value.type, target):
            return exp.Cast(this=value.expression, to=target.sql())
        kinds = [exp.Literal.string(str(kind)) for kind in (value.type, target)]
        return made_call(functions.CAST, [value.expression, *kinds], target, value.nullable).expression

    # --- functions ---

    def _call(self, node: Expr, name: str, arguments: Sequence[Expr]) -> Typed:
        """A function of the table."""
        typed = [
            Typed(a, t.STRING, False) if isinstance(a, exp.Literal) and a.is_string else self.type(a)
            for a in arguments
        ]
        forms = functions.SIGNATURES[name]
        form = next((f for f in forms if f.takes([x.type for x in typed])), None)
        if form is None and (form := next((f for f in forms if f.parameters_for(len(typed))), None)):
            wanted = form.parameters_for(len(typed)) or ()
            typed = [
                self._read_as(part, its, k) for part, its, k in zip(arguments, typed, wanted, strict=True)
            ]
            form = next((f for f in forms if f.takes([x.type for x in typed])), None)
            for part, its, k in zip(arguments, typed, wanted, strict=True):
                if form is None and not functions.fits(k, its.type):
                    kind = functions.CAST_TO.get(k, t.decimal(10, 2))
                    raise self._fail(
                        TypeMismatch, part, f"{name.upper()} needs {k.upper()} here, not {its.type}",
                        f"use CAST({said(part)} AS {kind})",
                    )  # fmt: skip
        if form is None:
            counts = " or ".join(f"{len(f.parameters)}" for f in forms)
            raise self._fail(
                Unsupported, node, f"{name.upper()} takes {counts} arguments here",
                "see docs/reference/sql.md for the forms of functions that views can have",
            )  # fmt: skip
        wanted = form.parameters_for(len(typed)) or ()
        parts = [
            self._cast_to(x, functions.CAST_TO[k]) if self._needs_cast(k, x) else x.expression
            for k, x in zip(wanted, typed, strict=True)
        ]
        result = form.result_of([x.type for x in typed])
        return made_call(form.name, parts, result, form.may_be_null or any(x.nullable for x in typed))

    def _needs_cast(self, parameter: str, value: Typed) -> bool:
        if value.type == t.NULL:
            return parameter in functions.CAST_TO
        return parameter in ("int", "bigint", "double", "date", "timestamp")

    def _read_as(self, node: Expr, typed: Typed, parameter: str) -> Typed:
        """A string literal where a date is wanted, as that date."""
        kind = functions.CAST_TO.get(parameter)
        if not (isinstance(node, exp.Literal) and node.is_string and kind in (t.DATE, t.TIMESTAMP)):
            return typed
        self._moment(node, kind)
        return Typed(exp.Cast(this=node.copy(), to=kind.sql()), kind, False)

    def _named(self, node: exp.Anonymous) -> Typed:
        """A function that sqlglot has no class for: one with rules of its own, the user's, or none."""
        name, given = node.name.lower(), node.expressions
        if name in functions.CHANGING:
            raise self._changing(node)
        if name in ("isnull", "isnotnull") and len(given) == 1:
            test: Expr = exp.Is(this=given[0].copy(), expression=exp.Null())
            return self.type(test if name == "isnull" else exp.Not(this=test))
        if name in ("positive", "bool") and len(given) == 1:
            if name == "bool":
                return self._cast(exp.Cast(this=given[0].copy(), to=t.BOOLEAN.sql()))
            return self.type(given[0])
        if name == "zeroifnull" and len(given) == 1:
            return self.type(exp.Coalesce(this=given[0].copy(), expressions=[exp.Literal.number(0)]))
        if name == "nullifzero" and len(given) == 1:
            return self.type(exp.Nullif(this=given[0].copy(), expression=exp.Literal.number(0)))
        own = functions.user_function(name)
        if own is None:
            raise self._fail(
                UnknownFunction, node, f"views have no function {node.name}",
                f"if it is yours, call register_function({node.name!r}, ...) on this connection first; "
                "docs/reference/sql.md lists those that there are",
            )  # fmt: skip
        if len(given) != len(own.arguments):
            raise self._fail(
                TypeMismatch, node, f"{own.name} takes {len(own.arguments)} arguments, not {len(given)}",
                "give as many as it was registered with",
            )  # fmt: skip
        parts = []
        for part, wanted in zip(given, own.arguments, strict=True):
            its = self.type(part)
            if t.widest(its.type, wanted) != wanted:
                self._need(part, its, wanted)
            parts.append(self._cast_to(its, wanted))
        made = exp.Anonymous(this=own.name, expressions=parts)
        made.meta.update(node.meta, made=True, typed=(own.returns, True))
        return Typed(made, own.returns, True)

    def _text_function(self, node: Expr) -> Typed:
        inner = self.type(node.this)
        self._need(node.this, inner, t.STRING)
        return Typed(type(node)(this=inner.expression), t.STRING, inner.nullable)

    _lower = _text_function
    _upper = _text_function

    def _concatws(self, node: exp.ConcatWs) -> Typed:
        typed = [self.type(part) for part in node.expressions]
        for part, its in zip(node.expressions, typed, strict=True):
            self._need(part, its, t.STRING)
        parts = [self._cast_to(its, t.STRING) for its in typed]
        return made_call("concat_ws", parts, t.STRING, typed[0].nullable)

    def _timetostr(self, node: exp.TimeToStr) -> Typed:
        inner = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
        return self._call(node, "date_format", [inner, self._pattern(node, "yyyy MM dd HH mm ss")])

    def _tsordstodate(self, node: exp.TsOrDsToDate) -> Typed:
        if node.args.get("format") is None:
            return self._cast(exp.Cast(this=node.this.copy(), to=t.DATE.sql()))
        return self._call(node, "to_date", [node.this, self._pattern(node, "yyyy MM dd")])

    def _strtotime(self, node: exp.StrToTime) -> Typed:
        pattern = self._pattern(node, "yyyy MM dd HH mm ss")
        return self._call(node, "to_timestamp", [node.this, pattern])

    def _pattern(self, node: Expr, allowed: str) -> exp.Literal:
        given = node.args["format"]
        text = functions.spark_pattern(given.name) if isinstance(given, exp.Literal) else "%"
        found = functions.pieces(text)
        letters = [p for p in found or [] if p in functions.PATTERN]
        reads = not isinstance(node, exp.TimeToStr)
        # a date without a year is one of 1970, and of 'ddMM' engines make what they like
        whole = {"yyyy", "MM", "dd"} <= set(letters) if reads else True
        twice = len(set(letters)) < len(letters) and reads
        if found is None or "%" in text or not whole or twice or not set(letters) <= set(allowed.split()):
            raise self._fail(
                Unsupported, node, "this date pattern might mean different things on different engines",
                f"use a literal pattern of {allowed.replace(' ', ', ')} and signs between them",
            )  # fmt: skip
        return exp.Literal.string(text)

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


def castable(source: Type, target: Type) -> bool:
    """Whether the cast gives the same value everywhere, spelled right. Not: the text of a double, of which
    engines print different forms, and timestamps from numbers."""
    if source == t.NULL or source == target:
        return True
    if target == t.STRING:
        return source != t.DOUBLE
    if source.is_numeric or source == t.BOOLEAN:
        return target.is_numeric or target == t.BOOLEAN
    return source == t.STRING or {source, target} == {t.DATE, t.TIMESTAMP}


def _same_on_every_engine(source: Type, target: Type) -> bool:
    """Whether a plain CAST will do."""
    if source.is_exact and target == t.DOUBLE:
        return source.is_integer or source.precision <= 15  # more digits are divided in doubles by DuckDB
    if source.is_integer and target.is_integer:
        return True
    if source.is_exact and target.kind == "decimal":
        return True
    if target == t.STRING:
        return source.is_integer or source in (t.STRING, t.DATE, t.BOOLEAN)
    return {source, target} == {t.DATE, t.TIMESTAMP}


_IN_UNITS = {
    "YEAR": ("MONTH", 12), "QUARTER": ("", 0), "MONTH": ("MONTH", 1), "WEEK": ("DAY", 7), "DAY": ("DAY", 1),
    "HOUR": ("HOUR", 1), "MINUTE": ("MINUTE", 1), "SECOND": ("SECOND", 1),
}  # fmt: skip


def made_call(name: str, arguments: Sequence[Expr], result: Type, nullable: bool) -> Typed:
    """A call that each engine's dialect spells; its arguments have the types that it takes."""
    made = exp.Anonymous(this=functions.PREFIX + name, expressions=list(arguments))
    made.meta["made"] = True  # by us: a user cannot call it
    made.meta["typed"] = (result, nullable)
    return Typed(made, result, nullable)


def _bracketed(node: Expr) -> Expr:
    return exp.Paren(this=node) if isinstance(node, (exp.Binary, exp.Unary)) else node


def _whole_number(node: Expr) -> int | None:
    bare = node.unnest()
    sign = -1 if isinstance(bare, exp.Neg) else 1
    digits = (bare.this if isinstance(bare, exp.Neg) else bare).name
    return sign * int(digits) if digits.isdigit() else None


def _escapes_well(pattern: str, escape: str) -> bool:
    """Spark fails for an escape before anything but %, _ and itself."""
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in ("%", "_", escape):
                return False
            at += 1
        at += 1
    return True
