from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.materialized_view(name="good_products")
def over_a_hundred():
    return spark.table("product_sales").where(F.col("amount") > 100).select("product", "amount")  # noqa: F821
