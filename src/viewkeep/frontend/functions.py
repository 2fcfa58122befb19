"""The functions that views can call: what Spark calls them, what they take, what they give.

Two tables. `SIGNATURES` (signatures.py) has an entry for every form of every function. `called` says which
function a syntax node calls, since sqlglot has classes of its own for most: LOCATE('a', s) and INSTR(s, 'a')
are one. A typed call is an `exp.Anonymous` named after the signature; each engine's dialect spells it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.types import Type
from viewkeep.frontend.signatures import SIGNATURES, SPARK_NAMES

PREFIX = "vk_"  # of typed calls in plans
CAST, TRY_CAST = "cast", "try_cast"


_ALIASES = {
    "day": ("dayofmonth",), "length": ("char_length", "character_length", "len"), "power": ("pow",),
    "instr": ("position",), "chr": ("char",), "datediff": ("date_diff",), "date_add": ("dateadd",),
    "trim": ("btrim",), "substring": ("substr",), "sign": ("signum",), "ceil": ("ceiling",),
    "sha1": ("sha",),
}  # fmt: skip
_NAMED = ("datepart", "regexp", "e", "isnull", "isnotnull", "positive", "zeroifnull", "nullifzero",
          "date_part", "cardinality", "every", "some", "std")  # fmt: skip
_CANONICAL = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}

# the aggregate that is a list of columns; see cofactor.py
COFACTOR = "cofactor"
# what a categorical argument of it is marked by
CATEGORY = "category"

# functions that cast, beside those that sqlglot reads as casts
CASTS: Mapping[str, Type] = {
    "bigint": t.BIGINT, "smallint": t.SMALLINT, "tinyint": t.TINYINT, "decimal": t.decimal(10, 0),
    "boolean": t.BOOLEAN, "bool": t.BOOLEAN,
}  # fmt: skip

# every name in views that is one of a function of the table, or of those that the typing knows
BUILT_IN = frozenset({*SIGNATURES, *_CANONICAL, *SPARK_NAMES.values(), *_NAMED, *CASTS})

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
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Sin: ("sin", ("this",)),
    exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)),
    exp.Asin: ("asin", ("this",)),
    exp.Acos: ("acos", ("this",)),
    exp.Atan: ("atan", ("this",)),
    exp.Atan2: ("atan2", ("this", "expression")),
    exp.BitwiseCount: ("bit_count", ("this",)),
    exp.Hex: ("hex", ("this",)),
    exp.MD5: ("md5", ("this",)),
    exp.SHA: ("sha1", ("this",)),
    exp.BitLength: ("bit_length", ("this",)),
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
    exp.UnixSeconds: ("unix_seconds", ("this",)),
    exp.UnixMillis: ("unix_millis", ("this",)),
    exp.UnixMicros: ("unix_micros", ("this",)),
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
# how many microseconds functions that make timestamps count in, and the first and last of the years 1 to 9999
MICROS = {"seconds": 1_000_000, "millis": 1_000, "micros": 1}
EDGES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DATE_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK")


def called(node: Expr) -> tuple[str, list[Expr]] | None:
    """The function that a syntax node calls, as Spark names it, and its arguments; None for none of these."""
    simple = _NODES.get(type(node))
    if simple is not None:
        name, keys = simple
        given = [key for key, value in node.args.items() if value is not None]
        if not set(given) <= set(keys):
            return None  # a part that is not read here might mean anything
        return name, [bare(node.args[key]) for key in keys if key in given]
    other = _OTHERS.get(type(node))
    return other(node) if other is not None else None


def bare(node: Expr) -> Expr:
    """Without the wrappers that sqlglot puts around arguments of date functions."""
    wrapped = isinstance(node, (exp.TsOrDsToDate, exp.TimeStrToTime, exp.TsOrDsToTimestamp))
    plain = wrapped and {k for k, v in node.args.items() if v} == {"this"}
    return node.this if plain else node


def _anonymous(node: Expr) -> tuple[str, list[Expr]] | None:
    name = node.name.lower()
    name = _CANONICAL.get(name, name)
    return (name, [bare(e) for e in node.expressions]) if name in SIGNATURES else None


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
        return "date_sub", [bare(node.this), days.this]  # how sqlglot reads DATE_SUB
    return "date_add", [bare(node.this), days]


def _extract(node: Expr) -> tuple[str, list[Expr]] | None:
    part = _PARTS.get(node.this.name.lower())
    return (part, [bare(node.expression)]) if part else None


def _initcap(node: Expr) -> tuple[str, list[Expr]] | None:
    return "initcap", [node.this]  # sqlglot says what is between words, which Spark's cannot


def _sha2(node: Expr) -> tuple[str, list[Expr]] | None:
    bits = node.args.get("length")
    if not isinstance(bits, exp.Literal) or bits.name not in ("0", "224", "256", "384", "512"):
        return None
    return "sha2", [node.this, exp.Literal.number("256" if bits.name == "0" else bits.name)]


def _date_trunc(node: Expr) -> tuple[str, list[Expr]] | None:
    unit = _UNITS.get(node.args["unit"].name.lower()) if node.args.get("unit") else None
    if unit is None or node.args.get("zone"):
        return None
    return "date_trunc", [exp.Literal.string(unit), bare(node.this)]


def _trunc(node: Expr) -> tuple[str, list[Expr]] | None:
    unit = _UNITS.get(node.args["unit"].name.lower()) if node.args.get("unit") else None
    if unit not in _DATE_UNITS or not isinstance(node.args["unit"], exp.Literal):
        return None
    return "trunc", [bare(node.this), exp.Literal.string(unit)]


_OTHERS: Mapping[type[Expr], Callable[[Expr], tuple[str, list[Expr]] | None]] = {
    exp.Anonymous: _anonymous,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Log: _log,
    exp.Chr: _chr,
    exp.TsOrDsAdd: _added_days,
    exp.Extract: _extract,
    exp.Initcap: _initcap,
    exp.SHA2: _sha2,
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


# letters of DATE_FORMAT that are written in other words, longest first, with sqlglot's
_SPELLED = {
    "MMMM": "%B", "MMM": "%b", "EEEE": "%A", "E": "%a", "M": "%-m", "d": "%-d", "H": "%-H", "hh": "%Istrict",
    "h": "%-I", "a": "%p",
}  # fmt: skip
# in quotes are only letters that sqlglot leaves alone: it reads 'at' as a pattern
_FORM = re.compile(r"%[A-Za-z]strict|%-?[A-Za-z]|'%z'|'[TQWU ,.:-]+'|[^A-Za-z'%#\[\]{}]+|.", re.DOTALL)


def forms(word: str) -> list[str] | None:
    """The pieces of a pattern that sqlglot has read, as Spark has them; None where a piece is none of those
    that are known."""
    letters = {code: spelled for spelled, code in _SPELLED.items()}
    letters |= {code: plain for plain, (code, _) in PATTERN.items()} | {"'%z'": "'Z'"}
    made = [letters.get(piece, piece) for piece in _FORM.findall(word)]
    known = all(
        p in letters.values() or p[0] == "'" != p or not re.match(r"[A-Za-z'%#\[\]{}]", p) for p in made
    )
    return made if known else None


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
