"""The tables, queries and changes of TPC-H, without views."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot

import viewkeep
from viewkeep.bench import runner, tpch_data
from viewkeep.bench.tpch import TABLES, TPCH, VIEWS, Changes
from viewkeep.cli.output import Console
from viewkeep.errors import EngineError, Unavailable, Unsupported

SCALE = 0.01
SIZES = {
    "region": 5, "nation": 25, "supplier": 100, "customer": 1500, "part": 2000, "partsupp": 8000,
    "orders": 15_000, "lineitem": 60_175,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@pytest.fixture
def vk(folder: Path) -> Iterator[viewkeep.Connection]:
    with viewkeep.connect("duckdb:") as vk:
        for _, statement in TPCH(SCALE).load("duckdb", folder):
            vk.sql(statement)
        yield vk


def one(vk: viewkeep.Connection, query: str) -> int:
    return int(vk.sql(query).rows[0][0])


def dangling(vk: viewkeep.Connection) -> dict[str, int]:
    """How many rows name a row of another table that is not there."""
    found = {}
    for table in TABLES:
        for own, other, theirs in table.references:
            same = " AND ".join(f"a.{a} = b.{b}" for a, b in zip(own, theirs, strict=True))
            count = one(
                vk,
                f"SELECT COUNT(*) FROM {table.name} AS a "
                f"WHERE NOT EXISTS (SELECT 1 FROM {other} AS b WHERE {same})",
            )
            if count:
                found[f"{table.name} {own}"] = count
    return found


def test_tables_are_loaded_with_their_keys(vk: viewkeep.Connection) -> None:
    assert {name: one(vk, f"SELECT COUNT(*) FROM {name}") for name in SIZES} == SIZES
    assert dangling(vk) == {}
    for table in TABLES:
        found = vk.engine.find_table(table.name)
        assert found is not None
        assert found.key == table.key
        assert len(found.foreign_keys) == len(table.references)
        assert not any(column.nullable for column in found.columns)


def test_files_are_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tpch_data.files(SCALE, folder)
    assert sorted(path.stem for path in made.iterdir()) == sorted(SIZES)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it generates again"))
    assert tpch_data.files(SCALE, folder) == made


def test_a_generator_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "some\nno space left\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(EngineError, match="no space left"):
        tpch_data.files(SCALE, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_the_generator_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpch_data.shutil, "which", lambda *_, **__: None)
    with pytest.raises(Unavailable) as problem:
        tpch_data.files(SCALE, tmp_path)
    assert "viewkeep[bench]" in problem.value.hint


def test_a_scale_at_which_keys_come_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"0\.005"):
        tpch_data.files(0.005, tmp_path)


def test_every_query_has_an_answer(vk: viewkeep.Connection) -> None:
    assert list(VIEWS) == [f"q{number}" for number in range(1, 23)]
    for name, query in TPCH(SCALE).views.items():
        assert vk.sql(query).rows, name


def test_the_share_of_q11_goes_with_the_scale() -> None:
    assert "* 0.0001\n" in TPCH(1).views["q11"]
    assert "* 0.001\n" in TPCH(0.1).views["q11"]
    assert "* 0.00001\n" in TPCH(10).views["q11"]


@pytest.mark.parametrize("share", [0.001, 0.01])
def test_a_change_touches_as_many_rows_as_it_says_a_third_in_each_way(
    vk: viewkeep.Connection, share: float
) -> None:
    changes = Changes(SCALE)
    asked = round(share * changes.rows)
    touched = {"INSERT": 0, "DELETE": 0, "UPDATE": 0}
    for number in range(4):
        for statement in changes.stream(asked, number):
            touched[statement.split()[0]] += int(vk.sql(statement).detail)
    assert sum(touched.values()) == pytest.approx(4 * asked, rel=0.1)
    for count in touched.values():
        assert count == pytest.approx(4 * asked / 3, rel=0.15)
    assert dangling(vk) == {}


def test_changes_touch_other_orders_each_time(vk: viewkeep.Connection) -> None:
    changes = Changes(SCALE)
    deleted = [
        s for number in range(8) for s in changes.stream(750, number) if s.startswith("DELETE FROM orders")
    ]
    assert [vk.sql(statement).detail for statement in deleted] == [50] * 8


def test_batches_change_every_table_in_every_way(vk: viewkeep.Connection) -> None:
    changes = Changes(SCALE)
    touched = {(table, verb): 0 for table in SIZES for verb in ("INSERT", "DELETE", "UPDATE")}
    for number in range(1, 5):
        for statement in changes.batch(number):
            table = next(word for word in statement.split() if word in SIZES)
            touched[table, statement.split()[0]] += int(vk.sql(statement).detail)
        assert dangling(vk) == {}, f"after batch {number}"
    assert all(touched.values()), touched
    # small: no more than a hundredth of the largest table at a time
    lines = sum(count for (table, _), count in touched.items() if table == "lineitem")
    assert lines < 4 * SIZES["lineitem"] / 100


def test_statements_are_the_same_each_time_and_spark_reads_them() -> None:
    for number in (1, 4):
        batch = Changes(SCALE).batch(number)
        assert batch == Changes(SCALE).batch(number)
        for statement in batch:
            assert sqlglot.parse_one(statement, read="spark") is not None


def test_it_runs_as_a_benchmark(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status = runner.run(
        "tpch",
        engine="duckdb",
        scale=SCALE,
        views=["q19"],
        methods=None,
        diffs=None,
        repeat=1,
        json=False,
        at="",
        data=str(folder),
        output=Console(),
    )
    assert status == 0
    out = capsys.readouterr().out
    for share in ("0.01%", "0.1%", "1%"):
        assert f"q19, {share} (" in out
    assert "recompute/auto" in out
