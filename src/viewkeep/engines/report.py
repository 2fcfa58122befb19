"""Checks and reports that are the same on every engine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from viewkeep.algebra.types import DOUBLE
from viewkeep.catalog.models import Table, View
from viewkeep.errors import BaseTableChanged
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Row, Verification

# Doubles of a maintained view may differ from recomputed ones by this much, relative to their size or to
# the sum of the absolute values that went into them; docs/concepts.md derives it.
RELATIVE, ABSOLUTE = 1e-9, 1e-9
SHOWN_ROWS = 20


Counts = Mapping[str, Mapping[str, int]]
"""How many rows of each base table were changed, by the kind of change."""


def check_tables(view: View, find_table: Callable[[str], Table | None]) -> None:
    """The base tables must still be what the view was made over."""
    for table in view.tables:
        now = find_table(table.name)
        again = f"DROP MATERIALIZED VIEW {view.name} and create it again"
        if now is None:
            raise BaseTableChanged(
                f"table {table.name}, which view {view.name} reads, does not exist any more",
                hint=f"create it again with its columns and REFRESH ... FULL, or {again}",
            )
        if now.unseen:
            raise BaseTableChanged(
                f"changes of {table.name}, which view {view.name} reads, are not seen: it {now.unseen}",
                hint=f"make it a table by itself again and REFRESH ... FULL, or {again}",
            )
        if now.key != table.key:
            raise BaseTableChanged(
                f"the key of {table.name} is {now.key or 'none'}; view {view.name} was made when it "
                f"was {table.key or 'none'}",
                hint=f"{'declare the old key again' if table.key else 'take the key back'}, or {again}",
            )
        for c in table.columns:
            found = now.column(c.name)
            if found is None or found.type != c.type:
                became = f"is {found.type} now" if found else "is gone"
                raise BaseTableChanged(
                    f"column {table.name}.{c.name} was {c.type} and {became}; "
                    f"view {view.name} was made over it",
                    hint=again,
                )


def problem_with(view: View, find_table: Callable[[str], Table | None]) -> str:
    """What keeps a view from being refreshed, if its tables do."""
    try:
        check_tables(view, find_table)
    except BaseTableChanged as problem:
        return problem.message
    return ""


def kinds_present(found: Mapping[str, int]) -> tuple[frozenset[str], dict[str, int]]:
    """From the counts of a net relation: the kinds that pick a script, and the numbers to tell."""
    counts = {kind: n for kind, n in found.items() if ":" not in kind and n}
    return frozenset(kind for kind, n in found.items() if n and kind != "update"), counts


def refreshed(
    view: View,
    strategy: str,
    reason: str | Counts,
    started: float,
    **more: Any,
) -> Refresh:
    """The report of a refresh. `reason` may be the counts of each kind of change in each table."""
    seconds = time.perf_counter() - started
    if isinstance(reason, str):
        return Refresh(view.name, strategy, reason, seconds, **more)
    return Refresh(
        view.name, strategy, told(view, strategy, reason), seconds, changes_in=total(reason), **more
    )


def told(view: View, strategy: str, counts: Counts) -> str:
    """Why a strategy ran, in words: what changed, and what became of it."""
    parts = []
    for table, kinds in counts.items():
        if kinds:
            parts.append(f"{table}: " + ", ".join(f"{n} {_PAST[kind]}" for kind, n in kinds.items()))
    text = f"{'; '.join(parts)}; {_HOW[strategy]}"
    for name in (t.name for t in view.tables if not t.key):
        text += f"; {name} has no key: its rows are told apart by their values"
    return text


def total(counts: Counts) -> int:
    """How many rows of base tables changed."""
    return sum(n for kinds in counts.values() for n in kinds.values())


_HOW = {
    "id": "propagated as ID-based diffs",
    "tuple": "propagated as tuple-based diffs",
    "groups": "propagated as diffs, and the groups or partitions that they touch computed anew",
}
_PAST = {"insert": "inserted", "delete": "deleted", "update": "updated"}


def verification(
    view: str,
    compiled: Compiled,
    maintained: exp.Query,
    recomputed: exp.Query,
    run: Callable[[exp.Query], Sequence[Row]],
) -> Verification:
    """Compares two bags of rows: exactly, but for doubles, which are paired within the stated bound."""
    missing = list(map(tuple, run(_except_all(recomputed, maintained))))
    unexpected = list(map(tuple, run(_except_all(maintained, recomputed))))
    kinds = [c.type for c in compiled.plan.columns[: len(compiled.names)]]
    inexact = [n for n, kind in enumerate(kinds) if kind == DOUBLE]
    if inexact and missing and unexpected:
        missing, unexpected = _pair(missing, unexpected, inexact)
    return Verification(
        view,
        len(missing),
        len(unexpected),
        compiled.names,
        tuple(missing[:SHOWN_ROWS]),
        tuple(unexpected[:SHOWN_ROWS]),
    )


def _except_all(left: exp.Query, right: exp.Query) -> exp.Query:
    def side(query: exp.Query, alias: str) -> exp.Select:
        return exp.select("*").from_(
            exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias)))
        )

    return exp.Except(this=side(left, "a"), expression=side(right, "b"), distinct=False)


def _pair(missing: list[Row], unexpected: list[Row], inexact: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """What stays unpaired when rows that differ only by rounding of doubles are put together."""
    waiting: dict[Row, list[Row]] = {}
    for row in unexpected:
        waiting.setdefault(_without(row, inexact), []).append(row)
    left = []
    for row in missing:
        candidates = waiting.get(_without(row, inexact), [])
        match = next((c for c in candidates if all(_close(row[n], c[n]) for n in inexact)), None)
        if match is None:
            left.append(row)
        else:
            candidates.remove(match)
    return left, [row for rows in waiting.values() for row in rows]


def _without(row: Row, positions: Sequence[int]) -> Row:
    kept = (value for n, value in enumerate(row) if n not in positions)
    return tuple(tuple(value) if isinstance(value, list) else value for value in kept)


def _close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
