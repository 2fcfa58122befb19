"""Rows are chosen by arithmetic: as many as asked for, everywhere, and others each time."""

from __future__ import annotations

import pytest

import viewkeep
from viewkeep.bench.keys import scattered, shuffled


@pytest.fixture(scope="module")
def vk() -> viewkeep.Connection:
    return viewkeep.connect("duckdb:")


def numbers(vk: viewkeep.Connection, count: int, start: int, size: int) -> set[int]:
    condition = scattered("id", count, start, size)
    return {row[0] for row in vk.sql(f"SELECT id FROM range(0, {count}) AS t(id) WHERE {condition}").rows}


@pytest.mark.parametrize("count", [10, 1500, 15_000])
def test_shuffled_numbers_come_up_once_each(vk: viewkeep.Connection, count: int) -> None:
    rows = vk.sql(f"SELECT {shuffled('id', count)} FROM range(0, {count}) AS t(id)").rows
    assert {row[0] for row in rows} == set(range(count))
    assert [row[0] for row in rows] != list(range(count))


def test_as_many_are_chosen_as_asked_for_and_others_each_time(vk: viewkeep.Connection) -> None:
    first, second = numbers(vk, 15_000, 0, 150), numbers(vk, 15_000, 150, 150)
    assert len(first) == len(second) == 150
    assert not first & second


def test_they_are_spread_over_all(vk: viewkeep.Connection) -> None:
    chosen = numbers(vk, 15_000, 700, 150)
    assert all(any(n // 1500 == tenth for n in chosen) for tenth in range(10))


def test_past_the_end_it_goes_on_at_the_start(vk: viewkeep.Connection) -> None:
    assert len(numbers(vk, 100, 95, 10)) == 10
    assert numbers(vk, 100, 103, 10) == numbers(vk, 100, 3, 10)
