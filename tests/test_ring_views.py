"""Ring views that follow tables: what they have is what the rows of the tables give, on all engines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import duckdb
import numpy as np
import pytest
from sqlglot import exp

import viewkeep
from viewkeep.engines.following import Followed, Following, cast_sums, summed
from viewkeep.errors import TypeMismatch, UnknownColumn, UnknownTable, UnknownView, Unsupported
from viewkeep.fivm import Cofactor, Relation, RingLaw, Sums
from viewkeep.fivm.compiled import triggers
from viewkeep.fivm.compiled.kernels import interpreted
from viewkeep.fivm.rings import Integers
from viewkeep.ring_views import RingView

TABLES = (
    "CREATE TABLE sale (id INT, shop INT, item STRING, amount DOUBLE, PRIMARY KEY (id))",
    "CREATE TABLE place (shop INT, town STRING, size INT)",  # without a key
    "CREATE TABLE goods (gid INT, item STRING, price DECIMAL(10,2), PRIMARY KEY (gid))",
)
RELATIONS = (
    Relation("sale", ("shop", "item", "amount")),
    Relation("place", ("shop", "town", "size")),
    Relation("goods", ("item", "price")),
)
COLUMNS = ("amount", "size", "price")
FROM = "FROM sale JOIN place ON sale.shop = place.shop JOIN goods ON sale.item = goods.item"
KNOWN = "amount IS NOT NULL AND size IS NOT NULL AND price IS NOT NULL"
START = (
    "INSERT INTO sale VALUES (1, 1, 'tea', 2.0), (2, 1, 'rye', 3.5), (3, 2, 'tea', NULL), (4, NULL, 'tea', 1.0)",
    "INSERT INTO place VALUES (1, 'Oslo', 10), (2, 'Rome', 20), (2, 'Rome', 20), (NULL, 'Bonn', 5)",
    "INSERT INTO goods VALUES (1, 'tea', 1.25), (2, 'rye', 2.50), (3, NULL, 9.00)",
)


def made(vk: viewkeep.Connection) -> RingView:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    return vk.ring_view("matrix", RELATIONS, Cofactor(COLUMNS))


def assert_right(vk: viewkeep.Connection, view: RingView) -> None:
    """The matrix, from the rows of the join as the engine has them."""
    rows = vk.sql(f"SELECT {', '.join(COLUMNS)} {FROM} WHERE {KNOWN}").rows
    values = np.array([[float(v) for v in row] for row in rows]).reshape(len(rows), len(COLUMNS))
    found = view.cofactors()
    order = [found.columns.index(c) for c in COLUMNS]
    assert found.count == len(rows)
    assert np.allclose(found.sums[order], values.sum(axis=0), rtol=1e-9)
    assert np.allclose(found.matrix[np.ix_(order, order)], values.T @ values, rtol=1e-9)


def change(random: Random) -> str:
    table = random.choice(["sale", "place", "goods"])
    key = random.randint(1, 30)
    shop, item = random.choice(["1", "2", "3", "NULL"]), random.choice(["'tea'", "'rye'", "NULL"])
    kind = random.choice(["insert", "insert", "update", "delete"])
    if table == "place":
        return {
            "insert": f"INSERT INTO place VALUES ({shop}, 'Kiel', {key}), ({shop}, 'Kiel', {key})",
            "update": f"UPDATE place SET size = size + 1 WHERE shop = {random.randint(1, 3)}",
            "delete": f"DELETE FROM place WHERE size < {random.randint(1, 12)}",
        }[kind]
    number = "id" if table == "sale" else "gid"
    return {
        "insert": f"MERGE INTO {table} USING (SELECT {key} AS k) AS s ON {table}.{number} = s.k "
        + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES "
        + (f"({key}, {shop}, {item}, {key}.5)" if table == "sale" else f"({key}, {item}, {key}.25)"),
        "update": f"UPDATE {table} SET item = {item} WHERE {number} < {key}",
        "delete": f"DELETE FROM {table} WHERE {number} = {key}",
    }[kind]


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(seed: int) -> None:
    random = Random(seed)
    with viewkeep.connect("duckdb:") as vk:
        view = made(vk)
        assert_right(vk, view)
        for _ in range(15):
            for _ in range(random.randint(0, 3)):
                vk.sql(change(random))
            assert view.refresh().strategy in ("changes", "none")
            assert_right(vk, view)


def scenario(vk: viewkeep.Connection, tmp_path: Path) -> None:
    view = made(vk)
    assert_right(vk, view)
    vk.sql("INSERT INTO sale VALUES (9, 2, 'rye', 4.0)")
    vk.sql("UPDATE goods SET price = 3.75 WHERE item = 'tea'")
    vk.sql("DELETE FROM place WHERE shop = 1")
    done = view.refresh()
    assert (done.view, done.strategy) == ("matrix", "changes")
    assert_right(vk, view)
    assert view.refresh().strategy == "none"
    view.save(tmp_path / "matrix")
    vk.sql("UPDATE sale SET amount = amount + 1 WHERE id = 9")
    view.refresh()
    again = vk.restore_ring_view(tmp_path / "matrix")
    assert again.refresh().strategy == "changes"  # although another has read them since
    assert_right(vk, again)
    vk.drop_ring_view("matrix")


def test_on_duckdb(tmp_path: Path) -> None:
    with viewkeep.connect("duckdb:") as vk:
        scenario(vk, tmp_path)
        assert vk.status() == []


@pytest.mark.xdist_group("postgres")
def test_on_postgres(postgres: viewkeep.Connection, tmp_path: Path) -> None:
    scenario(postgres, tmp_path)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_on_spark(spark_engine: viewkeep.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole tables come as sums, and so do very many changes."""
    from viewkeep.engines.spark import engine

    monkeypatch.setattr(engine, "FETCHED", 1)
    scenario(spark_engine, tmp_path)


def summing_up(vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has an engine tell all that is new by sums."""
    follow, database = vk.engine.follow, duckdb.connect()

    def by_sums(followed: list[Followed]) -> Following:
        found = follow(followed)
        sums = {}
        for one in followed:
            database.register("rows_to_sum", found.rows[one.table.name])
            for name, summing in one.sums.items():
                query = summed(exp.to_table("rows_to_sum"), summing).sql("duckdb")
                sums[name] = cast_sums(one.table, summing, database.sql(query).to_arrow_table())
        return Following({}, found.points, found.whole, sums)

    monkeypatch.setattr(vk.engine, "follow", by_sums)


RINGS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "cofactors": (Cofactor(COLUMNS), None, ()),
    "cofactors of groups": (Cofactor(COLUMNS), None, ("item", "town")),
    "categories": (Cofactor(("town", "size", "item", "amount"), {"town": 9, "item": 5}), None, ()),
    "sums": (Sums(((), ("size", "amount"), ("size", "size"))), None, ("shop",)),
    "integers": (Sums((("size",), ("size", "size"), ()), exact=True), None, ("item",)),
    "a count": (Sums(((),), exact=True), None, ()),
    "one's own": (Integers(), {"size": lambda x: x}, ("town",)),
}


def numbers(view: RingView) -> dict[Any, float]:
    """All that a view has, by keys that do not depend on the order in which values came."""
    if not isinstance(view._runtime.ring, Cofactor):
        return {
            (k, i): float(x) for k, row in view.result().items() for i, x in enumerate(np.atleast_1d(row))
        }
    found = {}
    for key in view.result():
        one = view.cofactors(key)
        found[key, "n"] = one.count
        for i, name in enumerate(one.columns):
            found |= {(key, name, other): one.matrix[i, k] for k, other in enumerate(one.columns)}
            found[key, name] = one.sums[i]
    return {at: x for at, x in found.items() if x}


@pytest.mark.parametrize("name", RINGS)
def test_sums_in_the_place_of_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, lifts, free = RINGS[name]
    random = Random(7)
    # kernels that are interpreted do what those do that are compiled
    monkeypatch.setattr(triggers, "loaded", interpreted)
    with viewkeep.connect("duckdb:") as vk:
        for statement in (*TABLES, *START):
            vk.sql(statement)
        by_rows = vk.ring_view("rows", RELATIONS, ring, lifts, free=free)
        summing_up(vk, monkeypatch)
        by_sums = vk.ring_view("sums", RELATIONS, ring, lifts, free=free)
        for _ in range(6):
            for _ in range(random.randint(1, 5)):
                vk.sql(change(random))
            with monkeypatch.context() as as_it_was:
                as_it_was.delattr(vk.engine, "follow")
                by_rows.refresh()
            by_sums.refresh()
            expected, found = numbers(by_rows), numbers(by_sums)
            assert expected.keys() == found.keys()
            assert np.allclose(list(expected.values()), [found[key] for key in expected], rtol=1e-12)


def test_sums_of_one_table() -> None:
    with viewkeep.connect("duckdb:") as vk, pytest.MonkeyPatch.context() as monkeypatch:
        vk.sql("CREATE TABLE r (a INT, x BIGINT); INSERT INTO r VALUES (NULL, 3), (1, 4), (1, NULL)")
        summing_up(vk, monkeypatch)
        counted = vk.ring_view("n", "r", Sums(((),), exact=True))
        total = vk.ring_view("s", "r", Sums((("x", "x"), ()), exact=True))
        assert counted.result()[()].tolist() == [3]
        assert total.result()[()].tolist() == [25, 2]
        vk.sql("INSERT INTO r VALUES (2, 4000000000)")
        with pytest.raises(TypeMismatch, match="64 bits"):
            total.refresh()
        assert total.result()[()].tolist() == [25, 2]
        vk.sql("DELETE FROM r WHERE a = 2")
        vk.sql("DELETE FROM r WHERE x = 3")
        total.refresh()
        assert total.result()[()].tolist() == [16, 1]


def test_sums_by_group_and_a_table_joined_with_itself() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE edge (a INT, b INT)")
        vk.sql("INSERT INTO edge VALUES (1, 2), (2, 3), (2, 3), (3, 1)")
        relations = [
            Relation("one", ("x", "y"), "edge", ("a", "b")),
            Relation("two", ("y", "z"), "edge", ("a", "b")),
        ]
        exact = vk.ring_view("paths", relations, Sums(((), ("z",)), exact=True), free=["x"])
        generic = vk.ring_view("counted", relations, Integers(), free=["x"])

        def assert_same() -> None:
            query = (
                "SELECT o.a, COUNT(*), COUNT(t.b), SUM(t.b) FROM edge o JOIN edge t ON o.b = t.a GROUP BY o.a"
            )
            rows = vk.sql(query).rows
            known = {(a,): (n, s) for a, _, n, s in rows if n}  # a row of which z is NULL counts nothing
            assert {k: tuple(v) for k, v in exact.result().items()} == known
            assert generic.result() == {(a,): n for a, n, _, _ in rows}

        assert_same()
        for statement in (
            "INSERT INTO edge VALUES (3, 2), (NULL, 3), (2, NULL)",
            "DELETE FROM edge WHERE a = 2 AND b = 3",
            "UPDATE edge SET b = 3 WHERE a = 1",
        ):
            vk.sql(statement)
            exact.refresh()
            generic.refresh()
            assert_same()


class Multiset:
    """Polynomials in one variable, as counts of exponents: a ring of one's own."""

    zero: ClassVar[dict[int, int]] = {}
    one: ClassVar[dict[int, int]] = {0: 1}

    def add(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        return {k: n for k in {*a, *b} if (n := a.get(k, 0) + b.get(k, 0))}

    def multiply(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        made: Counter[int] = Counter()
        for i, n in a.items():
            for j, m in b.items():
                made[i + j] += n * m
        return {k: n for k, n in made.items() if n}

    def negate(self, a: dict[int, int]) -> dict[int, int]:
        return {k: -n for k, n in a.items()}

    def lift_size(self, value: int) -> dict[int, int]:
        if value > 90:
            raise ValueError("too large")
        return {value: 1}


def test_a_ring_of_ones_own() -> None:
    with viewkeep.connect("duckdb:") as vk:
        for statement in (*TABLES, *START):
            vk.sql(statement)
        view = vk.ring_view("sizes", RELATIONS, Multiset, samples=[{1: 2}, {3: -1, 0: 1}], free=["item"])

        def expected() -> dict[tuple[Any, ...], dict[int, int]]:
            found: dict[tuple[Any, ...], Counter[int]] = {}
            for item, size in vk.sql(f"SELECT sale.item, size {FROM} WHERE size IS NOT NULL").rows:
                found.setdefault((item,), Counter())[size] += 1
            return {k: dict(v) for k, v in found.items()}

        assert view.result() == expected()
        vk.sql("INSERT INTO place VALUES (1, 'Oslo', 30), (1, 'Oslo', NULL)")
        vk.sql("DELETE FROM sale WHERE id = 2")
        view.refresh()
        before = expected()
        assert view.result() == before
        vk.sql("INSERT INTO sale VALUES (50, 1, 'tea', 1.0)")
        vk.sql("INSERT INTO place VALUES (1, 'Oslo', 99)")
        with pytest.raises(viewkeep.ViewkeepError, match="too large"):
            view.refresh()
        assert view.result() == before
        vk.sql("DELETE FROM place WHERE size = 99")
        assert view.refresh().strategy == "changes"
        assert view.result() == expected()
        with pytest.raises(Unsupported, match="form on disk"):
            view.save("nowhere")


class Largest(Multiset):
    def add(self, a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
        return max(a, b, key=lambda x: sorted(x.items()))


def test_a_ring_that_breaks_a_law_is_refused_and_leaves_nothing() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(TABLES[1])
        with pytest.raises(RingLaw) as told:
            vk.ring_view("v", ["place"], Largest, samples=[{1: 2}])
        assert told.value.law
        assert vk.status() == []


class Clipped:
    """No ring, which only values of the table show."""

    zero, one = 0, 1

    def add(self, a: int, b: int) -> int:
        return min(a + b, 100)

    def multiply(self, a: int, b: int) -> int:
        return a * b

    def negate(self, a: int) -> int:
        return -a

    def lift_size(self, value: int) -> int:
        return value


def test_laws_are_tried_on_values_of_the_tables() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(TABLES[1])
        vk.sql("INSERT INTO place VALUES (1, 'Oslo', 60), (2, 'Rome', 70)")
        with pytest.raises(RingLaw, match=r"60|70"):
            vk.ring_view("v", ["place"], Clipped)
        assert vk.status() == []


def test_a_refresh_that_was_interrupted_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with viewkeep.connect("duckdb:") as vk:
        view = made(vk)
        vk.sql("INSERT INTO sale VALUES (60, 1, 'tea', 1.0)")

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(view._runtime, "_reserve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            view.refresh()
        monkeypatch.undo()
        done = view.refresh()
        assert (done.strategy, done.reason) == ("full", "the last refresh was interrupted")
        assert_right(vk, view)
        vk.sql("DELETE FROM sale WHERE id = 60")
        assert view.refresh().strategy == "changes"
        assert_right(vk, view)


@pytest.mark.parametrize("bad", ["'NaN'::DOUBLE", "1e300"])
def test_a_value_that_is_no_number_changes_nothing(bad: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        view = made(vk)
        before = view.cofactors()
        vk.sql("INSERT INTO goods VALUES (7, 'rye', 5.00)")
        vk.sql(f"INSERT INTO sale SELECT 70, 1, 'tea', {bad}")
        for _ in range(2):
            with pytest.raises(TypeMismatch, match="amount"):
                view.refresh()
            assert view.cofactors().matrix.tolist() == before.matrix.tolist()
        vk.sql("DELETE FROM sale WHERE id = 70")
        view.refresh()
        assert_right(vk, view)


def test_an_overflow_in_a_second_table_takes_back_the_first() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (a INT, x BIGINT); CREATE TABLE s (a INT, y BIGINT)")
        vk.sql("INSERT INTO r VALUES (1, 3); INSERT INTO s VALUES (1, 5)")
        view = vk.ring_view("v", ["r", "s"], Sums((("x", "y"), ("x",)), exact=True))
        vk.sql("INSERT INTO r VALUES (1, 4)")
        vk.sql("INSERT INTO s VALUES (1, 9000000000000000000)")
        with pytest.raises(TypeMismatch, match="64 bits"):
            view.refresh()
        assert view.result()[()].tolist() == [15, 3]
        vk.sql("DELETE FROM s WHERE y > 5")
        view.refresh()
        assert view.result()[()].tolist() == [35, 7]


def test_too_many_categories_can_be_deleted_again() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (a STRING, x INT)")
        vk.sql("INSERT INTO r VALUES ('one', 1), ('two', 2)")
        view = vk.ring_view("v", ["r"], Cofactor(("a", "x"), {"a": 2}))
        vk.sql("INSERT INTO r VALUES ('three', 3)")
        with pytest.raises(TypeMismatch, match="categories"):
            view.refresh()
        vk.sql("DELETE FROM r WHERE a = 'three'")
        vk.sql("INSERT INTO r VALUES ('two', 5)")
        view.refresh()
        assert view.cofactors().count == 3


def test_nan_is_one_value_as_a_key() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (a DOUBLE, x INT)")
        views = [
            vk.ring_view("compiled", ["r"], Sums(((), ("x",))), free=["a"]),
            vk.ring_view("generic", ["r"], Integers(), {"x": lambda x: x}, free=["a"]),
        ]
        for statement in (
            "INSERT INTO r VALUES ('NaN'::DOUBLE, 1), (-0.0, 2)",
            "INSERT INTO r VALUES ('NaN'::DOUBLE, 5), (0.0, 3)",
            "DELETE FROM r WHERE x IN (1, 2)",
        ):
            vk.sql(statement)
            for view in views:
                view.refresh()
                assert len(view.result()) == 2
        vk.sql("DELETE FROM r WHERE a = 0 OR x = 5")
        for view in views:
            view.refresh()
            assert view.result() == {}


def test_the_log_is_kept_for_it() -> None:
    with viewkeep.connect("duckdb:") as vk:
        view = made(vk)
        vk.sql("CREATE MATERIALIZED VIEW other AS SELECT id, amount FROM sale")
        for n in range(100, 180):  # so much of a log is trimmed when all have seen it
            vk.sql(f"INSERT INTO sale VALUES ({n}, 1, 'tea', 1.0)")
            vk.refresh()
        assert view.refresh().strategy == "changes"
        assert_right(vk, view)


def test_changes_that_may_be_missing_are_noticed(tmp_path: Path) -> None:
    with viewkeep.connect(f"duckdb:{tmp_path / 'a.db'}") as vk:
        view = made(vk)
        view.save(tmp_path / "matrix")
        [status] = vk.status()
        anchor = status.caches[status.tables.index("sale")]
        vk.sql("INSERT INTO sale VALUES (60, 1, 'tea', 1.0)")
        vk.refresh(anchor)
        done = view.refresh()
        assert done.strategy == "full"
        assert "sale" in done.reason
        assert_right(vk, view)
        vk.drop_ring_view("matrix")
        vk.sql("DELETE FROM sale WHERE id = 60")  # nobody logs it
    with viewkeep.connect(f"duckdb:{tmp_path / 'a.db'}") as vk:
        again = vk.restore_ring_view(tmp_path / "matrix")
        assert again.refresh().strategy == "full"
        assert_right(vk, again)


def test_after_reopening(tmp_path: Path) -> None:
    with viewkeep.connect(f"duckdb:{tmp_path / 'a.db'}") as vk:
        made(vk).save(tmp_path / "matrix")
        vk.sql("UPDATE sale SET item = 'rye'")
    with viewkeep.connect(f"duckdb:{tmp_path / 'a.db'}") as vk:
        view = vk.restore_ring_view(tmp_path / "matrix")
        assert view.refresh().strategy == "changes"
        assert_right(vk, view)


def test_what_is_refused() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql(TABLES[1])
        with pytest.raises(UnknownTable, match="nothing"):
            vk.ring_view("v", ["nothing"], Integers())
        with pytest.raises(UnknownColumn, match="colour"):
            vk.ring_view("v", [Relation("place", ("colour",))], Integers())
        with pytest.raises(Unsupported, match="lifts"):
            vk.ring_view("v", ["place"], Cofactor(("size",)), {"size": float})
        with pytest.raises(UnknownView, match="ring view"):
            vk.drop_ring_view("v")
        vk.sql("INSERT INTO place VALUES (1, 'Oslo', 1)")
        with pytest.raises(viewkeep.ViewkeepError, match="lift of size"):
            vk.ring_view("v", ["place"], Integers(), {"size": lambda x: 1 // (x - 1)})
        assert vk.status() == []


def test_a_ring_view_is_one_view_in_status() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (a INT, x INT); CREATE TABLE s (a INT, y INT); INSERT INTO r VALUES (1, 2)")
        vk.sql("CREATE MATERIALIZED VIEW plain AS SELECT a FROM r")
        view = vk.ring_view("sums", ["r", "s"], Sums((("x", "y"),)))
        plain, ring = vk.status()
        assert (plain.view, ring.view, ring.strategy, ring.stale) == ("plain", "sums", "ring", False)
        assert sorted(ring.tables) == ["r", "s"]
        vk.sql("INSERT INTO r VALUES (1, 3); INSERT INTO s VALUES (1, 5)")
        assert [(s.view, s.pending) for s in vk.status()] == [("plain", 1), ("sums", 2)]
        shown = vk.sql("SHOW MATERIALIZED VIEWS").rows
        assert [row[0] for row in shown] == ["plain", "sums"]
        view.refresh()
        assert not vk.status()[1].stale
        vk.drop_ring_view("sums")
        assert [s.view for s in vk.status()] == ["plain"]
