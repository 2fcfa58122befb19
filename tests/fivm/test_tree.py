"""View trees: their views, what is stored, and the ways of changes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm.order import chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import Indicator, Leaf, Step, View, ViewTree, affecting, cyclic_core, view_tree

from .cases import SHAPES, cases, random_query, random_tree

PAPER = "A - {B, C - {D, E}}"


def views(tree: ViewTree) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {view.name: (view.keys, view.summed) for view in tree.views()}


def stored(tree: ViewTree) -> set[str]:
    return {source.name for source in tree.stored()}


@cases(300)
def test_every_tree_is_sound(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    tree = random_tree(random, query)
    leaves = [leaf.name for view in tree.views() for leaf in view.children if isinstance(leaf, Leaf)]
    assert sorted(leaves) == sorted(r.name for r in query.relations)  # each relation once
    summed = [v for view in tree.views() for v in view.summed]
    assert sorted(summed) == sorted(query.bound)  # each bound variable once
    assert tree.root.keys == query.free
    names = [view.name for view in tree.views()]
    assert len(set(names)) == len(names)
    for view in tree.views():
        joined = {v for source in view.sources for v in source.keys}
        assert joined == set(view.variables)
        for variable in view.summed:  # nothing outside still needs it
            outside = [r for r in query.relations if r.name not in view.relations]
            assert all(variable not in r.schema for r in outside)
        for indicator in view.indicators:
            assert indicator.relation.name not in view.relations
            assert set(indicator.keys) <= set(view.keys)


@cases(200)
def test_what_changes_are_joined_with_is_stored_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    tree = random_tree(random, random_query(random))
    needed = {tree.root}
    for relation in tree.updatable:
        for way in tree.paths(relation):
            for step in way:
                needed |= set(step.siblings)
    assert set(tree.stored()) == needed
    assert len(tree.stored()) == len(needed)


@cases(100)
def test_ways_lead_from_each_leaf_and_indicator_to_the_root(seed: int) -> None:
    random = Random(seed)
    tree = random_tree(random, random_query(random))
    for relation in tree.query.relations:
        first, *more = tree.paths(relation.name)
        assert isinstance(first[0].source, Leaf)
        assert all(isinstance(way[0].source, Indicator) for way in more)
        places = sum(i.relation == relation for view in tree.views() for i in view.indicators)
        assert len(more) == places
        for way in (first, *more):
            assert way[-1].view == tree.root
            assert all(a.view == b.source for a, b in pairwise(way))


def test_the_tree_of_figure_2() -> None:
    tree = view_tree(given(Query(SHAPES[0]), PAPER))
    assert views(tree) == {
        "V_R@B": (("A",), ("B",)),
        "V_T@D": (("C",), ("D",)),
        "V_S@E": (("A", "C"), ("E",)),
        "V_T_S@C": (("A",), ("C",)),
        "V_R_T_S@A": ((), ("A",)),
    }
    assert str(tree).splitlines() == [
        "V_R_T_S@A[] = ⊕ A  stored",
        "├─ V_R@B[A] = ⊕ B  stored",
        "│  └─ R[A, B]",
        "└─ V_T_S@C[A] = ⊕ C  stored",
        "   ├─ V_T@D[C] = ⊕ D  stored",
        "   │  └─ T[C, D]",
        "   └─ V_S@E[A, C] = ⊕ E  stored",
        "      └─ S[A, C, E]",
    ]


def test_example_4_2() -> None:
    order = given(Query(SHAPES[0]), PAPER)
    assert stored(view_tree(order, ["T"])) == {"V_R_T_S@A", "V_S@E", "V_R@B"}
    everything = {"V_R_T_S@A", "V_S@E", "V_R@B", "V_T_S@C", "V_T@D"}
    assert stored(view_tree(order, ["R", "S", "T"])) == everything
    assert stored(view_tree(order, [])) == {"V_R_T_S@A"}
    # example 1.1: R alone needs the join of S and T; S alone V_R and V_T
    assert stored(view_tree(order, ["R"])) == {"V_R_T_S@A", "V_T_S@C"}
    assert stored(view_tree(order, ["S"])) == {"V_R_T_S@A", "V_R@B", "V_T@D"}


def test_chains_are_composed_and_equal_views_are_one() -> None:
    wide = Query((Relation("R", ("A", "B", "C", "D")), Relation("S", ("A",))))
    assert views(view_tree(given(wide, "A - B - C - D"))) == {
        "V_R@B": (("A",), ("D", "C", "B")),
        "V_R_S@A": ((), ("A",)),
    }
    free = Query(SHAPES[0], ("A", "C"))
    tree = view_tree(given(free, "A - C - {B, D, E}"))
    assert views(tree) == {  # the views at A and C are the same
        "V_R@B": (("A",), ("B",)),
        "V_T@D": (("C",), ("D",)),
        "V_S@E": (("A", "C"), ("E",)),
        "V_R_T_S@A": (("A", "C"), ()),
    }


def test_a_cartesian_product_has_a_root_of_its_own() -> None:
    tree = view_tree(given(Query(SHAPES[8], ("D", "A")), "B - A, C - D"))
    assert tree.root == View("V_R_S_T@", ("D", "A"), (), tree.root.children)
    assert len(tree.root.children) == 2


def test_indicators_of_the_triangle() -> None:
    """Example B.3."""
    order = given(Query(SHAPES[1]), "A - B - C")
    tree = view_tree(order)
    joined = next(view for view in tree.views() if view.summed == ("C",))
    assert joined.indicators == (Indicator(SHAPES[1][0], ("A", "B")),)
    assert tree.root.indicators == ()
    assert [way[0].source.name for way in tree.paths("R")] == ["R", "∃R"]
    assert affecting(joined) == {"R", "S", "T"}
    assert all(not view.indicators for view in view_tree(order, indicators=False).views())
    assert Step(joined, 2).siblings == joined.children


def test_a_chord_is_an_indicator_in_both_triangles() -> None:
    tree = view_tree(given(Query(SHAPES[4]), "A - C - {B, D}"))
    marked = {view.summed: [i.name for i in view.indicators] for view in tree.views()}
    assert marked[("B",)] == ["∃W"]
    assert marked[("D",)] == ["∃W"]


def test_acyclic_queries_have_no_indicators() -> None:
    for shape in (SHAPES[0], SHAPES[8], SHAPES[9], SHAPES[3][:3]):
        assert all(not view.indicators for view in view_tree(chosen(Query(shape))).views())


def test_the_cyclic_core() -> None:
    def core(*edges: str) -> set[int]:
        return cyclic_core([frozenset(edge) for edge in edges])

    assert core("AB", "BC", "CA") == {0, 1, 2}
    assert core("AB", "BC", "CA", "CD") == {0, 1, 2}
    assert core("AB", "BC", "CD") == set()
    assert core("AB", "BC", "CA", "ABC") == set()  # covered by one edge
    assert core("AB", "BC", "CD", "DA") == {0, 1, 2, 3}
    assert len(core("AB", "AB", "BC", "CA")) == 3  # one of two equal edges is enough
    assert core() == set()


def test_a_relation_that_is_not_there_cannot_be_updatable() -> None:
    with pytest.raises(Unsupported, match="no relation X"):
        view_tree(given(Query(SHAPES[0]), PAPER), ["X"])
