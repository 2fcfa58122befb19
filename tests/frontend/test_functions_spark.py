"""The same expressions on Spark: what is written by viewkeep, and what the user wrote, give the known values."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeep
from tests.frontend.function_cases import CASES, FAILING_CASES, encoded
from tests.frontend.make_function_values import awkward
from tests.frontend.test_functions import VALUES, own_functions_are_kept, typed
from viewkeep.engines.spark.dialect import to_sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_spark_answers_as_before(spark: Any) -> None:
    awkward(spark)
    for start in range(0, len(CASES), 60):
        some = CASES[start : start + 60]
        made = [to_sql(typed(case).expression) for case in some]
        frame = spark.sql(
            f"SELECT {', '.join(f'{c} AS c{n}' for n, c in enumerate([*some, *made]))} FROM r ORDER BY id"
        )
        rows = frame.collect()
        for n, case in enumerate(some):
            assert [encoded(row[n]) for row in rows] == VALUES[case]["values"], case
            assert [encoded(row[len(some) + n]) for row in rows] == VALUES[case]["values"], made[n]


@pytest.mark.parametrize("case", FAILING_CASES[::6])
def test_spark_fails(spark: Any, case: str) -> None:
    awkward(spark)
    with pytest.raises(Exception, match=r"SQLSTATE|Exception"):
        spark.sql(f"SELECT {to_sql(typed(case).expression)} FROM r WHERE id = 1").collect()


def test_own_functions_on_spark(spark_engine: viewkeep.Connection) -> None:
    own_functions_are_kept(spark_engine)
    with pytest.raises(viewkeep.errors.AlreadyExists):
        spark_engine.register_function("collations", len, returns="INT", arguments=["STRING"])
