"""The functions that views can call: what Spark calls them, what they take, what they give.

Two tables. `SIGNATURES` has an entry for every form of every function. `called` says which function a
syntax node calls, since sqlglot has classes of its own for most: LOCATE('a', s) and INSTR(s, 'a') are one.
A typed call is an `exp.Anonymous` named after the signature; each engine's dialect spells it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type

PREFIX = "vk_"  # of typed calls in plans
CAST, TRY_CAST = "cast", "try_cast"


@dataclass(frozen=True)
class Signature:
    """One form of a function. `name` is unique; `spark` is what Spark calls it."""

    name: str
    spark: str
    parameters: tuple[str, ...]
    result: Type | Callable[[Sequence[Type]], Type]
    may_be_null: bool = False  # even where no argument is
    optional: int = 0  # how many parameters at the end may be left out
    repeated: bool = False  # the last parameter any number of times

    def takes(self, types: Sequence[Type]) -> bool:
        """Whether arguments of these types fit."""
        wanted = self.parameters_for(len(types))
        return wanted is not None and all(fits(k, x) for k, x in zip(wanted, types, strict=True))

    def parameters_for(self, count: int) -> tuple[str, ...] | None:
        """The parameters of a call with so many arguments, or None."""
        most = len(self.parameters)
        if self.repeated and count >= most:
            return self.parameters + self.parameters[-1:] * (count - most)
        return self.parameters[:count] if most - self.optional <= count <= most else None

    def result_of(self, types: Sequence[Type]) -> Type:
        """The type of a call."""
        return self.result if isinstance(self.result, Type) else self.result(types)


# What a parameter takes. A number goes where a double is wanted, a date where a timestamp is and the other
# way round: Spark casts there too. Nothing else is cast unasked: Spark reads the string '1' as a number
# where one is wanted, and fails at run time for the string 'x'.
_INTS = ("tinyint", "smallint", "int")
_TAKES: Mapping[str, Callable[[Type], bool]] = {
    "string": lambda x: x == t.STRING,
    "boolean": lambda x: x == t.BOOLEAN,
    "int": lambda x: x.kind in _INTS,
    "bigint": lambda x: x.is_integer,
    "double": lambda x: x.is_numeric,
    "exactly double": lambda x: x == t.DOUBLE,
    "integer": lambda x: x.is_integer,
    "decimal": lambda x: x.kind == "decimal",
    "date": lambda x: x in (t.DATE, t.TIMESTAMP),
    "timestamp": lambda x: x in (t.DATE, t.TIMESTAMP),
    "literal": lambda x: True,  # a string or a whole number, written out
}
CAST_TO: Mapping[str, Type] = {
    "string": t.STRING, "boolean": t.BOOLEAN, "int": t.INT, "bigint": t.BIGINT, "double": t.DOUBLE,
    "exactly double": t.DOUBLE, "integer": t.INT, "date": t.DATE, "timestamp": t.TIMESTAMP,
}  # fmt: skip


def fits(parameter: str, type_: Type) -> bool:
    """Whether a value of the type can be given for the parameter; a bare NULL can for any."""
    return type_ == t.NULL or _TAKES[parameter](type_)


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _wider(types: Sequence[Type]) -> Type:
    found = t.widest(types[0], types[1])
    assert found is not None  # both are numbers
    return found


def _whole(types: Sequence[Type]) -> Type:
    """CEIL and FLOOR of DECIMAL(p,s): one more digit before the point, as 9.9 becomes 10."""
    return t.decimal(types[0].precision - types[0].scale + 1, 0)


def rounded(type_: Type, scale: int) -> Type:
    """ROUND of a decimal: one more digit before the point, as 9.96 becomes 10.0."""
    digits = type_.precision - type_.scale + 1
    if scale < 0:
        return Type("decimal", min(max(digits, -scale + 1), t.MAX_PRECISION), 0)
    kept = min(type_.scale, scale)
    return Type("decimal", min(digits + kept, t.MAX_PRECISION), kept)


def _table() -> Iterator[Signature]:
    def one(name: str, parameters: str, result: Any, spark: str = "", **more: Any) -> Signature:
        return Signature(name, spark or name, tuple(p for p in parameters.split(", ") if p), result, **more)

    # numbers
    yield one("sign", "double", t.DOUBLE)
    for name in ("ceil", "floor"):
        yield one(name + "_integer", "integer", t.BIGINT, spark=name)
        yield one(name + "_decimal", "decimal", _whole, spark=name)
        yield one(name + "_double", "exactly double", t.BIGINT, spark=name)
    yield one("sqrt", "double", t.DOUBLE)
    yield one("power", "double, double", t.DOUBLE)
    yield one("exp", "double", t.DOUBLE)
    yield one("ln", "double", t.DOUBLE, may_be_null=True)
    yield one("log", "double, double", t.DOUBLE, may_be_null=True)
    yield one("log2", "double", t.DOUBLE, may_be_null=True)
    yield one("log10", "double", t.DOUBLE, may_be_null=True)
    yield one("pmod", "integer, integer", _wider)
    yield one("isnan", "double", t.BOOLEAN)
    # strings
    for name in ("trim", "ltrim", "rtrim"):
        yield one(name, "string", t.STRING)
        yield one(name + "_of", "string, string", t.STRING, spark=name)
    yield one("length", "string", t.INT)
    yield one("substring", "string, int, int", t.STRING, optional=1)
    yield one("left", "string, int", t.STRING)
    yield one("right", "string, int", t.STRING)
    yield one("replace", "string, string, string", t.STRING, optional=1)
    yield one("translate", "string, string, string", t.STRING)
    yield one("lpad", "string, int, string", t.STRING, optional=1)
    yield one("rpad", "string, int, string", t.STRING, optional=1)
    yield one("repeat", "string, int", t.STRING)
    yield one("space", "int", t.STRING)
    yield one("reverse", "string", t.STRING)
    yield one("instr", "string, string", t.INT)
    yield one("startswith", "string, string", t.BOOLEAN)
    yield one("endswith", "string, string", t.BOOLEAN)
    yield one("contains", "string, string", t.BOOLEAN)
    yield one("split_part", "string, string, int", t.STRING)
    yield one("ascii", "string", t.INT)
    yield one("chr", "bigint", t.STRING)
    # dates
    yield one("date_add", "date, int", t.DATE)
    yield one("date_sub", "date, int", t.DATE)
    yield one("add_months", "date, int", t.DATE)
    yield one("datediff", "date, date", t.INT)
    for name in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"):
        yield one(name, "date", t.INT)
    for name in ("hour", "minute", "second"):
        yield one(name, "timestamp", t.INT)
    yield one("date_trunc", "literal, timestamp", t.TIMESTAMP)
    yield one("trunc", "date, literal", t.DATE)
    yield one("last_day", "date", t.DATE)
    yield one("make_date", "int, int, int", t.DATE)
    yield one("unix_date", "date", t.INT)
    yield one("date_from_unix_date", "int", t.DATE)
    yield one("date_format", "timestamp, literal", t.STRING)
    yield one("to_date", "string, literal", t.DATE)
    yield one("to_timestamp", "string, literal", t.TIMESTAMP)


SIGNATURES: Mapping[str, tuple[Signature, ...]] = {}
for _signature in _table():
    SIGNATURES = {
        **SIGNATURES,
        _signature.spark: (*SIGNATURES.get(_signature.spark, ()), _signature),
    }
SPARK_NAMES = {s.name: s.spark for forms in SIGNATURES.values() for s in forms}
# made by the typing of operators and of functions with rules of their own
SPARK_NAMES |= {"round_double": "round", "round_decimal": "round", "round_integer": "round",
                "shiftleft_int": "shiftleft", "shiftleft_bigint": "shiftleft",
                "shiftright_int": "shiftright", "shiftright_bigint": "shiftright",
                "concat_ws": "concat_ws", "greatest": "greatest", "least": "least",
                "size": "size", "get": "get", "element_at": "element_at", "sort_array": "sort_array",
                "array_contains": "array_contains", "array_join": "array_join", "array_min": "array_min",
                "array_max": "array_max", "percentile_cont": "percentile",
                "regr_slope": "regr_slope", "corr": "corr", "unix_timestamp": "unix_timestamp"}  # fmt: skip

_ALIASES = {
    "day": ("dayofmonth",), "length": ("char_length", "character_length", "len"), "power": ("pow",),
    "instr": ("position",), "chr": ("char",), "datediff": ("date_diff",), "date_add": ("dateadd",),
    "trim": ("btrim",), "substring": ("substr",), "sign": ("signum",), "ceil": ("ceiling",),
}  # fmt: skip
_NAMED = ("isnull", "isnotnull", "positive", "bool", "zeroifnull", "nullifzero", "date_part",
          "cardinality", "every", "some", "std")  # fmt: skip
_CANONICAL = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}

# the aggregate that is a list of columns; see cofactor.py
COFACTOR = "cofactor"
# what a categorical argument of it is marked by
CATEGORY = "category"

# every name in views that is one of a function of the table, or of those that the typing knows
BUILT_IN = frozenset({*SIGNATURES, *_CANONICAL, *SPARK_NAMES.values(), *_NAMED})

# Functions whose value is another each time, or in each session, by the names that sqlglot has no class for.
CHANGING = frozenset(
    [
        "now",
        "rand",
        "random",
        "randn",
        "uuid",
        "randstr",
        "uniform",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "session_user",
        "user",
        "current_database",
        "current_schema",
        "current_catalog",
        "current_timezone",
        "current_date",
        "current_timestamp",
        "current_time",
        "curdate",
        "localtimestamp",
        "unix_timestamp",
        "version",
    ]
)

# sqlglot's class -> Spark's name and the parts of the node that are its arguments, in order
_NODES: Mapping[type[Expr], tuple[str, tuple[str, ...]]] = {
    exp.Sign: ("sign", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Pow: ("power", ("this", "expression")),
    exp.Exp: ("exp", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.IsNan: ("isnan", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Space: ("space", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.StrPosition: ("instr", ("this", "substr")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.EndsWith: ("endswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Ascii: ("ascii", ("this",)),
    exp.AddMonths: ("add_months", ("this", "expression")),
    exp.DateDiff: ("datediff", ("this", "expression")),
    exp.Year: ("year", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfYear: ("dayofyear", ("this",)),
    exp.WeekOfYear: ("weekofyear", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.LastDay: ("last_day", ("this",)),
    exp.UnixDate: ("unix_date", ("this",)),
    exp.DateFromUnixDate: ("date_from_unix_date", ("this",)),
}
_PARTS = {
    "year": "year", "years": "year", "yr": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "months": "month", "mon": "month", "week": "weekofyear", "weeks": "weekofyear",
    "w": "weekofyear", "day": "day", "days": "day", "d": "day", "dayofweek": "dayofweek", "dow": "dayofweek",
    "doy": "dayofyear", "hour": "hour", "hours": "hour", "minute": "minute", "minutes": "minute",
}  # fmt: skip
_UNITS = {
    "year": "YEAR", "yyyy": "YEAR", "yy": "YEAR", "quarter": "QUARTER", "month": "MONTH", "mon": "MONTH",
    "mm": "MONTH", "week": "WEEK", "day": "DAY", "dd": "DAY", "hour": "HOUR", "minute": "MINUTE",
    "second": "SECOND",
}  # fmt: skip
_DATE_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK")


def called(node: Expr) -> tuple[str, list[Expr]] | None:
    """The function that a syntax node calls, as Spark names it, and its arguments; None for none of these."""
    simple = _NODES.get(type(node))
    if simple is not None:
        name, keys = simple
        given = [key for key, value in node.args.items() if value is not None]
        if not set(given) <= set(keys):
            return None  # a part that is not read here might mean anything
        return name, [_bare(node.args[key]) for key in keys if key in given]
    other = _OTHERS.get(type(node))
    return other(node) if other is not None else None


def _bare(node: Expr) -> Expr:
    """Without the wrappers that sqlglot puts around arguments of date functions."""
    wrapped = isinstance(node, (exp.TsOrDsToDate, exp.TimeStrToTime, exp.TsOrDsToTimestamp))
    plain = wrapped and {k for k, v in node.args.items() if v} == {"this"}
    return node.this if plain else node


def _anonymous(node: Expr) -> tuple[str, list[Expr]] | None:
    name = node.name.lower()
    if name == "date_part" and len(node.expressions) == 2 and isinstance(node.expressions[0], exp.Literal):
        part = _PARTS.get(node.expressions[0].name.lower())
        return (part, [node.expressions[1]]) if part else None
    name = _CANONICAL.get(name, name)
    return (name, [_bare(e) for e in node.expressions]) if name in SIGNATURES else None


def _trim(node: Expr) -> tuple[str, list[Expr]] | None:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return name, [node.this] + ([node.expression] if node.args.get("expression") else [])


def _pad(node: Expr) -> tuple[str, list[Expr]] | None:
    parts = [node.this, node.expression, node.args.get("fill_pattern")]
    return ("lpad" if node.args.get("is_left") else "rpad"), [p for p in parts if p is not None]


def _log(node: Expr) -> tuple[str, list[Expr]] | None:
    if node.args.get("expression") is None:
        return "ln", [node.this]
    base = node.this
    if isinstance(base, exp.Literal) and base.name in ("2", "10"):
        return "log" + base.name, [node.expression]
    return "log", [base, node.expression]


def _chr(node: Expr) -> tuple[str, list[Expr]] | None:
    return ("chr", list(node.expressions)) if not node.args.get("charset") else None


def _added_days(node: Expr) -> tuple[str, list[Expr]] | None:
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() != "DAY":
        return None
    days = node.expression
    if isinstance(days, exp.Mul) and days.expression == exp.Neg(this=exp.Literal.number(1)):
        return "date_sub", [_bare(node.this), days.this]  # how sqlglot reads DATE_SUB
    return "date_add", [_bare(node.this), days]


def _extract(node: Expr) -> tuple[str, list[Expr]] | None:
    part = _PARTS.get(node.this.name.lower())  # SECOND is left out: in Spark it has a fraction
    return (part, [_bare(node.expression)]) if part else None


def _date_trunc(node: Expr) -> tuple[str, list[Expr]] | None:
    unit = _UNITS.get(node.args["unit"].name.lower()) if node.args.get("unit") else None
    if unit is None or node.args.get("zone"):
        return None
    return "date_trunc", [exp.Literal.string(unit), _bare(node.this)]


def _trunc(node: Expr) -> tuple[str, list[Expr]] | None:
    unit = _UNITS.get(node.args["unit"].name.lower()) if node.args.get("unit") else None
    if unit not in _DATE_UNITS or not isinstance(node.args["unit"], exp.Literal):
        return None
    return "trunc", [_bare(node.this), exp.Literal.string(unit)]


_OTHERS: Mapping[type[Expr], Callable[[Expr], tuple[str, list[Expr]] | None]] = {
    exp.Anonymous: _anonymous,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Log: _log,
    exp.Chr: _chr,
    exp.TsOrDsAdd: _added_days,
    exp.Extract: _extract,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _trunc,
}


# --- patterns of dates ---

# the letters of Spark's patterns that mean the same everywhere, with sqlglot's word and the digits they have
PATTERN = {
    "yyyy": (r"%Y", 4), "MM": (r"%mstrict", 2), "dd": (r"%dstrict", 2), "HH": (r"%Hstrict", 2),
    "mm": (r"%Mstrict", 2), "ss": (r"%Sstrict", 2),
}  # fmt: skip
_PIECES = re.compile(r"yyyy|MM|dd|HH|mm|ss|[A-Za-z']+|[^A-Za-z']+")


def pieces(pattern: str) -> list[str] | None:
    """A date pattern in its pieces, or None where it has letters that engines might read differently."""
    found = _PIECES.findall(pattern)
    clear = all(p in PATTERN or not re.match(r"[A-Za-z'#\[\]{}]", p) for p in found)
    return found if clear and not re.search(r"[#\[\]{}]", pattern) else None


def spark_pattern(word: str) -> str:
    """A pattern as the user wrote it, from what sqlglot made of it."""
    for letters, (code, _) in PATTERN.items():
        word = word.replace(code, letters)
    return word


# --- functions of the user's own ---


@dataclass(frozen=True)
class UserFunction:
    """A deterministic Python function that was registered under a name."""

    name: str
    arguments: tuple[Type, ...]
    returns: Type


_registered: ContextVar[Mapping[str, UserFunction]] = ContextVar("registered")


@contextmanager
def registered(functions: Mapping[str, UserFunction]) -> Iterator[None]:
    """Within, views can call these functions, by lower-case name."""
    token = _registered.set(functions)
    try:
        yield
    finally:
        _registered.reset(token)


def is_built_in(name: str) -> bool:
    """Whether SQL has a function of that name already, in views or elsewhere."""
    upper = name.upper()
    parser = Dialect.get_or_raise("spark").parser_class
    return (
        name.lower() in CHANGING | BUILT_IN | {COFACTOR, CATEGORY}
        or name.lower().startswith(("vk_", "viewkeep_"))
        or upper in {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}
    )


def user_function(name: str) -> UserFunction | None:
    """The registered function of that name."""
    return _registered.get({}).get(name.lower())
