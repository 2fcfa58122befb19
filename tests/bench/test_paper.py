"""The experiments of figure 12: their tables and views, and that all methods keep the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import viewkeep
from tests.cli.conftest import Ran
from viewkeep.bench import tables as markdown_tables
from viewkeep.bench.paper import FIGURES, Point, change, points, tables
from viewkeep.bench.paper_measure import crossover, medians, models, times
from viewkeep.bench.paper_report import page
from viewkeep.cli.main import app


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Runs viewkeep where there is a place for results."""
    (tmp_path / "bench" / "results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ran:
        result = CliRunner().invoke(app, list(arguments))
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_varies_one_parameter(figure: str) -> None:
    made = list(points(figure, 1_000_000))
    assert [value for value, _ in made] == list(FIGURES[figure].values)
    for value, point in made:
        assert getattr(point, FIGURES[figure].parameter) == value


@pytest.mark.parametrize(
    "point", [Point(100), Point(100, f=5), Point(90, j=4, s=None, f=6), Point(90, s=100, f=6)]
)
def test_the_tables(point: Point) -> None:
    with viewkeep.connect("duckdb:") as vk:
        for statement in tables(point):
            vk.sql(statement)

        def number(query: str) -> int:
            return int(vk.sql(query).rows[0][0])

        assert number("SELECT COUNT(*) AS n FROM parts") == point.parts
        assert number("SELECT COUNT(*) AS n FROM devices_parts") == point.links
        each = "SELECT did, COUNT(*) AS n FROM devices_parts GROUP BY did"
        assert vk.sql(f"SELECT DISTINCT n FROM ({each}) AS q").rows == ((point.f,),)
        joined = number(f"SELECT COUNT(*) AS n FROM {point.joined()}")
        assert joined == point.links if point.s in (None, 100) else 0 < joined < point.links


@pytest.mark.parametrize("d", [1, 7, 50])
def test_a_change_is_of_the_size_that_it_says(d: int) -> None:
    point = Point(100, d=d)
    with viewkeep.connect("duckdb:") as vk:
        for statement in tables(point):
            vk.sql(statement)
        sizes = [vk.sql(change(point, number)).detail for number in range(3)]
        assert all(0.8 * d <= size <= d for size in sizes), sizes


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]
)
def test_the_experiment(command: Callable[..., Ran], tmp_path: Path, engine: str) -> None:
    asked = ("--figure", "12b", "--scale", "0.0002", "--repeat", "1", "--engine", engine)
    ran = command("bench", "paper", *asked, "--json")
    assert ran.status == 0, ran.err
    methods = {"id", "tuple", "fixed", "streams", "recompute"}
    assert {(one["value"], one["method"]) for one in ran.objects} == {
        (j, method) for j in FIGURES["12b"].values for method in methods
    }
    kept = [one for one in ran.objects if one["method"] != "recompute"]
    assert all({"diff", "caches", "view"} <= set(one["phases"]) for one in kept)
    document = json.loads((tmp_path / "bench" / "results" / f"paper-{engine}.json").read_text())
    rows = document["figures"]["12b"]["medians"]
    assert len(rows) == 25
    assert set(models(rows)) == (set(FIGURES["12b"].values) if engine == "postgres" else set())
    assert "Figure 12b" in (tmp_path / "bench" / "results" / f"paper-{engine}.html").read_text()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of two values each."""
    cut = {name: replace(figure, values=figure.values[:2]) for name, figure in FIGURES.items()}
    monkeypatch.setattr("viewkeep.bench.paper.FIGURES", cut)


@pytest.mark.xdist_group("postgres")
def test_cold_rounds(command: Callable[..., Ran], tmp_path: Path, short: None) -> None:
    asked = ("--figure", "12c", "--scale", "0.0002", "--repeat", "1", "--cold", "1", "--engine", "postgres")
    ran = command("bench", "paper", *asked, "--json")
    assert ran.status == 0, ran.err
    found = {(one["state"], one["method"]) for one in ran.objects}
    assert {m for state, m in found if state == "cold"} == {"id", "tuple", "fixed", "streams"}
    assert {m for state, m in found if state == "warm"} == {"id", "tuple", "fixed", "streams", "recompute"}
    made = (tmp_path / "bench" / "results" / "paper-postgres.html").read_text()
    assert "Cold: nothing in memory" in made
    assert "predicted" in made


def test_a_figure_takes_the_place_of_its_own_results_alone(
    command: Callable[..., Ran], tmp_path: Path, short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "bench" / "results" / "paper-duckdb.json"
    for figure, scale in (("12c", "0.0002"), ("12d", "0.0002"), ("12c", "0.0004")):
        asked = ("--figure", figure, "--scale", scale, "--repeat", "1")
        assert command("bench", "paper", *asked).status == 0
    figures = json.loads(results.read_text())["figures"]
    assert {name: run["scale"] for name, run in figures.items()} == {"12c": 0.0004, "12d": 0.0002}
    capsys.readouterr()
    markdown_tables.main()
    out = capsys.readouterr().out
    assert "## paper on duckdb" in out
    assert "| s = 6 |" in out


def test_figure_10(command: Callable[..., Ran], tmp_path: Path) -> None:
    ran = command("bench", "paper", "--figure", "10", "--scale", "0.0002", "--repeat", "1", "--json")
    assert ran.status == 0, ran.err
    found = {(one["value"], one["method"]) for one in ran.objects}
    assert len({(view, method) for view, method in found if method in ("id", "tuple")}) == 16
    assert {view for view, method in found if method == "stored"} == {"q7", "q11", "q18"}
    assert "Figure 10" in (tmp_path / "bench" / "results" / "paper-duckdb.html").read_text()


def test_what_an_engine_holds_in_memory_stays_there(command: Callable[..., Ran]) -> None:
    ran = command("bench", "paper", "--cold", "1", "--json")
    assert ran.status == 1
    assert "--cold" in ran.objects[0]["hint"]


def test_no_such_figure(command: Callable[..., Ran]) -> None:
    ran = command("bench", "paper", "--figure", "13", "--json")
    assert ran.status == 1
    assert "12a" in ran.objects[0]["hint"]


@pytest.mark.parametrize(
    "asked",
    [
        ("paper", "--diff", "5"),
        ("devices", "--figure", "12a"),
        ("devices", "--cold", "1"),
        ("paper", "--at", "x.db"),
    ],
)
def test_options_of_another_workload(command: Callable[..., Ran], asked: tuple[str, ...]) -> None:
    ran = command("bench", *asked, "--json")
    assert ran.status == 1
    assert "means nothing" in ran.objects[0]["message"]


def measured(value: int, method: str, seconds: float, number: int, **more: object) -> dict[str, object]:
    head = {"figure": "12a", "parameter": "d", "value": value, "view": "cost", "method": method, "rows": 10}
    state = "warm" if number else "first"
    return {
        **head, "diff": value, "seconds": seconds, "round": number, "state": state,
        "phases": {"net": 7.0, "view": seconds / 2}, **more,
    }  # fmt: skip


def test_medians_are_of_warm_rounds() -> None:
    rows = medians(
        [
            measured(100, m, s, n)
            for m, f in (("id", 1), ("tuple", 3))
            for n, s in enumerate((9.0, f, 2 * f, 3 * f))
        ]
    )
    found = [(r["method"], r["warm"]["seconds"], r["warm"]["least"], r["warm"]["most"]) for r in rows]
    assert found == [("id", 2, 1, 3), ("tuple", 6, 3, 9)]
    assert [r["first"]["seconds"] for r in rows] == [9.0, 9.0]
    assert times(rows, "warm") == {100: {"id": 1, "tuple": 3}}
    assert times(rows, "warm", "script") == {100: {"id": 1, "tuple": 3}}
    assert times(rows, "cold") == {}


def test_where_recomputing_begins_to_win() -> None:
    taken = {100: 1.0, 2_000: 4.0, 8_000: 16.0}
    rows = medians(
        [measured(d, m, s, 1) for d, s in taken.items() for m, s in (("id", s), ("recompute", 5.0))]
    )
    assert crossover(rows, "id") == "between 2,000 and 8,000"
    assert crossover(rows[:2], "id") == "not reached"
    assert crossover(rows[4:], "id") == "below 8,000"


def test_the_model_comes_from_counts() -> None:
    counts = {"changes": 100, "rows_changed": 190, "lookups": 300, "rows_read": 400}
    joined = {"changes": 100, "rows_changed": 190, "lookups": 1_100, "rows_read": 2_380}
    rows = medians(
        [
            measured(100, "id", 1.0, 1, **counts, cache_rows=200, cache_inserts=0),
            measured(100, "tuple", 3.0, 1, **joined),
        ]
    )
    made = models(rows)[100]
    assert (made.a, made.p, made.g, made.k) == (31, 2, 0.95, 0)
    assert made.speedup == pytest.approx((31 + 3.8) / (1 + 2 + 3.8))


def document(rows: list[dict[str, object]], machine: dict[str, str]) -> dict[str, object]:
    run = {"scale": 0.1, "repeat": 1, "cold": 0, "machine": machine, "medians": rows}
    return {"bench": "paper", "engine": "duckdb", "figures": {"12a": run}}


def test_the_page_escapes_what_it_shows() -> None:
    rows = medians(
        [measured(100, m, 1.0, n) for m in ("id", "tuple", "fixed", "streams", "recompute") for n in (0, 1)]
    )
    made = page(document(rows, {"cpu": "<b>"}))
    assert "<b>" not in made
    assert made.count("<rect") == 16


def test_plots_are_well_formed() -> None:
    rows = medians([measured(d, m, 0.5, 1) for d in (100, 200) for m in ("id", "tuple", "recompute")])
    made = page(document(rows, {}))
    for svg in re.findall("<svg.*?</svg>", made):
        bars = ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}rect")
        assert len(bars) == 2 * 2 * 4
        assert all(0 <= float(bar.attrib["y"]) <= 300 for bar in bars)
