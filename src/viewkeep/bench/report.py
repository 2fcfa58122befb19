"""What measurements say: medians, how far they spread, and how the methods compare."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from viewkeep.cli.output import Console

Measurement = Mapping[str, Any]
RESULTS = Path("bench") / "results"
_BASELINE = "id"
_ORDER = ("id", "tuple", "recompute", "merge")


def medians(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """One row for each view, size of the change and method; `times_id` is the median over that of `id`."""
    groups: dict[tuple[str, int, str], list[Measurement]] = {}
    for measurement in measurements:
        key = measurement["view"], measurement["diff"], measurement["method"]
        groups.setdefault(key, []).append(measurement)
    rows = [_summary(*key, group) for key, group in groups.items()]
    views = list(dict.fromkeys(r["view"] for r in rows))
    rows.sort(key=lambda r: (views.index(r["view"]), r["diff"], _ORDER.index(r["method"])))
    of_id = {(r["view"], r["diff"]): r["seconds"] for r in rows if r["method"] == _BASELINE}
    for row in rows:
        if (row["view"], row["diff"]) in of_id:
            row["times_id"] = round(row["seconds"] / of_id[row["view"], row["diff"]], 2)
    return rows


def _summary(view: str, diff: int, method: str, group: Sequence[Measurement]) -> dict[str, Any]:
    seconds = [m["seconds"] for m in group]
    row = {
        "view": view,
        "diff": diff,
        "method": method,
        "seconds": round(median(seconds), 6),
        "least": min(seconds),
        "most": max(seconds),
        "cpu_seconds": round(median(m["cpu_seconds"] for m in group), 6),
        "rounds": len(group),
    }
    for name in ("rows_changed", "statements", "jobs", "commits", "rows_read"):
        if name in group[0]:
            row[name] = round(median(m[name] for m in group))
    return row


def show(output: Console, title: str, measurements: Sequence[Measurement]) -> None:
    """A table and bars for each view and size of the change."""
    rows = medians(measurements)
    for view, diff in dict.fromkeys((r["view"], r["diff"]) for r in rows):
        own = [r for r in rows if (r["view"], r["diff"]) == (view, diff)]
        output.line()
        _show_table(output, f"{title}: {view}, {diff:,} changed rows", own)
        output.line()
        output.bars("", [(r["method"], r["seconds"], f"{r['seconds']:.4f} s") for r in own])


def _show_table(output: Console, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    counted = [
        (name, heading)
        for name, heading in (("jobs", "jobs"), ("commits", "commits"), ("rows_read", "rows read"))
        if name in rows[0]
    ]
    columns = ["method", "median s", "least s", "most s", "CPU s", "times id", "rows changed", "statements"]
    shown = [
        (
            r["method"],
            *(f"{r[name]:.4f}" for name in ("seconds", "least", "most", "cpu_seconds")),
            f"{r['times_id']:.1f}" if "times_id" in r else "",
            f"{r['rows_changed']:,}",
            r["statements"],
            *(f"{r[name]:,}" for name, _ in counted),
        )
        for r in rows
    ]
    ratios = ", ".join(
        f"{r['method']}/{_BASELINE} {r['times_id']:.1f}"
        for r in rows
        if r["method"] != _BASELINE and "times_id" in r
    )
    columns += [heading for _, heading in counted]
    output.table(title, columns, shown, f"{rows[0]['rounds']} rounds; {ratios}".rstrip("; "))


def write(name: str, document: Mapping[str, Any]) -> Path | None:
    """Keeps the results next to the others, where this is a checkout that has a place for them."""
    if not RESULTS.is_dir():
        return None
    path = RESULTS / f"{name}.json"
    path.write_text(_compact(document), encoding="utf-8")
    return path


def _compact(document: Mapping[str, Any]) -> str:
    """JSON with one line for each measurement and each median, so that a diff of two runs can be read."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(f"    {json.dumps(item)}" for item in value)
            parts.append(f'  "{key}": [\n{lines}\n  ]')
        else:
            parts.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
