from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view
def customer_sales() -> DataFrame:
    return spark.sql(
        "SELECT c.name, SUM(s.amount) AS amount FROM customers c JOIN sales s USING (customer_id) GROUP BY c.name"
    )


@dp.temporary_view
def paid_orders() -> DataFrame:
    return spark.table("orders").where(F.col("status") == "paid")


@dp.materialized_view(comment="orders by customer, customers without orders too")
def customer_orders() -> DataFrame:
    orders = spark.read.table("paid_orders")
    return (
        spark.table("customers")
        .join(orders, "customer_id", "left")
        .groupBy("customer_id", "name")
        .agg(F.count("order_id").alias("orders"), F.max("day").alias("last_day"))
    )
