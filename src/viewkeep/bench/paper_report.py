"""The experiments of the paper as a page: plots and tables for each figure, in one file without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from viewkeep.bench.paper import FIGURES
from viewkeep.bench.paper_measure import KNOWN, MOST_COLD, SOCIAL, crossover, models, times
from viewkeep.bench.plots import HEIGHT, LEFT, TOP, WIDTH, axis, bars, document, key, rect, svg, text

Row = Mapping[str, Any]
_NAMES = {
    "id": "A: ID-based", "tuple": "B: tuple-based", "fixed": "C: DBToaster's views, fixed",
    "streams": "D: DBToaster's views, streams", "stored": "E: tuple-based, inner aggregates stored",
    "recompute": "recompute",
}  # fmt: skip
# what stands over a column: names in full would make tables wider than the page
_SHORT = {
    "id": "A: ID-based", "tuple": "B: tuple-based", "fixed": "C: fixed", "streams": "D: streams",
    "stored": "E: stored",
}  # fmt: skip
_STATES = {"cold": "nothing in memory", "warm": "all in memory"}
# a bar is made of these, from below; what is left are net changes, the plan and the commit
_PHASES = (("view", "#1f6fb2"), ("caches", "#e08e2b"), ("diff", "#5aa469"), ("other", "#b8b8b8"))


def page(results: Mapping[str, Any]) -> str:
    """The whole page, from the document that is written as JSON."""
    engine, figures = escape(results["engine"]), results["figures"]
    return document(
        f"viewkeep on {engine}: the experiments of the idIVM paper",
        f"<h1>The experiments of the idIVM paper, on {engine}</h1>"
        "<p>What a refresh takes after the change. Plots of figure 12 are in seconds, their bars made of "
        f"{key(dict(_PHASES))}, that is net changes, planning, commit and bookkeeping; figure 10 shows how "
        f"many times as long tuple-based takes. {'; '.join(map(escape, _NAMES.values()))}.</p>"
        "<p>Tables are in milliseconds: the median of all rounds, and how many times as long as ID-based; "
        "the least and the most; and the delta script alone, which is diff, caches and view.</p>",
        *(_figure(name, figures[name]) for name in KNOWN if name in figures),
    )


def _figure(figure: str, run: Mapping[str, Any]) -> str:
    rows = run["medians"]
    about = "views of a social network" if figure == SOCIAL else FIGURES[figure].about
    parts = [f"<h2>Figure {figure}: {escape(about)}</h2>"]
    for state, words in _STATES.items():
        if any(state in r for r in rows):
            plot = _speedups(rows, state) if figure == SOCIAL else _plots(rows, state)
            parts.append(f"<h3>{state.capitalize()}: {words}</h3>{plot}{_table(rows, state)}")
    if figure == "12a":
        found = "; ".join(f"{_NAMES[m]}: {crossover(rows, m)}" for m in ("id", "tuple"))
        parts.append(f"<p>Recomputing is quicker from so many changed prices on: {escape(found)}.</p>")
    facts = {"scale": run["scale"], "rows in the largest table": f"{max(r['rows'] for r in rows):,}"}
    facts |= {"rounds, warm and cold": f"{run['repeat']} and {run['cold']}", **run["machine"]}
    about_it = "".join(f"<li>{escape(str(k))}: {escape(str(v))}</li>" for k, v in facts.items())
    return "".join(parts) + _model(rows) + f"<details><summary>Machine</summary><ul>{about_it}</ul></details>"


def _label(row: Row) -> str:
    return str(row["value"]) if row["parameter"] == "view" else f"{row['parameter']} = {row['value']:,}"


def _methods(rows: Sequence[Row]) -> list[str]:
    return [name for name in _NAMES if any(r["method"] == name for r in rows)]


def _table(rows: Sequence[Row], state: str) -> str:
    shown = [r for r in rows if state in r]
    names = _methods(shown)
    heads = "".join(f"<th>{escape(_SHORT.get(m, m))}</th>" for m in names)
    scripts = times(rows, state, "script")
    lines = []
    for value, taken in times(rows, state).items():
        own = {r["method"]: r for r in shown if r["value"] == value}
        cells = ""
        for m in names:
            script = scripts.get(value, {}).get(m)
            cells += f"<td>{_told(own[m][state], taken[m], script) if m in own else ''}</td>"
        lines.append(f"<tr><th>{escape(_label(next(iter(own.values()))))}</th>{cells}</tr>")
    return f"<table><tr><th></th>{heads}</tr>{''.join(lines)}</table>"


def _told(found: Mapping[str, Any], times_id: float, script_times_id: float | None) -> str:
    least, middle, most, script = (found[name] * 1000 for name in ("least", "seconds", "most", "script"))
    told = f"{middle:,.1f}, {times_id:.1f}x<br><small>{least:,.1f}-{most:,.1f}"
    if script and script_times_id is not None:  # recomputing has none, nor has an engine that does not tell
        told += f"<br>script: {script:,.1f}, {script_times_id:.1f}x"
    return f"{told}</small>"


def _model(rows: Sequence[Row]) -> str:
    """Predicted against measured."""
    found = models(rows)
    if not found:
        return ""
    measured = [times(rows, state, what) for what in ("script", "seconds") for state in _STATES]
    lines = []
    for value, made in found.items():
        label = _label(next(r for r in rows if r["value"] == value))
        numbers = [f"{n:.2f}" for n in (made.a, made.p, made.g, made.k)] + [f"{made.speedup:.1f}x"]
        for taken in (one.get(value, {}) for one in measured):
            numbers.append(f"{taken['tuple']:.1f}x" if "tuple" in taken else "")
        lines.append(f"<tr><th>{escape(label)}</th>{''.join(f'<td>{n}</td>' for n in numbers)}</tr>")
    heads = ("a", "p", "g", "k", "predicted", "script, cold", "warm", "whole refresh, cold", "warm")
    return (
        "<h3>The cost model: how many times as long tuple-based maintenance takes</h3><table><tr><th></th>"
        f"{''.join(f'<th>{h}</th>' for h in heads)}</tr>{''.join(lines)}</table>"
    )


# --- plots ---


def _plots(rows: Sequence[Row], state: str) -> str:
    """Recomputing is left to the table: next to it the others would be lines. For the same reason the changes
    of figure 12a that are larger than the paper's are in a plot of their own."""
    shown = [r for r in rows if r["method"] != "recompute" and state in r]
    large = [r for r in shown if r["figure"] == "12a" and r["diff"] > MOST_COLD]
    usual = [r for r in shown if r not in large]
    return "".join(_bars(some, state) for some in (usual, large) if some)


def _bars(shown: Sequence[Row], state: str) -> str:
    """Bars in groups."""
    most = max(r[state]["seconds"] for r in shown)
    values = list(dict.fromkeys(r["value"] for r in shown))
    group = (WIDTH - LEFT) / len(values)
    bar = group / (len(_methods(shown)) + 1)
    made = [axis(most, ".3f", "s")]
    for n, value in enumerate(values):
        own = [r for r in shown if r["value"] == value]
        start = LEFT + n * group
        made.append(text(start + group / 2, HEIGHT + 36, _label(own[0])))
        for place, row in enumerate(own):
            made += _bar(row, state, start + (place + 0.5) * bar, bar * 0.9, most)
    return svg(made)


def _speedups(rows: Sequence[Row], state: str) -> str:
    """One bar for each view: how many times as long tuple-based maintenance takes."""
    found = {value: taken["tuple"] for value, taken in times(rows, state).items()}
    return bars({str(v): (taken, "#1f6fb2", f"{taken:.1f}x") for v, taken in found.items()}, "x", mark=1.0)


def _bar(row: Row, state: str, x: float, width: float, most: float) -> list[str]:
    phases, seconds = row[state]["phases"], row[state]["seconds"]
    known = {name: phases.get(name, 0.0) for name in ("view", "caches", "diff")}
    known["other"] = max(0.0, seconds - sum(known.values()))
    made, y = [], float(HEIGHT)
    for name, colour in _PHASES:
        height = known[name] / most * HEIGHT * TOP
        y -= height
        told = f"{_NAMES[row['method']]}, {name}: {known[name]:.4f} s"
        made.append(rect(x, y, width, height, colour, told))
    made.append(text(x + width / 2, HEIGHT + 16, _NAMES[row["method"]][0]))
    return made
