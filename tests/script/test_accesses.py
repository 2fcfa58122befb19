"""The paper's cost model: what is derived from counts, and what is estimated for the chooser."""

from __future__ import annotations

import pytest

from tests.helpers import COST, SPJ, compiled, script
from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import Stored
from viewkeep.script.accesses import Accesses, Parameters, derived, estimated
from viewkeep.script.cost import Sizes

TABLES = {"parts": 1_000, "devices": 500, "links": 10_000}


def sizes(looked_up: bool, fanout: float = 1.0) -> Sizes:
    def found(leaf: Scan | Stored, column: str) -> bool:
        return looked_up

    return Sizes(TABLES, {"rows": 7_000, "cache_1": 9_000}, found, lambda leaf, column: fanout)


def test_the_speedups_of_the_paper() -> None:
    # equations 1 and 2 of appendix A, and the loss of inserts
    assert Parameters(a=31, p=2, g=1, k=0, grouped=False).speedup == (31 + 2 * 2) / (1 + 2)
    assert Parameters(a=31, p=2, g=0.5, k=0, grouped=True).speedup == (31 + 2) / (1 + 2 + 2)
    assert Parameters(a=31, p=0, g=0.5, k=4, grouped=True).speedup == (31 + 4) / (31 + 4 + 4)


def test_parameters_come_from_counts() -> None:
    by_ids = Accesses(counted=1_400, changes=200, viewed=380, cached=400)
    by_tuples = Accesses(counted=200 * 31 + 2 * 380, changes=200, viewed=380)
    found = derived(by_ids, by_tuples)
    assert found == Parameters(a=31, p=2, g=0.95, k=0, grouped=True)
    # the model's cost of ID-based maintenance is what was counted
    assert found.id_based * 200 == pytest.approx(200 + 400 + 2 * 380)


def test_without_a_cache_the_view_has_the_rows() -> None:
    by_ids = Accesses(counted=600, changes=200, viewed=400)
    found = derived(by_ids, Accesses(counted=200 * 10 + 800, changes=200, viewed=400))
    assert found == Parameters(a=10, p=2, g=1, k=0, grouped=False)


def test_a_cache_that_the_change_does_not_reach_is_none() -> None:
    """A column that is joined with an aggregate, and not aggregated itself."""
    counts = Accesses(counted=600, changes=200, viewed=400, cached=0)
    found = derived(counts, Accesses(counted=200 * 10 + 800, changes=200, viewed=400))
    assert found == Parameters(a=10, p=2, g=1, k=0, grouped=False)


def test_rows_that_are_new_in_the_cache_are_told_apart() -> None:
    by_ids = Accesses(counted=0, changes=100, viewed=300, cached=300, inserted=200)
    found = derived(by_ids, Accesses(counted=100 * 9 + 600, changes=100, viewed=300))
    assert (found.p, found.k, found.a) == (1, 2, 9) if found else False


def test_nothing_is_derived_from_no_change() -> None:
    nothing = Accesses(0, 0, 0)
    assert derived(nothing, nothing) is None


def test_a_diff_alone_is_free() -> None:
    assert estimated(script(compiled(SPJ), parts="update:price"), sizes(True), 10) == 0


def test_lookups_grow_with_the_change_and_scans_do_not() -> None:
    update = script(compiled(COST), parts="update:price")
    assert estimated(update, sizes(False), 10) == estimated(update, sizes(False), 1_000) == 9_000 + 7_000
    # a lookup and the rows it finds, in the cache and among the groups
    assert estimated(update, sizes(True, fanout=3), 10) == 2 * 10 * (1 + 3)
    assert estimated(update, sizes(True, fanout=3), 20) == 2 * 20 * (1 + 3)
