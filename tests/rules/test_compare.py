"""From rows before and after to diffs: by full IDs, each row in one diff, both states read where both change."""

from __future__ import annotations

from tests.helpers import changes, compiled, table
from viewkeep.algebra.expressions import columns_of
from viewkeep.algebra.nodes import Column, Join, Scan, Select, walk
from viewkeep.algebra.script_nodes import Ref, SemiJoin
from viewkeep.algebra.types import INT
from viewkeep.idiff.diff import Diff
from viewkeep.rules.compare import changed_images, compare, met_by
from viewkeep.rules.context import Context

R = table("r", "k INT, a INT, b INT", "k")
S = table("s", "k INT, a INT, b INT", "k")
COLUMNS = (Column("k", INT, False), Column("a", INT), Column("b", INT))
BEFORE, AFTER = Ref("before", COLUMNS), Ref("after", COLUMNS)
ANY = frozenset({"insert"})  # whatever it is, the table is changed


def test_rows_of_one_id_are_an_update_where_a_changed_column_differs() -> None:
    made = {d.kind: d for d in compare(BEFORE, AFTER, ("k",), frozenset({"a"}), "Rule")}
    assert set(made) == {"delete", "insert", "update"}
    (select,) = [n for n in walk(made["update"].query) if isinstance(n, Select)]
    assert columns_of(select.predicate) == {"a", "pre:a"}
    assert made["update"].changed == {"a"}
    assert made["update"].known == ("a", "b")


def test_nothing_that_changes_has_no_update() -> None:
    assert [d.kind for d in compare(BEFORE, AFTER, ("k",), frozenset(), "Rule")] == ["delete", "insert"]


def test_what_came_and_went_is_told_by_ids_that_one_state_lacks() -> None:
    made = {d.kind: d for d in compare(BEFORE, AFTER, ("k",), frozenset({"a"}), "Rule")}
    for kind, kept, lacking in (("delete", BEFORE, AFTER), ("insert", AFTER, BEFORE)):
        query = made[kind].query
        assert isinstance(query, SemiJoin)
        assert query.anti
        assert query.left is kept
        assert [n for n in walk(query.right) if isinstance(n, Ref)] == [lacking]
        assert query.on == (("k", "k"),)


def scan(name: str) -> Scan:
    found = table(name, "k INT, a INT, b INT", "k")
    return compiled(f"SELECT k, a, b FROM {name}", [found]).scans[0]


def update_of(node: Scan, changed: str) -> Diff:
    found = table(node.table, "k INT, a INT, b INT", "k")
    view = compiled(f"SELECT k, a, b FROM {node.table} WHERE b > 0", [found])
    _, rules = view.instantiated(changes(**{node.table: f"update:{changed}"}))
    return next(d for n, d in rules if isinstance(n, Scan))


def test_an_update_has_two_images_from_the_diff_alone() -> None:
    node = scan("r")
    images = changed_images(
        node, update_of(node, "a"), frozenset({"r_a"}), Context(dict.fromkeys({"r"}, ANY))
    )
    assert len(images) == 2
    assert not [n for image in images for n in walk(image) if isinstance(n, Scan)]


def test_the_other_side_is_read_in_both_states_only_where_it_changes() -> None:
    condition = compiled("SELECT r.k FROM r JOIN s ON r.b = s.b", [R, S]).plan
    (join,) = [n for n in walk(condition) if isinstance(n, Join)]
    moved, other = join.left, join.right
    diff = update_of(scan("r"), "b")
    for both, states in ((False, {"post"}), (True, {"pre", "post"})):
        changed = {"r", "s"} if both else {"r"}
        ctx = Context(dict.fromkeys(changed, ANY))
        met_by(join.condition, moved, [diff], other, ctx)
        found = {
            n.state for let in ctx.lets.values() for n in walk(let) if isinstance(n, Scan) and n.table == "s"
        }
        assert found == states


def test_a_diff_that_the_condition_does_not_see_meets_nothing() -> None:
    plan = compiled("SELECT r.k, r.a FROM r JOIN s ON r.b = s.b", [R, S]).plan
    (join,) = [n for n in walk(plan) if isinstance(n, Join)]
    ctx = Context(dict.fromkeys({"r"}, ANY))
    assert met_by(join.condition, join.left, [update_of(scan("r"), "a")], join.right, ctx) == []
    assert (
        len(met_by(join.condition, join.left, [update_of(scan("r"), "a")], join.right, ctx, every=True)) == 1
    )
