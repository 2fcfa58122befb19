"""Scan: the i-diffs of a base table (idIVM section 5), cut from its net changes.

One insert and one delete schema, one update schema for each set of conditional columns, one for the rest.
All carry every column that the plan uses: the log has whole rows, and what a diff knows it need not look up.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.nodes import Scan
from viewkeep.algebra.script_nodes import BaseDiff
from viewkeep.idiff.diff import Diff


def base_diffs(scan: Scan, update_sets: Sequence[frozenset[str]]) -> list[Diff]:
    """The diffs of a base table at one of its scans; a table scanned twice enters the plan twice."""
    others = tuple(n for n in scan.names if n not in scan.key)
    made = [
        Diff("insert", scan.key, others, BaseDiff(scan, "insert"), rule="InsertIntoBaseTable"),
        Diff("delete", scan.key, others, BaseDiff(scan, "delete"), rule="DeleteFromBaseTable"),
    ]
    for columns in update_sets:
        base_names = tuple(sorted(scan.base_name[c] for c in columns))
        made.append(
            Diff(
                "update",
                scan.key,
                others,
                BaseDiff(scan, "update", base_names),
                columns,
                rule="UpdateOfBaseTable",
            )
        )
    return made
