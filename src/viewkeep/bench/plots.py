"""Plots for pages of results: SVG, in one file with the page and without scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BELOW = 860, 300, 60, 46
STYLE = (
    "body{font:15px sans-serif;max-width:64em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "td,th{padding:.2em .6em;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}"
    "td,th{vertical-align:top}th:first-child{text-align:left}small{color:#555}"
)
# what is to be seen stays below the upper edge by a twentieth
TOP = 0.95


def document(title: str, *parts: str) -> str:
    """A whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def svg(parts: Sequence[str]) -> str:
    """One plot."""
    size = f'viewBox="0 -14 {WIDTH} {HEIGHT + BELOW + 14}" width="100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-size="12" role="img">{"".join(parts)}</svg>'


def axis(most: float, form: str, unit: str) -> str:
    """Lines from 0 to the largest value, and what they stand for."""
    shares = (0, 0.25, 0.5, 0.75, 1)
    return "".join(_grid(share, f"{format(share * most, form)} {unit}") for share in shares)


def rect(x: float, y: float, width: float, height: float, colour: str, told: str) -> str:
    """A bar, which tells what it is when pointed at."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(told)}</title></rect>"
    )


def text(x: float, y: float, words: str) -> str:
    """Words in the middle of a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(words)}</text>'


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; the first cell of a line names it."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    rows = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in lines
    )
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def key(colours: Mapping[str, str]) -> str:
    """What the colours of a plot stand for."""
    return " ".join(f'<span style="color:{colour}">&#9632;</span> {escape(name)}' for name, colour in
                    colours.items())  # fmt: skip


def lines(series: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str], unit: str) -> str:
    """A line for each series of points (x, y), all above 0, both axes by powers of ten."""
    points = [point for one in series.values() for point in one]
    least_x, most_x = _decades([x for x, _ in points])
    least_y, most_y = _decades([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - least_x) / (most_x - least_x)
        up = (math.log10(y) - least_y) / (most_y - least_y)
        return LEFT + across * (WIDTH - LEFT - 20), HEIGHT * (1 - up * TOP)

    made = [
        _grid((power - least_y) / (most_y - least_y), f"{10.0**power:g} {unit}")
        for power in range(least_y, most_y + 1)
    ]
    made += [text(at(10.0**power, 10.0**least_y)[0], HEIGHT + 18, f"{10**power:,}")
             for power in range(least_x, most_x + 1)]  # fmt: skip
    for name, given in series.items():
        places = [at(x, y) for x, y in sorted(given)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = colours[name]
        made.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (rows, value) in zip(places, sorted(given), strict=True):
            told = escape(f"{name}, {rows:,}: {value:.3f} {unit}")
            dot = f'cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"'
            made.append(f"<circle {dot}><title>{told}</title></circle>")
    return svg(made)


def bars(values: Mapping[str, tuple[float, str, str]], unit: str, mark: float | None = None) -> str:
    """A bar for each name: its value, its colour, and what stands over it; a line at the mark, if some are
    above it."""
    most = max(value for value, _, _ in values.values())
    group = (WIDTH - LEFT) / len(values)
    made = [axis(most, ".1f", unit)]
    if mark is not None and most > mark:
        y = HEIGHT * (1 - mark / most * TOP)
        made.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#c33"/>')
    for n, (name, (value, colour, words)) in enumerate(values.items()):
        x, height = LEFT + (n + 0.25) * group, value / most * HEIGHT * TOP
        made.append(rect(x, HEIGHT - height, group / 2, height, colour, f"{name}: {words}"))
        made.append(text(x + group / 4, HEIGHT + 18, name))
        made.append(text(x + group / 4, HEIGHT - height - 3, words))
    return svg(made)


def _grid(share: float, words: str) -> str:
    """A line across, at a share of the height."""
    y = HEIGHT * (1 - share * TOP)
    return (
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>'
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that some values are between, two different ones."""
    least, most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return least, max(most, least + 1)
