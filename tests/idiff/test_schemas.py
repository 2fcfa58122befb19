"""Which update diffs a table needs: one for each set of conditional columns, one for the rest."""

from __future__ import annotations

from tests.helpers import bound, table
from viewkeep.frontend.normalize import normalize
from viewkeep.idiff.schemas import update_sets
from viewkeep.passes.infer_ids import infer_ids

R = table("r", "k INT, a INT, b INT, c INT, d INT", "k")
S = table("s", "k INT, a INT, b INT", "k")


def sets(sql: str) -> dict[str, list[set[str]]]:
    plan = infer_ids(normalize(bound(sql, [R, S]).plan))  # type: ignore[arg-type]
    return {
        scan.alias: [{scan.base_name[c] for c in columns} for columns in found]
        for scan, found in update_sets(plan).items()
    }


def test_no_condition_one_set() -> None:
    assert sets("SELECT a, b FROM r") == {"r": [{"a", "b"}]}


def test_a_selections_columns_are_one_set_and_the_rest_another() -> None:
    assert sets("SELECT a, b, c FROM r WHERE a + b > 0") == {"r": [{"a", "b"}, {"c"}]}


def test_columns_that_the_view_does_not_use_are_in_none() -> None:
    assert sets("SELECT a FROM r WHERE b > 0") == {"r": [{"b"}, {"a"}]}


def test_keys_are_in_none() -> None:
    assert sets("SELECT a FROM r WHERE k > 0") == {"r": [{"a"}]}
    assert sets("SELECT k FROM r") == {"r": []}


def test_both_sides_of_a_join() -> None:
    assert sets("SELECT r.a, s.b FROM r JOIN s ON r.c = s.a") == {"r": [{"c"}, {"a"}], "s": [{"a"}, {"b"}]}


def test_every_operator_has_its_own_set() -> None:
    found = sets("SELECT r.a FROM r JOIN s ON r.c = s.a WHERE r.b > 0")
    assert sorted(map(sorted, found["r"])) == [["a"], ["b"], ["c"]]


def test_a_column_in_two_conditions_is_in_both_sets() -> None:
    found = sets("SELECT r.a FROM r JOIN s ON r.c = s.a WHERE r.c > r.b")
    assert {"c", "b"} in found["r"]
    assert {"c"} in found["r"]


def test_the_same_set_counts_once() -> None:
    assert sets("SELECT r.a FROM r JOIN s ON r.c = s.a WHERE r.c > 0")["r"] == [{"c"}, {"a"}]


def test_grouping_columns_condition_too() -> None:
    assert sets("SELECT a, SUM(b) AS m FROM r GROUP BY a") == {"r": [{"a"}, {"b"}]}


def test_grouping_by_an_expression_conditions_on_its_columns() -> None:
    assert sets("SELECT a + c AS g, SUM(b) AS m FROM r GROUP BY a + c") == {"r": [{"a", "c"}, {"b"}]}


def test_above_an_aggregate_travel_diffs_of_groups() -> None:
    assert sets("SELECT a, SUM(b) AS m FROM r GROUP BY a HAVING SUM(b) > 3") == {"r": [{"a"}, {"b"}]}


def test_each_scan_of_a_table_has_its_own_sets() -> None:
    found = sets("SELECT x.a AS xa, y.b AS yb FROM r AS x JOIN r AS y ON x.c = y.k WHERE y.d > 0")
    assert found == {"x": [{"c"}, {"a"}], "y": [{"d"}, {"b"}]}


def test_conditions_on_computed_columns_reach_their_base_columns() -> None:
    assert sets("SELECT y.z AS z FROM (SELECT a + b AS z, c FROM r) AS y JOIN s ON s.a = y.z") == {
        "r": [{"a", "b"}],
        "s": [{"a"}],
    }
