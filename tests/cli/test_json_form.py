"""Values in JSON: exact, or a string."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from viewkeep.cli.json_form import value


@pytest.mark.parametrize(
    ("v", "expected"),
    [
        (None, None),
        (True, True),
        ("text", "text"),
        (1, 1),
        (1.5, 1.5),
        (2**53, 2**53),
        (-(2**53), -(2**53)),
        (2**53 + 1, "9007199254740993"),
        (-(2**53) - 1, "-9007199254740993"),
        (Decimal("21.00"), "21.00"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0E-8"), "0.00000000"),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
        (datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2024-01-02T03:04:05.000006+00:00"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ([1, Decimal("2.0")], [1, "2.0"]),
        ({"a": date(2024, 1, 2)}, {"a": "2024-01-02"}),
    ],
)
def test_value(v: Any, expected: Any) -> None:
    assert value(v) == expected
    assert type(value(v)) is type(expected)
