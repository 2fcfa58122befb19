"""UNION ALL: a diff of a part is a diff of the union, and names its part."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, reads, script, table
from viewkeep.algebra.nodes import UnionAll

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
VIEW = "SELECT k, a FROM r UNION ALL SELECT k, b FROM s"


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        ({"r": "insert"}, 1),
        ({"s": "delete"}, 1),
        ({"r": "update:a"}, 1),
        ({"s": "update:b"}, 1),
        ({"r": "insert delete", "s": "update:b"}, 3),
    ],
)
@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_every_diff_passes_and_reads_nothing(kinds: dict[str, str], count: int, strategy: str) -> None:
    view = compiled(VIEW, [R, S], strategy)
    assert fired(view, UnionAll, **kinds) == ["PassThroughUnion"] * count
    assert reads(script(view, **kinds)) == set()


@pytest.mark.parametrize("kinds", [{"r": "update:b"}, {"s": "update:a"}])
def test_columns_that_no_part_selects_have_no_diff(kinds: dict[str, str]) -> None:
    assert fired(compiled(VIEW, [R, S]), UnionAll, **kinds) == []


def test_a_delete_of_one_part_does_not_reach_the_other() -> None:
    # both parts may have a row with k = 1
    _, rules = compiled(VIEW, [R, S]).instantiated(changes(r="delete", s="delete"))
    found = [d for n, d in rules if isinstance(n, UnionAll)]
    view = next(n for n, _ in rules if isinstance(n, UnionAll))
    assert len(found) == 2
    tags = set(view.ids) - {i for d in found for i in d.query.names if i.endswith("k")}
    assert all(tags & set(d.ids) for d in found), "no diff names its part"


def test_a_table_on_both_sides_has_a_diff_for_each() -> None:
    view = compiled("SELECT a FROM r WHERE a > 0 UNION ALL SELECT b FROM r WHERE b > 0", [R])
    assert fired(view, UnionAll, r="insert") == ["PassThroughUnion"] * 2
