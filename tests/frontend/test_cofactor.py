"""COFACTOR: what it is rewritten to, what its columns are called, and what is refused."""

from __future__ import annotations

import pytest

import viewkeep
from viewkeep.algebra import types as t
from viewkeep.algebra.cofactors import Cofactor
from viewkeep.algebra.nodes import Aggregate, Select, walk
from viewkeep.errors import AmbiguousColumn, TypeMismatch, UnknownColumn, Unsupported

from ..helpers import bound, table

HOUSE = table(
    "house",
    "hid INT, city STRING, area INT, price DECIMAL(10;2), yield DOUBLE, rooms BIGINT",
    "hid",
    required="price rooms",
)


def names(sql: str) -> tuple[str, ...]:
    return bound(sql, [HOUSE]).names


def types(sql: str) -> dict[str, t.Type]:
    made = bound(sql, [HOUSE])
    return {name: c.type for name, c in zip(made.names, made.plan.columns, strict=False)}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("COFACTOR(area)", "n sum_area sum_area_area"),
        ("cofactor(area, price)", "n sum_area sum_price sum_area_area sum_area_price sum_price_price"),
        ("COFACTOR(area) AS m", "m_n m_sum_area m_sum_area_area"),
        ("COFACTOR(h.area * 2)", "n sum_x1 sum_x1_x1"),
        ("COFACTOR(-price AS cost)", "n sum_cost sum_cost_cost"),
        ("(COFACTOR(area)) AS m", "m_n m_sum_area m_sum_area_area"),
        ("COFACTOR(price, 2 * rooms)",
         "n sum_price sum_x2 sum_price_price sum_price_x2 sum_x2_x2"),
    ],
)  # fmt: skip
def test_the_names_of_its_columns(call: str, expected: str) -> None:
    assert names(f"SELECT {call} FROM house h") == tuple(expected.split())


def test_columns_are_in_the_order_of_the_names() -> None:
    matrix = Cofactor("m", ("a", "b", "c"))
    assert matrix.count == "m_n"
    assert matrix.sums == ("m_sum_a", "m_sum_b", "m_sum_c")
    assert matrix.products == (
        "m_sum_a_a", "m_sum_a_b", "m_sum_a_c", "m_sum_b_b", "m_sum_b_c", "m_sum_c_c",
    )  # fmt: skip
    assert matrix.columns == (matrix.count, *matrix.sums, *matrix.products)


def test_beside_keys_and_other_aggregates() -> None:
    made = bound(
        "SELECT city, MAX(price) AS top, COFACTOR(area), AVG(area) AS a FROM house GROUP BY city", [HOUSE]
    )
    assert made.names == ("city", "top", "n", "sum_area", "sum_area_area", "a")
    assert made.cofactors == (Cofactor("", ("area",)),)
    assert made.keys == ("city",)


def test_several_of_them() -> None:
    made = bound("SELECT COFACTOR(area) AS a, COFACTOR(price, rooms) AS b FROM house", [HOUSE])
    assert made.cofactors == (Cofactor("a", ("area",)), Cofactor("b", ("price", "rooms")))
    assert made.keys == ()


def test_an_earlier_alias_is_a_name_too() -> None:
    made = bound("SELECT city AS c, area + 1 AS bigger, COFACTOR(bigger) FROM house GROUP BY ALL", [HOUSE])
    assert made.names == ("c", "bigger", "n", "sum_bigger", "sum_bigger_bigger")
    assert made.cofactors == (Cofactor("", ("bigger",)),)


def test_integers_are_multiplied_as_bigint_and_decimals_by_sparks_rules() -> None:
    found = types("SELECT COFACTOR(area, price, yield, rooms) FROM house")
    assert found["n"] == found["sum_area"] == found["sum_area_area"] == found["sum_area_rooms"] == t.BIGINT
    assert found["sum_price"] == t.decimal(20, 2)
    assert found["sum_price_price"] == t.decimal(31, 4)
    assert found["sum_area_price"] == t.decimal(38, 2)
    assert found["sum_area_yield"] == found["sum_yield_yield"] == t.DOUBLE


def test_no_column_is_ever_null() -> None:
    made = bound("SELECT city, COFACTOR(area, price) FROM house GROUP BY city", [HOUSE])
    assert [c.nullable for c in made.plan.columns[1:]] == [False] * 6


def test_alone_it_filters_its_rows_once() -> None:
    alone = bound("SELECT COFACTOR(area, price) FROM house", [HOUSE]).plan
    [condition] = [n.predicate for n in walk(alone) if isinstance(n, Select)]
    assert condition.sql() == 'NOT ("house_area" IS NULL)'  # a price is never null
    beside = bound("SELECT COUNT(*) AS c, COFACTOR(area, price) FROM house", [HOUSE]).plan
    assert not [n for n in walk(beside) if isinstance(n, Select)]


def test_sums_over_columns_that_are_never_null_need_no_case() -> None:
    plan = bound("SELECT city, COFACTOR(price, rooms) FROM house GROUP BY city", [HOUSE]).plan
    [grouped] = [n for n in walk(plan) if isinstance(n, Aggregate)]
    assert [m.function for m in grouped.measures] == ["rows"] + ["sum"] * 5


def test_only_the_outermost_select_has_the_views_matrices() -> None:
    inner = "SELECT city, COFACTOR(area) AS m FROM house GROUP BY city"
    made = bound(f"SELECT SUM(m_n) AS n FROM ({inner})", [HOUSE])
    assert made.cofactors == ()
    assert bound(f"({inner})", [HOUSE]).cofactors == (Cofactor("m", ("area",)),)
    assert bound(f"{inner} UNION ALL {inner}", [HOUSE]).cofactors == ()


@pytest.mark.parametrize(
    ("query", "kind", "message", "column"),
    [
        ("SELECT COFACTOR() FROM house", Unsupported, "needs an argument", 8),
        ("SELECT COFACTOR(*) FROM house", Unsupported, "no *", 8),
        ("SELECT COFACTOR(DISTINCT area) FROM house", Unsupported, "no DISTINCT", 8),
        ("SELECT COFACTOR(area, city) FROM house", TypeMismatch, "city is STRING", 23),
        ("SELECT COFACTOR(NULL) FROM house", TypeMismatch, "NULL", 8),
        ("SELECT COFACTOR(area > 1) FROM house", TypeMismatch, "BOOLEAN", 17),
        ("SELECT COFACTOR(CATEGORY(city)) FROM house", Unsupported, "an argument that is a number", 8),
        ("SELECT COFACTOR(area, CATEGORY()) FROM house", Unsupported, "CATEGORY takes one column", 23),
        ("SELECT COFACTOR(area, CATEGORY(city, kind)) FROM house", Unsupported, "takes one column", 23),
        ("SELECT COFACTOR(area, CATEGORY(UPPER(city))) FROM house", Unsupported, "needs a name", 23),
        ("SELECT COFACTOR(area, CATEGORY(city)), COFACTOR(area) AS m FROM house", Unsupported, "only one", 8),
        (
            "SELECT COFACTOR(area, CATEGORY(city)) FROM house GROUP BY ROLLUP (area)",
            Unsupported,
            "GROUP BY",
            8,
        ),
        ("SELECT COFACTOR(area, CATEGORY(city)) FROM house GROUP BY ALL", Unsupported, "GROUP BY", 8),
        ("SELECT rooms, COFACTOR(area, CATEGORY(city)) FROM house GROUP BY 1", Unsupported, "GROUP BY", 15),
        ("SELECT COFACTOR(area, CATEGORY(city)) FROM house ORDER BY 1", Unsupported, "no order", 8),
        ("SELECT COFACTOR(nothing) FROM house", UnknownColumn, "nothing", 17),
        ("SELECT COFACTOR(area) + 1 FROM house", Unsupported, "by itself", 8),
        ("SELECT SUM(COFACTOR(area)) FROM house", Unsupported, "by itself", 12),
        ("SELECT COFACTOR(area) OVER () FROM house", Unsupported, "by itself", 8),
        ("SELECT city FROM house WHERE COFACTOR(area) > 1", Unsupported, "by itself", 30),
        ("SELECT city FROM house GROUP BY city HAVING COFACTOR(area) > 1", Unsupported, "by itself", 45),
        ("SELECT city FROM house ORDER BY COFACTOR(area) LIMIT 1", Unsupported, "by itself", 33),
        ("SELECT city FROM house GROUP BY city, COFACTOR(area)", Unsupported, "by itself", 39),
        ("SELECT COFACTOR(area, area) FROM house", AmbiguousColumn, "two arguments", 17),
        (
            "SELECT COFACTOR(area, rooms, price AS area_rooms) FROM house",
            AmbiguousColumn,
            "sum_area_rooms",
            8,
        ),
        ("SELECT COFACTOR(area), COFACTOR(price) FROM house", AmbiguousColumn, "called n", 8),
        ("SELECT city AS n, COFACTOR(area) FROM house GROUP BY city", AmbiguousColumn, "called n", 19),
    ],
)
def test_refusals(query: str, kind: type[viewkeep.ViewkeepError], message: str, column: int) -> None:
    with pytest.raises(kind) as caught:
        bound(query, [HOUSE])
    assert message in caught.value.message
    assert caught.value.hint
    assert caught.value.place is not None
    assert caught.value.place.column == column


def test_no_function_can_be_registered_under_its_name() -> None:
    with viewkeep.connect("duckdb:") as vk, pytest.raises(viewkeep.ViewkeepError, match="already"):
        vk.register_function("cofactor", float, "DOUBLE", ["INT"])
