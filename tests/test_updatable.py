"""WITH (updatable = ...): a view tree that is kept for changes of some tables only, on all engines."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

import viewkeep
from viewkeep.errors import UnknownTable, Unsupported

TABLES = (
    "CREATE TABLE sale (id INT, shop INT, item INT, amount INT, PRIMARY KEY (id))",
    "CREATE TABLE place (shop INT, town INT, size INT, PRIMARY KEY (shop))",
    "CREATE TABLE town (town INT, people INT, PRIMARY KEY (town))",
    "CREATE TABLE goods (gid INT, item INT, price INT, PRIMARY KEY (gid))",
)
START = (
    "INSERT INTO sale VALUES (1, 1, 1, 5), (2, 1, 2, 7), (3, 2, 1, 9), (4, 2, 2, 1), (5, 3, 1, 2)",
    "INSERT INTO place VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)",
    "INSERT INTO town VALUES (1, 100), (2, 200)",
    "INSERT INTO goods VALUES (1, 1, 3), (2, 1, 4), (3, 2, 5)",
)
QUERY = (
    "SELECT COFACTOR(amount, size, people, price) FROM sale NATURAL JOIN place NATURAL JOIN town "
    "NATURAL JOIN goods"
)
ORDER = "item - shop - town"


def prepared(vk: viewkeep.Connection, updatable: str) -> None:
    for statement in (*TABLES, *START):
        vk.sql(statement)
    vk.sql(
        f"CREATE MATERIALIZED VIEW v WITH (updatable = '{updatable}', variable_order = '{ORDER}') AS {QUERY}"
    )
    vk.sql(f"CREATE MATERIALIZED VIEW every WITH (variable_order = '{ORDER}') AS {QUERY}")


def refreshed(vk: viewkeep.Connection) -> viewkeep.Refresh:
    """The refresh of the view with the option; both views must be what a fresh query gives."""
    done = {refresh.view.rpartition(".")[2]: refresh for refresh in vk.refresh()}
    assert vk.verify("v")
    assert sorted(vk.sql("SELECT * FROM v").rows) == sorted(vk.sql("SELECT * FROM every").rows)
    return done["v"]


def stored(vk: viewkeep.Connection, view: str) -> int:
    return sum(len(s.caches) for s in vk.status() if s.view.rpartition(".")[2] == view)


def scenario(vk: viewkeep.Connection) -> None:
    prepared(vk, "goods")
    assert stored(vk, "v") < stored(vk, "every")
    vk.sql("UPDATE goods SET price = price + 1 WHERE item = 1")
    assert refreshed(vk).strategy in ("id", "groups")
    vk.sql("INSERT INTO place VALUES (4, 2, 40)")
    vk.sql("INSERT INTO sale VALUES (6, 4, 2, 8)")
    done = refreshed(vk)
    assert done.strategy == "full"
    assert "not among the tables declared updatable" in done.reason
    vk.sql("DELETE FROM goods WHERE gid = 2")
    assert refreshed(vk).strategy in ("id", "groups")  # what recomputing stored is right


def test_on_duckdb() -> None:
    with viewkeep.connect("duckdb:") as vk:
        scenario(vk)


@pytest.mark.xdist_group("postgres")
def test_on_postgres(postgres: viewkeep.Connection) -> None:
    scenario(postgres)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_on_spark(spark_engine: viewkeep.Connection) -> None:
    prepared(spark_engine, "goods")
    spark_engine.sql("UPDATE goods SET price = price + 1 WHERE item = 1")
    assert refreshed(spark_engine).strategy in ("id", "groups")
    spark_engine.sql("INSERT INTO sale VALUES (6, 3, 2, 8)")
    assert refreshed(spark_engine).strategy == "full"


def test_tuple_based_without_caches() -> None:
    """What the idIVM paper compares with: a changed row is joined again with what an aggregate inside the view
    is over. When that changes, the view is recomputed."""
    query = (
        "SELECT p.shop, p.size, q.n, q.amount FROM place p JOIN (SELECT s.shop, COUNT(*) AS n, "
        "SUM(s.amount * g.price) AS amount FROM sale s JOIN goods g ON g.item = s.item GROUP BY s.shop) q "
        "ON q.shop = p.shop"
    )
    without = "strategy = 'tuple', updatable = 'place', view_tree = 'off'"
    with viewkeep.connect("duckdb:") as vk:
        for statement in (*TABLES, *START):
            vk.sql(statement)
        vk.sql(f"CREATE MATERIALIZED VIEW v WITH ({without}) AS {query}")
        vk.sql(f"CREATE MATERIALIZED VIEW every WITH (strategy = 'tuple') AS {query}")
        assert (stored(vk, "v"), stored(vk, "every")) == (0, 1)
        assert any("an aggregate that no change of place reaches" in c for c in vk.explain("v").caches)
        for change in (
            "UPDATE place SET size = size + 1 WHERE shop < 3",
            "DELETE FROM place WHERE shop = 1",
            "INSERT INTO place VALUES (1, 2, 9)",
        ):
            vk.sql(change)
            assert refreshed(vk).strategy == "tuple"
        vk.sql("UPDATE sale SET amount = 6 WHERE id = 1")
        assert refreshed(vk).strategy == "full"
        vk.sql("UPDATE place SET shop = 5 WHERE shop = 2")
        assert refreshed(vk).strategy == "tuple"


@pytest.mark.parametrize("updatable", ["sale", "town", "Place, goods", "sale, place, town, goods"])
def test_random_changes(updatable: str) -> None:
    declared = {name.strip().lower() for name in updatable.split(",")}
    random = Random(updatable)
    with viewkeep.connect("duckdb:") as vk:
        prepared(vk, updatable)
        for key in range(10, 26):
            table = random.choice(["sale", "place", "town", "goods"])
            values = {
                "sale": (key, random.randint(1, 3), random.randint(1, 2), random.randint(0, 9)),
                "place": (key, random.randint(1, 2), random.randint(0, 9)),
                "town": (key, random.randint(0, 9)),
                "goods": (key, random.randint(1, 2), random.randint(0, 9)),
            }[table]
            changed = vk.sql(f"SELECT * FROM {table} ORDER BY 1").rows
            if random.random() < 0.5 or not changed:
                vk.sql(f"INSERT INTO {table} VALUES {values}")
            elif random.random() < 0.5:
                names = {"sale": ("amount", "id"), "place": ("town", "shop"), "town": ("people", "town"), "goods": ("item", "gid")}  # fmt: skip
                column, by = names[table]
                vk.sql(f"UPDATE {table} SET {column} = {column} + 1 WHERE {by} = {random.choice(changed)[0]}")
            else:
                key_column = {"sale": "id", "place": "shop", "town": "town", "goods": "gid"}[table]
                vk.sql(f"DELETE FROM {table} WHERE {key_column} = {random.choice(changed)[0]}")
            strategy = refreshed(vk).strategy
            assert strategy == "full" if table not in declared else strategy in ("id", "groups", "none")


def test_a_column_that_the_view_does_not_read_recomputes_nothing() -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (id INT, a INT, x INT, note STRING, PRIMARY KEY (id))")
        vk.sql("CREATE TABLE s (id INT, a INT, y INT, PRIMARY KEY (id))")
        vk.sql("INSERT INTO r VALUES (1, 1, 2, 'b'); INSERT INTO s VALUES (1, 1, 3)")
        vk.sql(
            "CREATE MATERIALIZED VIEW v WITH (updatable = 's') AS SELECT COFACTOR(x, y) FROM r JOIN s ON r.a = s.a"
        )
        vk.sql("UPDATE r SET note = 'c'")
        vk.sql("UPDATE s SET y = 4")
        [done] = vk.refresh("v")
        assert done.strategy == "id"
        assert vk.verify("v")


def shown(vk: viewkeep.Connection) -> tuple[str, Sequence[str]]:
    explanation = vk.explain("v")
    return explanation.view_tree, explanation.caches


def test_explain_says_what_is_kept_for_which_tables() -> None:
    with viewkeep.connect("duckdb:") as vk:
        prepared(vk, "goods")
        drawn, caches = shown(vk)
        assert any(c == "updatable: goods; changes of other tables recompute the view" for c in caches)
        assert any(c.startswith("not stored: V_place_town@town[shop]") for c in caches), caches
        lines = {line.split("[")[0].strip("│├└─ "): line.endswith("stored") for line in drawn.splitlines()}
        assert [name for name, kept in lines.items() if kept] == [
            "V_place_town_sale_goods@item",
            "V_place_town_sale@shop",
            "goods",
        ]
        assert not any("updatable" in c for c in vk.explain("every").caches)


@pytest.mark.parametrize(
    ("options", "query", "kind", "says"),
    [
        ("updatable = 'cars'", QUERY, UnknownTable, "cars"),
        ("updatable = ''", QUERY, UnknownTable, "no table"),
        ("updatable = 'sale', view_tree = 'off'", QUERY, Unsupported, "view_tree"),
        ("updatable = 'sale', maintenance = 'eager'", QUERY, Unsupported, "eager"),
        ("updatable = 'sale', refresh_policy = 'incremental_strict'", QUERY, Unsupported, "strict"),
        ("updatable = 'sale'", "SELECT shop, amount FROM sale", Unsupported, "no view tree"),
    ],
)
def test_what_is_refused(options: str, query: str, kind: type[Exception], says: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        for statement in TABLES:
            vk.sql(statement)
        with pytest.raises(kind, match=says):
            vk.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {query}")
        assert not vk.status()
