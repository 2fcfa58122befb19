"""Connection.regression: from the view's columns to a model."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewkeep
from viewkeep.errors import NoData, Unavailable, UnknownColumn, UnknownView, Unsupported

HOUSES = """
CREATE TABLE houses (hid INT, city STRING, year INT, area INT, rooms INT, price DECIMAL(12,2), PRIMARY KEY (hid));
INSERT INTO houses VALUES
  (1, 'Oslo', 1, 50, 2, 210.00), (2, 'Oslo', 1, 60, 3, 250.00), (3, 'Oslo', 1, 80, 3, 330.00),
  (4, 'Rome', 1, 50, 1, 100.00), (5, 'Rome', 1, 70, 2, 140.00), (6, 'Rome', 2, NULL, 2, 999.00),
  (7, 'Bonn', 1, NULL, 2, 1.00), (8, NULL, 1, 10, 1, 11.00), (9, NULL, 1, 20, 1, 21.00);
CREATE MATERIALIZED VIEW oslo AS SELECT COFACTOR(Area, price) FROM houses WHERE city = 'Oslo';
CREATE MATERIALIZED VIEW by_city AS SELECT city, COFACTOR(area, price) FROM houses GROUP BY city
"""


@pytest.fixture
def vk() -> Iterator[viewkeep.Connection]:
    with viewkeep.connect("duckdb:") as made:
        made.sql(HOUSES)
        yield made


def view(vk: viewkeep.Connection, query: str) -> None:
    vk.sql(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_a_model(vk: viewkeep.Connection) -> None:
    model = vk.regression("oslo", label="price")
    assert isinstance(model, viewkeep.Regression)
    assert (model.label, model.count, model.rank) == ("price", 3, 1)
    assert (model["Area"], model.intercept) == (pytest.approx(4), pytest.approx(10))
    assert model.predict({"Area": 100}) == pytest.approx(410)
    assert vk.regression("oslo", label="AREA").label == "Area"  # type: ignore[union-attr]


def test_it_follows_the_view(vk: viewkeep.Connection) -> None:
    vk.sql("UPDATE houses SET price = 2 * area WHERE city = 'Oslo'")
    assert vk.regression("oslo", "price")["Area"] == pytest.approx(4)  # type: ignore[index]
    vk.refresh()
    assert vk.regression("oslo", "price")["Area"] == pytest.approx(2)  # type: ignore[index]


def test_a_model_for_each_group(vk: viewkeep.Connection) -> None:
    models = vk.regression("by_city", "price")
    assert isinstance(models, dict)
    assert set(models) == {("Oslo",), ("Rome",), (None,)}  # no row of Bonn counts
    assert models["Rome",]["area"] == pytest.approx(2)
    assert models[None,]["area"] == pytest.approx(1)


@pytest.mark.parametrize(("city", "slope"), [("Oslo", 4), ("Rome", 2), (None, 1)])
def test_one_group(vk: viewkeep.Connection, city: str | None, slope: float) -> None:
    assert vk.regression("by_city", "price", group={"CITY": city})["area"] == pytest.approx(slope)  # type: ignore[index]


def test_groups_of_several_columns(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT city, COUNT(*) AS c, year, COFACTOR(price, area) FROM houses GROUP BY year, city")
    assert vk.regression("v", "price", group={"city": "Rome", "year": 1})["area"] == pytest.approx(2)  # type: ignore[index]
    with pytest.raises(Unsupported, match="nothing of year"):
        vk.regression("v", "price", group={"city": "Rome"})
    models = vk.regression("v", "price")
    assert isinstance(models, dict)
    assert set(models) == {("Oslo", 1), ("Rome", 1), (None, 1)}


def test_one_of_several_cofactors(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT COFACTOR(area, price) AS a, COFACTOR(rooms, price) AS b FROM houses WHERE city = 'Oslo'")
    assert list(vk.regression("v", "price", name="B").coefficients) == ["rooms"]  # type: ignore[union-attr]
    with pytest.raises(Unsupported, match="several COFACTORs: a, b"):
        vk.regression("v", "price")
    with pytest.raises(UnknownColumn, match="alias c"):
        vk.regression("v", "price", name="c")


def test_features_and_ridge(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT COFACTOR(price, area, rooms) FROM houses WHERE city = 'Oslo'")
    assert list(vk.regression("v", "price", ["ROOMS"]).coefficients) == ["rooms"]  # type: ignore[union-attr]
    shrunk, free = vk.regression("v", "price", ["area"], ridge=100), vk.regression("v", "price", ["area"])
    assert 0 < shrunk["area"] < free["area"]  # type: ignore[index]


def test_after_reopening(tmp_path: Path) -> None:
    where = f"duckdb:{tmp_path / 'houses.db'}"
    with viewkeep.connect(where) as vk:
        vk.sql(HOUSES)
    with viewkeep.connect(where) as vk:
        assert vk.regression("oslo", "price")["Area"] == pytest.approx(4)  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"view": "nope", "label": "price"}, UnknownView, "nope"),
        ({"view": "oslo", "label": "rooms"}, UnknownColumn, "label rooms"),
        ({"view": "oslo", "label": "price", "features": ["rooms"]}, UnknownColumn, "column rooms"),
        ({"view": "oslo", "label": "price", "features": ["price"]}, Unsupported, "price is the label"),
        ({"view": "oslo", "label": "price", "ridge": -1}, Unsupported, "ridge"),
        ({"view": "oslo", "label": "price", "ridge": math.nan}, Unsupported, "ridge"),
        ({"view": "oslo", "label": "price", "group": {"city": "Oslo"}}, Unsupported, "no GROUP BY"),
        ({"view": "by_city", "label": "price", "group": {"town": "Oslo"}}, UnknownColumn, "town"),
        ({"view": "by_city", "label": "price", "group": {}}, Unsupported, "nothing of city"),
        ({"view": "by_city", "label": "price", "group": {"city": "Kiel"}}, NoData, "city = 'Kiel'"),
        ({"view": "by_city", "label": "price", "group": {"city": "Bonn"}}, NoData, "no row counts"),
    ],
)  # fmt: skip
def test_refusals(
    vk: viewkeep.Connection, arguments: dict[str, Any], kind: type[viewkeep.ViewkeepError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        vk.regression(**arguments)
    assert caught.value.hint


def test_a_view_without_cofactor(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT n, sum_area FROM (SELECT COFACTOR(area) FROM houses)")
    with pytest.raises(Unsupported, match="no COFACTOR"):
        vk.regression("v", "area")


def test_no_rows(vk: viewkeep.Connection) -> None:
    vk.sql("DELETE FROM houses; REFRESH MATERIALIZED VIEWS")
    with pytest.raises(NoData, match="no row counts in view oslo"):
        vk.regression("oslo", "price")
    assert vk.regression("by_city", "price") == {}


def test_groups_that_nothing_tells_apart(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT city, COFACTOR(price, area) FROM houses GROUP BY city, year")
    with pytest.raises(Unsupported, match="several groups"):
        vk.regression("v", "price")
    with pytest.raises(Unsupported, match="2 groups"):
        vk.regression("v", "price", group={"city": "Rome"})


def test_infinite_sums(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE TABLE d (k INT, x DOUBLE, PRIMARY KEY (k)); INSERT INTO d VALUES (1, 1e200), (2, 1e308)")
    vk.sql("UPDATE d SET x = 10 * x WHERE k = 2")
    view(vk, "SELECT COFACTOR(x, k) FROM d")
    with pytest.raises(NoData, match="inf"):
        vk.regression("v", "k")


def test_without_numpy(vk: viewkeep.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.startswith("viewkeep.fivm.model"):
            raise ImportError("No module named 'numpy'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(Unavailable, match="NumPy"):
        vk.regression("oslo", "price")


def _by_least_squares(rows: list[tuple[Any, ...]]) -> list[float]:
    """What the model of price by area, city and year gives each row, by NumPy from the rows themselves."""
    cities, years = ([row[i] for row in rows] for i in (1, 2))
    columns = [[1.0] * len(rows), [float(row[0]) for row in rows]]
    columns += [[float(c == city) for c in cities] for city in set(cities)]
    columns += [[float(y == year) for y in years] for year in set(years)]
    matrix = np.array(columns).T
    found = matrix @ np.linalg.lstsq(matrix, np.array([float(row[3]) for row in rows]), rcond=None)[0]
    return [float(x) for x in found]


def test_categories(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT COFACTOR(price, area, CATEGORY(City), CATEGORY(year)) FROM houses")
    changes = (
        "INSERT INTO houses VALUES (10, 'Rome', 2, 30, 1, 77.25), (11, 'Kiel', 2, 45, 1, 99), (12, 'Oslo', 2, 66, 1, 5)",
        "UPDATE houses SET city = 'Kiel' WHERE hid IN (2, 8)",
        "DELETE FROM houses WHERE city = 'Oslo'",
    )
    for change in ("", *changes):
        if change:
            vk.sql(change)
            [done] = vk.refresh("v")
            assert done.strategy != "full"
        rows = vk.sql("SELECT area, city, year, price FROM houses").rows
        known = [row for row in rows if None not in row]
        model = vk.regression("v", "price")
        assert isinstance(model, viewkeep.Regression)
        assert model.count == len(known)
        assert set(model.categories["City"]) == {row[1] for row in known}
        found = [model.predict({"area": a, "City": city, "year": year}) for a, city, year, _ in known]
        assert found == pytest.approx(_by_least_squares(known))
    assert vk.verify("v")
    assert vk.regression("v", "price", ["area"]).categories == {}  # type: ignore[union-attr]


def test_a_category_may_be_an_expression_beside_groups(vk: viewkeep.Connection) -> None:
    view(
        vk, "SELECT year, COFACTOR(price, area, CATEGORY(rooms > 2) AS large) AS m FROM houses GROUP BY year"
    )
    models = vk.regression("v", "price")
    assert isinstance(models, dict)
    assert set(models) == {(1,)}  # of year 2 no area is known
    assert set(models[1,].categories["large"]) == {False, True}
    assert "large = True" in str(models[1,])
    assert models[1,].count == 7


def test_categories_need_rows_and_are_no_labels(vk: viewkeep.Connection) -> None:
    view(vk, "SELECT COFACTOR(price, CATEGORY(city)) FROM houses WHERE year = 7")
    with pytest.raises(NoData):
        vk.regression("v", "price")
    with pytest.raises(UnknownColumn, match="label city"):
        vk.regression("v", "city")
