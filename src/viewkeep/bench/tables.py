"""Prints docs/measurements.md from bench/results: python -m viewkeep.bench.tables > docs/measurements.md"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from viewkeep.bench.paper_measure import models, times
from viewkeep.bench.reads import HEADINGS, cells
from viewkeep.bench.report import FEW, RESULTS, baseline_of, chose, summary_line
from viewkeep.bench.sweep import SWEPT, crossovers, swept
from viewkeep.bench.workload import Size

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


_TITLE = """# Measurements

The medians of the files in `bench/results`, as `python -m viewkeep.bench.tables` prints them. What is
measured, how, and what it says is in [benchmarks](benchmarks.md).
"""


def markdown(document: Mapping[str, Any]) -> str:
    """A file of results as a section of the docs."""
    rows = document["medians"]
    many = len({row["view"] for row in rows}) > FEW
    lines = [
        f"## {document['bench']} on {document['engine']}, scale {document['scale']:g}",
        "",
        f"{document['rows']:,} rows in the largest table, {rows[0]['rounds']} rounds. "
        f"{_circumstances(document['machine'])}",
        "",
        *(_a_line_a_view(rows) if many else _a_line_a_method(rows)),
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


def _a_line_a_method(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = [name for name in _HEADINGS if name in rows[0] and (name != "strategy" or chose(rows))]
    return [
        _line([_HEADINGS[name] for name in columns]),
        _line(["---" if name in ("view", "method", "strategy") else "---:" for name in columns]),
        *(_line([_cell(name, row.get(name)) for name in columns]) for row in rows),
    ]


def _a_line_a_view(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each size of the change what the first method took, with its strategy, and the others beside it."""
    first = baseline_of(rows)
    others = list(dict.fromkeys(r["method"] for r in rows if r["method"] != first))
    sizes = sorted({(r["diff"], r.get("share")) for r in rows})
    heads = [name for diff, share in sizes for name in (f"{Size(diff, share)}: {first} ms", *others)]
    lines = [_line(["view", *heads]), _line(["---", *(["---:"] * len(heads))])]
    for view in dict.fromkeys(r["view"] for r in rows):
        cells = [view]
        for diff, _ in sizes:
            own = {r["method"]: r for r in rows if (r["view"], r["diff"]) == (view, diff)}
            base = own[first]
            cells.append(f"{base['seconds'] * 1000:,.1f} {base.get('strategy', '')}".strip())
            cells += [f"{own[m]['seconds'] * 1000:,.1f} ({own[m][f'times_{first}']:.1f}x)" for m in others]
        lines.append(_line(cells))
    return lines


def _circumstances(machine: Mapping[str, Any]) -> str:
    loads = [f"{machine[name][0]:g}" for name in ("load_average", "load_average_after") if name in machine]
    return (
        f"Measured {machine['date'][:10]} on {machine['cpu']}, {machine['cores']} cores; load average "
        f"before{' and after' if len(loads) > 1 else ''}: {' and '.join(loads)}."
    )


def rings_markdown(document: Mapping[str, Any]) -> str:
    """Throughput of rings over joins as a section of the docs."""
    lines = [
        f"## fivm in {document['engine']}, scale {document['scale']:g}",
        "",
        _circumstances(document["machine"]),
        "",
        _line(["workload", "method", "tuples/s", "median s", "MB", "compiling s", "rounds"]),
        _line(["---", "---", *(["---:"] * 5)]),
    ]
    for row in document["medians"]:
        rate, memory, compiling = (row.get(name) for name in ("tuples_per_s", "memory_mb", "compile_s"))
        cells = [row["workload"], row["method"], "" if rate is None else f"{rate:,}", f"{row['seconds']:.3f}"]
        cells += ["" if number is None else f"{number:,.1f}" for number in (memory, compiling)]
        lines.append(_line([*cells, str(row["rounds"])]))
    return "\n".join(lines)


def paper_markdown(document: Mapping[str, Any]) -> str:
    """The paper's experiments as a section of the docs: medians in milliseconds, and times as long as id."""
    lines = [f"## paper on {document['engine']}"]
    for figure, run in document["figures"].items():
        rows, machine = run["medians"], run["machine"]
        lines += ["", f"Figure {figure}, scale {run['scale']:g}: {max(r['rows'] for r in rows):,} rows; "]
        lines[-1] += f"{run['repeat']} warm and {run['cold']} cold rounds. {_circumstances(machine)}"
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


def document_of_all() -> str:
    """A section for each file of results, smallest tables first."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    documents.sort(key=lambda d: (d["bench"], d["engine"], d.get("scale", 0)))
    special = {"paper": paper_markdown, "fivm": rings_markdown}
    return "\n".join([_TITLE, *(special.get(d["bench"], markdown)(d) + "\n" for d in documents)])


def main() -> None:
    """Prints the page."""
    print(document_of_all(), end="")


if __name__ == "__main__":
    main()
