"""Which strategy is chosen, by the policy and by what earlier refreshes took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from viewkeep.chooser import LARGE_TABLES, POLICIES, SMALL_TABLES, Facts, Kept, Past, choose

from .helpers import compiled, table

CREATED = Past("full", 0, 1.0)
# a million rows, of which the script reads none
FACTS = Facts(
    changes=100, table_rows=1_000_000, query_reads=1_000_000, script_reads=0, overhead=0.05, past=[CREATED]
)


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
    slow = [CREATED, Past("id", 100, 5.0)]
    assert choose("auto", replace(FACTS, past=slow)).full
    quick = [CREATED, Past("id", 100, 0.1)]
    assert not choose("auto", replace(FACTS, script_reads=5_000_000, past=quick)).full


def test_the_refresh_of_nearest_size_is_asked() -> None:
    past = [CREATED, Past("id", 100, 0.1), Past("groups", 100_000, 8.0)]
    assert not choose("auto", replace(FACTS, changes=150, past=past)).full
    assert choose("auto", replace(FACTS, changes=90_000, past=past)).full


def test_more_changes_take_longer_by_their_rows_not_by_their_ratio() -> None:
    past = [CREATED, Past("id", 10, 0.05)]
    assert not choose("auto", replace(FACTS, changes=2_000, past=past)).full
    assert choose("auto", replace(FACTS, changes=100_000, past=past)).full


def test_few_changes_do_not_take_what_many_took() -> None:
    past = [CREATED, Past("id", 500_000, 20.0)]
    assert not choose("auto", replace(FACTS, changes=10, past=past)).full


def test_the_last_of_several_like_it_is_asked() -> None:
    past = [CREATED, Past("id", 100, 9.0), Past("id", 100, 0.1)]
    assert not choose("auto", replace(FACTS, past=past)).full


def test_small_tables_are_not_recomputed_whatever_it_costs() -> None:
    small = replace(FACTS, table_rows=SMALL_TABLES - 1, changes=90_000, past=[CREATED, Past("id", 9, 60.0)])
    assert not choose("auto", small).full


def test_of_tables_that_are_not_large_recomputing_must_save_time_worth_saving() -> None:
    middling = replace(FACTS, table_rows=LARGE_TABLES - 1, past=[Past("full", 0, 0.02), Past("id", 100, 0.2)])
    assert not choose("auto", middling).full
    assert choose("auto", replace(middling, table_rows=LARGE_TABLES)).full
    assert choose("auto", replace(middling, past=[Past("full", 0, 0.02), Past("id", 100, 0.3)])).full


# a view with one cache; filling both takes a second, the view alone a third of one
CACHED = replace(FACTS, past=[replace(CREATED, statements=2)], kept=Kept(relations=2, longest=0.3))


def test_where_scripts_lose_to_the_view_alone_it_is_recomputed_without_its_caches() -> None:
    assert not choose("auto", CACHED).full  # never tried
    lost = replace(CACHED, past=[*CACHED.past, Past("id", 100, 0.5)])
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


@pytest.mark.parametrize("policy", ["auto", "incremental"])
def test_a_bare_view_is_recomputed_whatever_else_is_known(policy: str) -> None:
    bare = Kept(relations=2, is_bare=True)
    assert choose(policy, replace(FACTS, kept=bare, past=[])).full
    assert choose(policy, replace(FACTS, kept=bare, table_rows=10)).full


def test_other_work_on_the_machine_is_not_held_against_a_strategy() -> None:
    past = [CREATED, Past("id", 100, 0.1), Past("id", 100, 7.0)]
    assert not choose("auto", replace(FACTS, past=past)).full


def test_without_a_measured_recomputation_there_is_nothing_to_compare_with() -> None:
    assert not choose("auto", replace(FACTS, changes=900_000, past=[])).full


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.startswith("incremental")])
def test_incremental_policies_never_recompute(policy: str) -> None:
    assert not choose(policy, replace(FACTS, changes=900_000, past=[CREATED, Past("id", 9, 60.0)])).full


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
