"""DuckDB's errors, as those of viewkeep."""

from __future__ import annotations

import re

import duckdb

from viewkeep.errors import (
    CorruptCatalog,
    DuplicateKey,
    EngineError,
    UnknownColumn,
    UnknownTable,
    ViewkeepError,
)

SUM_A_DECIMAL = "sum a DECIMAL: SUM(CAST(column AS DECIMAL(28, 0)))"
# of a HUGEINT, which nothing but a sum is
_OUT_OF_BIGINT = re.compile(
    r"decimal value \S+ to type INT64|Type INT128 with value \S+ can't be cast .* INT64"
)
_NO_COLUMN = re.compile(r"column .* not found|does not have a column")


def translated(problem: duckdb.Error) -> ViewkeepError:
    """What DuckDB says, as an error of viewkeep."""
    text = str(problem).strip()
    if isinstance(problem, duckdb.ConstraintException) and "uplicate key" in text:
        return DuplicateKey(
            text.splitlines()[0], hint="a key names one row: update that row, or use another key"
        )
    first, _, rest = text.partition("\n")
    if isinstance(problem, duckdb.CatalogException) and ("name view:" in first or "name log:" in first):
        return CorruptCatalog(
            f"what viewkeep stored is not there any more: {first}",
            hint="drop the view and create it again; base tables are not affected",
        )
    if isinstance(problem, duckdb.CatalogException) and "does not exist" in first:
        return UnknownTable(first, hint="create it first, or check the spelling")
    if isinstance(problem, duckdb.BinderException) and _NO_COLUMN.search(first):
        return UnknownColumn(first, hint=rest.strip() or "check the spelling")
    if _OUT_OF_BIGINT.search(first):
        return EngineError(f"a sum is out of the range of BIGINT: {first}", hint=SUM_A_DECIMAL)
    return EngineError(first, hint=rest.strip() or "correct the statement and run it again")
