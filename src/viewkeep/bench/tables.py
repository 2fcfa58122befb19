"""Prints the tables of docs/benchmarks.md from bench/results: python -m viewkeep.bench.tables"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viewkeep.bench.reads import HEADINGS, cells
from viewkeep.bench.report import RESULTS, chose, summary_line

_HEADINGS = {
    "view": "view",
    "share": "share",
    "diff": "changed rows",
    "method": "method",
    "seconds": "median s",
    "least": "least s",
    "most": "most s",
    "cpu_seconds": "CPU s",
    "times_auto": "times `auto`",
    "times_id": "times `id`",
    "strategy": "strategy",
    "rows_changed": "rows changed",
    "jobs": "jobs",
    "rows_read": "rows read",
}


def markdown(document: Mapping[str, Any]) -> str:
    """A file of results as a section of the docs."""
    machine = document["machine"]
    rows = document["medians"]
    columns = [name for name in _HEADINGS if name in rows[0] and (name != "strategy" or chose(rows))]
    loads = [machine[name][0] for name in ("load_average", "load_average_after") if name in machine]
    lines = [
        f"### {document['bench']} on {document['engine']}, scale {document['scale']:g}",
        "",
        f"{document['rows']:,} rows in the largest table, {rows[0]['rounds']} rounds. "
        f"Measured {machine['date'][:10]}; load average before{' and after' if len(loads) > 1 else ''}: "
        f"{' and '.join(f'{load:g}' for load in loads)}.",
        "",
        _line([_HEADINGS[name] for name in columns]),
        _line(["---" if name in ("view", "method", "strategy") else "---:" for name in columns]),
        *(_line([_cell(name, row.get(name)) for name in columns]) for row in rows),
    ]
    if document.get("summary"):
        lines += ["", *(f"- {summary_line(one)}" for one in document["summary"])]
    if document.get("reads"):
        lines += ["", "Reading the views:", "", _line(HEADINGS)]
        lines += [_line(["---", "---", *(["---:"] * (len(HEADINGS) - 2))])]
        lines += [_line(cells(read)) for read in document["reads"]]
    if document.get("refused"):
        lines += ["", "Refused, and not measured:", ""]
        lines += [f"- {one['view']}: {one['refused']}" for one in document["refused"]]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in ("seconds", "least", "most", "cpu_seconds"):
        return f"{value:.3f}"
    if name.startswith("times_"):
        return f"{value:.1f}"
    if name == "share":
        return f"{value * 100:g}%"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Prints a section for each file of results, smallest tables first."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    for document in sorted(documents, key=lambda d: (d["bench"], d["engine"], d["scale"])):
        print(markdown(document) + "\n")


if __name__ == "__main__":
    main()
