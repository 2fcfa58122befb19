"""What a compiled view tells of itself: which targets are read, and by which columns they are looked up."""

from __future__ import annotations

from ..helpers import COST, SPJ, compiled


def test_rows_that_diffs_name_are_not_read() -> None:
    assert compiled(SPJ).read_targets() == frozenset()
    assert compiled(COST).read_targets() == {"cache_1", "rows"}, "sums are of values that are looked up"


def test_what_updates_look_for_comes_first() -> None:
    """A device is only removed by its ID; a part's price changes by the part's."""
    assert compiled(COST).lookups() == {"cache_1": ("p_pid", "did"), "rows": ("did",)}
    assert compiled(SPJ, strategy="tuple").lookups() == {"rows": ()}, "a row is named by all its IDs"
