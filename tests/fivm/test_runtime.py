"""What comes into a compiled runtime and is no good: it is refused, and nothing is changed."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.order import chosen
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import view_tree

RELATIONS = (Relation("r", ("a", "x")), Relation("s", ("a", "y")))
LEAST = -(2**63)
UNSIGNED = pa.array([2**63], pa.uint64())


def made(ring: Ring, *, updatable: list[str] | None = None, free: tuple[str, ...] = ()) -> CompiledRuntime:
    return CompiledRuntime(view_tree(chosen(Query(RELATIONS, free)), updatable), ring, interpret=True)


def shown(runtime: CompiledRuntime) -> dict[Any, list[float]]:
    return {key: row.tolist() for key, row in runtime.result().items()}


BAD: dict[str, tuple[Ring, Any, Any, str]] = {
    "the least integer": (Sums(((),)), {"a": np.array([LEAST]), "x": [1]}, 1, "taken for NULL"),
    "the least integer of Arrow": (Sums(((),)), {"a": [LEAST, None], "x": [1, 1]}, 1, "taken for NULL"),
    "a key past 64 bits": (Sums(((),)), {"a": np.array([2**63], np.uint64), "x": [1]}, 1, "64 bits"),
    "a key past 64 bits of Arrow": (Sums(((),)), {"a": UNSIGNED, "x": [1]}, 1, "64 bits"),
    "a key past 64 bits in a list": (Sums(((),)), {"a": [2**63], "x": [1]}, 1, "64 bits"),
    "values of two types": (Sums((("x",),)), {"a": [1, 2], "x": [1, "2"]}, 1, "one type"),
    "a value past 64 bits": (
        Sums((("x",),), exact=True),
        {"a": [1], "x": np.array([2**63], np.uint64)},
        1,
        "64 bits",
    ),
    "a value past 64 bits of Arrow": (
        Sums((("x",),), exact=True),
        {"a": [1], "x": UNSIGNED},
        1,
        "64 bits",
    ),
    "a short column": (Sums((("x",),)), {"a": np.array([1, 2]), "x": np.array([1])}, 1, "shape"),
    "a matrix": (Sums((("x",),)), {"a": np.array([[1, 2]]), "x": np.array([1])}, 1, "shape"),
    "half a row": (Sums((("x",),), exact=True), {"a": [1], "x": [1]}, 0.5, "no integer"),
    "rows without a number": (Sums((("x",),)), {"a": [1], "x": [1]}, float("nan"), "no integer"),
    "too few times": (Sums((("x",),)), {"a": [1, 2], "x": [1, 2]}, np.array([1]), "shape"),
    "infinity": (Cofactor(("x",)), {"a": [1], "x": [float("inf")]}, 1, "not finite"),
    "a product past doubles": (Sums((("x",) * 5,)), {"a": [1], "x": [1e69]}, 1, "past 1e.56"),
    "strings for integers": (Sums(((),)), {"a": ["1"], "x": [1]}, 1, "cast|integers"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_changes_nothing(name: str) -> None:
    ring, batch, times, told = BAD[name]
    runtime = made(ring)
    runtime.update("r", {"a": [1], "x": [2]})
    runtime.update("s", {"a": [1], "y": [3]})
    before = shown(runtime)
    good = {"a": [1], "y": [5]}
    with pytest.raises(TypeMismatch, match=told):
        runtime.apply({"s": (good, 1), "r": (batch, times)})
    assert shown(runtime) == before
    runtime.update("s", good)
    assert shown(runtime) == {(): [2 * v for v in before[()]]}


def test_keys_of_two_families_are_told() -> None:
    for one, other in [
        ("1", 1),
        (date(2020, 1, 1), datetime(2020, 1, 1)),
        (Decimal("1.5"), "1.5"),
    ]:
        runtime = made(Sums(((),)))
        runtime.update("r", {"a": [one], "x": [1]})
        with pytest.raises(TypeMismatch, match="cast one of the columns"):
            runtime.update("s", {"a": [other], "y": [1]})


@pytest.mark.parametrize("key", [date(2020, 1, 1), datetime(2020, 1, 1, 3), Decimal("1.50"), "ä", 2.5, True])
def test_keys_of_any_kind_are_found_again(key: object) -> None:
    runtime = made(Sums(((),)), free=("a",))
    runtime.compile()  # which decides nothing about what keys will be
    runtime.update("r", {"a": [], "x": []})
    runtime.update("r", pa.table({"a": pa.nulls(1), "x": [1]}))
    runtime.update("r", {"a": [key, None], "x": [1, 1]})
    runtime.update("s", {"a": [None, key], "y": [1, 1]})
    assert shown(runtime) == {(key,): [1]}
    runtime.update("r", {"a": [key], "x": [1]}, -1)
    assert shown(runtime) == {}


def test_a_category_or_a_key_that_is_null_counts_nothing() -> None:
    """Its number is far outside of any array."""
    runtime = made(Cofactor(("x", "a", "y"), {"x": 2, "a": 3}))
    runtime.update("r", pa.table({"a": ["p", "p", None], "x": ["u", None, "v"]}))
    runtime.update("s", pa.table({"a": ["p", None], "y": [2.0, float("nan")]}))
    found = runtime.cofactors()
    assert (found.count, dict(zip(found.columns, found.sums.tolist(), strict=True))) == (
        1,
        {"x=u": 1, "x=v": 0, "a=p": 1, "y": 2},
    )


def test_a_batch_that_is_refused_takes_no_room_for_categories() -> None:
    runtime = made(Cofactor(("x", "y"), {"x": 2}))
    runtime.update("r", {"a": [1], "x": ["u"]})
    with pytest.raises(TypeMismatch, match="not finite"):
        runtime.apply({"r": ({"a": [1], "x": ["v"]}, 1), "s": ({"a": [1], "y": [float("nan")]}, 1)})
    runtime.apply({"r": ({"a": [1], "x": ["w"]}, 1), "s": ({"a": [1], "y": [1.0]}, 1)})
    assert runtime.cofactors().columns == ("x=u", "x=w", "y")


def test_tables_that_do_not_change_are_loaded_at_once() -> None:
    runtime = made(Sums((("x", "y"),)), updatable=["r"])
    runtime.load({"s": {"a": [1], "y": [3]}, "r": {"a": [1], "x": [2]}})
    with pytest.raises(Unsupported, match="at once"):
        runtime.load({"s": {"a": [1], "y": [4]}})
    assert shown(runtime) == {(): [6]}


def test_a_load_is_made_as_a_whole() -> None:
    runtime = made(Sums((("x", "y"),)))
    with pytest.raises(TypeMismatch, match="string"):
        runtime.load({"r": {"a": [1], "x": [2]}, "s": {"a": [1], "y": ["no"]}})
    runtime.load({"r": {"a": [1], "x": [5]}, "s": {"a": [1], "y": [3]}})
    assert shown(runtime) == {(): [15]}


def test_a_change_that_was_interrupted_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = made(Sums((("x", "y"),)))
    runtime.load({"r": {"a": [1], "x": [5]}, "s": {"a": [1], "y": [3]}})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "_reserve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runtime.update("r", {"a": [1], "x": [5]})
    monkeypatch.undo()
    for use in (runtime.result, runtime.kept, lambda: runtime.update("r", {"a": [1], "x": [5]})):
        with pytest.raises(Unsupported, match="half made"):
            use()
