"""Prints the tables of docs/benchmarks.md from bench/results: python -m viewkeep.bench.tables"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viewkeep.bench.paper_measure import models, times
from viewkeep.bench.reads import HEADINGS, cells
from viewkeep.bench.report import RESULTS, chose, summary_line
from viewkeep.bench.sweep import SWEPT, crossovers, swept

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
    "times_together": "times `together`",
    "strategy": "strategy",
    "rows_changed": "rows changed",
    "jobs": "jobs",
    "commits": "commits",
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
    if found := swept(rows):
        lines += ["", "Where recomputing wins:", "", _line(["view", *SWEPT])]
        lines += [_line(["---", *(["---:"] * len(SWEPT))])]
        lines += [_line([one.view, *one.cells()]) for one in found]
        lines += ["", *(f"- {told}" for told in crossovers(rows))]
    if document.get("reads"):
        lines += ["", "Reading the views:", "", _line(HEADINGS)]
        lines += [_line(["---", "---", *(["---:"] * (len(HEADINGS) - 2))])]
        lines += [_line(cells(read)) for read in document["reads"]]
    if document.get("refused"):
        lines += ["", "Refused, and not measured:", ""]
        lines += [f"- {one['view']}: {one['refused']}" for one in document["refused"]]
    return "\n".join(lines)


def paper_markdown(document: Mapping[str, Any]) -> str:
    """The paper's experiments as a section of the docs: medians in milliseconds, and times as long as id."""
    lines = [f"### paper on {document['engine']}"]
    for figure, run in document["figures"].items():
        rows, machine = run["medians"], run["machine"]
        loads = " and ".join(
            f"{machine[name][0]:g}" for name in ("load_average", "load_average_after") if name in machine
        )
        lines += ["", f"Figure {figure}, scale {run['scale']:g}: {max(r['rows'] for r in rows):,} rows; "]
        lines[-1] += f"{run['repeat']} warm and {run['cold']} cold rounds. Measured {machine['date'][:10]}; "
        lines[-1] += f"load average before and after: {loads}."
        for state in ("cold", "warm"):
            found = times(rows, state)
            names = list(dict.fromkeys(r["method"] for r in rows if state in r))
            if found:
                lines += ["", _line([f"{state}, ms", *names]), _line(["---", *(["---:"] * len(names))])]
            for value, taken in found.items():
                own = {r["method"]: r[state] for r in rows if r["value"] == value and state in r}
                lines.append(
                    _line([_value(rows, value), *(_spread(own.get(n), taken.get(n)) for n in names)])
                )
        lines += _model_lines(rows)
    return "\n".join(lines)


def _model_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    made = models(rows)
    measured = [times(rows, state, what) for what in ("script", "seconds") for state in ("cold", "warm")]
    heads = ["a", "p", "g", "k", "predicted"] if made else []
    heads += ["script cold", "script warm", "refresh cold", "refresh warm"]
    lines = ["", _line(["tuple/id", *heads]), _line(["---", *(["---:"] * len(heads))])]
    for value in dict.fromkeys(r["value"] for r in rows):
        ratios = [one.get(value, {}).get("tuple") for one in measured]
        numbers: list[str] = []
        if value in made:
            one = made[value]
            numbers = [f"{n:.2f}" for n in (one.a, one.p, one.g, one.k)] + [f"{one.speedup:.1f}"]
        shown = ["" if ratio is None else f"{ratio:.1f}" for ratio in ratios]
        lines.append(_line([_value(rows, value), *numbers, *shown]))
    return lines


def _value(rows: Sequence[Mapping[str, Any]], value: Any) -> str:
    return f"{rows[0]['parameter']} = {value:,}" if isinstance(value, int) else str(value)


def _spread(found: Mapping[str, Any] | None, taken: float | None) -> str:
    if found is None or taken is None:
        return ""
    least, middle, most = (found[name] * 1000 for name in ("least", "seconds", "most"))
    return f"{middle:,.0f} ({least:,.0f}-{most:,.0f}), {taken:.1f}x"


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
    """Prints a section for each file of results, smallest tables first. Those of rings are streams, which
    have no medians of refreshes to print."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    documents = [document for document in documents if document["bench"] != "fivm"]
    for document in sorted(documents, key=lambda d: (d["bench"], d["engine"], d.get("scale", 0))):
        print((paper_markdown if document["bench"] == "paper" else markdown)(document) + "\n")


if __name__ == "__main__":
    main()
