"""Results of a workload as a page: what each method takes by the size of the change, up to where recomputing
wins; what the chooser chose there; reading with diffs waiting; many views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from viewkeep.bench.plots import bars, document, key, lines, table
from viewkeep.bench.reads import HEADINGS, cells
from viewkeep.bench.report import SHORTEST, baseline_of
from viewkeep.bench.sweep import SWEPT, swept

Row = Mapping[str, Any]
COLOURS = {
    "id": "#1f6fb2",
    "auto": "#5aa469",
    "tuple": "#e08e2b",
    "recompute": "#c33333",
    "merge": "#7b5aa6",
    "together": "#1f6fb2",
    "alone": "#e08e2b",
}
# a plot of each of more views than this tells less than the tables
_FEW = 4


def page(results: Mapping[str, Any]) -> str:
    """The whole page, from the document that is written as JSON."""
    title = f"{results['bench']} on {results['engine']}, scale {results['scale']:g}"
    rows = results["medians"]
    parts = [f"<h1>{escape(title)}</h1><p>{results['rows']:,} rows in the largest table.</p>"]
    views = list(dict.fromkeys(r["view"] for r in rows))
    for view in views if len(views) <= _FEW else ():
        parts.append(_view(view, [r for r in rows if r["view"] == view]))
    if results.get("reads"):
        parts += ["<h2>Reading the views</h2>", table(HEADINGS, [cells(read) for read in results["reads"]])]
    facts = "".join(f"<li>{escape(k)}: {escape(str(v))}</li>" for k, v in results["machine"].items())
    parts.append(f"<details><summary>Machine</summary><ul>{facts}</ul></details>")
    return document(f"viewkeep: {title}", *parts)


def _view(view: str, rows: Sequence[Row]) -> str:
    methods = list(dict.fromkeys(r["method"] for r in rows))
    parts = [f"<h2>{escape(view)}</h2>", f"<p>{key({name: COLOURS[name] for name in methods})}</p>"]
    sizes = sorted({r["diff"] for r in rows})
    if len(sizes) > 1:
        series = {
            name: [(r["diff"], max(r["seconds"], SHORTEST)) for r in rows if r["method"] == name]
            for name in methods
        }
        parts.append("<h3>Seconds by the number of changed rows</h3>" + lines(series, COLOURS, "s"))
        parts += [table(SWEPT, [one.cells() for one in found]) for found in [swept(rows)] if found]
    for size in sizes:
        own = [r for r in rows if r["diff"] == size]
        values = {r["method"]: (r["seconds"], COLOURS[r["method"]], f"{r['seconds']:.3f} s") for r in own}
        parts.append(f"<h3>{size:,} changed rows</h3>" + (bars(values, "s") if size == sizes[0] else ""))
        parts.append(_table(own))
    return "".join(parts)


def _table(rows: Sequence[Row]) -> str:
    baseline = f"times_{baseline_of(rows)}"
    counted = [name for name in ("jobs", "commits", "rows_read", "rows_changed") if name in rows[0]]
    heads = ["", "median s", "least s", "most s", "CPU s", baseline.replace("_", " ")]
    heads += [name.replace("_", " ") for name in counted] + ["strategy"]
    made = []
    for r in rows:
        line = [r["method"], *(f"{r[name]:.3f}" for name in ("seconds", "least", "most", "cpu_seconds"))]
        line += [f"{r[baseline]:.1f}", *(f"{r[name]:,}" if name in r else "" for name in counted)]
        made.append([*line, r.get("strategy", "")])
    return table(heads, made)
