"""Projects of Spark Declarative Pipelines as they are, kept incrementally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import viewkeep
from viewkeep import pipelines
from viewkeep.cli.main import app
from viewkeep.errors import Unsupported

from .conftest import rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

# what the project's views mean, said again over base tables
SALES = (
    "SELECT o.order_id, o.customer_id, l.line, l.product, l.quantity * l.price AS amount "
    "FROM orders o JOIN lines l ON o.order_id = l.order_id WHERE o.status = 'paid'"
)
MEANING = {
    "sales": SALES,
    "product_sales": f"SELECT product, SUM(amount) AS amount, COUNT(*) AS n FROM ({SALES}) GROUP BY product",
    "good_products": f"SELECT product, SUM(amount) FROM ({SALES}) GROUP BY product HAVING SUM(amount) > 100",
    "customer_sales": f"SELECT c.name, SUM(s.amount) FROM customers c JOIN ({SALES}) s "
    "ON c.customer_id = s.customer_id GROUP BY c.name",
    "customer_orders": "SELECT c.customer_id, c.name, COUNT(o.order_id), MAX(o.day) FROM customers c LEFT JOIN "
    "(SELECT * FROM orders WHERE status = 'paid') o ON c.customer_id = o.customer_id GROUP BY c.customer_id, c.name",
}


def test_an_unmodified_project_is_kept_incrementally(
    shop: viewkeep.Connection, spark: Any, project: Path
) -> None:
    settings, tables = dict(spark.conf.getAll), {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    dry = pipelines.dry_run(shop, project)
    assert {o.view: o.action for o in dry.outcomes} == dict.fromkeys(MEANING, "create")
    assert shop.status() == []
    assert {row.tableName for row in spark.sql("SHOW TABLES").collect()} == tables, (
        "a dry run changes nothing"
    )

    made = pipelines.run(shop, project)
    assert made.ok, [o.error for o in made.outcomes]
    order = [o.view for o in made.outcomes]
    assert {o.action for o in made.outcomes} == {"create"}
    assert order.index("sales") < order.index("product_sales") < order.index("good_products")
    assert dict(spark.conf.getAll) == settings
    for view, query in MEANING.items():
        assert rows(spark, f"SELECT * FROM {view}") == rows(spark, query), view

    shop.sql("UPDATE lines SET price = 35 WHERE product = 'lamp' AND order_id = 10")
    shop.sql("UPDATE orders SET status = 'paid' WHERE order_id = 11")
    shop.sql("DELETE FROM customers WHERE customer_id = 3")
    again = pipelines.run(shop, project)
    assert {o.action for o in again.outcomes} == {"refresh"}
    assert {o.refresh.strategy for o in again.outcomes if o.refresh} <= {"id", "groups"}
    for view, query in MEANING.items():
        assert rows(spark, f"SELECT * FROM {view}") == rows(spark, query), view
    assert shop.verify("customer_orders")

    # a definition changes: what reads the view is made anew, what does not is refreshed
    file = project.parent / "transformations" / "sales.sql"
    file.write_text(file.read_text().replace("COUNT(*) AS n", "COUNT(*) AS times"))
    (project.parent / "transformations" / "customers.py").unlink()
    changed = pipelines.run(shop, project)
    expected = {"sales": "refresh", "product_sales": "replace", "good_products": "replace",
                "customer_sales": "left", "customer_orders": "left"}  # fmt: skip
    assert {o.view: o.action for o in changed.outcomes} == expected
    assert spark.table("product_sales").columns == ["product", "amount", "times"]
    assert rows(spark, "SELECT * FROM good_products") == rows(spark, MEANING["good_products"])
    left = next(o for o in changed.outcomes if o.view == "customer_sales")
    assert left.sql == "DROP MATERIALIZED VIEW `customer_sales`"
    shop.sql(left.sql)
    assert "customer_sales" not in {status.view for status in shop.status()}


MIXED = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.materialized_view
def good():
    # the setting is one of the pipeline's
    return spark.sql(f"SELECT customer_id, '{spark.conf.get('shop.currency')}' AS currency FROM customers")


@dp.materialized_view
def numbers():
    return spark.range(10)


@dp.materialized_view
def broken():
    value = {}
    return value["missing"]


@dp.materialized_view
def over_numbers():
    return spark.table("numbers").where("id > 3")


@dp.materialized_view
def sneaky():
    spark.table("orders").where("order_id = 10").createOrReplaceTempView("lines")
    return spark.sql("SELECT order_id FROM lines")


@dp.table
def streamed():
    return spark.readStream.table("orders")


dp.create_sink("away", "console")


@dp.materialized_view(schema="customer_id BIGINT, name STRING")
def declared():
    return spark.table("customers")


@dp.materialized_view
def ring():
    return spark.table("gnir")


@dp.materialized_view
def gnir():
    return spark.table("ring")
"""
WRONG_SQL = """\
CREATE MATERIALIZED VIEW misspelt AS
SELECT customer_id,
       nmae FROM customers;
CREATE STREAMING TABLE tide AS SELECT * FROM STREAM orders;
SET spark.sql.ansi.enabled = false;
"""


def test_a_view_that_fails_stops_no_other_and_says_where_and_why(
    shop: viewkeep.Connection, spark: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.parent / "transformations"
    for file in [*folder.rglob("*.py"), *folder.rglob("*.sql")]:
        file.unlink()
    (folder / "mixed.py").write_text(MIXED)
    (folder / "wrong.sql").write_text(WRONG_SQL)
    twice = "CREATE MATERIALIZED VIEW twice AS SELECT name FROM customers;\n"
    (folder / "twice.sql").write_text(twice + twice.replace("twice", "default.TWICE"))
    (folder / "torn.py").write_text("from pyspark import pipelines as dp\n\nimport there_is_no_such_module\n")
    monkeypatch.setattr(viewkeep, "connect", lambda where: shop)
    ran = CliRunner().invoke(app, ["pipelines", "run", "--spec", str(project), "--at", "spark:x", "--json"])
    assert ran.exit_code == 1
    told = {form.get("view"): form for form in map(json.loads, ran.stdout.splitlines())}
    good = told["good"]
    assert (good["kind"], good["rows"]) == ("create_view", 3)
    assert rows(spark, "SELECT DISTINCT currency FROM good") == [("EUR",)]
    text = MIXED.splitlines()
    for view, (code, part, file, line) in {
        "numbers": ("unsupported", "Range", "mixed.py", text.index("def numbers():")),
        "broken": (
            "pipeline",
            "KeyError: 'missing'",
            "mixed.py",
            text.index('    return value["missing"]') + 1,
        ),
        "over_numbers": (
            "pipeline",
            "reads numbers, which failed",
            "mixed.py",
            text.index("def over_numbers():"),
        ),
        "sneaky": ("unsupported", "changes the session", "mixed.py", text.index("def sneaky():")),
        "streamed": ("unsupported", "streaming table", "mixed.py", text.index("def streamed():")),
        "away": ("unsupported", "sink", "mixed.py", text.index('dp.create_sink("away", "console")') + 1),
        "declared": ("unsupported", "declares", "mixed.py", text.index("def declared():")),
        "ring": ("pipeline", "reads gnir, which failed", "mixed.py", text.index("def ring():")),
        "gnir": ("unsupported", "ring reads gnir reads ring", "mixed.py", text.index("def gnir():")),
        "misspelt": ("engine", "nmae", "wrong.sql", 1),
        "tide": ("unsupported", "streaming table", "wrong.sql", 4),
        "twice": ("pipeline", "more than once", "twice.sql", 1),
        "transformations/torn.py": ("pipeline", "there_is_no_such_module", "torn.py", 3),
        "transformations/wrong.sql": ("unsupported", "SET", "wrong.sql", 5),
    }.items():
        form = told[view]
        assert form["kind"] == "error", view
        assert form["code"] == code, form
        assert part in form["message"], form
        assert form["hint"], form
        assert (form["file"], form["file_line"]) == (f"transformations/{file}", line), form
    assert [status.view for status in shop.status()] == ["good"]


def test_catalog_and_database_of_the_spec_are_current_for_the_run(
    spark_engine: viewkeep.Connection, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vk = spark_engine
    spark.sql("CREATE DATABASE pipe_db")
    try:
        vk.sql("CREATE TABLE pipe_db.t (k INT, x INT, PRIMARY KEY (k))")
        vk.sql("INSERT INTO pipe_db.t VALUES (1, 10), (2, 20)")
        (tmp_path / "spark-pipeline.yml").write_text(
            "name: p\nstorage: s\nschema: pipe_db\nlibraries:\n  - glob:\n      include: v.py\n"
        )
        (tmp_path / "v.py").write_text(
            "from pyspark import pipelines as dp\n"
            "@dp.materialized_view\ndef v():\n    return spark.table('pipe_db.w').groupBy().sum('x')\n"
            "@dp.temporary_view\ndef big():\n    return spark.table('t').where('x > 5')\n"
            "@dp.materialized_view(name='pipe_db.w')\ndef of_t():\n    return spark.sql('SELECT k, x FROM big')\n"
        )
        monkeypatch.chdir(tmp_path)
        spark.createDataFrame([(9, 9)], "k INT, x INT").createOrReplaceTempView(
            "t"
        )  # the user's, not the pipeline's
        assert {o.view: o.error for o in pipelines.run(vk).outcomes} == {"pipe_db.w": None, "pipe_db.v": None}
        assert spark.catalog.currentDatabase() == "default"
        assert rows(spark, "SELECT * FROM pipe_db.v") == [(30,)]
        vk.sql("CREATE MATERIALIZED VIEW reader AS SELECT * FROM pipe_db.v")
        Path("v.py").write_text(Path("v.py").read_text().replace("x > 5", "x > 15"))
        refused = {o.view: o.error for o in pipelines.run(vk).outcomes}
        assert refused["pipe_db.v"] is not None
        assert refused["pipe_db.v"].code == "dependent_views"
        assert rows(spark, "SELECT * FROM pipe_db.v") == [(30,)], "nothing was dropped"
        vk.drop("reader")
        # the stored view reads one that is replaced, and its new definition does not
        Path("v.py").write_text(Path("v.py").read_text().replace("pipe_db.w').groupBy", "t').groupBy"))
        assert pipelines.run(vk).ok
        assert rows(spark, "SELECT * FROM pipe_db.v") == [(30,)]
        assert rows(spark, "SELECT * FROM pipe_db.w") == [(2, 20)]
        vk.drop("pipe_db.v")
        vk.drop("pipe_db.w")
        (tmp_path / "spark-pipeline.yml").write_text("name: p\nstorage: s\ndatabase: nowhere\n")
        with pytest.raises(viewkeep.ViewkeepError, match="no database nowhere"):
            pipelines.run(vk)
    finally:
        spark.catalog.dropTempView("t")
        spark.sql("DROP DATABASE pipe_db CASCADE")


def test_pipelines_are_of_spark(tmp_path: Path) -> None:
    with viewkeep.connect("duckdb:") as vk, pytest.raises(Unsupported, match="duckdb"):
        pipelines.run(vk, tmp_path / "spark-pipeline.yml")
