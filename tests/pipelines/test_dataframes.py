"""DataFrames as SQL: what is read is the same query, what is not is refused with what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from viewkeep.errors import Unsupported
from viewkeep.pipelines.dataframes import query_of, same_query

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[Any]:
    """Tables to read; no row is ever needed, since plans are compared."""
    spark.sql("CREATE TABLE df_t (k INT, x DECIMAL(10,2), g STRING, d DATE, q BIGINT) USING delta")
    spark.sql("CREATE TABLE df_u (k INT, y DOUBLE, g STRING) USING delta")
    yield spark
    spark.sql("DROP TABLE df_t")
    spark.sql("DROP TABLE df_u")


def _f() -> Any:
    from pyspark.sql import functions

    return functions


READ: dict[str, Callable[[Any], Any]] = {
    "table": lambda s: s.table("df_t"),
    "where": lambda s: s.table("df_t").where("k > 1 AND g IS NOT NULL OR x = 2.5"),
    "select": lambda s: s.table("df_t").select("g", (_f().col("x") * 2 + _f().col("q")).alias("z"), "K"),
    "with_column": lambda s: s.table("df_t").withColumn("x", _f().col("x") / 3).where("x > 1").drop("g"),
    "inner_using": lambda s: s.table("df_t").drop("g").join(s.table("df_u"), "k"),
    "left": lambda s: s.table("df_t").join(s.table("df_u"), ["k", "g"], "left"),
    "right_using": lambda s: s.table("df_t").join(s.table("df_u"), "k", "right").select("k", "y"),
    "full_using": lambda s: s.table("df_t").join(s.table("df_u"), "k", "full").select("k", "x", "y"),
    "semi": lambda s: s.table("df_t").join(s.table("df_u"), "k", "left_semi").where("x > 1"),
    "anti": lambda s: s.table("df_t").join(s.table("df_u").where("y > 0"), "k", "left_anti"),
    "cross": lambda s: s.table("df_t").select("x").crossJoin(s.table("df_u").select("y")),
    "self_join": lambda s: (
        s.table("df_t").alias("a").join(s.table("df_t").alias("b"), _f().expr("a.k = b.q")).select("a.k", "b.x")
    ),
    "three_tables": lambda s: (
        s.table("df_t").drop("g").join(s.table("df_u"), "k").join(s.table("df_u").select("k", _f().col("y").alias("y2")), "k")
    ),
    "join_of_joins": lambda s: s.table("df_u").join(s.table("df_t").join(s.table("df_u").drop("g"), "k").drop("y"), "k").select("y", "x"),
    "aggregates": lambda s: (
        s.table("df_t").groupBy("g", _f().year("d").alias("year")).agg(
            _f().sum("x").alias("s"), _f().count("*").alias("n"), _f().countDistinct("k").alias("d"),
            _f().avg(_f().col("q") * 2).alias("a"), _f().min("d"), _f().max("x"),
        )
    ),
    "global_aggregate": lambda s: s.table("df_t").agg(_f().sum("x").alias("s")),
    "having": lambda s: s.table("df_t").groupBy("g").count().where("count > 1").select("g"),
    "aggregate_of_aggregate": lambda s: s.table("df_t").groupBy("g", "k").count().groupBy("g").agg(_f().max("count").alias("m")),
    "distinct": lambda s: s.table("df_t").select("g").distinct(),
    "drop_duplicates": lambda s: s.table("df_t").dropDuplicates(),
    "union": lambda s: s.table("df_t").select("k", "g").union(s.table("df_u").select("k", "g")).where("k > 0"),
    "union_widening": lambda s: s.table("df_t").select("k").union(s.table("df_t").select("q")),
    "union_by_name": lambda s: s.table("df_t").select("k", "g").unionByName(s.table("df_u").select("g", "k")),
    "top": lambda s: s.table("df_t").orderBy(_f().desc("x"), "k").limit(3),
    "order_alone": lambda s: s.table("df_t").select("k").orderBy("k"),
    "case": lambda s: s.table("df_t").select(_f().when(_f().col("k") > 1, "many").when(_f().col("k") == 1, "one").otherwise("none").alias("c")),
    "in": lambda s: s.table("df_t").where(~_f().col("k").isin(1, 2, -3)).select("k"),
    "functions": lambda s: s.table("df_t").select(
        _f().upper("g").alias("u"), _f().substring("g", 1, 2).alias("s"), _f().coalesce("g", _f().lit("o'k")).alias("c"),
        _f().concat("g", _f().lit("x")).alias("cc"), _f().abs("k").alias("a"), (-_f().col("k")).alias("m"), _f().round("x", 1).alias("r"),
    ),
    "literals": lambda s: s.table("df_t").select(
        "k", _f().lit(5).alias("i"), _f().lit(10**12).alias("l"), _f().lit(2.5).alias("d"), _f().lit(True).alias("b"),
        _f().lit("2024-01-02").cast("date").alias("dt"), _f().lit(None).cast("string").alias("n"),
    ),
    "null_safe": lambda s: s.table("df_t").join(s.table("df_u"), _f().expr("df_t.g <=> df_u.g")).select("x", "y"),
    "text_and_more": lambda s: s.sql("SELECT g, SUM(x) AS s FROM df_t GROUP BY g HAVING COUNT(*) > 1").where("s > 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_the_same_query(session: Any, name: str) -> None:
    frame = READ[name](session)
    made = query_of(frame, {}).sql("spark")
    assert same_query(frame, session.sql(made)), made
    assert query_of(READ[name](session), {}).sql("spark") == made, "the text is the same every time"


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "range": (lambda s: s.range(10), "Range"),
    "created": (lambda s: s.createDataFrame([(1,)], "a INT"), "LogicalRDD"),
    "window": (
        lambda s: s.table("df_t").select("k", _f().expr("row_number() OVER (ORDER BY k)").alias("n")),
        "Window",
    ),
    "explode": (lambda s: s.table("df_t").select(_f().explode(_f().split("g", ","))), "Generate"),
    "limit": (lambda s: s.table("df_t").limit(3), "limit without orderBy"),
    "limit_after_select": (
        lambda s: s.table("df_t").orderBy("k").select("g").limit(3),
        "limit without orderBy",
    ),
    "some_duplicates": (lambda s: s.table("df_t").dropDuplicates(["g"]), "dropDuplicates"),
    "python_function": (lambda s: s.table("df_t").select(_f().udf(lambda k: k)("k")), "pythonudf"),
    "other_aggregate": (lambda s: s.table("df_t").groupBy("g").agg(_f().stddev("x")), "stddev"),
    "random": (lambda s: s.table("df_t").withColumn("r", _f().rand()), "rand"),
    "same_names": (lambda s: s.table("df_t").crossJoin(s.table("df_u")), "same name"),
    "version": (lambda s: s.read.option("versionAsOf", 0).table("df_t"), "otherwise than as it is"),
    "sample": (lambda s: s.table("df_t").sample(0.5), "Sample"),
    "rollup": (lambda s: s.table("df_t").rollup("g").count(), "Expand"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_with_what_to_do(session: Any, name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(Unsupported, match=reason) as problem:
        query_of(make(session), {})
    assert problem.value.hint


def test_another_query_is_not_the_same(session: Any) -> None:
    frame = session.table("df_t").where("k > 1").select("g", "x")
    assert not same_query(frame, session.sql("SELECT g, x FROM df_t WHERE k > 2"))
    assert not same_query(frame, session.sql("SELECT g, x AS y FROM df_t WHERE k > 1")), "another name"
    assert not same_query(frame, session.sql("SELECT g, CAST(x AS DOUBLE) AS x FROM df_t WHERE k > 1")), (
        "another type"
    )
    assert not same_query(frame, session.sql("SELECT DISTINCT g, x FROM df_t WHERE k > 1"))


def test_files_by_their_path_are_refused(session: Any, tmp_path: Any) -> None:
    session.table("df_t").write.format("delta").save(str(tmp_path / "files"))
    with pytest.raises(Unsupported, match="by their path"):
        query_of(session.read.format("delta").load(str(tmp_path / "files")), {})
