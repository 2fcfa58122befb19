"""LIMIT: the first rows before and after are compared; updates of what does not order pass."""

from __future__ import annotations

import pytest

from tests.helpers import changes, compiled, fired, reads, script, table
from viewkeep.algebra.nodes import Limit

R = table("r", "k INT, a INT, b INT", "k")
VIEW = "SELECT k, a, b FROM r ORDER BY a LIMIT 3"
COMPARED = ["CompareFirstRows"] * 3


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ("insert", COMPARED),
        ("delete", COMPARED),
        ("update:a", COMPARED),
        ("update:b", ["PassUpdatesThroughLimit"]),
        ("insert update:b", COMPARED),
    ],
)
def test_id_rules(kinds: str, rules: list[str]) -> None:
    assert fired(compiled(VIEW, [R]), Limit, r=kinds) == rules


@pytest.mark.parametrize("kinds", ["insert", "update:a", "update:b"])
def test_tuple_rules_let_nothing_pass(kinds: str) -> None:
    assert fired(compiled(VIEW, [R], "tuple"), Limit, r=kinds) == COMPARED


def test_a_passed_update_reads_nothing_and_may_name_rows_that_are_not_first() -> None:
    view = compiled(VIEW, [R])
    assert reads(script(view, r="update:b")) == set()
    _, rules = view.instantiated(changes(r="update:b"))
    assert [d.exact for n, d in rules if isinstance(n, Limit)] == [False]


@pytest.mark.parametrize("cut", ["LIMIT 2 OFFSET 1", "OFFSET 1"])
def test_an_offset_is_a_limit_too(cut: str) -> None:
    view = compiled(f"SELECT k, a, b FROM r ORDER BY a {cut}", [R])
    assert fired(view, Limit, r="delete") == COMPARED
    assert fired(view, Limit, r="update:b") == ["PassUpdatesThroughLimit"]


def test_order_without_limit_is_no_operator() -> None:
    assert fired(compiled("SELECT k, a FROM r ORDER BY a", [R]), Limit, r="insert") == []
