"""What is read once is put in place; what is read twice is computed once; what nobody reads is dropped."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.helpers import COST, SPJ, compiled, nodes, queries, script
from viewkeep.algebra import types as t
from viewkeep.algebra.nodes import Column, Scan, passing, walk
from viewkeep.algebra.script_nodes import BaseDiff, Ref
from viewkeep.idiff.diff import Diff
from viewkeep.passes.compose import compose
from viewkeep.rules.context import Context, Target

K, A = Column("k", t.INT, False), Column("a", t.INT)
R = Scan("r", "r", ((K, "k"), (A, "a")), ("k",))
VIEW = Target("rows", R, "view")
INSERT = BaseDiff(R, "insert")


def composed(context: Context, *diffs: Diff, changes: Ref | None = None):  # type: ignore[no-untyped-def]
    context.applied.append((VIEW, diffs, changes))
    return compose(context, "id")


def test_read_once_is_put_in_place() -> None:
    context = Context(frozenset({"r"}))
    one = context.let("one", INSERT)
    made = composed(context, Diff("insert", ("k",), ("a",), passing(one, ["k", "a"])))
    assert made.lets == ()
    assert [type(n) for n in walk(made.applies[0].diffs[0].query)][-1] is BaseDiff


def test_read_twice_is_named() -> None:
    context = Context(frozenset({"r"}))
    one = context.let("one", INSERT)
    made = composed(context, *(Diff("insert", ("k",), ("a",), passing(one, ["k", "a"])) for _ in "ab"))
    assert [let.name for let in made.lets] == ["one"]


def test_read_by_nobody_is_dropped() -> None:
    context = Context(frozenset({"r"}))
    unused = context.let("unused", INSERT)
    context.let("unused", passing(unused, ["k"]))
    made = composed(context, Diff("insert", ("k",), ("a",), INSERT))
    assert made.lets == ()


def test_a_chain_of_single_readers_collapses() -> None:
    context = Context(frozenset({"r"}))
    last = context.let("x", INSERT)
    for _ in range(3):
        last = context.let("x", passing(last, ["k", "a"]))
    made = composed(context, Diff("insert", ("k",), ("a",), last))
    assert made.lets == ()


def test_names_are_not_given_twice() -> None:
    context = Context(frozenset({"r"}))
    assert [context.let("x", INSERT).name for _ in range(3)] == ["x", "x_2", "x_3"]


def test_what_a_guard_asks_about_stays_named() -> None:
    context = Context(frozenset({"r"}))
    flagged = context.let("flagged", passing(INSERT, ["k"]))
    redone = context.let("redone", INSERT)
    context.guards[redone.name] = flagged.name
    made = composed(context, Diff("insert", ("k",), ("a",), redone))
    assert [(let.name, let.unless_empty) for let in made.lets] == [("flagged", None), ("redone", "flagged")]


VIEWS = [
    SPJ,
    COST,
    "SELECT p.label, AVG(l.qty) AS m FROM parts p JOIN links l ON p.price > l.qty GROUP BY p.label",
    "SELECT x.m, d.did FROM (SELECT pid, SUM(qty) AS m FROM links GROUP BY pid) x JOIN devices d ON d.did = x.m",
]


@pytest.mark.parametrize("sql", VIEWS)
@pytest.mark.parametrize("strategy", ["id", "tuple"])
def test_names_are_known_before_they_are_read(sql: str, strategy: str) -> None:
    view = compiled(sql, strategy=strategy)
    made = view.script(view.everything())
    known: set[str] = set()
    for let in made.lets:
        for node in walk(let.query):
            assert not isinstance(node, Ref) or node.name in known
        known.add(let.name)
    for query in queries(made):
        for node in walk(query):
            assert not isinstance(node, Ref) or node.name in known


@pytest.mark.parametrize("sql", VIEWS)
def test_every_let_is_read(sql: str) -> None:
    view = compiled(sql)
    made = view.script(view.everything())
    readers = Counter(n.name for n in nodes(made, Ref))  # type: ignore[attr-defined]
    applied = {a.changes.name for a in made.applies if a.changes is not None}
    guards = {let.unless_empty for let in made.lets}
    for let in made.lets:
        assert readers[let.name] or let.name in applied or let.name in guards


def test_scripts_are_kept() -> None:
    view = compiled(COST)
    assert script(view, parts="insert") is script(view, parts="insert")
    assert script(view, parts="insert") is script(view, parts="insert", links="")
    assert script(view, parts="insert") is not script(view, parts="delete")


def test_nothing_changed_nothing_to_do() -> None:
    made = compiled(COST).script({})
    assert (made.lets, made.applies) == ((), ())
