"""A project of Spark Declarative Pipelines, and the tables that it reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewkeep

PROJECT = Path(__file__).parent / "project"

Write = Callable[[str, str], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example project, where a test may change it."""
    shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "project" / "spark-pipeline.yml"


@pytest.fixture
def shop(spark_engine: viewkeep.Connection) -> viewkeep.Connection:
    """The tables of a shop: two with keys that viewkeep was told, one made by other means with its property."""
    vk = spark_engine
    vk.sql("CREATE TABLE customers (customer_id INT, name STRING, PRIMARY KEY (customer_id))")
    vk.sql(
        "CREATE TABLE orders (order_id INT, customer_id INT, day DATE, status STRING, PRIMARY KEY (order_id))"
    )
    vk.sql(
        "CREATE TABLE lines (order_id INT NOT NULL, line INT NOT NULL, product STRING, quantity INT, price DECIMAL(8,2)) "
        "USING delta TBLPROPERTIES ('viewkeep.key' = 'order_id,line', 'delta.enableChangeDataFeed' = 'true')"
    )
    vk.sql("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cem')")
    vk.sql(
        "INSERT INTO orders VALUES (10, 1, DATE'2024-01-05', 'paid'), (11, 1, DATE'2024-02-01', 'open'), "
        "(12, 2, DATE'2024-01-09', 'paid')"
    )
    vk.sql(
        "INSERT INTO lines VALUES (10, 1, 'lamp', 2, 30.00), (10, 2, 'desk', 1, 200.00), (11, 1, 'lamp', 1, 30.00), "
        "(12, 1, 'lamp', 3, 30.00)"
    )
    return vk


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, in an order of their own."""
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)
