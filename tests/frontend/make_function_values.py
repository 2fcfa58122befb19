"""Writes function_values.json: what Spark makes of the expressions in function_cases.py.

.venv/bin/python -m tests.frontend.make_function_values
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.frontend.function_cases import CASES, COLUMNS, FAILING_CASES, ROWS, encoded

VALUES = Path(__file__).with_name("function_values.json")


def awkward(spark: Any) -> None:
    """The rows, as the temporary view `r`."""
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    spark.createDataFrame(ROWS, schema).coalesce(1).createOrReplaceTempView("r")


def main() -> None:
    from pyspark.errors import PySparkException

    from viewkeep.engines.spark.local import local_builder

    spark = local_builder(tempfile.mkdtemp()).config("spark.driver.memory", "3g").getOrCreate()
    awkward(spark)
    found: dict[str, dict[str, Any]] = {}
    for n in range(0, len(CASES), 40):
        some = CASES[n : n + 40]
        try:
            results = [_evaluated(spark, some)]
        except PySparkException:
            results = []
            for case in some:
                try:
                    results.append(_evaluated(spark, [case]))
                except PySparkException as problem:
                    print(f"Spark refuses {case}: {str(problem).splitlines()[0][:150]}")
        for result in results:
            found |= result
    for case in FAILING_CASES:
        try:
            rows = spark.sql(f"SELECT {case} FROM r WHERE id = 1").collect()
            print(f"Spark does not fail for {case}: {rows}")
        except PySparkException as problem:
            text = str(problem).splitlines()[0]
            if "MISMATCH" in text or "PARSE_SYNTAX" in text or "UNRESOLVED" in text:
                print(f"Spark refuses {case}: {text[:150]}")
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
    VALUES.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    spark.stop()


def _evaluated(spark: Any, cases: list[str]) -> dict[str, dict[str, Any]]:
    columns = ", ".join(f"{case} AS c{n}" for n, case in enumerate(cases))
    frame = spark.sql(f"SELECT {columns} FROM r ORDER BY id")
    rows = frame.collect()
    kinds = [field.dataType.simpleString().upper() for field in frame.schema]
    return {
        case: {"type": kinds[n], "values": [encoded(row[n]) for row in rows]} for n, case in enumerate(cases)
    }


if __name__ == "__main__":
    main()
