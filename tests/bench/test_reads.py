"""Reading views while diffs wait for them: that they do wait then, and are folded in for the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewkeep
from viewkeep.bench.devices import Devices
from viewkeep.bench.methods import METHODS
from viewkeep.bench.reads import HEADINGS, cells, measure_reads
from viewkeep.cli.output import Console

SCALE = 0.0001


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("alone")
def test_views_are_read_while_diffs_wait_and_when_they_are_folded_in(
    spark_engine: viewkeep.Connection, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vk, devices = spark_engine, Devices(SCALE)
    for _, statement in devices.load("spark", tmp_path):
        vk.sql(statement)
    methods = [METHODS["spark"][name](vk, devices, "spj") for name in ("id", "auto", "recompute")]
    for method in methods:
        method.create()
    waited = []
    sql = vk.sql

    def watched(text: str) -> Any:
        if "spj_id" in text:
            stored = "SELECT COUNT(*) FROM viewkeep.spj_id__rows WHERE `:ids` IS NOT NULL"
            waited.append(spark.sql(stored).collect()[0][0])
        return sql(text)

    monkeypatch.setattr(vk, "sql", watched)
    changes = [devices.change(5, number) for number in range(2)]
    reads = measure_reads(vk, devices, methods, changes, 1, Console(json=True))
    assert [(one["view"], one["query"], one["refreshes"]) for one in reads] == [
        ("spj", "the whole view", 2),
        ("spj", "some keys", 2),
    ]
    assert waited == [10] * 4 + [0] * 4
    assert all(len(cells(one)) == len(HEADINGS) for one in reads)
