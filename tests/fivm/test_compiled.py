"""The compiled runtime against naive joins: random queries, orders, rings, inserts and deletes."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewkeep.errors import TypeMismatch, UnknownColumn, Unsupported
from viewkeep.fivm.compiled.codegen import generate
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.order import VariableOrder, chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import first_order_tree, view_tree

Rows = dict[str, Counter[tuple[int, ...]]]

CHAIN = Query((Relation("R", ("A", "B")), Relation("S", ("A", "C", "E")), Relation("T", ("C", "D"))))
GROUPED = Query(CHAIN.relations, ("A", "C"))
STAR = Query(tuple(Relation(f"R{i}", ("K", f"X{i}")) for i in range(4)))
TRIANGLE = Query((Relation("R", ("A", "B")), Relation("S", ("B", "C")), Relation("T", ("C", "A"))))
SQUARE = Query(
    (
        Relation("R", ("A", "B")),
        Relation("S", ("B", "C")),
        Relation("T", ("C", "D")),
        Relation("U", ("D", "A")),
        Relation("V", ("A", "C")),
    )
)
# the indicator of W stands at two views: shared between them, the second saw no change any more
TWICE = Query(
    (
        Relation("R", ("C", "E")),
        Relation("S", ("B", "E")),
        Relation("T", ("D", "C")),
        Relation("U", ("D", "B")),
        Relation("W", ("C", "B")),
    )
)
WIDE = Query((Relation("R", ("A", "B", "C")), Relation("S", ("A", "B", "D")), Relation("T", ("B", "D", "E"))))
PRODUCT = Query((Relation("R", ("A", "B")), Relation("S", ("C",))), ("A",))
PATHS = Query(
    (
        Relation("E1", ("A", "B"), "E", ("src", "dst")),
        Relation("E2", ("B", "C"), "E", ("src", "dst")),
    ),
    ("A",),
)
QUERIES = {
    "chain": CHAIN,
    "grouped": GROUPED,
    "star": STAR,
    "triangle": TRIANGLE,
    "square": SQUARE,
    "twice": TWICE,
    "wide": WIDE,
    "product": PRODUCT,
    "paths": PATHS,
}


ORDERS = {"twice": "B - C - {E, D}"}
# compiling takes seconds a query; the rest run the same kernels interpreted
COMPILED = ("grouped", "triangle")


def order_of(name: str) -> VariableOrder:
    return given(QUERIES[name], ORDERS[name]) if name in ORDERS else chosen(QUERIES[name])


def joined(query: Query, rows: Rows) -> Iterator[tuple[dict[str, int], int]]:
    """All rows of the join, with multiplicities."""
    for choice in itertools.product(*(rows[r.source].items() for r in query.relations)):
        found: dict[str, int] = {}
        times = 1
        for relation, (row, n) in zip(query.relations, choice, strict=True):
            times *= n
            if any(found.setdefault(v, x) != x for v, x in zip(relation.schema, row, strict=True)):
                break
        else:
            yield found, times


def columns(query: Query, table: str, rows: list[tuple[int, ...]]) -> dict[str, Any]:
    relation = query.of_table(table)[0]
    return {
        relation.column(v): np.array([row[i] for row in rows], dtype=np.int64)
        for i, v in enumerate(relation.schema)
    }


def changes(
    query: Query, seed: int, rounds: int
) -> Iterator[tuple[str, list[tuple[int, ...]], list[int], Rows]]:
    """Batches of inserts and deletes, and the tables after each."""
    chance = random.Random(seed)
    tables = list(dict.fromkeys(r.source for r in query.relations))
    rows: Rows = {table: Counter() for table in tables}
    for _ in range(rounds):
        table = chance.choice(tables)
        width = len(query.of_table(table)[0].schema)
        batch, times = [], []
        for _ in range(chance.randrange(1, 7)):
            if rows[table] and chance.random() < 0.4:
                row, n = chance.choice(list(rows[table].elements())), -1
            else:
                row, n = tuple(chance.randrange(4) for _ in range(width)), 1
            rows[table][row] += n
            rows[table] += Counter()  # drops zeros
            batch.append(row)
            times.append(n)
        yield table, batch, times, rows


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("indicators", [True, False])
def test_sums_equal_the_naive_join(name: str, indicators: bool) -> None:
    query = QUERIES[name]
    products = ((), query.bound[:1], query.bound[-2:])
    runtime = CompiledRuntime(
        view_tree(chosen(query), indicators=indicators), Sums(products, exact=True), interpret=True
    )
    for table, batch, times, rows in changes(query, seed=len(name), rounds=40):
        runtime.update(table, columns(query, table, batch), np.array(times))
        wanted: dict[tuple[int, ...], list[int]] = {}
        for row, n in joined(query, rows):
            sums = wanted.setdefault(tuple(row[v] for v in query.free), [0] * len(products))
            for i, product in enumerate(products):
                sums[i] += n * int(np.prod([row[v] for v in product], dtype=np.int64))
        found = {key: list(map(int, payload)) for key, payload in runtime.result().items()}
        assert found == wanted


@pytest.mark.parametrize("name", QUERIES)
def test_cofactors_equal_the_naive_join(name: str) -> None:
    query = QUERIES[name]
    ring = Cofactor(query.bound)
    tree = view_tree(order_of(name))
    runtime = CompiledRuntime(tree, ring, interpret=name not in COMPILED)
    places = runtime.program.layouts[tree.root].places
    for table, batch, times, rows in changes(query, seed=7 + len(name), rounds=40):
        runtime.update(table, columns(query, table, batch), np.array(times))
        groups: dict[tuple[int, ...], list[tuple[list[int], int]]] = {}
        for row, n in joined(query, rows):
            key = tuple(row[v] for v in query.free)
            groups.setdefault(key, []).append(([row[v] for v in query.bound], n))
        result = runtime.result()
        assert set(result) == set(groups)
        for key, lines in groups.items():
            matrix = np.array([values for values, _ in lines], dtype=float)
            weights = np.array([n for _, n in lines], dtype=float)
            wanted = (matrix * weights[:, None]).T @ matrix
            assert result[key][0] == weights.sum()
            for i, v in enumerate(query.bound):
                for k, u in enumerate(query.bound):
                    assert result[key][places[frozenset([(v, 0), (u, 0)])]] == wanted[i, k]


@pytest.mark.parametrize("name", ["chain", "star", "wide"])
@pytest.mark.parametrize("order", ["chosen", "given"])
def test_categories_are_columns_of_their_own(name: str, order: str) -> None:
    query = QUERIES[name]
    texts = {"chain": "C - {A - {B, E}, D}", "star": "X0 - K - {X1, X2, X3}", "wide": "B - {A - D - {C, E}}"}
    tree = view_tree(chosen(query) if order == "chosen" else given(query, texts[name]))
    categories = dict.fromkeys(query.bound[::2], 4)
    ring = Cofactor(query.bound, categories)
    runtime = CompiledRuntime(tree, ring, interpret=True)
    layout = runtime.program.layouts[tree.root]
    rows: Rows = {}
    for table, batch, times, rows in changes(query, seed=3, rounds=80):  # noqa: B007
        runtime.update(table, columns(query, table, batch), np.array(times))
    lines = list(joined(query, rows))
    assert lines
    payload = runtime.result()[()]

    def value(element: tuple[str, int], row: dict[str, int]) -> int:
        v, k = element
        if v not in categories:
            return row[v]
        return int(k < len(runtime.coders[v].values) and runtime.coders[v].values[k] == row[v])

    for number, element in enumerate(layout.elements):
        assert payload[1 + number] == sum(n * value(element, row) for row, n in lines)
    for pair, place in layout.places.items():
        one, other = (*pair, *pair)[:2]
        assert payload[place] == sum(n * value(one, row) * value(other, row) for row, n in lines)


def test_only_updatable_tables_change_and_fewer_views_are_kept() -> None:
    order = given(CHAIN, "A - {B, C - {D, E}}")
    everything = CompiledRuntime(view_tree(order), Sums(((),)), interpret=True)
    some = CompiledRuntime(view_tree(order, ["T"]), Sums(((),)), interpret=True)
    assert len(some.program.stored) < len(everything.program.stored)
    with pytest.raises(Unsupported, match="not updatable"):
        some.update("R", {"A": np.array([1]), "B": np.array([1])})


def test_strings_dates_and_nulls_are_keys() -> None:
    query = Query((Relation("R", ("city", "x")), Relation("S", ("city", "y"))), ("city",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((), ("x", "y"))), interpret=True)
    runtime.update("R", pa.table({"city": ["Oslo", "Rome", None], "x": [1.5, 2.0, 9.0]}))
    runtime.update("S", pa.table({"city": ["Rome", "Oslo", None, "Oslo"], "y": [3, 2, 9, 4]}))
    assert {k: list(v) for k, v in runtime.result().items()} == {("Oslo",): [2, 9.0], ("Rome",): [1, 6.0]}
    runtime.update("R", pa.table({"city": ["Oslo"], "x": [1.5]}), -1)
    assert {k: list(v) for k, v in runtime.result().items()} == {("Rome",): [1, 6.0]}


def test_a_null_that_nothing_is_joined_by_is_a_group() -> None:
    query = Query((Relation("R", ("g", "k")), Relation("S", ("k",))), ("g",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums(((),)), interpret=True)
    runtime.update("R", pa.table({"g": ["a", None, None], "k": [1, 1, 2]}))
    runtime.update("S", pa.table({"k": [1, 2]}))
    assert {k: int(v[0]) for k, v in runtime.result().items()} == {("a",): 1, (None,): 2}


def test_keys_that_are_lifted_may_be_doubles() -> None:
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k",))))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums((("k", "x"),)), interpret=True)
    runtime.update("R", pa.table({"k": [0.5, 2.5], "x": [4, 2]}))
    runtime.update("S", pa.table({"k": [0.5, 2.5, 2.5]}))
    assert runtime.result()[()][0] == 0.5 * 4 + 2 * 2.5 * 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_a_value_that_cannot_be_lifted_changes_nothing(bad: float) -> None:
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k",))))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums((("x",),)), interpret=True)
    runtime.update("S", {"k": np.array([1])})
    runtime.update("R", {"k": np.array([1]), "x": np.array([2.0])})
    with pytest.raises(TypeMismatch, match="x has a value that is not finite"):
        runtime.update("R", {"k": np.array([1, 1]), "x": np.array([3.0, bad])})
    assert runtime.result()[()][0] == 2.0


def test_integers_that_overflow_change_nothing() -> None:
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k", "y"))), ("k",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums((("x", "y"),), exact=True))
    runtime.update("R", {"k": np.array([1, 2]), "x": np.array([2**40, 3])})
    runtime.update("S", {"k": np.array([1]), "y": np.array([5])})
    before = {k: list(v) for k, v in runtime.result().items()}
    with pytest.raises(TypeMismatch, match="64 bits"):
        runtime.update("S", {"k": np.array([2, 1]), "y": np.array([7, 2**40])})
    assert {k: list(v) for k, v in runtime.result().items()} == before == {(1,): [5 * 2**40]}
    runtime.update("S", {"k": np.array([2]), "y": np.array([7])})
    assert {k: list(v) for k, v in runtime.result().items()} == {(1,): [5 * 2**40], (2,): [21]}


def test_what_does_not_fit_is_told() -> None:
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k",))))
    tree = view_tree(chosen(query))
    with pytest.raises(UnknownColumn, match="y is no variable"):
        CompiledRuntime(tree, Sums((("y",),)), interpret=True)
    runtime = CompiledRuntime(tree, Sums((("x",),)), interpret=True)
    with pytest.raises(UnknownColumn, match="no column x"):
        runtime.update("R", {"k": np.array([1])})
    with pytest.raises(TypeMismatch, match="x is string"):
        runtime.update("R", pa.table({"k": [1], "x": ["one"]}))
    with pytest.raises(Unsupported, match="does not read"):
        runtime.update("Z", {"k": np.array([1])})
    runtime.update("R", {"k": np.array([1]), "x": np.array([2])})
    with pytest.raises(TypeMismatch, match="k has integers in one table"):
        runtime.update("S", pa.table({"k": ["1"]}))
    small = CompiledRuntime(tree, Cofactor(("x",), {"x": 2}), interpret=True)
    with pytest.raises(TypeMismatch, match="more than 2 categories"):
        small.update("R", {"k": np.array([1, 1, 1]), "x": np.array([1, 2, 3])})


def test_batches_larger_than_a_chunk_and_long_fan_outs() -> None:
    query = Query((Relation("R", ("a", "b")), Relation("S", ("b", "c"))), ("a",))
    runtime = CompiledRuntime(view_tree(given(query, "a - b - c")), Sums(((), ("c",)), exact=True))
    n = 20_000
    a, b = np.arange(n), np.arange(n) % 2
    runtime.update("R", {"a": a, "b": b})
    runtime.update("S", {"b": np.array([0, 1, 1]), "c": np.array([5, 7, 8])})  # each reaches 10,000 keys
    found = runtime.result()
    assert len(found) == n
    assert all(list(found[(i,)]) == ([1, 5] if i % 2 == 0 else [2, 15]) for i in range(n))


def test_a_row_that_waits_for_room_is_kept_once() -> None:
    """It came twice into its relation: the row was stored, then found to make more rows than there is room
    for, and taken up again."""
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k", "y")), Relation("T", ("k", "z"))))
    runtime = CompiledRuntime(first_order_tree(query), Sums(((),), exact=True))
    n = 3000
    keys, values = np.zeros(n, np.int64), np.arange(n)
    runtime.update("R", {"k": keys, "x": values})
    runtime.update("S", {"k": keys[:5], "y": values[:5]})
    runtime.update("T", {"k": keys[:3], "z": values[:3]})  # each makes 15,000
    assert int(runtime.result()[()][0]) == n * 5 * 3
    runtime.update("S", {"k": keys[:2], "y": values[:2]}, -1)
    assert int(runtime.result()[()][0]) == n * 3 * 3


def test_names_of_the_users_are_not_written_into_kernels() -> None:
    first, second = 'the "table"', "import os; #"
    query = Query((Relation(first, ("a b", "x'y")), Relation(second, ("a b", "class"))), ("a b",))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums((("x'y", "class"),)), interpret=True)
    runtime.update(first, {"a b": np.array([1, 2]), "x'y": np.array([3, 4])})
    runtime.update(second, {"a b": np.array([1, 1]), "class": np.array([5, 6])})
    assert {key: list(row) for key, row in runtime.result().items()} == {(1,): [33.0]}


def test_an_exact_ring_takes_no_keys_but_integers() -> None:
    """The number under which a key was noted was taken for its value."""
    query = Query((Relation("R", ("k", "x")), Relation("S", ("k",))))
    runtime = CompiledRuntime(view_tree(chosen(query)), Sums((("k", "x"),), exact=True), interpret=True)
    with pytest.raises(TypeMismatch, match="k is not of integers"):
        runtime.update("R", pa.table({"k": [2.5], "x": [4]}))


def test_updates_that_do_the_same_share_their_kernels() -> None:
    """Compiling goes by the number of kernels: in a star join all tables have two kernels together."""
    for ring in (Sums((("K",),)), Cofactor(("X0", "X1", "X2", "X3"))):
        generated = generate(Program(view_tree(chosen(STAR)), ring))
        kernels = [kernel for ways in generated.triggers.values() for way in ways for kernel in way]
        assert len(kernels) == 8
        assert len({kernel.name for kernel in kernels}) == generated.source.count("@kernel") == 2
        assert {kernel.which for kernel in kernels if kernel.stage.steps[0].siblings} == {0, 1, 2, 3}


def _stored_of_a_hub(size: int, indicators: bool) -> int:
    """What is kept of triangles in a graph where one node C has edges with all A and all B, which are joined
    by few: all pairs of an A and a B meet at the hub."""
    runtime = CompiledRuntime(
        view_tree(given(TRIANGLE, "A - B - C"), indicators=indicators),
        Cofactor(("A", "B", "C")),
        interpret=True,
    )
    every, hub = np.arange(size), np.zeros(size, np.int64)
    runtime.update("T", {"C": hub, "A": every})
    runtime.update("S", {"B": every, "C": hub})
    runtime.update("R", {"A": every, "B": every[::-1]})
    assert runtime.result()[()][0] == size
    return sum(runtime.sizes().values())


def test_with_indicator_projections_what_is_stored_is_linear_in_the_input() -> None:
    """Appendix B: the view of A and B is bounded by R, which has few of the pairs that S and T make."""
    linear = [_stored_of_a_hub(size, indicators=True) for size in (8, 16, 32)]
    assert linear == [5 * size + 1 for size in (8, 16, 32)]
    pairs = [_stored_of_a_hub(size, indicators=False) for size in (8, 16, 32)]
    assert pairs == [size * size + 3 * size + 1 for size in (8, 16, 32)]
