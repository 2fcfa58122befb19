"""Windows: touched partitions are computed anew; updates of what no window looks at pass."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, reads, script, table
from viewkeep.algebra.nodes import Window

R = table("r", "k INT, a INT, b INT, c INT", "k")
VIEW = "SELECT k, a, b, c, SUM(b) OVER (PARTITION BY a) AS s FROM r"
RANKED = "SELECT k, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM r"
RECOMPUTED = ["RecomputeTouchedPartitions"] * 3


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ("insert", RECOMPUTED),
        ("delete", RECOMPUTED),
        ("update:a", RECOMPUTED),
        ("update:b", RECOMPUTED),
        ("update:c", ["PassUpdatesThroughWindow"]),
        ("update:b update:c", ["PassUpdatesThroughWindow", *RECOMPUTED]),
        ("delete update:c", ["PassUpdatesThroughWindow", *RECOMPUTED]),
    ],
)
@pytest.mark.parametrize("view", [VIEW, RANKED])
def test_id_rules(view: str, kinds: str, rules: list[str]) -> None:
    assert fired(compiled(view, [R]), Window, r=kinds) == rules


@pytest.mark.parametrize("kinds", ["insert", "update:b", "update:c"])
def test_tuple_rules_compute_every_touched_partition_anew(kinds: str) -> None:
    assert set(fired(compiled(VIEW, [R], "tuple"), Window, r=kinds)) == {"RecomputeTouchedPartitions"}


def test_what_passes_reads_nothing() -> None:
    assert reads(script(compiled(RANKED, [R]), r="update:c")) == set()


def test_a_row_that_moves_touches_the_partition_that_it_leaves_and_the_one_that_it_enters() -> None:
    made = script(compiled(VIEW, [R]), r="update:a")
    (partitions,) = [let.query for let in made.lets if let.name == "partitions"]
    assert len(partitions.inputs) == 2


def test_all_rows_of_a_partition_may_change_and_rows_keep_their_ids() -> None:
    _, rules = compiled(VIEW, [R]).instantiated(changes(r="insert"))
    found = {d.kind: d for n, d in rules if isinstance(n, Window)}
    assert set(found) == {"insert", "delete", "update"}
    assert all(d.ids == ("r_k",) for d in found.values())


def test_a_window_without_partitions_has_one() -> None:
    view = compiled("SELECT k, RANK() OVER (ORDER BY b) AS n FROM r", [R])
    assert fired(view, Window, r="insert") == RECOMPUTED
