"""How entries become rows: by a MERGE, or by writing all rows anew.

A MERGE writes few rows where few change. But it searches the whole table for them, in several jobs, and the
rows that were there before stay in their files, marked by a vector beside them: files alone then no longer
tell what the rows are, and who looks some up asks Delta (files.py). Writing all rows anew takes a join with
the entries, which are few, and leaves files as they were when the target was filled: plain, and in the order
of what is looked for. So a MERGE is for targets that are large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.filling import in_order
from viewkeep.idiff import log
from viewkeep.store import delta

# Seconds: once, for each row of the target, and for each entry what a MERGE takes more than writing does.
# Their difference was measured over 1 million rows, in proportion; how they grow with the rows is assumed.
MERGING, MERGING_ROW, MERGING_ENTRY = 5.0, 1e-6, 1e-4
WRITING, WRITING_ROW = 1.0, 2e-6
# Rows that are looked for by a column are stored in its order, and those of caches in small pages: Parquet
# knows the least and the largest value of each page, and reads the pages that may have what is looked for.
# It knows them of groups of rows, too, which is all that the embedded database looks at (nearby.py).
# To read all of them takes longer then, which no one does with a cache; the rows of a view are for reading.
SMALL_PAGES = {"parquet.page.row.count.limit": "200", "parquet.block.row.count.limit": "5000"}


@dataclass(frozen=True)
class Fold:
    """What makes rows of entries, and which way that is, in words."""

    write: Callable[[], None]
    told: str


def merging_takes(rows: int, entries: int) -> float:
    """The seconds that a MERGE is expected to take."""
    return MERGING + MERGING_ROW * rows + MERGING_ENTRY * entries


def writing_takes(rows: int) -> float:
    """The seconds that writing all rows anew is expected to take."""
    return WRITING + WRITING_ROW * rows


def merge(
    session: Any, view: str, target: str, layout: log.Layout, version: int, entries: Expr, come: Expr | None
) -> None:
    """Folds entries into the rows of a version by MERGE. `come`: relation of rows that are new too."""
    born, stored = exp.Literal.number(version + 1), delta.storage(view, target, version)
    changes = log.to_fold(layout, born, stored, entries, come)
    statement = log.fold(layout, delta.storage(view, target), changes, brings_rows=come is not None)
    session.sql(to_sql(statement)).collect()


def write_anew(
    session: Any,
    view: str,
    target: str,
    layout: log.Layout,
    version: int,
    entries: Expr,
    come: Expr | None,
    by: str | None,
) -> None:
    """Puts the rows of a version, as entries leave them, in the place of all that is stored. `by`: the column
    that the rows are looked for by."""
    from pyspark.sql import functions as f

    stored: Expr = delta.storage(view, target, version)
    if come is not None:
        stored = log.both(stored, come)
    query = session.sql(to_sql(log.folded(layout, stored, entries)))
    with delta.settings(session, pages(target, by)), in_order(query, by) as rows:
        rows.writeTo(f"{delta.DATABASE}.{delta.storage_name(view, target)}").overwrite(f.lit(True))


def pages(target: str, by: str | None) -> Mapping[str, str]:
    """Settings under which the rows of a target are written."""
    return SMALL_PAGES if by is not None and target != delta.ROWS else {}
