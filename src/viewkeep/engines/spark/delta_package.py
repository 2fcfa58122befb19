"""The Delta Lake build that fits the supported Spark: asked for when a session starts, fetched by setup."""

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
