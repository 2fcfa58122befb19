"""The table of functions: what they take and what they give, an entry for every form of every function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeep.algebra import types as t
from viewkeep.algebra.types import Type


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
    "exactly timestamp": lambda x: x == t.TIMESTAMP,
    "literal": lambda x: True,  # a string or a whole number, written out
}
CAST_TO: Mapping[str, Type] = {
    "string": t.STRING, "boolean": t.BOOLEAN, "int": t.INT, "bigint": t.BIGINT, "double": t.DOUBLE,
    "exactly double": t.DOUBLE, "integer": t.INT, "date": t.DATE, "timestamp": t.TIMESTAMP,
    "exactly timestamp": t.TIMESTAMP,
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
    for name in ("cbrt", "sin", "cos", "tan", "asin", "acos", "atan"):
        yield one(name, "double", t.DOUBLE)
    yield one("atan2", "double, double", t.DOUBLE)
    yield one("bit_count", "bigint", t.INT)
    yield one("hex_integer", "bigint", t.STRING, spark="hex")
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
    yield one("initcap", "string", t.STRING)
    yield one("hex_string", "string", t.STRING, spark="hex")
    yield one("md5", "string", t.STRING)
    yield one("sha1", "string", t.STRING)
    yield one("sha2", "string, literal", t.STRING)
    yield one("octet_length", "string", t.INT)
    yield one("bit_length", "string", t.INT)
    yield one("substring_index", "string, literal, literal", t.STRING)
    # dates
    yield one("date_add", "date, int", t.DATE)
    yield one("date_sub", "date, int", t.DATE)
    yield one("add_months", "date, int", t.DATE)
    yield one("datediff", "date, date", t.INT)
    for name in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"):
        yield one(name, "date", t.INT)
    for name in ("hour", "minute", "second"):
        yield one(name, "timestamp", t.INT)
    for name in ("unix_seconds", "unix_millis", "unix_micros"):
        yield one(name, "exactly timestamp", t.BIGINT)
    for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros"):
        yield one(name, "bigint", t.TIMESTAMP)
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
# functions of doubles of which the last digit is left to whoever computes them
APPROXIMATE = frozenset(
    {"power", "exp", "ln", "log", "log2", "log10", "cbrt"}
    | {"sin", "cos", "tan", "asin", "acos", "atan", "atan2"}
)
SPARK_NAMES = {s.name: s.spark for forms in SIGNATURES.values() for s in forms}
# made by the typing of operators and of functions with rules of their own
SPARK_NAMES |= {"round_double": "round", "round_decimal": "round", "round_integer": "round",
                "shiftleft_int": "shiftleft", "shiftleft_bigint": "shiftleft",
                "shiftright_int": "shiftright", "shiftright_bigint": "shiftright",
                "concat_ws": "concat_ws", "greatest": "greatest", "least": "least",
                "size": "size", "get": "get", "element_at": "element_at", "sort_array": "sort_array",
                "array_contains": "array_contains", "array_join": "array_join", "array_min": "array_min",
                "array_max": "array_max", "percentile_cont": "percentile",
                "regexp_replace": "regexp_replace", "regexp_extract": "regexp_extract",
                "regexp_count": "regexp_count", "split": "split",
                "regr_slope": "regr_slope", "corr": "corr", "unix_timestamp": "unix_timestamp"}  # fmt: skip
