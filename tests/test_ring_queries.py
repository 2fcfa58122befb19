"""Ring views that are written in SQL: the same numbers as the query has, or a refusal that says where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import viewkeep
from viewkeep.errors import SyntaxProblem, UnknownColumn, UnknownTable, Unsupported, ViewkeepError
from viewkeep.fivm import Cofactor, Relation, Sums
from viewkeep.fivm.compiled import triggers
from viewkeep.fivm.compiled.kernels import interpreted
from viewkeep.fivm.rings import Integers
from viewkeep.ring_queries import ring_query

TABLES = (
    "CREATE TABLE orders (id INT, shop STRING, item INT, amount INT NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE prices (item BIGINT, price INT, weight DOUBLE)",
    "CREATE TABLE edge (a INT, b INT)",
    "INSERT INTO orders VALUES (1, 'n', 1, 3), (2, 'n', 2, 4), (3, 's', 1, 5), (4, 's', NULL, 6)",
    "INSERT INTO prices VALUES (1, 10, 0.5), (2, 20, 1.5), (2, NULL, 2.5)",
    "INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1), (2, 2)",
)


@pytest.fixture
def vk(monkeypatch: pytest.MonkeyPatch) -> Iterator[viewkeep.Connection]:
    monkeypatch.setattr(triggers, "loaded", interpreted)  # kernels that are compiled do the same
    with viewkeep.connect("duckdb:") as connection:
        for statement in TABLES:
            connection.sql(statement)
        yield connection


def read(vk: viewkeep.Connection, query: str, ring: bool = False, *names: str) -> Any:
    return ring_query(query, lambda n: vk.engine.find_table(vk.engine.qualify(n)), ring, names)


def test_what_is_joined_kept_and_summed(vk: viewkeep.Connection) -> None:
    found = read(
        vk, "SELECT shop, SUM(amount * price), COUNT(price) FROM orders NATURAL JOIN prices GROUP BY shop"
    )
    assert found.relations == (
        Relation("orders", ("shop", "item", "amount"), "orders", ("shop", "item", "amount")),
        Relation("prices", ("item", "price"), "prices", ("item", "price")),
    )
    assert (found.free, found.ring()) == (("shop",), Sums((("amount", "price"), ()), exact=True))


def test_doubles_and_cofactors(vk: viewkeep.Connection) -> None:
    found = read(vk, "SELECT SUM(p.weight * amount) FROM orders o JOIN prices p ON o.item = p.item")
    assert found.ring() == Sums((("weight", "amount"),))
    found = read(vk, "SELECT COFACTOR(amount, price) FROM orders JOIN prices USING (item)")
    assert found.ring() == Cofactor(("amount", "price"))


def test_tables_that_are_joined_with_themselves(vk: viewkeep.Connection) -> None:
    query = "SELECT COUNT(*) FROM edge r, edge s, edge t WHERE r.b = s.a AND s.b = t.a AND t.b = r.a"
    view = vk.ring_view("triangles", query)
    assert view.result()[()].tolist() == [vk.sql(query).rows[0][0]]
    vk.sql("INSERT INTO edge VALUES (3, 2)")
    view.refresh()
    assert view.result()[()].tolist() == [vk.sql(query).rows[0][0]]


def test_a_ring_of_ones_own_over_a_join(vk: viewkeep.Connection) -> None:
    lifts = {"o.amount": lambda x: x, "P.price": lambda x: x}
    query = "SELECT shop FROM orders o JOIN prices p USING (item) GROUP BY shop"
    view = vk.ring_view("revenue", query, Integers, lifts)
    assert view.result() == {("n",): 110, ("s",): 50}
    whole = vk.ring_view("whole", "FROM orders NATURAL JOIN prices", Integers(), {"amount": lambda x: x})
    assert whole.result() == {(): 16}
    towns = vk.ring_view("towns", "FROM orders", Cofactor(("amount", "shop"), {"shop": 5}))
    assert towns.cofactors().columns == ("amount", "shop=n", "shop=s")


REFUSED: dict[str, tuple[str, type[ViewkeepError], str]] = {
    "a condition": ("SELECT COUNT(*) FROM orders WHERE amount > 3", Unsupported, "no equality"),
    "an outer join": (
        "SELECT COUNT(*) FROM orders LEFT JOIN prices USING (item)",
        Unsupported,
        "inner joins",
    ),
    "a derived table": ("SELECT COUNT(*) FROM (SELECT item FROM orders) o", Unsupported, "inner joins"),
    "HAVING": ("SELECT shop, COUNT(*) FROM orders GROUP BY shop HAVING COUNT(*) > 1", Unsupported, "HAVING"),
    "a column": ("SELECT SUM(colour) FROM orders", UnknownColumn, "colour"),
    "a table": ("SELECT COUNT(*) FROM offers", UnknownTable, "offers"),
    "nothing": ("SELECT shop FROM orders", Unsupported, "neither"),
    "an expression": ("SELECT SUM(amount + 1) FROM orders", Unsupported, "no product"),
    "DISTINCT": ("SELECT SUM(DISTINCT amount) FROM orders", Unsupported, "no product"),
    "a maximum": ("SELECT MAX(amount) FROM orders", Unsupported, "MAX"),
    "a category": ("SELECT COFACTOR(amount, CATEGORY(shop)) FROM orders", Unsupported, "categories"),
    "other groups": ("SELECT COUNT(*) FROM orders GROUP BY shop", Unsupported, "grouped"),
    "NULLs apart": ("SELECT SUM(price), COUNT(*) FROM prices", Unsupported, "is NULL"),
    "a count of NULLs": ("SELECT COUNT(price) FROM prices", Unsupported, "beside a sum of price"),
    "two matrices": ("SELECT COFACTOR(amount), SUM(item) FROM orders", Unsupported, "beside COFACTOR"),
    "half a query": ("SELECT SUM( FROM orders", SyntaxProblem, "parsed"),
    "no query": ("DELETE FROM orders", Unsupported, "no SELECT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, vk: viewkeep.Connection) -> None:
    query, kind, told = REFUSED[name]
    with pytest.raises(kind, match=told):
        vk.ring_view("v", query)
    assert vk.status() == []


def test_a_ring_and_sums_are_not_asked_for_both(vk: viewkeep.Connection) -> None:
    with pytest.raises(Unsupported, match="the ring says"):
        vk.ring_view("v", "SELECT SUM(amount) FROM orders", Integers())
    with pytest.raises(Unsupported, match="which columns are kept"):
        vk.ring_view("v", "SELECT COUNT(*) FROM orders", free=["shop"])
    with pytest.raises(Unsupported, match="there is no ring"):
        vk.ring_view("v", ["orders"])
    with pytest.raises(UnknownColumn, match="colour"):
        vk.ring_view("v", "FROM orders", Integers(), {"colour": lambda x: x})
