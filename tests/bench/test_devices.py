"""The tables of the devices workload are what the docs say, on every engine the same."""

from __future__ import annotations

from itertools import pairwise

import pytest

import viewkeep
from viewkeep.bench import devices
from viewkeep.bench.devices import MERGES, RECOMPUTES, VIEWS, Tables

PARTS = 500


@pytest.fixture
def vk() -> viewkeep.Connection:
    vk = viewkeep.connect("duckdb:")
    tables = Tables(PARTS)
    for _, statement in [*tables.create(), *tables.fill()]:
        vk.sql(statement)
    return vk


def _one(vk: viewkeep.Connection, query: str) -> object:
    return vk.sql(query).rows[0][0]


def test_tables_have_the_stated_sizes(vk: viewkeep.Connection) -> None:
    sizes = {name: _one(vk, f"SELECT COUNT(*) FROM {name}") for name in ("parts", "devices", "devices_parts")}
    assert sizes == {"parts": PARTS, "devices": PARTS, "devices_parts": 10 * PARTS}


def test_every_device_has_ten_parts_that_exist(vk: viewkeep.Connection) -> None:
    counts = vk.sql("SELECT DISTINCT n FROM (SELECT COUNT(*) AS n FROM devices_parts GROUP BY did) AS c").rows
    assert counts == ((10,),)
    joined = "SELECT COUNT(*) FROM devices_parts NATURAL JOIN parts NATURAL JOIN devices"
    assert _one(vk, joined) == 10 * PARTS


def test_about_a_fifth_of_the_devices_are_phones(vk: viewkeep.Connection) -> None:
    phones = _one(vk, "SELECT COUNT(*) FROM devices WHERE category = 'phone'")
    assert isinstance(phones, int)
    assert PARTS * 0.1 < phones < PARTS * 0.3


def test_links_are_not_clustered_by_device(vk: viewkeep.Connection) -> None:
    rows = vk.sql("SELECT did FROM devices_parts").rows
    same = sum(a == b for a, b in pairwise(rows))
    assert same == 0


def test_a_change_of_prices_touches_as_many_rows_as_it_says(vk: viewkeep.Connection) -> None:
    assert vk.sql(Tables(PARTS).change_prices(50, "some")).detail == 50


@pytest.mark.parametrize("integer_keys", [False, True])
def test_a_change_of_more_prices_than_a_statement_should_list_touches_as_many_rows(
    integer_keys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_LITERALS", 10)
    tables, vk = Tables(PARTS, integer_keys), viewkeep.connect("duckdb:")
    for _, statement in [*tables.create(), *tables.fill()]:
        vk.sql(statement)
    changes = [tables.change_prices(50, seed) for seed in ("some", "others")]
    assert len(set(changes)) == 2
    assert [vk.sql(change).detail for change in changes] == [50, 50]
    assert vk.sql(tables.change_prices(PARTS, "all")).detail == PARTS


@pytest.mark.parametrize("integer_keys", [False, True])
def test_a_key_in_a_statement_is_the_key_in_the_table(integer_keys: bool) -> None:
    tables = Tables(PARTS, integer_keys)
    vk = viewkeep.connect("duckdb:")
    for _, statement in [*tables.create(), *tables.fill()]:
        vk.sql(statement)
    assert _one(vk, f"SELECT COUNT(*) FROM parts WHERE pid = {tables.key('P', 7)}") == 1


def test_keys_keep_one_width_past_ten_million_parts() -> None:
    tables = Tables(20_000_000)
    assert len(tables.key("P", 0)) == len(tables.key("P", 2 * 20_000_000 - 1))


def test_every_view_has_a_job_to_compare_with() -> None:
    assert MERGES.keys() == VIEWS.keys()


@pytest.mark.parametrize("view", VIEWS)
def test_the_query_in_another_order_is_the_same_query(vk: viewkeep.Connection, view: str) -> None:
    assert sorted(vk.sql(RECOMPUTES[view]).rows) == sorted(vk.sql(VIEWS[view]).rows)
