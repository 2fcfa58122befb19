"""Python functions of the user's in views: results of the declared type, on every engine alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewkeep.algebra.types import Type


def exactly(function: Callable[..., Any], returns: Type) -> Callable[..., Any]:
    """The function, with results of exactly the declared type; others raise a TypeError.

    Spark makes NULL of an int where a DOUBLE was declared, DuckDB makes a double. What is made here refers to
    nothing of viewkeep's, so that Spark can send it to machines that do not have viewkeep.
    """
    import datetime
    import decimal
    import operator

    kind, scale = returns.kind, returns.scale
    classes = {"string": str, "boolean": bool, "date": datetime.date, "timestamp": datetime.datetime}

    def converted(value: Any) -> Any:
        if kind == "double":
            return float(value)
        if kind == "decimal":
            exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
            with decimal.localcontext(prec=60):
                return exact.quantize(decimal.Decimal(1).scaleb(-scale), rounding=decimal.ROUND_HALF_UP)
        if kind not in classes:
            return operator.index(value)
        moment_for_date = kind == "date" and isinstance(value, datetime.datetime)
        if not isinstance(value, classes[kind]) or moment_for_date:
            raise TypeError(f"the function gave {value!r}, which is no {kind}")
        return value

    def call(*given: Any) -> Any:
        value = function(*given)
        return None if value is None else converted(value)

    return call
