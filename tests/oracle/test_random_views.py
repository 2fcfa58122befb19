"""Random tables, views and batches: the maintained view equals the recomputed one, id- and tuple-based, and
when it loses its caches on the way.

A case is a view with its series of batches. Several views share a database and its batches. With those over
tables without a key (test_bags.py) a run has more than 3,000.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from hypothesis import given, seed

from viewkeep.chooser import Choice
from viewkeep.engines.transactional import refresh

from .backend import independent_cases
from .grammar import Case, cases
from .harness import STRATEGIES, replay

CASES = int(os.environ.get("VIEWKEEP_FUZZ_CASES", "2640"))
FIXED = "VIEWKEEP_FUZZ_CASES" not in os.environ
SHARDS = 6
VIEWS_A_DATABASE = 5.6  # on average there are a few more


@contextmanager
def _indexes_on_everything() -> Iterator[None]:
    """As over large tables, where stored rows and rows of base tables are looked up by index."""
    with (
        patch.object(refresh, "WORTH_AN_INDEX", 0),
        patch.object(refresh, "LARGE_TABLE", 0),
        patch.object(refresh, "ROWS_A_VALUE", 0),
        patch.object(refresh.Refresher, "_is_selective", lambda *_: True),
    ):
        yield


@contextmanager
def _without_caches_from_the_second_refresh() -> Iterator[None]:
    """As where tuple-based diffs turn out to be cheaper: views are kept by them that were made for others."""
    refreshed: set[str] = set()

    def weigh(view: Any, *_: Any, lean: Callable[[], Any], **__: Any) -> Choice:
        drop = view.name in refreshed and lean() is not None
        refreshed.add(view.name)
        return Choice(False, "as if it were cheaper" if drop else "", caches=not drop)

    with patch.object(refresh, "weigh", weigh):
        yield


# How shards differ from those that keep each view by both strategies: of these there are more than 1,000 cases.
# Where rows are found by an index, and where caches go, a view is kept in one way.
FORMS = {
    2: (_without_caches_from_the_second_refresh, {"lean": "auto"}),
    3: (_indexes_on_everything, {"id": "id"}),
    6: (_indexes_on_everything, {"tuple": "tuple"}),
}


def shard(number: int) -> Callable[[], None]:
    """A part of the cases, so that parts can run side by side. A test run draws the same cases each time;
    `make fuzz` draws others."""
    tally: Counter[str] = Counter()
    form, copies = FORMS.get(number, (nullcontext, STRATEGIES))

    @independent_cases(max(1, round(CASES / SHARDS / VIEWS_A_DATABASE)))
    @given(case=cases())
    def maintained_equals_recomputed(case: Case) -> None:
        with form():
            tally.update(replay(case, copies))

    draw = seed(number)(maintained_equals_recomputed) if FIXED else maintained_equals_recomputed

    def test() -> None:
        draw()
        if FIXED:
            assert tally["views"] >= CASES / SHARDS, f"too few cases: {tally}"
            assert tally["full"] == 0, f"a small change needs no full recompute: {tally}"
            kept = tally["id"] + tally["tuple"] + tally["groups"]
            assert kept >= tally["views"] * len(copies) / 2, f"too few changes: {tally}"

    return test


test_shard_1, test_shard_2, test_shard_3, test_shard_4, test_shard_5, test_shard_6 = map(
    shard, range(1, SHARDS + 1)
)
