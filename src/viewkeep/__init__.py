"""viewkeep: materialized views over changing tables, kept exactly equal to their query."""

from __future__ import annotations

from typing import Any

from viewkeep.connection import Connection
from viewkeep.errors import ViewkeepError
from viewkeep.results import Explanation, Refresh, Regression, Result, Verification, ViewStatus

__version__ = "0.1.0"


def connect(where: Any) -> Connection:
    """Opens a warehouse.

    A SparkSession: the tables of the user's own session. "spark:DIR": a local Spark session that viewkeep
    starts. "duckdb:FILE": embedded; "duckdb:" alone is in memory.
    """
    from viewkeep.engines.open import open_engine

    return Connection(open_engine(where))


__all__ = [
    "Connection",
    "Explanation",
    "Refresh",
    "Regression",
    "Result",
    "Verification",
    "ViewStatus",
    "ViewkeepError",
    "__version__",
    "connect",
]
