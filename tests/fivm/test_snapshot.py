"""Snapshots of compiled runtimes: they go on where they stopped; keys that are gone take no room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.fivm.test_compiled import QUERIES, changes, columns
from viewkeep.errors import CorruptCatalog
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.compiled.snapshot import restore, save
from viewkeep.fivm.order import chosen
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree


def shown(runtime: CompiledRuntime) -> dict[tuple[object, ...], list[float]]:
    return {key: list(row) for key, row in runtime.result().items()}


@pytest.mark.parametrize("name", QUERIES)
def test_a_runtime_goes_on_from_its_snapshot(name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    runtime = CompiledRuntime(view_tree(chosen(query)), Cofactor(query.bound), interpret=True)
    other = CompiledRuntime(view_tree(chosen(query)), Cofactor(query.bound), interpret=True)
    for number, (table, batch, times, _) in enumerate(changes(query, seed=11, rounds=60)):
        for one in (runtime, other):
            one.update(table, columns(query, table, batch), np.array(times))
        if number % 7 == 0:
            save(runtime, tmp_path / "snapshot", {table: number})
            runtime, watermark = restore(tmp_path / "snapshot", interpret=True)
            assert watermark == {table: number}
        assert shown(runtime) == shown(other)


def test_values_of_all_kinds_come_back(tmp_path: Path) -> None:
    query = Query((Relation("R", ("city", "k", "x")), Relation("S", ("k", "y"))), ("city",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((), ("x", "y"))), interpret=True)
    runtime.update("R", pa.table({"city": ["Oslo", None], "k": [1.5, 2.5], "x": [3, 4]}))
    save(runtime, tmp_path / "snapshot")
    again, _ = restore(tmp_path / "snapshot", interpret=True)
    again.update("S", pa.table({"k": [2.5, 1.5], "y": [5.0, 6.0]}))
    assert shown(again) == {("Oslo",): [1, 18.0], (None,): [1, 20.0]}


def test_a_failed_save_leaves_the_old_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = QUERIES["chain"]
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((),)), interpret=True)
    save(runtime, tmp_path / "snapshot", {"n": 1})

    def torn(file: object, **_: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", torn)
    with pytest.raises(OSError, match="disk full"):
        save(runtime, tmp_path / "snapshot", {"n": 2})
    monkeypatch.undo()
    assert restore(tmp_path / "snapshot", interpret=True)[1] == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]


@pytest.mark.parametrize("text", [b"", b"no snapshot", b"PK\x03\x04 half a file"])
def test_a_snapshot_that_is_none_is_told(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "snapshot").write_bytes(text)
    with pytest.raises(CorruptCatalog, match="cannot be read"):
        restore(tmp_path / "snapshot")


def test_keys_that_come_and_go_take_no_room() -> None:
    query = Query((Relation("R", ("a", "b")), Relation("S", ("b", "c"))), ("a",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((), ("c",)), exact=True))
    runtime.update("S", {"b": np.arange(10), "c": np.arange(10)})
    sizes = []
    for number in range(40):
        a = np.arange(number * 3000, (number + 1) * 3000)
        runtime.update("R", {"a": a, "b": a % 10})
        if number:
            runtime.update("R", {"a": a - 3000, "b": (a - 3000) % 10}, -1)
        sizes.append(runtime.memory())
    assert sizes[-1] <= sizes[8]
    found = shown(runtime)
    assert found == {(int(i),): [1, int(i) % 10] for i in a}
    dropped = runtime.compact()
    assert dropped >= 0
    assert shown(runtime) == found
    assert runtime.compact() == 0


def test_a_snapshot_that_is_cut_off_or_of_another_tree_is_told(tmp_path: Path) -> None:
    query, path = QUERIES["chain"], tmp_path / "snapshot"
    save(CompiledRuntime(view_tree(chosen(query)), Sums(((),)), interpret=True), path)
    whole = path.read_bytes()
    for end in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(CorruptCatalog, match="cannot be read"):
            restore(path, interpret=True)
    path.write_bytes(whole)
    with np.load(path) as stored:
        arrays = dict(stored)
    payloads = next(name for name in arrays if name.startswith("array:p"))
    for changed in (
        {n: a for n, a in arrays.items() if n != payloads},
        {**arrays, payloads: np.zeros((len(arrays[payloads]), 7))},
        {**arrays, "array:p99": np.zeros((1, 1))},
    ):
        with path.open("wb") as file:
            np.savez(file, **changed)
        with pytest.raises(CorruptCatalog, match="view tree"):
            restore(path, interpret=True)
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(CorruptCatalog, match="cannot be read"):
        restore(tmp_path / "array.npy")


def test_nan_is_the_same_key_after_a_restart(tmp_path: Path) -> None:
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k", "y"))))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((),)), interpret=True)
    runtime.update("R", {"k": [1.5, float("nan")], "x": [3, 4]})
    save(runtime, tmp_path / "snapshot")
    again, _ = restore(tmp_path / "snapshot", interpret=True)
    again.update("S", {"k": [float("nan")], "y": [5.0]})
    assert shown(again) == {(): [1]}


def test_groups_that_come_after_keys_were_dropped_begin_empty() -> None:
    """An index had what a group that was gone had left in the place of the next: a loop without end."""
    query = Query((Relation("R", ("a", "b")), Relation("S", ("b", "c"))), ("a", "c"))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((),)), interpret=True)
    b = np.arange(5)
    runtime.update("R", {"a": b, "b": b})
    runtime.update("S", {"b": b, "c": b})
    runtime.apply({"R": ({"a": b[1:], "b": b[1:]}, -1), "S": ({"b": b[1:], "c": b[1:]}, -1)})
    assert runtime.compact() > 0
    runtime.update("R", {"a": np.array([7, 8]), "b": np.array([3, 4])})
    runtime.update("S", {"b": np.array([3, 3, 4]), "c": np.array([1, 2, 6])})
    assert shown(runtime) == {(0, 0): [1], (7, 1): [1], (7, 2): [1], (8, 6): [1]}
