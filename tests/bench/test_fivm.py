"""The F-IVM benchmarks: rows as their rules say, and all ways to one answer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from viewkeep.bench import fivm
from viewkeep.bench.fivm_data import housing, retailer, triangles
from viewkeep.bench.fivm_methods import METHODS
from viewkeep.cli.output import Console


def test_housing_has_the_published_sizes() -> None:
    data = housing(4, 50)
    sizes = {table: data.rows(table) for table in data.tables}
    assert sizes == {
        "House": 200, "Shop": 200, "Institution": 100, "Restaurant": 100, "Demographics": 50, "Transport": 50,
    }  # fmt: skip
    assert len(data.query.variables) == 27
    assert [housing(s, 1).rows("Institution") for s in (1, 3, 20)] == [1, 2, 4]


def test_retailer_is_a_snowflake_by_its_keys() -> None:
    data = retailer(0.002)
    assert len(data.query.variables) == 43
    assert {t: data.rows(t) for t in ("Item", "Location", "Census")} == {
        "Item": 5618, "Location": 1317, "Census": 1302,
    }  # fmt: skip
    weather = set(zip(data.tables["Weather"]["locn"], data.tables["Weather"]["dateid"], strict=True))
    assert len(weather) == data.rows("Weather")
    inventory = data.tables["Inventory"]
    assert set(zip(inventory["locn"], inventory["dateid"], strict=True)) <= weather


def test_triangles_has_each_edge_once() -> None:
    data = triangles(900, 60)
    edges = [np.stack(list(columns.values())) for columns in data.tables.values()]
    assert len(np.unique(np.concatenate(edges, axis=1), axis=1)[0]) == 900


def test_batches_take_turns_and_lose_nothing() -> None:
    data = housing(2, 5)
    batches = list(data.batches(4))
    assert [table for table, _ in batches[:3]] == ["House", "Shop", "Institution"]
    assert sum(len(c["postcode"]) for _, c in batches) == data.total
    houses = np.concatenate([c["price"] for table, c in batches if table == "House"])
    assert houses.tolist() == data.tables["House"]["price"].tolist()


@pytest.mark.parametrize("workload", fivm.WORKLOADS)
def test_all_ways_come_to_the_same_answer(
    workload: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("viewkeep.bench.fivm_data.RETAILER_SIZES", SMALL)
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    status = fivm.run_fivm(
        scale=0.0004,
        workloads=[workload],
        methods=None,
        batches=["20"],
        repeat=1,
        json=True,
        output=Console(json=True),
        interpret=True,
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [line["method"] for line in lines] == [m for m in METHODS if m in fivm.WORKLOADS[workload].methods]
    for line in lines:
        assert line["bench"] == "fivm"
        assert line["workload"] == workload
        assert line["batch"] == 20
        assert line["tuples_per_s"] > 0
        assert line["memory_mb"] >= 0
        assert line["stored"] > 0


SMALL = {"Inventory": 50_000, "Weather": 40_000, "Item": 5, "Location": 4, "Census": 3}


def test_an_answer_that_differs_is_an_error() -> None:
    with pytest.raises(Exception, match="recursive has 2"):
        fivm._check("housing-sum", {"fivm": {"count": 1.0}, "recursive": {"count": 2.0}})


def test_chains_and_payloads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    monkeypatch.setattr("viewkeep.bench.fivm_payloads.HOUSES", 3)
    status = fivm.run_fivm(
        scale=0.01,
        workloads=["matrix-chain", "housing-factorized"],
        methods=None,
        batches=None,
        repeat=1,
        json=True,
        output=Console(json=True),
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    found = {(line["workload"], line["method"]): line for line in lines}
    assert set(found) == {
        ("matrix-chain", "fivm"),
        ("matrix-chain", "first-order"),
        ("matrix-chain", "recompute-numpy"),
        ("housing-factorized", "factorized"),
        ("housing-factorized", "listing"),
    }
    assert found["housing-factorized", "factorized"]["rows"] == found["housing-factorized", "listing"]["rows"]
