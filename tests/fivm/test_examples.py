"""The worked examples of the F-IVM paper, with its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from viewkeep.fivm.enumeration import count, rows
from viewkeep.fivm.generic import GenericRuntime
from viewkeep.fivm.naive import recompute
from viewkeep.fivm.order import given
from viewkeep.fivm.plans import plans, run
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.regression import Cofactors, Regression, matrix
from viewkeep.fivm.relational import Factorized, listed, listing
from viewkeep.fivm.rings import Integers
from viewkeep.fivm.storage import Stored
from viewkeep.fivm.tree import Indicator, Leaf, View, ViewTree, view_tree

R, S, T = Relation("R", ("A", "B")), Relation("S", ("A", "C", "E")), Relation("T", ("C", "D"))
QUERY = Query((R, S, T))
ORDER = "A - {B, C - {D, E}}"


def figure_2(updatable: Any = None) -> ViewTree:
    return view_tree(given(QUERY, ORDER), updatable)


def database(names: bool = True) -> dict[str, Any]:
    """The database of figure 2: names as in the paper, or numbers that tell all of them apart."""

    def value(name: str) -> Any:
        return name if names else {"a": 1, "b": 10, "c": 100, "d": 1000, "e": 10000}[name[0]] * int(name[1])

    tables = {
        "R": ["a1 b1", "a1 b2", "a2 b3"],
        "S": ["a1 c1 e1", "a1 c1 e2", "a1 c2 e3", "a2 c2 e4"],
        "T": ["c1 d1", "c2 d2", "c2 d3", "c3 d4"],
    }
    return {t: [(tuple(map(value, row.split())), 1) for row in of] for t, of in tables.items()}


def test_the_page_on_rings_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "rings.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/rings.md", "exec"), names)
    assert names["revenue"].result() == {("south",): 10}


def test_example_2_1() -> None:
    """Union, join and aggregation of relations over a ring, here with r1 = 2, r2 = 3, s1 = 5, ..., t2 = 13."""
    tree = view_tree(
        given(Query((Relation("R", ("A", "B")), Relation("T", ("B", "C"))), ("B", "C")), "B - {A, C}")
    )
    runtime = GenericRuntime(tree, Integers(), {"A": lambda a: {"a1": 17, "a2": 19, "a3": 23}[a]})
    runtime.update("R", [(("a1", "b1"), 2), (("a2", "b1"), 3)])
    runtime.update("R", [(("a2", "b1"), 5), (("a3", "b2"), 7)])  # the union with S
    runtime.update("T", [(("b1", "c1"), 11), (("b2", "c2"), 13)])
    assert runtime.result() == {
        ("b1", "c1"): 2 * 11 * 17 + (3 + 5) * 11 * 19,
        ("b2", "c2"): 7 * 13 * 23,
    }


def test_example_2_3() -> None:
    """SUM(R.B * T.D * S.E) by A and C."""
    query = Query((R, S, T), ("A", "C"))
    tree = view_tree(given(query, "A - C - {B, D, E}"))
    identity = {v: lambda x: x for v in "BDE"}
    runtime = GenericRuntime(tree, Integers(), identity)
    runtime.load(database(names=False))
    assert runtime.result() == {
        (1, 100): (10 + 20) * 1000 * (10000 + 20000),
        (1, 200): (10 + 20) * (2000 + 3000) * 30000,
        (2, 200): 30 * (2000 + 3000) * 40000,
    }


def test_figure_2_count() -> None:
    runtime = GenericRuntime(figure_2(), Integers())
    runtime.load(database())
    assert runtime.view("V_R@B") == {("a1",): 2, ("a2",): 1}
    assert runtime.view("V_S@E") == {("a1", "c1"): 2, ("a1", "c2"): 1, ("a2", "c2"): 1}
    assert runtime.view("V_T@D") == {("c1",): 1, ("c2",): 2, ("c3",): 1}
    assert runtime.view("V_T_S@C") == {("a1",): 4, ("a2",): 2}
    assert runtime.result() == {(): 10}


def test_example_4_1() -> None:
    """The deltas of {(c1, d1) -> -1, (c2, d2) -> 3}, and the views after them."""
    tree = figure_2()
    runtime = GenericRuntime(tree, Integers())
    runtime.load(database())
    delta: dict[Any, int] = {("c1", "d1"): -1, ("c2", "d2"): 3}
    expected: list[dict[Any, int]] = [{("c1",): -1, ("c2",): 3}, {("a1",): 1, ("a2",): 3}, {(): 5}]
    (path,) = tree.paths("T")
    change = delta
    for step, wanted in zip(path, expected, strict=True):
        siblings = [runtime._state.get(("view", s.name)) for s in step.view.sources]
        change = run(plans(step.view, step.entering), change, siblings, Integers(), {}, lambda p: p)  # type: ignore[arg-type]
        assert change == wanted
    runtime.update("T", delta)
    assert runtime.result() == {(): 15}
    assert runtime.view("V_T@D") == {("c2",): 5, ("c3",): 1}  # c1 has gone
    assert runtime.view("V_T_S@C") == {("a1",): 5, ("a2",): 5}


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of lookups were taken so far; to ask how many there are does not count."""
    found = [0]
    original = Stored.matches

    class Counted(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            found[0] += len(self)
            return super().__iter__()

    def counted(self: Any, variables: Any, values: Any) -> Any:
        return Counted(original(self, variables, values))

    monkeypatch.setattr(Stored, "matches", counted)
    return found


@pytest.mark.parametrize("n", [10, 100])
def test_example_4_1_changes_of_r_and_s_take_constant_and_of_t_linear_time(
    n: int, matched: list[int]
) -> None:
    runtime = GenericRuntime(figure_2(), Integers())
    runtime.load(
        {"R": [((a, 0), 1) for a in range(n)], "S": [((a, 0, 0), 1) for a in range(n)], "T": [((0, 0), 1)]}
    )
    costs = {}
    for table, row in (("R", (5, 7)), ("S", (5, 0, 7)), ("T", (0, 7))):
        matched[0] = 0
        runtime.update(table, [(row, 1)])
        costs[table] = matched[0]
    assert costs == {"R": 1, "S": 2, "T": 2 * n}


def test_example_4_2_stored_views() -> None:
    only_t = GenericRuntime(figure_2(["T"]), Integers())
    only_t.load(database())
    assert set(only_t.sizes()) == {"V_R_T_S@A", "V_S@E", "V_R@B"}
    before = only_t.view("V_S@E"), only_t.view("V_R@B")
    only_t.update("T", [(("c1", "d1"), -1), (("c2", "d2"), 3)])
    assert only_t.result() == {(): 15}
    assert (only_t.view("V_S@E"), only_t.view("V_R@B")) == before  # only the root is maintained
    assert set(GenericRuntime(figure_2(), Integers()).sizes()) - set(only_t.sizes()) == {"V_T_S@C", "V_T@D"}
    assert set(GenericRuntime(figure_2([]), Integers()).sizes()) == {"V_R_T_S@A"}


def test_example_6_3() -> None:
    """Cofactors of degree five over figure 2."""
    ring = Regression(5)
    lifts = {v: ring.continuous(i) for i, v in enumerate("ABCDE")}
    runtime = GenericRuntime(figure_2(), ring, lifts)
    runtime.load(database(names=False))
    c1, c2, c3, (d1, d2, d3, d4), e4 = 100, 200, 300, (1000, 2000, 3000, 4000), 40000
    d = (3,)
    assert runtime.view("V_T@D") == {
        (c1,): Cofactors(1, {d: d1}, {(d, d): d1**2}),
        (c2,): Cofactors(2, {d: d2 + d3}, {(d, d): d2**2 + d3**2}),
        (c3,): Cofactors(1, {d: d4}, {(d, d): d4**2}),
    }
    c, e = (2,), (4,)
    assert runtime.view("V_T_S@C")[(2,)] == Cofactors(
        2,
        {c: 2 * c2, d: d2 + d3, e: 2 * e4},
        {
            (c, c): 2 * c2**2,
            (c, d): c2 * (d2 + d3),
            (c, e): 2 * c2 * e4,
            (d, d): d2**2 + d3**2,
            (d, e): (d2 + d3) * e4,
            (e, e): 2 * e4**2,
        },
    )
    names, dense = matrix(runtime.result()[()], "ABCDE")
    joined = recompute(
        Query((R, S, T), tuple("ABCDE")), Integers(), {t: dict(r) for t, r in database(False).items()}
    )
    assert names == ["1", *"ABCDE"]
    assert len(joined) == dense[0, 0] == 10
    for i in range(6):
        for j in range(6):
            assert dense[i, j] == sum((1, *row)[i] * (1, *row)[j] for row in joined)


def test_example_6_5() -> None:
    """The listing of Q(A, B, C, D), E bound: the payload at the root."""
    tree = figure_2()
    runtime = listed(tree, "ABCD")
    runtime.load(database())
    assert listing(runtime.view("V_S@E")[("a1", "c1")], "") == {(): 2}
    assert listing(runtime.view("V_T@D")[("c2",)], "D") == {("d2",): 1, ("d3",): 1}
    assert listing(runtime.view("V_T_S@C")[("a1",)], "CD") == {
        ("c1", "d1"): 2,
        ("c2", "d2"): 1,
        ("c2", "d3"): 1,
    }
    found = listing(runtime.result()[()], "ABCD")
    assert found == {
        ("a1", "b1", "c1", "d1"): 2,
        ("a1", "b2", "c1", "d1"): 2,
        ("a1", "b1", "c2", "d2"): 1,
        ("a1", "b2", "c2", "d2"): 1,
        ("a1", "b1", "c2", "d3"): 1,
        ("a1", "b2", "c2", "d3"): 1,
        ("a2", "b3", "c2", "d2"): 1,
        ("a2", "b3", "c2", "d3"): 1,
    }


def test_example_6_6() -> None:
    """The same result, factorized: each view has the values of its own variable."""
    runtime = Factorized(figure_2(), "ABCD")
    runtime.load(database())

    def payloads(view: str, variable: str) -> dict[Any, Any]:
        return {key: listing(p, variable) for key, p in runtime.view(view).items()}

    assert payloads("V_R_T_S@A", "A") == {(): {("a1",): 8, ("a2",): 2}}
    assert payloads("V_T_S@C", "C") == {("a1",): {("c1",): 2, ("c2",): 2}, ("a2",): {("c2",): 2}}
    assert payloads("V_R@B", "B") == {("a1",): {("b1",): 1, ("b2",): 1}, ("a2",): {("b3",): 1}}
    # the union of d2 and d3 is there once, though c2 is below both a1 and a2
    assert payloads("V_T@D", "D")[("c2",)] == {("d2",): 1, ("d3",): 1}
    listing_of = listed(figure_2(), "ABCD")
    listing_of.load(database())
    assert dict(rows(runtime, "ABCD")) == listing(listing_of.result()[()], "ABCD")
    # were D not free, only the unions of D-values would go
    without_d = Factorized(figure_2(), "ABC")
    without_d.load(database())
    assert without_d.view("V_R_T_S@A") == runtime.view("V_R_T_S@A")
    assert without_d.view("V_T_S@C") == runtime.view("V_T_S@C")
    assert listing(without_d.view("V_T@D")[("c2",)], "") == {(): 2}
    assert count(without_d) == count(runtime) == 10
    for each in (runtime, without_d):
        each.update("S", [(("a1", "c1", "e1"), -1), (("a2", "c1", "e9"), 1)])
    assert dict(rows(without_d, "ABC")) == {
        ("a1", "b1", "c1"): 1,
        ("a1", "b2", "c1"): 1,
        ("a1", "b1", "c2"): 2,
        ("a1", "b2", "c2"): 2,
        ("a2", "b3", "c1"): 1,
        ("a2", "b3", "c2"): 2,
    }


TRIANGLE = (Relation("R", ("A", "B")), Relation("S", ("B", "C")), Relation("T", ("C", "A")))


def triangle(indicators: bool) -> GenericRuntime[int]:
    return GenericRuntime(view_tree(given(Query(TRIANGLE), "A - B - C"), indicators=indicators), Integers())


def test_examples_b_1_and_b_3() -> None:
    """The join of S and T has N² pairs without the indicator of R, and at most N with it."""
    n = 20
    tables: dict[str, Any] = {
        "R": [((i, i), 1) for i in range(n)],
        "S": [((b, 0), 1) for b in range(n)],
        "T": [((0, a), 1) for a in range(n)],
    }
    plain, bounded = triangle(False), triangle(True)
    for runtime in (plain, bounded):
        runtime.load(tables)
        assert runtime.result() == {(): n}
    (name,) = (v.name for v in plain.tree.views() if v.summed == ("C",))
    assert plain.sizes()[name] == n**2
    assert bounded.sizes()[name] == n


@pytest.mark.parametrize("n", [20, 200])
def test_example_b_3_costs(n: int, matched: list[int]) -> None:
    """A change of R that leaves its indicator alone takes constant time; a batch of S takes each row by the
    side that has fewer matches."""
    runtime = triangle(True)
    runtime.load({"R": [((i, i), 1) for i in range(n)], "T": [((0, a), 1) for a in range(n)]})
    matched[0] = 0
    runtime.update("S", [((b, 0), 1) for b in range(n)])
    assert runtime.result() == {(): n}
    assert matched[0] == 3 * n  # of n rows each one in R's indicator, one in T, and one in R; not all of T
    matched[0] = 0
    runtime.update("R", [((3, 3), 1)])
    assert matched[0] == 1
    assert runtime.result() == {(): n + 1}
    runtime.update("R", [((3, 3), -2)])
    assert runtime.result() == {(): n - 1}
    assert runtime.sizes()["∃R in " + next(v.name for v in runtime.tree.views() if v.indicators)] == n - 1


def test_example_b_2() -> None:
    """The indicator of R on A goes when the last row with an A-value goes."""
    left, right = Relation("R", ("A", "B")), Relation("S", ("A",))
    query = Query((left, right))
    below = View("V_S@", ("A",), (), (Leaf(right),), (Indicator(left, ("A",)),))
    root = View("V_R_S@A", (), ("A",), (View("V_R@B", ("A",), ("B",), (Leaf(left),)), below))
    runtime = GenericRuntime(ViewTree(query, given(query, "A - B"), root, frozenset("RS")), Integers())
    r1, r2, r3 = 5, 7, 11
    runtime.load(
        {"R": [(("a1", "b1"), r1), (("a1", "b2"), r2), (("a2", "b3"), r3)], "S": [(("a1",), 1), (("a2",), 1)]}
    )
    (counts,) = runtime._counts.values()
    assert counts.rows == {("a1",): 2, ("a2",): 1}
    assert runtime.view("∃R in V_S@") == {("a1",): 1, ("a2",): 1}
    runtime.update("R", [(("a1", "b2"), -r2)])
    assert counts.rows == {("a1",): 1, ("a2",): 1}
    assert runtime.view("V_S@") == {("a1",): 1, ("a2",): 1}
    runtime.update("R", [(("a1", "b1"), -r1)])
    assert counts.rows == {("a2",): 1}
    assert runtime.view("∃R in V_S@") == runtime.view("V_S@") == {("a2",): 1}
    assert runtime.result() == {(): r3}
