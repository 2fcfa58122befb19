"""Every rewrite of the minimizer, before and after, as printed trees."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from tests.helpers import compiled, nodes, queries, script, table
from viewkeep.algebra import types as t
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
    Scan,
    Select,
    Window,
    passing,
    walk,
)
from viewkeep.algebra.printing import tree
from viewkeep.algebra.script_nodes import BaseDiff, Empty, Ref, SemiJoin, Union
from viewkeep.passes import minimize as m

K, A, B = Column("k", t.INT, False), Column("a", t.INT), Column("b", t.INT)
P, Q = Column("p", t.INT, False), Column("q", t.INT)
R = Scan("r", "r", ((K, "k"), (A, "a"), (B, "b")), ("k",))
R_BEFORE = Scan("r", "r", R.fields, ("k",), "pre")
S = Scan("s", "s", ((P, "p"), (Q, "q")), ("p",))
D = Ref("d", (Column("k", t.INT, False),))
UPDATE, INSERT, DELETE = BaseDiff(R, "update", ("a",)), BaseDiff(R, "insert"), BaseDiff(R, "delete")
ON_K = (("k", "k"),)


def expr(text: str):  # type: ignore[no-untyped-def]
    made = parse_one(text, read="spark")
    return made.transform(lambda n: column(n.name) if n.key == "column" else n)


def lines(text: str) -> str:
    """A tree written with a bar for each line."""
    return "\n".join(part[1:] if part.startswith(" ") else part for part in text.split("|"))


# --- PushSemiJoinIntoInput ---


def test_a_semijoin_goes_through_a_selection() -> None:
    made = m.push_semijoin_down(SemiJoin(Select(R, expr("a > 1")), D, ON_K))
    assert tree(made) == "Select a > 1\n  SemiJoin on k\n    Scan r AS r\n    Ref d"


def test_a_semijoin_goes_through_a_projection_that_copies() -> None:
    renamed = Project(R, (Item(Column("z", t.INT), column("k")), Item(A, column("a"))))
    made = m.push_semijoin_down(SemiJoin(renamed, D, (("z", "k"),)))
    assert tree(made) == "Project k AS z, a\n  SemiJoin on k\n    Scan r AS r\n    Ref d"


def test_a_semijoin_stops_at_a_projection_that_computes() -> None:
    computed = Project(R, (Item(Column("z", t.INT), expr("k + 1")),))
    start = SemiJoin(computed, D, (("z", "k"),))
    assert m.push_semijoin_down(start) is start


def test_a_semijoin_goes_into_the_side_of_a_join_that_it_names() -> None:
    joined = Join(S, R, expr("q = b"))
    made = m.push_semijoin_down(SemiJoin(joined, D, ON_K))
    assert tree(made) == "Join q = b\n  Scan s AS s\n  SemiJoin on k\n    Scan r AS r\n    Ref d"


def test_a_semijoin_goes_into_a_side_by_an_equal_column() -> None:
    joined = Join(R, S, expr("k = p"))
    made = m.push_semijoin_down(SemiJoin(joined, Ref("d", (P,)), (("p", "p"),)))
    assert tree(made) == "Join k = p\n  SemiJoin on k = p\n    Scan r AS r\n    Ref d\n  Scan s AS s"


def test_a_semijoin_that_names_both_sides_stays_and_reduces_each() -> None:
    start = SemiJoin(Join(R, S, expr("a = q")), Ref("d", (K, P)), (("k", "k"), ("p", "p")))
    made = m.push_semijoin_down(start)
    assert isinstance(made, SemiJoin)
    assert made.on == start.on
    assert isinstance(made.left, Join)
    left, right = made.left.left, made.left.right
    assert isinstance(left, SemiJoin)
    assert (left.left, left.on) == (R, (("k", "k"),))
    assert isinstance(right, SemiJoin)
    assert (right.left, right.on) == (S, (("p", "p"),))


def test_what_is_not_small_reduces_nothing() -> None:
    large = Scan("t", "t", ((K, "k"), (P, "p")), ("k",))
    start = SemiJoin(Join(R, S, expr("a = q")), large, (("k", "k"), ("p", "p")))
    assert m.push_semijoin_down(start) is start


@pytest.mark.parametrize("kind", ["mark", "outer"])
def test_partners_of_left_rows_that_a_diff_names_are_looked_up(kind: str) -> None:
    condition = expr("k = q AND a > p")
    mark = Column("mark", t.BOOLEAN)
    join = MarkJoin(R, S, condition, mark) if kind == "mark" else OuterJoin(R, S, condition)
    made = m.push_semijoin_down(SemiJoin(join, Ref("d", (K,)), (("k", "k"),)))
    assert type(made) is type(join)
    right = made.inputs[1]
    assert isinstance(right, SemiJoin)
    assert (right.left, right.on) == (S, (("q", "k"),))
    # the condition asks nothing of the partner that the diff tells
    other = MarkJoin(R, S, expr("a = q"), mark) if kind == "mark" else OuterJoin(R, S, expr("a = q"))
    assert m.push_semijoin_down(SemiJoin(other, Ref("d", (K,)), (("k", "k"),))).inputs[1] is S


def test_a_semijoin_goes_into_every_part_of_a_union() -> None:
    made = m.push_semijoin_down(SemiJoin(Union((R, R_BEFORE)), D, ON_K))
    assert tree(made).count("SemiJoin") == 2
    assert isinstance(made, Union)


def group(*keys: str) -> Aggregate:
    return Aggregate(R, keys, (Measure(Column("n", t.BIGINT, False), "rows"),))


def test_a_semijoin_on_its_keys_goes_through_an_aggregate() -> None:
    made = m.push_semijoin_down(SemiJoin(group("a"), Ref("d", (A,)), (("a", "a"),)))
    assert tree(made) == "Aggregate by (a): rows(*) AS n\n  SemiJoin on a\n    Scan r AS r\n    Ref d"


@pytest.mark.parametrize(("keys", "on"), [(("a",), (("n", "k"),)), ((), ())])
def test_else_a_group_needs_all_its_rows(keys: tuple[str, ...], on: tuple[tuple[str, str], ...]) -> None:
    start = SemiJoin(group(*keys), D, on)
    assert m.push_semijoin_down(start) is start


def test_an_antijoin_is_not_pushed() -> None:
    start = SemiJoin(Select(R, expr("a > 1")), D, ON_K, anti=True)
    assert m.push_semijoin_down(start) is start


# --- figure 8 ---


@pytest.mark.parametrize(
    ("scan", "diff", "expected"),
    [
        (R, INSERT, "Project k, a, b|   Diff insert r"),
        (R, UPDATE, "Project k, a, b|   Diff update r(a)"),
        (R, DELETE, "Empty"),
        (R_BEFORE, DELETE, "Project k, a, b|   Diff delete r"),
        (R_BEFORE, UPDATE, "Project k, pre:a AS a, pre:b AS b|   Diff update r(a)"),
        (R_BEFORE, INSERT, "Empty"),
    ],
)
def test_rows_that_a_diff_names_are_in_the_diff(scan: Scan, diff: BaseDiff, expected: str) -> None:
    assert tree(m.take_rows_from_diff(SemiJoin(scan, diff, ON_K), {})) == lines(expected)


@pytest.mark.parametrize(
    ("scan", "diff", "dropped"),
    [
        (R, DELETE, True),
        (R_BEFORE, INSERT, True),
        (R, INSERT, False),
        (R, UPDATE, False),
        (R_BEFORE, DELETE, False),
    ],
)
def test_rows_that_are_not_there_need_no_antijoin(scan: Scan, diff: BaseDiff, dropped: bool) -> None:
    start = SemiJoin(scan, diff, ON_K, anti=True)
    assert m.take_rows_from_diff(start, {}) is (scan if dropped else start)


def test_the_rows_that_a_filtered_diff_names_are_its_own() -> None:
    small = Select(UPDATE, expr("a > 1"))
    made = m.take_rows_from_diff(SemiJoin(R, small, ON_K), {})
    assert tree(made) == lines("Project k, a, b|   Select a > 1|     Diff update r(a)")


def test_a_filter_of_what_a_diff_was_made_to_is_one_of_the_diff() -> None:
    twice = Project(UPDATE, (Item(K, column("k")), Item(Column("z", t.INT), expr("a + 1"))))
    made = m.take_rows_from_diff(SemiJoin(R_BEFORE, Select(twice, expr("z > 1")), ON_K), {})
    assert tree(made) == lines(
        "Project k, pre:a AS a, pre:b AS b|   Select (a + 1) > 1|     Diff update r(a)"
    )


@pytest.mark.parametrize("named", [SemiJoin(UPDATE, S, (("a", "q"),)), Ref("d", UPDATE.columns)])
def test_a_diff_that_another_restricts_still_restricts(named: Node) -> None:
    made = m.take_rows_from_diff(SemiJoin(R, named, ON_K), {"d": UPDATE})
    assert isinstance(made, SemiJoin)
    assert made.right is named
    assert tree(made.left) == lines("Project k, a, b|   Diff update r(a)")


def test_equal_conditions_are_asked_once() -> None:
    made = m.merge_selections(Select(Select(R, expr("a > 1 AND b > 1")), expr("a > 1")))
    assert tree(made) == "Select a > 1 AND b > 1\n  Scan r AS r"


def test_the_diff_of_another_table_says_nothing() -> None:
    other = BaseDiff(S, "update", ("q",))
    start = SemiJoin(R, other, (("k", "p"),))
    assert m.take_rows_from_diff(start, {}) is start


def test_a_diff_matched_by_another_column_says_nothing() -> None:
    start = SemiJoin(R, UPDATE, (("k", "a"),))
    assert m.take_rows_from_diff(start, {}) is start
    start = SemiJoin(R, UPDATE, (("a", "k"),))
    assert m.take_rows_from_diff(start, {}) is start


def test_a_part_of_the_key_is_not_the_key() -> None:
    wide = Scan("w", "w", ((K, "k"), (P, "p"), (A, "a")), ("k", "p"))
    start = SemiJoin(wide, BaseDiff(wide, "update", ("a",)), ON_K)
    assert m.take_rows_from_diff(start, {}) is start


def test_key_columns_matched_crosswise_are_not_the_key() -> None:
    wide = Scan("w", "w", ((K, "k"), (P, "p"), (A, "a")), ("k", "p"))
    start = SemiJoin(wide, BaseDiff(wide, "update", ("a",)), (("k", "p"), ("p", "k")))
    assert m.take_rows_from_diff(start, {}) is start


def test_a_diff_that_lacks_a_column_of_the_scan_says_too_little() -> None:
    narrow = Scan("r", "y", ((Column("k2", t.INT, False), "k"), (Column("a2", t.INT), "a")), ("k2",))
    start = SemiJoin(R, BaseDiff(narrow, "update", ("a",)), (("k", "k2"),))
    assert m.take_rows_from_diff(start, {}) is start


def test_the_diff_of_another_scan_of_the_table_says_it_too() -> None:
    wide = Scan("r", "y", tuple((Column(f"{c.name}2", c.type), base) for c, base in R.fields), ("k2",))
    made = m.take_rows_from_diff(SemiJoin(R, BaseDiff(wide, "insert"), (("k", "k2"),)), {})
    assert tree(made) == "Project k2 AS k, a2 AS a, b2 AS b\n  Diff insert y"


def test_a_named_diff_is_seen_through() -> None:
    made = m.take_rows_from_diff(SemiJoin(R, D, ON_K), {"d": passing(DELETE, ["k"])})
    assert isinstance(made, Empty)


def test_a_joined_diff_is_not_seen_through() -> None:
    both = Join(UPDATE, S, expr("a = q"))
    start = SemiJoin(R, both, ON_K)
    assert m.take_rows_from_diff(start, {}) is start


# --- what is empty ---


NOTHING = Empty(R.columns)


def test_what_joins_with_nothing_is_nothing() -> None:
    for node in (
        Join(NOTHING, S, None),
        Join(S, NOTHING, None),
        Select(NOTHING, expr("a > 1")),
        passing(NOTHING, ["k"]),
        SemiJoin(NOTHING, D, ON_K),
        SemiJoin(NOTHING, D, ON_K, anti=True),
        SemiJoin(R, Empty(D.columns), ON_K),
        Aggregate(NOTHING, ("a",), ()),
        Union((NOTHING, NOTHING)),
    ):
        made = m.drop_what_is_empty(node, {})
        assert isinstance(made, Empty)
        assert made.names == node.names


def test_without_nothing_all_is_left() -> None:
    assert m.drop_what_is_empty(SemiJoin(R, Empty(D.columns), ON_K, anti=True), {}) is R
    assert m.drop_what_is_empty(Union((NOTHING, R)), {}) is R


def test_a_distinct_union_of_one_part_stays_distinct() -> None:
    made = m.drop_what_is_empty(Union((NOTHING, R), distinct=True), {})
    assert tree(made) == "Union distinct\n  Scan r AS r"


def test_a_keyless_aggregate_over_nothing_is_a_row() -> None:
    start = Aggregate(NOTHING, (), ())
    assert m.drop_what_is_empty(start, {}) is start


def test_a_name_for_nothing_is_nothing() -> None:
    assert isinstance(m.drop_what_is_empty(D, {"d": Empty(D.columns)}), Empty)


# --- merging ---


def test_selections_merge_inner_first() -> None:
    made = m.merge_selections(Select(Select(R, expr("a = 1 OR b = 2")), expr("b > 2")))
    assert tree(made) == "Select (a = 1 OR b = 2) AND b > 2\n  Scan r AS r"


def test_projections_merge() -> None:
    inner = Project(R, (Item(Column("z", t.INT), expr("a + 1")),))
    made = m.merge_projections(Project(inner, (Item(Column("y", t.INT), expr("z * 2")),)))
    assert tree(made) == "Project (a + 1) * 2 AS y\n  Scan r AS r"


def test_a_selection_goes_below_a_projection() -> None:
    inner = Project(R, (Item(Column("z", t.INT), expr("a + 1")),))
    made = m.merge_projections(Select(inner, expr("z * 2 > 3")))
    assert tree(made) == "Project a + 1 AS z\n  Select (a + 1) * 2 > 3\n    Scan r AS r"


# --- StartJoinsAtDiff ---


def test_joins_start_at_the_diff() -> None:
    u = Scan("u", "u", ((Column("x", t.INT, False), "x"), (Column("y", t.INT), "y")), ("x",))
    start = Join(Join(S, u, expr("q = x")), INSERT, expr("y = a"))
    assert tree(m.start_joins_at_diff(start)) == lines(
        "Project p, q, x, y, k, a, b|"
        "   Join q = x|     Join y = a|       Diff insert r|       Scan u AS u|     Scan s AS s"
    )


def test_two_inputs_are_left_alone() -> None:
    start = Join(S, INSERT, expr("q = a"))
    assert m.start_joins_at_diff(start) is start


def test_without_a_diff_nothing_moves() -> None:
    u = Scan("u", "u", ((Column("x", t.INT, False), "x"),), ("x",))
    start = Join(Join(S, u, expr("q = x")), R, expr("a = x"))
    assert m.start_joins_at_diff(start) is start


def test_no_condition_is_lost_and_none_doubled() -> None:
    u = Scan("u", "u", ((Column("x", t.INT, False), "x"), (Column("y", t.INT), "y")), ("x",))
    start = Join(Join(S, u, expr("q = x AND p > 1")), INSERT, expr("y = a AND p + y > k AND TRUE"))
    made = m.start_joins_at_diff(start)
    shown = tree(made)
    for term in ("q = x", "p > 1", "y = a", "p + y > k"):
        assert shown.count(term) == 1, shown
    assert made.names == start.names


CHAIN = [table(n, f"{n}k INT, {n}a INT, {n}b INT", f"{n}k") for n in "wxyz"]
CHAIN_VIEW = "SELECT wa, zb FROM w JOIN x ON wb = xk JOIN y ON xb = yk JOIN z ON yb = zk"


@pytest.mark.parametrize("changed", "wxyz")
def test_in_a_chain_every_join_reaches_one_table_further(changed: str) -> None:
    made = script(compiled(CHAIN_VIEW, CHAIN), **{changed: "insert"})

    def leftmost(node: Node) -> Node:
        while node.inputs:
            node = node.inputs[0]
        return node

    for query in queries(made):
        assert isinstance(leftmost(query), BaseDiff)
        for node in walk(query):
            if isinstance(node, Join):
                assert node.condition is not None, tree(query)
                assert isinstance(node.right, Scan)


# --- whole scripts ---


PAIR = [table("r", "k INT, a INT, b INT", "k"), table("s", "k INT, a INT, b INT", "k")]


def test_a_conditional_update_does_not_read_its_own_table() -> None:
    made = script(compiled("SELECT r.k, s.k AS sk, r.a FROM r JOIN s ON r.b = s.b", PAIR), r="update:b")
    assert {n.table for n in nodes(made, Scan)} == {"s"}  # type: ignore[attr-defined]


def test_diffs_that_became_empty_are_not_applied() -> None:
    made = script(compiled("SELECT r.k, s.k AS sk, r.a FROM r JOIN s ON r.b = s.b", PAIR), r="update:b")
    for apply in made.applies:
        assert not [d for d in apply.diffs if isinstance(d.query, Empty)]


def test_minimizing_keeps_the_columns_of_every_query() -> None:
    view = compiled("SELECT r.b, SUM(s.a) AS x FROM r JOIN s ON r.b = s.b GROUP BY r.b", PAIR)
    made = view.script(view.everything())
    refs = {n.name: n.names for n in nodes(made, Ref)}  # type: ignore[attr-defined]
    for name, columns in refs.items():
        assert made.by_name[name].query.names == columns


def test_rows_of_a_table_without_a_key_keep_their_ids_when_some_are_looked_up() -> None:
    """These decide which of equal rows a window counts first: two statements may not count them otherwise."""
    view = compiled(
        "SELECT a FROM (SELECT a, k FROM e WHERE k > 0) AS x EXCEPT ALL SELECT p FROM s",
        (table("e", "k INT, a INT", ""), table("s", "p INT", "p")),
        "tuple",
    )
    made = nodes(script(view, e="insert delete"), Window)
    ties = {window.inputs[0].ids for window in made if window.ties}  # type: ignore[attr-defined]
    assert ties
    assert () not in ties
