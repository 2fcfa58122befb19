"""Signed images: which aggregates sum them, what they read, and where a row that never was must not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import changes, compiled, fired, nodes, reads, script, table
from viewkeep.algebra.nodes import Aggregate, Scan
from viewkeep.algebra.script_nodes import BaseDiff, Images, SemiJoin

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
SUM = "SELECT r.a, SUM(s.a) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a"
MAX = "SELECT r.a, MAX(s.a) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.a"


def images(query: str, **kinds: str) -> list[str]:
    made = nodes(script(compiled(query, [R, S]), **kinds), Images)
    return [n.scan.alias for n in made if isinstance(n, Images)]


def states(query: str, **kinds: str) -> set[tuple[str, str]]:
    made = nodes(script(compiled(query, [R, S]), **kinds), Scan)
    return {(n.alias, n.state) for n in made if isinstance(n, Scan)}


@pytest.mark.parametrize("kind", ["insert", "delete", "update:a", "insert delete update:a update:b"])
def test_one_changed_table_is_joined_once_with_the_other_as_it_is(kind: str) -> None:
    assert images(SUM, r=kind) == ["r"]
    assert states(SUM, r=kind) == {("s", "post")}


def test_of_two_changed_tables_one_is_read_as_it_was() -> None:
    kinds = {"r": "update:b", "s": "insert"}
    assert sorted(images(SUM, **kinds)) == ["r", "s"]
    assert states(SUM, **kinds) == {("s", "post"), ("r", "pre")}


def test_a_change_that_no_scan_looks_at_has_no_image() -> None:
    assert images("SELECT r.a, COUNT(*) AS n FROM r GROUP BY r.a", r="update:b") == []


def test_a_table_that_is_joined_with_itself_has_two_images() -> None:
    query = "SELECT x.a, COUNT(*) AS n FROM r AS x JOIN r AS y ON x.a = y.b GROUP BY x.a"
    assert sorted(images(query, r="insert")) == ["x", "y"]
    assert states(query, r="insert") == {("y", "post"), ("x", "pre")}


def test_an_extreme_over_one_changed_table() -> None:
    assert images(MAX, s="insert") == ["s"]


def test_an_extreme_over_two_changed_tables_is_not_summed_from_images() -> None:
    # r.b and s.b move from 1 to 2 together: the old r meets the new s in one part, and never did
    assert images(MAX, r="update:b", s="update:b") == []
    assert nodes(script(compiled(MAX, [R, S]), r="update:b", s="update:b"), BaseDiff)


def test_each_part_of_a_union_is_a_leaf_of_its_own() -> None:
    query = "SELECT a, COUNT(*) AS n FROM (SELECT a FROM r UNION ALL SELECT b FROM s) AS u GROUP BY a"
    assert sorted(images(query, r="insert", s="delete")) == ["r", "s"]
    assert states(query, r="insert", s="delete") == set()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.a, COUNT(s.k) AS n FROM r LEFT JOIN s ON r.b = s.b GROUP BY r.a",
        "SELECT a, COUNT(*) AS n FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.b = r.b) GROUP BY a",
    ],
)
def test_not_through_outer_joins_and_marks_that_change(query: str) -> None:
    assert images(query, s="insert") == []
    assert fired(compiled(query, [R, S]), Aggregate, s="insert")


def test_over_an_outer_join_that_does_not_change() -> None:
    query = (
        "SELECT x.a, COUNT(*) AS n FROM r AS x JOIN (SELECT p.a FROM s AS p LEFT JOIN s AS q ON p.a = q.b) AS y "
        "ON x.a = y.a GROUP BY x.a"
    )
    assert set(images(query, r="insert")) == {"x"}


def test_the_changes_of_an_inner_aggregate_are_images() -> None:
    query = "SELECT n, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) AS c GROUP BY n"
    made = script(compiled(query, [R, S]), r="insert")
    assert reads(made) == {"stored cache_1", "stored rows"}
    assert nodes(made, SemiJoin) == []


U = table("u", "k INT, a INT", "k")


def test_tables_that_do_not_change_are_joined_once() -> None:
    query = "SELECT s.a, COUNT(*) AS n FROM r JOIN u ON r.a = u.a JOIN s ON s.b = r.b GROUP BY s.a"
    made = script(compiled(query, [R, S, U]), r="insert", s="insert")
    assert [n.alias for n in nodes(made, Scan) if isinstance(n, Scan)].count("u") == 1
    # with the relations that change joined first, where a condition is between them
    apart = "SELECT s.a, COUNT(*) AS n FROM r JOIN u ON r.a = u.a JOIN s ON s.b = u.k GROUP BY s.a"
    made = script(compiled(apart, [R, S, U]), r="insert", s="insert")
    assert [n.alias for n in nodes(made, Scan) if isinstance(n, Scan)].count("u") == 2


def test_engines_that_are_at_hand_compute_the_images_by_themselves() -> None:
    query = "SELECT s.a, COUNT(*) AS n FROM r JOIN u ON r.a = u.a JOIN s ON s.b = r.b GROUP BY s.a"
    view = compiled(query, [R, S, U])
    kinds = {"r": "insert", "s": "insert"}
    assert "images" not in script(view, **kinds).by_name
    at_hand = replace(view, locates=True, _scripts={})
    assert "images" in script(at_hand, **kinds).by_name
    assert "images" not in script(at_hand, r="insert").by_name  # one table: there is nothing to put together


def test_what_was_compiled_for_other_kinds_is_another_script() -> None:
    view = compiled(SUM, [R, S])
    assert view.script(changes(r="insert")) is not view.script(changes(s="insert"))
