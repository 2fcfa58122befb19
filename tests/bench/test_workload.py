"""Sizes of changes, as users write them."""

from __future__ import annotations

import pytest

from viewkeep.bench.workload import Size, size_of
from viewkeep.errors import Unsupported


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("200", Size(200)),
        ("9000", Size(5000)),
        ("0.1%", Size(5, 0.001)),
        ("1%", Size(50, 0.01)),
        ("0.0001%", Size(1, 0.000001)),
        ("100%", Size(5000, 1)),
    ],
)
def test_a_size_is_a_number_of_rows_or_a_share_of_them(text: str, size: Size) -> None:
    assert size_of(text, 5000) == size


@pytest.mark.parametrize("text", ["", "many", "1.5", "0", "-1", "0%", "101%", "nan%", "%"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        size_of(text, 5000)


def test_a_size_prints_as_it_was_asked_for() -> None:
    assert str(Size(2000)) == "2,000 changed rows"
    assert str(Size(7500, 0.001)) == "0.1% (7,500 changed rows)"
