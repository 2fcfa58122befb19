"""Constructs that the front end rewrites to others: each view equals its query, run by the engine alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random

import pytest

import viewkeep

from ..helpers import con
from ..oracle.harness import bag, independent
from .constructs import CORRELATED, STARS, TABLES, batch, start

VIEWS: Mapping[str, str] = {**CORRELATED, **STARS}
SEEDS, BATCHES = int(os.environ.get("VIEWKEEP_SEEDS", "1")), 3


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_kept_under_random_changes(name: str) -> None:
    query = VIEWS[name]
    for seed in range(SEEDS):
        random = Random(f"{name} {seed}")
        with viewkeep.connect("duckdb:") as vk:
            for statement in (*TABLES, *start(random)):
                vk.sql(statement)
            for strategy in ("id", "tuple"):
                vk.sql(f"CREATE MATERIALIZED VIEW {strategy} WITH (strategy = '{strategy}') AS {query}")
            for number in range(BATCHES + 1):
                for statement in batch(random, number) if number else ():
                    vk.sql(statement)
                vk.refresh()
                expected = bag(con(vk).execute(independent(query)).fetchall())
                for strategy in ("id", "tuple"):
                    found = bag(con(vk).execute(f"SELECT * FROM {strategy}").fetchall())
                    assert found == expected, f"{strategy}, seed {seed}, after batch {number}"
                    assert vk.verify(strategy)
