"""Which strategy is chosen, by the policy and by what earlier refreshes took."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from viewkeep.catalog.models import View
from viewkeep.chooser import LARGE_TABLES, POLICIES, SMALL_TABLES, Facts, Kept, Lean, Netting, Past, choose
from viewkeep.engines.spark.ways import chosen, found_by_values
from viewkeep.script.cost import rows_read
from viewkeep.store.delta import State

from .helpers import COST, SHOP, changes, compiled, table

# a refresh that recomputed
COMPUTED = Past("full", 50, 1.0)
# a million rows, of which the script reads none
FACTS = Facts(
    changes=100, table_rows=1_000_000, query_reads=1_000_000, script_reads=0, overhead=0.05, past=[COMPUTED]
)


def twice(seconds: float) -> list[Past]:
    """Two refreshes by a script."""
    return [Past("id", 100, seconds)] * 2


def test_a_small_change_is_propagated() -> None:
    assert not choose("auto", FACTS).full


def test_a_change_of_everything_is_recomputed() -> None:
    choice = choose("auto", replace(FACTS, changes=900_000))
    assert choice.full
    assert "900,000 changes" in choice.reason
    assert "recomputing about 1.0 s" in choice.reason


def test_a_script_that_reads_more_than_the_query_is_not_run() -> None:
    assert choose("auto", replace(FACTS, script_reads=5_000_000)).full
    assert not choose("auto", replace(FACTS, script_reads=900_000)).full


def test_what_was_measured_counts_more_than_an_estimate() -> None:
    slow = [COMPUTED, Past("id", 100, 5.0)]
    assert choose("auto", replace(FACTS, past=slow)).full
    quick = [COMPUTED, Past("id", 100, 0.1)]
    assert not choose("auto", replace(FACTS, script_reads=5_000_000, past=quick)).full


def test_the_refresh_of_nearest_size_is_asked() -> None:
    past = [COMPUTED, Past("id", 100, 0.1), Past("groups", 100_000, 8.0)]
    assert not choose("auto", replace(FACTS, changes=150, past=past)).full
    assert choose("auto", replace(FACTS, changes=90_000, past=past)).full


def test_more_changes_take_longer_by_their_rows_not_by_their_ratio() -> None:
    past = [COMPUTED, Past("id", 10, 0.05)]
    assert not choose("auto", replace(FACTS, changes=2_000, past=past)).full
    assert choose("auto", replace(FACTS, changes=100_000, past=past)).full


def test_few_changes_do_not_take_what_many_took() -> None:
    past = [COMPUTED, Past("id", 500_000, 20.0)]
    assert not choose("auto", replace(FACTS, changes=10, past=past)).full


def test_the_last_of_several_like_it_is_asked() -> None:
    past = [COMPUTED, Past("id", 100, 9.0), Past("id", 100, 0.1)]
    assert not choose("auto", replace(FACTS, past=past)).full


def test_creating_a_view_took_longer_than_recomputing_will() -> None:
    created = replace(COMPUTED, changes=0)
    choice = choose("auto", replace(FACTS, past=[created, *twice(0.7)]))
    assert choice.full
    assert "recomputing about 500 ms" in choice.reason
    assert not choose("auto", replace(FACTS, past=[created, COMPUTED, *twice(0.7)])).full


def test_a_script_that_was_slow_the_first_time_has_a_second_chance() -> None:
    assert not choose("auto", replace(FACTS, past=[COMPUTED, Past("id", 100, 2.0)])).full
    assert choose("auto", replace(FACTS, past=[COMPUTED, *twice(2.0)])).full
    assert choose("auto", replace(FACTS, past=[COMPUTED, Past("id", 100, 5.0)])).full  # not if it is hopeless


def test_more_changes_than_can_be_looked_up_are_seen_to_be_slow_before_they_were_tried() -> None:
    past = [COMPUTED, Past("groups", 600, 0.3)]
    looking = replace(FACTS, past=past, script_scans=3_000_000, looked_up=1_000)
    assert not choose("auto", replace(looking, changes=900)).full
    assert choose("auto", replace(looking, changes=6_000)).full
    assert not choose("auto", replace(looking, changes=6_000, looked_up=10_000)).full
    assert choose("auto", replace(looking, changes=6_000, past=[COMPUTED])).full  # nor was a script


def test_the_log_that_nobody_has_combined_yet_counts() -> None:
    slow = replace(FACTS, past=[COMPUTED, *twice(0.8)])
    assert not choose("auto", slow).full
    choice = choose("auto", replace(slow, netting=Netting(0.7, 0.7)))
    assert choice.full
    assert choice.reason.startswith("at least 100 changes would take about 1.5 s to propagate")


def test_a_view_combines_the_log_for_others_unless_it_is_recomputed_much_sooner() -> None:
    slow = replace(FACTS, past=[COMPUTED, *twice(0.8)])
    assert not choose("auto", replace(slow, netting=Netting(share=0.1, seconds=0.5))).full
    assert choose("auto", replace(slow, netting=Netting(share=0.1, seconds=1.0))).full


def test_small_tables_are_not_recomputed_whatever_it_costs() -> None:
    small = replace(FACTS, table_rows=SMALL_TABLES - 1, changes=90_000, past=[COMPUTED, Past("id", 9, 60.0)])
    assert not choose("auto", small).full


def test_of_tables_that_are_not_large_recomputing_must_save_time_worth_saving() -> None:
    middling = replace(FACTS, table_rows=LARGE_TABLES - 1, past=[Past("full", 50, 0.02), *twice(0.2)])
    assert not choose("auto", middling).full
    assert choose("auto", replace(middling, table_rows=LARGE_TABLES)).full
    assert choose("auto", replace(middling, past=[Past("full", 50, 0.02), *twice(0.3)])).full


# a view with one cache; filling both takes a second, the longer of them 0.6 s, so the view alone about half
CACHED = replace(FACTS, past=[replace(COMPUTED, statements=2)], kept=Kept(relations=2, longest=0.6))


def test_where_scripts_lose_to_the_view_alone_it_is_recomputed_without_its_caches() -> None:
    assert not choose("auto", CACHED).full  # never tried
    lost = replace(CACHED, past=[*CACHED.past, *twice(0.5)])
    choice = choose("auto", lost)
    assert (choice.full, choice.caches) == (True, False)
    assert "recomputing about 300 ms" in choice.reason


def test_one_large_batch_does_not_cost_the_caches() -> None:
    small = [Past("id", 100, 0.05)] * 3
    choice = choose("auto", replace(CACHED, changes=900_000, past=[*CACHED.past, *small]))
    assert (choice.full, choice.caches) == (True, True)


def test_a_bare_view_gets_its_caches_back_when_they_are_soon_paid_for() -> None:
    bare = replace(CACHED, kept=replace(CACHED.kept, is_bare=True))
    past = [*CACHED.past, Past("id", 100, 0.1), Past("full", 100, 0.3)]
    choice = choose("auto", replace(bare, past=past))  # 0.7 s more once, 0.2 s less each time
    assert (choice.full, choice.caches) == (True, True)
    past = [*CACHED.past, Past("id", 100, 0.31), Past("full", 100, 0.3)]
    choice = choose("auto", replace(bare, past=past))
    assert (choice.full, choice.caches) == (True, False)


# the same view can be kept by tuple-based diffs alone, which read a tenth of what the query does
LEAN = replace(CACHED, lean=Lean(reads=100_000, scans=100_000, overhead=0.02))


def forms(facts: Facts) -> tuple[bool, bool]:
    """Whether it is recomputed, and whether it has its caches then."""
    choice = choose("auto", facts)
    return choice.full, choice.caches


def test_caches_are_dropped_for_a_script_that_needs_none_where_it_promises_enough() -> None:
    assert forms(LEAN) == (False, True)  # nothing speaks against the caches yet
    slow = replace(LEAN, past=[*LEAN.past, *twice(0.29)])
    assert forms(slow) == (False, True)  # it should take three times as long as by its rows: so may the other
    assert forms(replace(slow, lean=Lean(reads=0, scans=0, overhead=0.01))) == (False, False)
    assert "without its caches" in choose("auto", replace(slow, lean=Lean(0, 0, 0.01))).reason


def test_what_the_script_without_caches_took_counts_once_it_ran() -> None:
    bare = replace(LEAN, kept=replace(LEAN.kept, is_bare=True))
    ran = [*LEAN.past, *twice(0.29), *[Past("tuple", 100, 0.1)] * 2]
    assert forms(replace(bare, past=ran)) == (False, False)
    assert not choose("auto", replace(bare, past=ran)).reason  # there is nothing to drop any more
    slower = [*LEAN.past, *twice(0.29), *[Past("tuple", 100, 0.9)] * 2, Past("full", 100, 0.3)]
    assert forms(replace(bare, past=slower)) == (True, False)
    assert forms(replace(bare, past=[*LEAN.past, *twice(0.01), *[Past("tuple", 100, 0.9)] * 2])) == (
        True,
        True,
    )


def test_what_the_script_without_caches_took_is_not_held_against_the_one_with_them() -> None:
    past = [*LEAN.past, *twice(0.1), *[Past("tuple", 100, 5.0)] * 2]
    assert forms(replace(LEAN, past=past)) == (False, True)


def test_groups_tell_of_the_script_that_a_view_has_now() -> None:
    bare = replace(LEAN, kept=replace(LEAN.kept, is_bare=True))
    past = [*LEAN.past, *twice(0.29), *[Past("groups", 100, 0.05)] * 2]
    assert forms(replace(bare, past=past)) == (False, False)


def test_of_tables_that_are_not_large_a_bare_view_is_not_recomputed_to_save_nothing() -> None:
    bare = replace(LEAN, kept=replace(LEAN.kept, is_bare=True), table_rows=LARGE_TABLES - 1)
    past = [*LEAN.past, *twice(0.5), Past("full", 100, 0.1), *[Past("tuple", 100, 0.2)] * 2]
    assert forms(replace(bare, past=past)) == (False, False)
    assert forms(replace(bare, past=past, table_rows=LARGE_TABLES)) == (True, False)


@pytest.mark.parametrize("policy", ["auto", "incremental"])
def test_a_bare_view_is_recomputed_whatever_else_is_known(policy: str) -> None:
    bare = Kept(relations=2, is_bare=True)
    assert choose(policy, replace(FACTS, kept=bare, past=[])).full
    assert choose(policy, replace(FACTS, kept=bare, table_rows=10)).full


def test_other_work_on_the_machine_is_not_held_against_a_strategy() -> None:
    past = [COMPUTED, Past("id", 100, 0.1), Past("id", 100, 7.0)]
    assert not choose("auto", replace(FACTS, past=past)).full


def test_what_recomputing_takes_is_found_out_once_where_creating_may_have_told_too_much() -> None:
    created = Past("full", 0, 1.0)  # so half a second is expected
    doubtful = replace(FACTS, past=[created, *twice(0.3)])
    choice = choose("auto", doubtful)
    assert choice.full
    assert "found out once" in choice.reason
    assert not choose("auto", replace(doubtful, past=[created, *twice(0.1)])).full
    assert not choose("auto", replace(doubtful, past=[created, *twice(0.3)[:1]])).full
    assert not choose("auto", replace(doubtful, changes=500)).full
    assert not choose("auto", replace(doubtful, past=[created, Past("full", 9, 0.9), *twice(0.3)])).full
    assert not choose("auto", replace(doubtful, table_rows=LARGE_TABLES - 1)).full


def test_without_a_measured_recomputation_there_is_nothing_to_compare_with() -> None:
    assert not choose("auto", replace(FACTS, changes=900_000, past=[])).full


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.startswith("incremental")])
def test_incremental_policies_never_recompute(policy: str) -> None:
    assert not choose(policy, replace(FACTS, changes=900_000, past=[COMPUTED, Past("id", 9, 60.0)])).full


def test_the_full_policy_always_does() -> None:
    assert choose("full", replace(FACTS, table_rows=3, changes=1)).full


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT k, row_number() OVER (ORDER BY a, k) AS n FROM r", "PARTITION BY"),
        ("SELECT k, a FROM r ORDER BY a LIMIT 3", "first rows"),
        ("SELECT median(a) AS m FROM r", "without GROUP BY"),
        ("SELECT k, row_number() OVER (PARTITION BY a ORDER BY k) AS n FROM r", None),
        ("SELECT a, median(k) AS m FROM r GROUP BY a", None),
        ("SELECT max(a) AS m FROM r", None),
    ],
)
def test_what_needs_everything(query: str, reason: str | None) -> None:
    from viewkeep.chooser import needs_everything

    found = needs_everything(compiled(query, [table("r", "k INT, a INT", "k")]).plan)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_on_spark_targets_are_not_scanned_for_a_few_values() -> None:
    """A price changes: its rows are found in the cache, and the groups of these in the view."""
    view = compiled(COST)
    tables = {"parts": 10**6, "links": 10**7, "devices": 10**6}
    state = State({}, {}, {}, 0, datetime.now(UTC), sizes=tables)
    sizes = found_by_values(view, state)
    script = view.script(changes(parts="update:price"))
    assert rows_read(script, sizes) == 0
    assert rows_read(script, replace(sizes, is_looked_up=lambda leaf, column: False)) >= 10**7
    known = found_by_values(view, replace(state, cached={"cache_1": 500}))
    assert rows_read(script, replace(known, is_looked_up=lambda leaf, column: False)) == 1000


# the sum by device of the devices benchmark
DEVICES = """SELECT l.did, SUM(p.price) AS cost FROM parts p JOIN links l ON p.pid = l.pid GROUP BY l.did"""
LARGE = {"parts": 10**6, "links": 5 * 10**7}


def on_spark(
    past: list[Past], rows: dict[str, int], caches: dict[str, int] | None = None, **kinds: str
) -> tuple[bool, bool]:
    """What is chosen for 200 changes of a view that reads tables of so many rows: whether to recompute, and
    whether there are caches then."""
    compiled_view, present = compiled(DEVICES), changes(**kinds)
    tables = tuple(x for x in SHOP if x.name in rows)
    view = View("v", DEVICES, {}, tables)
    state = State({}, {}, {"cache_1": 0} if caches is None else caches, 0, datetime.now(UTC), sizes=rows)
    counts = {name: {words.partition(":")[0]: 200} for name, words in kinds.items()}
    choice = chosen(view, compiled_view, lambda: past, present, counts, state)
    return choice.full, choice.caches


@pytest.mark.parametrize(("links", "created", "took"), [(5 * 10**6, 8.0, 0.6), (5 * 10**7, 60.0, 0.8)])
@pytest.mark.parametrize("kinds", [{"parts": "update:price"}, {"links": "insert"}, {"links": "delete"}])
def test_on_spark_a_view_that_is_quick_by_its_caches_keeps_them(
    links: int, created: float, took: float, kinds: dict[str, str]
) -> None:
    rows = {"parts": links // 10, "links": links}
    past = [Past("full", 0, created, 2)]
    assert on_spark(past, rows, **kinds) == (False, True)
    for seconds in (took * 2, took, took, took, took):
        past.append(Past("id", 200, seconds, 2))
        assert on_spark(past, rows, **kinds) == (False, True)
    past.append(Past("full", 200, created / 2, 2))  # whatever recomputing took
    assert on_spark(past, rows, **kinds) == (False, True)
    past += [Past("tuple", 200, took * 5)] * 3
    assert on_spark(past, rows, **kinds) == (False, True)
    assert on_spark(past, rows, {}, **kinds) == (True, True), "and gets them back"


def test_on_spark_caches_are_given_up_once_the_script_was_measured() -> None:
    created = Past("full", 0, 60.0, 2)
    slow = [Past("id", 200, 40.0, 2)] * 3
    quick = [Past("tuple", 200, 4.0)] * 3
    kinds = {"links": "insert"}
    assert on_spark([created, *quick], LARGE, **kinds) == (False, True)
    assert on_spark([created, *quick, *slow, Past("full", 9, 50.0, 2)], LARGE, **kinds) == (False, False)
    assert on_spark([created, *quick, *slow, Past("full", 9, 50.0, 2)], LARGE, {}, **kinds) == (False, False)


def test_on_spark_a_view_that_is_cheaper_to_recompute_is_kept_without_caches() -> None:
    past = [Past("full", 0, 60.0, 2), *[Past("id", 200, 70.0, 2)] * 3]
    assert on_spark(past, LARGE, links="insert") == (True, False)
    past.append(Past("full", 200, 10.0, 1))
    assert on_spark(past, LARGE, {}, links="insert") == (True, False)


def test_on_spark_nothing_is_asked_for_that_the_policy_settles() -> None:
    def unasked() -> list[Past]:
        raise AssertionError("the past is read for nothing")

    view = View("v", DEVICES, {"refresh_policy": "full"}, SHOP)
    state = State({}, {}, {}, 0, datetime.now(UTC), sizes=LARGE)
    given = changes(parts="insert"), {"parts": {"insert": 200}}, state
    choice = chosen(view, compiled(DEVICES), unasked, *given)
    assert (choice.full, choice.caches) == (True, False)
    choice = chosen(
        replace(view, options={"refresh_policy": "incremental"}), compiled(DEVICES), unasked, *given
    )
    assert (choice.full, choice.caches, choice.reason) == (True, True, "its caches were missing")
