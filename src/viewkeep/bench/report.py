"""What measurements say: medians, how far they spread, and how the methods compare."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from viewkeep.bench.workload import Size
from viewkeep.cli.output import Console

Measurement = Mapping[str, Any]
RESULTS = Path("bench") / "results"
_ORDER = ("together", "alone", "id", "auto", "tuple", "recompute", "merge")
# More views than this are shown as one table for each size of the change, a line for each view.
FEW = 4

# Seconds: a time that rounds to nothing is taken for this.
SHORTEST = 1e-4


def medians(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """One row for each view, size of the change and method. `times_id` is the median over that of `id`,
    which is the baseline here: the method that comes first of those measured."""
    groups: dict[tuple[str, int, str], list[Measurement]] = {}
    for measurement in measurements:
        key = measurement["view"], measurement["diff"], measurement["method"]
        groups.setdefault(key, []).append(measurement)
    rows = [_median(*key, group) for key, group in groups.items()]
    views = list(dict.fromkeys(r["view"] for r in rows))
    rows.sort(key=lambda r: (views.index(r["view"]), r["diff"], _ORDER.index(r["method"])))
    if rows:
        baseline = baseline_of(rows)
        base = {(r["view"], r["diff"]): r["seconds"] for r in rows if r["method"] == baseline}
        for row in rows:
            least = max(base[row["view"], row["diff"]], SHORTEST)
            row[f"times_{baseline}"] = round(row["seconds"] / least, 2)
    return rows


def baseline_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """The method that the others are compared with."""
    return _ORDER[min(_ORDER.index(r["method"]) for r in rows)]


def _median(view: str, diff: int, method: str, group: Sequence[Measurement]) -> dict[str, Any]:
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
    if "share" in group[0]:
        row["share"] = group[0]["share"]
    if "strategy" in group[0]:
        row["strategy"] = ", ".join(sorted({m["strategy"] for m in group}))
    phases = [m["phases"] for m in group if "phases" in m]
    if phases:
        names = dict.fromkeys(name for one in phases for name in one)
        row["phases"] = {name: round(median(one.get(name, 0) for one in phases), 6) for name in names}
    return row


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the medians come to, over all views: for each size of the change and each other method, how many
    times as long it takes as the baseline, in the median and at the worst; and the strategies that ran."""
    made = []
    baseline = baseline_of(rows) if rows else ""
    for diff in dict.fromkeys(sorted(r["diff"] for r in rows)):
        own = [r for r in rows if r["diff"] == diff]
        ran = Counter(r["strategy"] for r in own if r["method"] == baseline and "strategy" in r)
        for method in sorted({r["method"] for r in own} - {baseline}, key=_ORDER.index):
            ratios = {r["view"]: r[f"times_{baseline}"] for r in own if r["method"] == method}
            worst = min(ratios, key=lambda view: ratios[view])
            made.append(
                {
                    "diff": diff,
                    **({"share": own[0]["share"]} if "share" in own[0] else {}),
                    "method": method,
                    "baseline": baseline,
                    "views": len(ratios),
                    "median_times": round(median(ratios.values()), 2),
                    "worst_times": ratios[worst],
                    "worst_view": worst,
                    "strategies": dict(ran),
                }
            )
    return made


def summary_line(one: Mapping[str, Any]) -> str:
    """One of them as a sentence."""
    size = Size(one["diff"], one.get("share"))
    ran = ", ".join(f"{name} {count}" for name, count in one["strategies"].items())
    return (
        f"{size}: {one['method']} takes {one['median_times']:.2f} times as long as {one['baseline']} "
        f"in the median of {one['views']} views, {one['worst_times']:.2f} times at the worst "
        f"({one['worst_view']})" + (f"; strategies: {ran}" if ran else "")
    )


def show(output: Console, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """The medians as tables: for a few views one for each of them, with bars, else one for each size of the
    change; then what they come to."""
    views = list(dict.fromkeys(r["view"] for r in rows))
    if len(views) > FEW:
        for diff in dict.fromkeys(r["diff"] for r in rows):
            own = [r for r in rows if r["diff"] == diff]
            output.line()
            _show_table(output, f"{title}: {_size(own[0])}", own, with_view=True)
    else:
        for view, diff in dict.fromkeys((r["view"], r["diff"]) for r in rows):
            own = [r for r in rows if (r["view"], r["diff"]) == (view, diff)]
            output.line()
            _show_table(output, f"{title}: {view}, {_size(own[0])}", own)
            output.line()
            output.bars("", [(r["method"], r["seconds"], f"{r['seconds']:.4f} s") for r in own])
    if len(views) > 1:
        output.line()
        for one in summary(rows):
            output.line(summary_line(one))


def _size(row: Mapping[str, Any]) -> Size:
    return Size(row["diff"], row.get("share"))


def chose(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the strategy is worth showing: it is where a method is not named after it."""
    return any(r.get("strategy", r["method"]) != r["method"] for r in rows)


def _show_table(
    output: Console, title: str, rows: Sequence[Mapping[str, Any]], *, with_view: bool = False
) -> None:
    baseline = baseline_of(rows)
    counted = [
        (name, heading)
        for name, heading in (("jobs", "jobs"), ("commits", "commits"), ("rows_read", "rows read"))
        if name in rows[0]
    ]
    phases = list(dict.fromkeys(name for r in rows for name in r.get("phases", ())))
    strategies = chose(rows)
    columns = [
        *(["view"] if with_view else []),
        *("method", "median s", "least s", "most s", "CPU s", f"times {baseline}", "rows changed"),
        "statements",
        *(heading for _, heading in counted),
        *(["strategy"] if strategies else []),
        *(f"{name} s" for name in phases),
    ]
    shown = [
        (
            *((r["view"],) if with_view else ()),
            r["method"],
            *(f"{r[name]:.4f}" for name in ("seconds", "least", "most", "cpu_seconds")),
            f"{r[f'times_{baseline}']:.1f}",
            f"{r['rows_changed']:,}",
            r["statements"],
            *(f"{r[name]:,}" for name, _ in counted),
            *((r.get("strategy", ""),) if strategies else ()),
            *(_seconds(r.get("phases", {}).get(name)) for name in phases),
        )
        for r in rows
    ]
    caption = f"{rows[0]['rounds']} rounds"
    if not with_view:
        ratios = [
            f"{r['method']}/{baseline} {r[f'times_{baseline}']:.1f}" for r in rows if r["method"] != baseline
        ]
        caption = "; ".join([caption, ", ".join(ratios)] if ratios else [caption])
    output.table(title, columns, shown, caption)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def write(name: str, document: Mapping[str, Any]) -> Path | None:
    """Keeps the results next to the others, where this is a checkout that has a place for them."""
    if not RESULTS.is_dir():
        return None
    path = RESULTS / f"{name}.json"
    path.write_text(_compact(document), encoding="utf-8")
    return path


def read(name: str) -> dict[str, Any] | None:
    """Results that were kept."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def _compact(document: Mapping[str, Any]) -> str:
    """JSON with one line for each measurement and each median, so that a diff of two runs can be read."""
    return f"{_lines(document, '')}\n"


def _lines(value: Any, indent: str) -> str:
    inner = f"{indent}  "
    if isinstance(value, list) and value and isinstance(value[0], dict):
        lines = ",\n".join(f"{inner}{json.dumps(item)}" for item in value)
        return f"[\n{lines}\n{indent}]"
    if isinstance(value, Mapping) and any(isinstance(one, list | Mapping) for one in value.values()):
        # what is not made of lists of objects is one line: a machine, say
        if indent and not any(isinstance(one, Mapping | list) and _is_long(one) for one in value.values()):
            return json.dumps(value)
        lines = ",\n".join(f'{inner}"{key}": {_lines(one, inner)}' for key, one in value.items())
        return f"{{\n{lines}\n{indent}}}"
    return json.dumps(value)


def _is_long(value: Any) -> bool:
    inside = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict)
    return any(_is_long(one) for one in inside if isinstance(one, Mapping | list))
