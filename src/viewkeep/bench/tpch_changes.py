"""Changes to the tables of TPC-H, as statements that mean the same on every engine.

Rows are chosen by arithmetic on their keys, so that a statement is short however many rows it changes, and
the same rows are chosen each time. New rows are copies of old ones under keys that nobody has. After each
list of statements every foreign key holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewkeep.bench.keys import scattered
from viewkeep.bench.tpch_data import TABLES

LINES_PER_ORDER = 4  # on average; an order has one to seven
_MONEY = "DECIMAL(15,2)"


@dataclass(frozen=True)
class Keys:
    """The keys that a table is loaded with: their number, and the largest."""

    count: int
    largest: int

    def some(self, column: str, start: int, size: int) -> str:
        """A condition that chooses `size` of these keys, scattered; no other start's, and no copies."""
        return f"({column} <= {self.largest} AND {scattered(self._number(column), self.count, start, size)})"

    def copy(self, column: str, number: int) -> str:
        """The key of a row's copy; rows may have a copy for each number from 1."""
        return f"{column} + {self._distance * number}"

    def is_copy(self, column: str, number: int) -> str:
        """A condition that holds for the copies of that number."""
        return (
            f"({column} > {self._distance * number} AND {column} <= {self._distance * number + self.largest})"
        )

    @property
    def _distance(self) -> int:
        return int(10 ** len(str(self.largest)))

    def _number(self, column: str) -> str:
        # orders have the first eight of every 32 keys, others all
        if self.largest > self.count:
            return f"{column} DIV 32 * 8 + {column} % 32 - 1"
        return f"{column} - 1"


@dataclass(frozen=True)
class Changes:
    """Changes to the tables at a scale."""

    scale: float

    @property
    def orders(self) -> Keys:
        count = round(1_500_000 * self.scale)
        return Keys(count, count * 4)

    @property
    def customers(self) -> Keys:
        return self._dense(150_000)

    @property
    def parts(self) -> Keys:
        return self._dense(200_000)

    @property
    def suppliers(self) -> Keys:
        return self._dense(10_000)

    def _dense(self, at_scale_1: int) -> Keys:
        count = round(at_scale_1 * self.scale)
        return Keys(count, count)

    @property
    def rows(self) -> int:
        """The rows of orders and lineitem together."""
        return self.orders.count * (1 + LINES_PER_ORDER)

    def stream(self, rows: int, number: int) -> list[str]:
        """What the refresh functions of TPC-H do, with updates: about so many rows of orders and lineitem,
        a third of them new, a third deleted, a third updated."""
        each = max(1, round(rows / (1 + LINES_PER_ORDER) / 3))
        start = number * each * 6  # new 1, deleted 1, updated 4: see _updated_lines
        return [
            *self._new_orders(start, each, number + 1),
            *self._deleted_orders(start + each, each),
            self._updated_orders(start + 2 * each, each),
            *self._updated_lines(start + 2 * each, each),
        ]

    def _new_orders(self, start: int, size: int, number: int) -> list[str]:
        # a little more than the original, so that no two orders are alike, and no ranking has ties
        more = f"{number / 100:.2f}"
        return [
            _copies(
                "orders",
                self.orders.some("o_orderkey", start, size),
                o_orderkey=self.orders.copy("o_orderkey", number),
                o_totalprice=f"CAST(o_totalprice + {more} AS {_MONEY})",
            ),
            _copies(
                "lineitem",
                self.orders.some("l_orderkey", start, size),
                l_orderkey=self.orders.copy("l_orderkey", number),
                l_extendedprice=f"CAST(l_extendedprice + {more} AS {_MONEY})",
            ),
        ]

    def _deleted_orders(self, start: int, size: int) -> list[str]:
        return [
            f"DELETE FROM lineitem WHERE {self.orders.some('l_orderkey', start, size)}",
            f"DELETE FROM orders WHERE {self.orders.some('o_orderkey', start, size)}",
        ]

    def _updated_orders(self, start: int, size: int) -> str:
        return (
            "UPDATE orders SET o_orderstatus = CASE o_orderstatus WHEN 'F' THEN 'O' ELSE 'F' END, "
            f"o_totalprice = CAST(o_totalprice + 10.00 AS {_MONEY}) "
            f"WHERE {self.orders.some('o_orderkey', start, size)}"
        )

    def _updated_lines(self, start: int, size: int) -> list[str]:
        """As many lines as `size` orders have, but each of another order: of four times as many orders every
        fourth line. Half of them are counted and priced anew, half are sent at another time."""
        some = self.orders.some("l_orderkey", start, size * LINES_PER_ORDER)
        return [
            "UPDATE lineitem SET "
            f"l_quantity = CAST(CASE WHEN l_quantity < 50 THEN l_quantity + 1 ELSE 1 END AS {_MONEY}), "
            f"l_extendedprice = CAST(l_extendedprice + 100.00 AS {_MONEY}), "
            f"l_discount = CAST(CASE WHEN l_discount < 0.10 THEN l_discount + 0.01 ELSE 0 END AS {_MONEY}) "
            f"WHERE {some} AND (l_orderkey + l_linenumber) % 8 = 0",
            "UPDATE lineitem SET l_shipdate = CAST(date_add(l_shipdate, 10) AS DATE), "
            "l_receiptdate = CAST(date_add(l_receiptdate, 20) AS DATE) "
            f"WHERE {some} AND (l_orderkey + l_linenumber) % 8 = 4",
        ]

    def batch(self, number: int) -> list[str]:
        """A small change of every table, in every way: the batches from 1 follow each other."""
        return [
            *self.around(number),
            *self.stream(self.rows * 3 // 1000, number - 1),
            *(self._departures(number - 2) if number > 2 else ()),
        ]

    def around(self, number: int) -> list[str]:
        """The part of a batch that is about the smaller tables, and about what refers to them."""
        return [*self._world(number), *self._customers(number), *self._parts_and_suppliers(number)]

    def _world(self, number: int) -> list[str]:
        """Regions and nations: each batch has a new nation in a new region, and a nation that moves."""
        added = 25 + number
        return [
            f"INSERT INTO region VALUES ({added}, 'REGION {added}', 'new')",
            f"INSERT INTO nation VALUES ({added}, 'NATION {added}', {added}, 'new')",
            f"UPDATE region SET r_comment = 'batch {number}' WHERE r_regionkey = {number % 5}",
            f"UPDATE nation SET n_regionkey = (n_regionkey + 1) % 5 WHERE n_nationkey = {number * 7 % 25}",
        ]

    def _customers(self, number: int) -> list[str]:
        few = self.customers.count // 500
        start = number * few * 3
        return [
            _copies(
                "customer",
                self.customers.some("c_custkey", start, few),
                c_custkey=self.customers.copy("c_custkey", number),
                c_acctbal=f"CAST(c_acctbal + {number} AS {_MONEY})",
            ),
            f"UPDATE customer SET c_acctbal = CAST(c_acctbal * 0.9 AS {_MONEY}), "
            f"c_nationkey = (c_nationkey + {number}) % 25 "
            f"WHERE {self.customers.some('c_custkey', start + few, few)}",
            # to the new customers
            f"UPDATE orders SET o_custkey = {self.customers.copy('o_custkey', number)} "
            f"WHERE {self.customers.some('o_custkey', start, few)} AND o_orderkey % 2 = 0",
            # every third customer of TPC-H has no orders, by their keys
            f"DELETE FROM customer WHERE {self.customers.some('c_custkey', start + 2 * few, few)} "
            "AND c_custkey % 3 = 0",
        ]

    def _parts_and_suppliers(self, number: int) -> list[str]:
        few = self.parts.count // 500
        start = number * few * 5  # new 1, changed 3, gone 1
        changed = start + few
        gone = start + 4 * few

        def new_supplier(column: str) -> str:
            return self.suppliers.some(column, number * 2, 1)

        new_part = self.parts.some("ps_partkey", start, few)
        copied_part = self.parts.copy("ps_partkey", number)
        copied_supplier = self.suppliers.copy("ps_suppkey", number)
        return [
            _copies(
                "part",
                self.parts.some("p_partkey", start, few),
                p_partkey=self.parts.copy("p_partkey", number),
                p_size="15" if number % 2 else "49",
            ),
            _copies(
                "supplier",
                new_supplier("s_suppkey"),
                s_suppkey=self.suppliers.copy("s_suppkey", number),
                s_name=f"concat(s_name, '-{number}')",
            ),
            # a new supplier has the parts of the one that it was copied from
            _copies(
                "partsupp",
                f"{new_part} OR {new_supplier('ps_suppkey')}",
                ps_partkey=f"CASE WHEN {new_supplier('ps_suppkey')} THEN ps_partkey ELSE {copied_part} END",
                ps_suppkey=f"CASE WHEN {new_supplier('ps_suppkey')} THEN {copied_supplier} "
                "ELSE ps_suppkey END",
            ),
            f"UPDATE lineitem SET l_suppkey = {self.suppliers.copy('l_suppkey', number)} "
            f"WHERE {new_supplier('l_suppkey')} AND l_linenumber = 1",
            # of a size and a brand, and in a container, that queries ask for
            "UPDATE part SET p_size = p_size % 10 + 1, p_brand = 'Brand#23', p_container = 'MED BOX', "
            f"p_retailprice = CAST(p_retailprice + 1 AS {_MONEY}) "
            f"WHERE {self.parts.some('p_partkey', changed, 3 * few)}",
            f"UPDATE partsupp SET ps_supplycost = CAST(ps_supplycost * 0.5 AS {_MONEY}), "
            "ps_availqty = ps_availqty + 1000 "
            f"WHERE {self.parts.some('ps_partkey', changed, 3 * few)}",
            f"UPDATE supplier SET s_acctbal = CAST(s_acctbal + 100 AS {_MONEY}), "
            f"s_nationkey = (s_nationkey + {number}) % 25 "
            f"WHERE {self.suppliers.some('s_suppkey', number * 2 + 1, 1)}",
            f"DELETE FROM lineitem WHERE {self.parts.some('l_partkey', gone, 1)}",
            f"DELETE FROM partsupp WHERE {self.parts.some('ps_partkey', gone, 1)}",
            f"DELETE FROM part WHERE {self.parts.some('p_partkey', gone, 1)}",
        ]

    def _departures(self, number: int) -> list[str]:
        """Some of what that batch brought goes again."""
        return [
            f"DELETE FROM lineitem WHERE {self.orders.is_copy('l_orderkey', number)} AND l_orderkey % 2 = 0 "
            f"OR {self.suppliers.is_copy('l_suppkey', number)}",
            f"DELETE FROM orders WHERE {self.orders.is_copy('o_orderkey', number)} AND o_orderkey % 2 = 0",
            f"DELETE FROM partsupp WHERE {self.suppliers.is_copy('ps_suppkey', number)}",
            f"DELETE FROM supplier WHERE {self.suppliers.is_copy('s_suppkey', number)}",
            f"DELETE FROM nation WHERE n_nationkey = {25 + number}",
            f"DELETE FROM region WHERE r_regionkey = {25 + number}",
        ]


def _copies(table: str, where: str, **new: str) -> str:
    """An INSERT of copies of a table's own rows, with other values in some columns."""
    names = next(definition.names for definition in TABLES if definition.name == table)
    values: Mapping[str, str] = {name: new.get(name, name) for name in names}
    return f"INSERT INTO {table} SELECT {', '.join(values.values())} FROM {table} WHERE {where}"
