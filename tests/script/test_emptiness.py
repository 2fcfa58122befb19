"""Which relations of a script are empty because others are."""

from __future__ import annotations

import pytest
from sqlglot import exp

from viewkeep.algebra.expressions import column
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Join,
    MarkJoin,
    Measure,
    Node,
    OuterJoin,
    Project,
    Select,
)
from viewkeep.algebra.script_nodes import Empty, LeftJoin, Ref, SemiJoin, Union
from viewkeep.algebra.types import BIGINT, BOOLEAN
from viewkeep.script.emptiness import is_empty, read_by

A, B = Column("a", BIGINT), Column("b", BIGINT)
NONE, SOME = Ref("none", (A,)), Ref("some", (B,))
ON = (("a", "b"),)
SAME = exp.EQ(this=column("a"), expression=column("b"))
FOUND = Column("found", BOOLEAN)
COUNT = Measure(Column("n", BIGINT), "count", None)


@pytest.mark.parametrize(
    "query",
    [
        NONE,
        Empty((A,)),
        Select(NONE, SAME),
        Project(NONE, (Item(A, column("a")),)),
        Join(NONE, SOME, SAME),
        Join(SOME, NONE, SAME),
        SemiJoin(NONE, SOME, ON),
        SemiJoin(SOME, NONE, (("b", "a"),)),
        SemiJoin(NONE, SOME, ON, anti=True),
        LeftJoin(NONE, SOME, ON),
        OuterJoin(NONE, SOME, SAME),
        OuterJoin(NONE, Empty((B,)), SAME, full=True),
        MarkJoin(NONE, SOME, SAME, FOUND),
        Union((NONE, Empty((A,)))),
        Aggregate(NONE, ("a",), (COUNT,)),
    ],
)
def test_it_has_no_rows(query: Node) -> None:
    assert is_empty(query, {"none"})
    assert not is_empty(query, ()) or isinstance(query, Empty)


@pytest.mark.parametrize(
    "query",
    [
        SOME,
        SemiJoin(SOME, NONE, (("b", "a"),), anti=True),
        LeftJoin(SOME, NONE, (("b", "a"),)),
        OuterJoin(SOME, NONE, SAME),
        OuterJoin(NONE, SOME, SAME, full=True),
        MarkJoin(SOME, NONE, SAME, FOUND),
        Union((NONE, Ref("some", (A,)))),
        Aggregate(NONE, (), (COUNT,)),  # one row, that says 0
    ],
)
def test_it_may_have_rows(query: Node) -> None:
    assert not is_empty(query, {"none"})


def test_what_a_query_reads() -> None:
    assert read_by(Join(NONE, Select(SOME, SAME), SAME)) == {"none", "some"}
