"""docs/reference/support.md: what happens to views with each construct, as tests find it.

Each test knows its own column of the table, compares it with the page, and rewrites it there where
VIEWKEEP_WRITE_DOCS is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from pathlib import Path

from .language import CONSTRUCTS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "support.md"
COLUMNS = ("DuckDB, `id`", "DuckDB, `tuple`", "PostgreSQL, `id`", "PostgreSQL, `tuple`", "Spark, `id`")
UNKNOWN = "?"
# the order in which strategies are named
_STRATEGIES = ("id", "tuple", "groups", "full", "refused")


def compare(column: str, ran: Mapping[str, Set[str]]) -> None:
    """`ran`: for each view the strategies that its refreshes reported, or `refused`."""
    before, rows, after = _read()
    found = {}
    for construct in CONSTRUCTS:
        strategies = set().union(*(ran[view] for view in construct.views if view in ran))
        found[construct.name] = ", ".join(
            f"`{s}`" if s != "refused" else s for s in _STRATEGIES if s in strategies
        )
    if "VIEWKEEP_WRITE_DOCS" in os.environ:
        _write(before, rows, after, column, found)
        return
    written = {name: cells[column] for name, cells in rows.items()}
    assert written == found, f"{PAGE.name} is not up to date: run this test with VIEWKEEP_WRITE_DOCS=1"


def _read() -> tuple[list[str], dict[str, dict[str, str]], list[str]]:
    """The page in three parts; the table's cells by construct and column."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [n for n, line in enumerate(lines) if line.startswith("|")]
    rows = {}
    for line in lines[table[0] + 2 : table[-1] + 1]:
        _, name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = dict(zip(COLUMNS, cells, strict=True))
    return lines[: table[0]], rows, lines[table[-1] + 1 :]


def _write(
    before: list[str],
    rows: dict[str, dict[str, str]],
    after: list[str],
    column: str,
    found: Mapping[str, str],
) -> None:
    lines = [f"| kind | construct | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for construct in CONSTRUCTS:
        cells = {**dict.fromkeys(COLUMNS, UNKNOWN), **rows.get(construct.name, {})}
        cells[column] = found[construct.name]
        lines.append(f"| {construct.kind} | {construct.name} | {' | '.join(cells[c] for c in COLUMNS)} |")
    PAGE.write_text("\n".join([*before, *lines, *after]) + "\n", encoding="utf-8")
