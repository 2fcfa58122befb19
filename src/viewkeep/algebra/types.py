"""The types of columns: Spark's names and Spark's rules, on every engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sqlglot import exp

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_SIMPLE = {
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.TINYINT: "tinyint",
    exp.DataType.Type.SMALLINT: "smallint",
    exp.DataType.Type.INT: "int",
    exp.DataType.Type.BIGINT: "bigint",
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.TEXT: "string",
    exp.DataType.Type.VARCHAR: "string",
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
}
MAX_PRECISION = 38


@dataclass(frozen=True)
class Type:
    """A column type; `precision` and `scale` only for decimals, `element` only for arrays. `null` is the type
    of a bare NULL."""

    kind: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None

    def __str__(self) -> str:
        if self.kind == "array":
            return f"ARRAY<{self.element}>"
        if self.kind == "decimal":
            return f"DECIMAL({self.precision},{self.scale})"
        return self.kind.upper()

    @property
    def is_integer(self) -> bool:
        return self.kind in _INTEGERS

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.kind in ("decimal", "double")

    @property
    def is_exact(self) -> bool:
        return self.is_integer or self.kind == "decimal"

    def sql(self) -> exp.DataType:
        """The type as a syntax node, in no dialect yet."""
        return _written(str(self)).copy()


BOOLEAN = Type("boolean")
TINYINT, SMALLINT = Type("tinyint"), Type("smallint")
INT = Type("int")
BIGINT = Type("bigint")
DOUBLE = Type("double")
STRING = Type("string")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
NULL = Type("null")


def array(element: Type) -> Type:
    """An array, as aggregates make them; base tables have none that views can read."""
    return Type("array", element=element)


def decimal(precision: int, scale: int) -> Type:
    """A decimal cut to 38 digits the way Spark cuts: integer digits first, at least 6 of the scale."""
    if precision <= MAX_PRECISION:
        return Type("decimal", precision, scale)
    digits = precision - scale
    kept = max(MAX_PRECISION - digits, min(scale, 6))
    return Type("decimal", MAX_PRECISION, kept)


def from_sql(node: exp.DataType) -> Type | None:
    """The type that a syntax node names, or None where viewkeep has no such type."""
    if node.this == exp.DataType.Type.DECIMAL:
        sizes = [int(p.name) for p in node.expressions]
        precision, scale = sizes[0] if sizes else 10, sizes[1] if len(sizes) > 1 else 0
        return Type("decimal", precision, scale) if scale <= precision <= MAX_PRECISION else None
    kind = _SIMPLE.get(node.this)
    return Type(kind) if kind else None


@cache
def parse(text: str, dialect: str = "spark") -> Type | None:
    """The type that an engine's own description names, or None."""
    return from_sql(exp.DataType.build(text, dialect=dialect))


@cache
def _written(text: str) -> exp.DataType:
    """There are few types, and each is asked for again and again."""
    return exp.DataType.build(text, dialect="spark")


def as_decimal(type_: Type) -> Type:
    """The decimal that holds every value of an exact numeric type."""
    if type_.kind == "decimal":
        return type_
    return decimal(_INTEGER_DIGITS[type_.kind], 0)


def widest(left: Type, right: Type) -> Type | None:
    """The type that both sides of a comparison, a CASE or a COALESCE are brought to, or None."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if not (left.is_numeric and right.is_numeric):
        return TIMESTAMP if {left.kind, right.kind} == {"date", "timestamp"} else None
    if DOUBLE in (left, right):
        return DOUBLE
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda t: _INTEGERS.index(t.kind))
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale, b.scale)
    return decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def arithmetic(operator: type[exp.Expr], left: Type, right: Type) -> Type | None:
    """The type of `left operator right` by Spark's rules, or None where they do not combine."""
    if NULL in (left, right):
        return (
            arithmetic(operator, right, right)
            if left == NULL and right != NULL
            else (left if left == NULL else arithmetic(operator, left, left))
        )
    if not (left.is_numeric and right.is_numeric):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    if left.is_integer and right.is_integer:
        return DOUBLE if operator is exp.Div else widest(left, right)
    a, b = as_decimal(left), as_decimal(right)
    digits = max(a.precision - a.scale, b.precision - b.scale)
    scale = max(a.scale, b.scale)
    if operator in (exp.Add, exp.Sub):
        return decimal(digits + scale + 1, scale)
    if operator is exp.Mul:
        return decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if operator is exp.Div:
        fraction = max(6, a.scale + b.precision + 1)
        return decimal(a.precision - a.scale + b.scale + fraction, fraction)
    return decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def sum_type(argument: Type) -> Type:
    """The type of SUM over a type."""
    if argument.is_integer:
        return BIGINT
    if argument.kind == "decimal":
        return Type("decimal", min(MAX_PRECISION, argument.precision + 10), argument.scale)
    return DOUBLE


def avg_type(argument: Type) -> Type:
    """The type of AVG over a type."""
    if argument.kind == "decimal":
        return decimal(min(MAX_PRECISION, argument.precision + 4), min(MAX_PRECISION, argument.scale + 4))
    return DOUBLE
