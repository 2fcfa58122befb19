"""The runner: the form of its output, and that a wrong result is not reported as a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from viewkeep.bench import methods, runner
from viewkeep.capture.duckdb import PLACES
from viewkeep.cli.output import Console
from viewkeep.errors import Unsupported

FIELDS = {
    "bench",
    "engine",
    "view",
    "method",
    "rows",
    "diff",
    "seconds",
    "round",
    "rows_changed",
    "statements",
}
SCALE = 0.0001  # 100 parts, 100 devices, 1000 devices_parts


def run(*, as_json: bool = True, **more: Any) -> int:
    given: dict[str, Any] = {
        "engine": "duckdb",
        "scale": SCALE,
        "views": None,
        "methods": None,
        "diffs": ["5"],
        "repeat": 2,
        "json": as_json,
        "at": "",
        "data": None,
        "output": Console(json=as_json),
    }
    name = more.pop("name", "devices")
    return runner.run(name, **(given | more))


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Results of tests must not end up among the real ones."""
    monkeypatch.chdir(tmp_path)


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_measurement_is_an_object_with_the_stated_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(diffs=["5", "10"]) == 0
    measured = objects(capsys)
    assert len(measured) == 2 * 3 * 2 * 2  # views, methods, diffs, rounds
    for one in measured:
        assert one.keys() >= FIELDS
        assert one["bench"] == "devices"
        assert one["engine"] == "duckdb"
        assert one["rows"] == 1000
        assert one["seconds"] > 0
        assert "share" not in one
    assert {(one["view"], one["method"]) for one in measured} == {
        (view, method) for view in ("spj", "cost") for method in ("id", "tuple", "recompute")
    }


def test_a_method_runs_the_strategy_that_it_is_named_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(methods=["id", "tuple"]) == 0
    assert all(one["strategy"] == one["method"] for one in objects(capsys))


def test_views_and_methods_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(views=["cost"], methods=["recompute"], repeat=1) == 0
    assert [(one["view"], one["method"]) for one in objects(capsys)] == [("cost", "recompute")]


def test_a_diff_larger_than_the_table_is_reported_as_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(views=["spj"], methods=["id"], diffs=["200", "1000"], repeat=1) == 0
    assert [one["diff"] for one in objects(capsys)] == [100]


def test_a_size_may_be_a_share_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(views=["spj"], methods=["id"], diffs=["5%"], repeat=1) == 0
    assert [(one["diff"], one["share"]) for one in objects(capsys)] == [(5, 0.05)]


def test_integer_keys_work_too() -> None:
    assert run(name="devices-int", repeat=1) == 0


def test_without_json_it_prints_medians_and_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(as_json=False) == 0
    out = capsys.readouterr().out
    assert "median s" in out
    assert "recompute/id" in out
    assert "tuple/id" in out
    assert "auto" not in out


@pytest.mark.parametrize("broken", [methods.DuckDBRecompute, methods.Maintained])
def test_a_result_that_is_not_up_to_date_fails(
    broken: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bench" / "results").mkdir(parents=True)
    monkeypatch.setattr(broken, "refresh", lambda self: None)
    monkeypatch.setattr(broken, "facts", lambda self: {"rows_changed": 0, "statements": 0})
    assert run() == 1
    assert "is wrong" in capsys.readouterr().err
    assert list((tmp_path / "bench" / "results").iterdir()) == []


def test_a_view_that_differs_from_its_query_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refresh = methods.Maintained.refresh

    def spoiled(self: methods.Maintained) -> None:
        refresh(self)
        con = self._vk.engine._con  # type: ignore[attr-defined]
        con.execute(f"DELETE FROM {PLACES.target(self.relation, 'rows').sql('duckdb')} WHERE rowid = 0")

    monkeypatch.setattr(methods.Maintained, "refresh", spoiled)
    assert run(views=["spj"]) == 1
    assert "spj_id is wrong" in capsys.readouterr().err


def test_results_are_kept_in_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "bench" / "results").mkdir(parents=True)
    assert run() == 0
    (path,) = (tmp_path / "bench" / "results").iterdir()
    assert path.name == "devices-duckdb-0.0001.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    head = {"bench", "engine", "scale", "rows", "machine"}
    assert document.keys() == head | {"summary", "refused", "medians", "measurements"}
    assert [(one["method"], one["baseline"], one["views"]) for one in document["summary"]] == [
        ("tuple", "id", 2),
        ("recompute", "id", 2),
    ]
    assert document["refused"] == []
    assert len(document["medians"]) == 6
    assert len(document["measurements"]) == 12
    assert document["machine"].keys() >= {"cpu", "cores", "memory_gb", "os", "python", "libraries", "date"}
    assert document["machine"]["libraries"].keys() >= {"viewkeep", "duckdb", "sqlglot"}


@pytest.mark.parametrize(
    "wrong",
    [{"name": "cars"}, {"views": ["cars"]}, {"methods": ["merge"]}, {"diffs": ["cars"]}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_not_there_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match=r"\b(cars|merge)\b"):
        run(**wrong)


def _refusing(monkeypatch: pytest.MonkeyPatch, views: set[str]) -> None:
    """Views that cannot be made."""
    create = methods.Maintained.create

    def refuses(self: methods.Maintained) -> None:
        if self.view in views:
            raise Unsupported("not in a view")
        create(self)

    monkeypatch.setattr(methods.Maintained, "create", refuses)


def test_a_view_that_is_refused_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bench" / "results").mkdir(parents=True)
    _refusing(monkeypatch, {"spj"})
    assert run(methods=["recompute", "id"], repeat=1) == 0
    printed = objects(capsys)
    refused = {
        "bench": "devices", "engine": "duckdb", "view": "spj", "method": "id",
        "refused": "not in a view", "code": "unsupported",
    }  # fmt: skip
    assert printed[0] == refused
    assert {(one["view"], one["method"]) for one in printed[1:]} == {("cost", "id"), ("cost", "recompute")}
    (path,) = (tmp_path / "bench" / "results").iterdir()
    assert json.loads(path.read_text(encoding="utf-8"))["refused"] == [refused]


def test_refusals_are_shown_to_people_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _refusing(monkeypatch, {"spj"})
    assert run(as_json=False, repeat=1) == 0
    assert "creating spj_id ... refused: not in a view" in capsys.readouterr().out


def test_where_every_view_is_refused_the_run_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bench" / "results").mkdir(parents=True)
    _refusing(monkeypatch, {"spj", "cost"})
    assert run() == 1
    assert "nothing was measured" in capsys.readouterr().err
    assert list((tmp_path / "bench" / "results").iterdir()) == []


def test_diffs_wait_on_spark_only() -> None:
    with pytest.raises(Unsupported, match="no diffs wait on duckdb"):
        run(waiting=10)
