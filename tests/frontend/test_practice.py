"""Views from practice are kept equal to their queries, which DuckDB runs by itself."""

from __future__ import annotations

import pytest

import viewkeep

from ..helpers import con
from ..oracle.harness import bag, independent
from .practice import BATCHES, SETUP, VIEWS


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_from_practice_is_kept(name: str) -> None:
    query, alone = VIEWS[name], independent(VIEWS[name])
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(SETUP)
        for strategy in ("id", "tuple"):
            vk.sql(f"CREATE MATERIALIZED VIEW {strategy} WITH (strategy = '{strategy}') AS {query}")
        for number, batch in enumerate(((), *BATCHES)):
            for statement in batch:
                vk.sql(statement)
            vk.refresh()
            expected = bag(con(vk).execute(alone).fetchall())
            for strategy in ("id", "tuple"):
                found = bag(con(vk).execute(f"SELECT * FROM {strategy}").fetchall())
                assert found == expected, f"{strategy}, after batch {number}"
        assert vk.verify("id")
        assert vk.verify("tuple")
