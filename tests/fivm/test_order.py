"""Variable orders, given and chosen."""

from __future__ import annotations

from random import Random

import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm.order import Variable, VariableOrder, chosen, given
from viewkeep.fivm.query import Query, Relation

from .cases import SHAPES, by_elimination, cases, random_order, random_query

PAPER = Query(SHAPES[0])


def above(order: VariableOrder) -> dict[str, tuple[str, ...]]:
    """The variables above each, the root first."""
    found: dict[str, tuple[str, ...]] = {}

    def visit(node: Variable, path: tuple[str, ...]) -> None:
        found[node.name] = path
        for child in node.children:
            visit(child, (*path, node.name))

    for root in order.roots:
        visit(root, ())
    return found


@cases(300)
def test_every_order_is_one_of_definition_3_1(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    order = random_order(random, query)
    paths = above(order)
    nodes = {node.name: node for root in order.roots for node in root.walk()}
    assert sorted(paths) == sorted(query.variables)
    for relation in query.relations:
        low = max(relation.schema, key=lambda v: len(paths[v]))
        assert set(relation.schema) <= {*paths[low], low}  # one path
        assert [n for n in nodes if relation.name in nodes[n].relations] == [low]
    for name, node in nodes.items():
        below = {v.name for v in node.walk()}
        together = {
            v for v in paths[name] if any(v in r.schema and below & set(r.schema) for r in query.relations)
        }
        assert set(order.depends_on(node, paths[name])) == together


@cases(200)
def test_a_chosen_order_has_free_variables_on_top(seed: int) -> None:
    random = Random(seed)
    query = random_query(random)
    paths = above(chosen(query, {r.source: random.randint(1, 50) for r in query.relations}))
    for variable in query.free:
        assert set(paths[variable]) <= set(query.free)


def test_the_order_of_figure_2() -> None:
    order = given(PAPER, "A - {B, C - {D, E}}")
    (root,) = order.roots
    assert root == Variable(
        "A",
        (Variable("B", (), ("R",)), Variable("C", (Variable("D", (), ("T",)), Variable("E", (), ("S",))))),
    )
    c = root.children[1]
    assert order.depends_on(c.children[0], ("A", "C")) == ("C",)  # D does not depend on A
    assert order.depends_on(c.children[1], ("A", "C")) == ("A", "C")
    assert str(order).splitlines() == [
        "A",
        "├─ B  depends on A",
        "│  └─ R[A, B]",
        "└─ C  depends on A",
        "   ├─ D  depends on C",
        "   │  └─ T[C, D]",
        "   └─ E  depends on A, C",
        "      └─ S[A, C, E]",
    ]


def test_ways_to_write_an_order() -> None:
    wanted = given(PAPER, "A - {B, C - {D, E}}")
    assert given(PAPER, "A-{B,C-{D,E}}") == wanted
    assert given(Query(SHAPES[1]), "A - B - C") == given(Query(SHAPES[1]), "A - {B - {C}}")
    forest = given(Query(SHAPES[7]), "A, B")
    assert [root.name for root in forest.roots] == ["A", "B"]
    assert by_elimination(PAPER, ["D", "E", "B", "C", "A"]) == "A - {B, C - {D, E}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A - {B, C - {D}}", "E is missing"),
        ("A - {B, C - {D, E, E}}", "E comes twice"),
        ("A - {B, C - {D, E, F}}", "F is no variable"),
        ("A - {B, C - {D, E}", "a brace is not closed"),
        ("A - {B, C - {D, E}}}", "ends before '}'"),
        ("A - {B, , C - {D, E}}", "a variable is missing"),
        ("", "a variable is missing"),
        ("A - {B, C - D, E}", "C and E, both of S|E and C, both of S"),
    ],
)
def test_what_is_no_order_is_refused(text: str, words: str) -> None:
    with pytest.raises(Unsupported, match=words) as refused:
        given(PAPER, text)
    assert refused.value.hint


def test_sizes_decide_where_there_is_a_choice() -> None:
    """A chain R1[A, B], R2[B, C], R3[C, D] with both ends free: it is cheaper to join the small ones first."""
    relations = (Relation("R1", ("A", "B")), Relation("R2", ("B", "C")), Relation("R3", ("C", "D")))
    query = Query(relations, ("A", "D"))
    values = {"A": 10, "B": 1000, "C": 1000, "D": 1000}
    first = above(chosen(query, dict.fromkeys(("R1", "R2", "R3"), 10**6), values))
    assert "B" not in first["C"]  # B goes first, A and C are left: 10 * 1000 keys
    assert "C" in first["B"]
    other = above(chosen(query, dict.fromkeys(("R1", "R2", "R3"), 10**6), {**values, "A": 1000, "D": 10}))
    assert "B" in other["C"]


def test_an_acyclic_query_gets_an_order_without_wide_views() -> None:
    for shape in (SHAPES[0], SHAPES[3][:3], SHAPES[9]):
        query = Query(shape)
        order = chosen(query)
        widest = max(len(r.schema) for r in shape)
        for root in order.roots:
            for node in root.walk():
                keys = order.depends_on(node, above(order)[node.name])
                assert len(keys) < widest


def test_queries_that_are_none_are_refused() -> None:
    with pytest.raises(Unsupported, match="at least one relation"):
        Query(())
    with pytest.raises(Unsupported, match="two relations are named R"):
        Query((Relation("R", ("A",)), Relation("R", ("B",))))
    with pytest.raises(Unsupported, match="names a variable twice"):
        Query((Relation("R", ("A", "A")),))
    with pytest.raises(Unsupported, match="no relation has the free variable Z"):
        Query((Relation("R", ("A",)),), ("Z",))
    with pytest.raises(Unsupported, match="has no variable"):
        chosen(Query((Relation("R", ()), Relation("S", ("A",)))))
    with pytest.raises(Unsupported, match="no relation X"):
        PAPER.relation("X")
