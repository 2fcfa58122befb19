"""Random tables of which some have no key: rows that are equal in every column, nulls, and changes to any copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, seed
from hypothesis import strategies as st

from .backend import independent_cases
from .expressions import KINDS, value
from .grammar import Case, Col, Tab, change, insertion
from .harness import replay
from .queries import Source, views

CASES = int(os.environ.get("VIEWKEEP_FUZZ_CASES", "400"))
SHARDS = 2
FIXED = "VIEWKEEP_FUZZ_CASES" not in os.environ


@dataclass(frozen=True)
class Bag(Tab):
    """A table without a key."""

    def ddl(self) -> str:
        return f"CREATE TABLE {self.name} ({', '.join(f'{c.name} {c.kind}' for c in self.columns)})"


@st.composite
def tables(draw: st.DrawFn) -> tuple[Tab, ...]:
    """Up to three tables; the first has no key, another has one half of the time."""
    made: list[Tab] = []
    for n in range(draw(st.integers(1, 3))):
        others = tuple(Col("abcd"[i], draw(st.sampled_from(KINDS))) for i in range(draw(st.integers(1, 4))))
        if n and draw(st.booleans()):
            made.append(Tab("rst"[n], (Col("k0", "INT", False),), others))
        else:
            made.append(Bag("rst"[n], (), others))
    return tuple(made)


@st.composite
def copies(draw: st.DrawFn, tab: Tab) -> str:
    """Rows to insert, most of them more than once."""
    rows = st.tuples(*(value(c.kind, True) for c in tab.columns))
    drawn = draw(st.lists(rows, min_size=1, max_size=3))
    times = [draw(st.integers(1, 3)) for _ in drawn]
    listed = [f"({', '.join(row)})" for row, n in zip(drawn, times, strict=True) for _ in range(n)]
    return ", ".join(listed)


@st.composite
def change_of_bag(draw: st.DrawFn, tab: Tab) -> str:
    column = draw(st.sampled_from(tab.columns))
    picked = draw(
        st.sampled_from([f"{column.name} = {draw(value(column.kind, False))}", f"{column.name} IS NULL"])
    )
    style = draw(
        st.sampled_from(
            [
                "insert",
                "insert",
                "double",
                "update",
                "update",
                "delete",
                "overwrite",
                "merge",
                "merge",
                "rest",
            ]
        )
    )
    if style == "insert":
        return f"INSERT INTO {tab.name} VALUES {draw(copies(tab))}"
    if style == "double":
        return f"INSERT INTO {tab.name} SELECT * FROM {tab.name} WHERE {picked}"
    if style == "update":  # often makes rows equal
        sets = draw(st.lists(st.sampled_from(tab.columns), min_size=1, max_size=3, unique=True))
        assigned = ", ".join(f"{c.name} = {draw(value(c.kind, True))}" for c in sets)
        return f"UPDATE {tab.name} SET {assigned} WHERE {picked}"
    if style == "delete":
        return f"DELETE FROM {tab.name} WHERE {picked}"
    if style == "overwrite":
        return f"INSERT OVERWRITE {tab.name} VALUES {draw(copies(tab))}"
    named = ", ".join(f"{draw(value(c.kind, True))} AS {c.name}" for c in tab.columns)
    on = f"t.{column.name} {draw(st.sampled_from(['=', '<=>']))} s.{column.name}"
    merge = f"MERGE INTO {tab.name} AS t USING (SELECT {named}) AS s ON {on} "
    if style == "rest":
        return merge + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    matched = draw(st.sampled_from(["DELETE", "UPDATE SET *"]))
    return merge + f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT *"


@st.composite
def any_change(draw: st.DrawFn, tabs: tuple[Tab, ...]) -> str:
    tab = draw(st.sampled_from(tabs))
    return draw(change_of_bag(tab) if isinstance(tab, Bag) else change((tab,)))


@st.composite
def start(draw: st.DrawFn, tab: Tab) -> str:
    if isinstance(tab, Bag):
        return f"INSERT INTO {tab.name} VALUES {draw(copies(tab))}"
    return draw(insertion(tab))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tabs = draw(tables())
    sources = [Source(t.name, tuple((c.name, c.kind) for c in t.columns)) for t in tabs]
    made = tuple(draw(views(sources))[0] for _ in range(draw(st.integers(1, 3))))
    begin = tuple(draw(start(tab)) for tab in tabs)
    batch = st.lists(any_change(tabs), min_size=1, max_size=4).map(tuple)
    return Case(tabs, made, begin, tuple(draw(st.lists(batch, min_size=1, max_size=3))))


def shard(number: int) -> Callable[[], None]:
    """See test_random_views.py."""

    @independent_cases(max(1, CASES // SHARDS // 2))  # a database has two views on average
    @given(case=cases())
    def maintained_equals_recomputed(case: Case) -> None:
        replay(case, {"tuple": "tuple"})

    return seed(number)(maintained_equals_recomputed) if FIXED else maintained_equals_recomputed


test_shard_1, test_shard_2 = map(shard, range(1, SHARDS + 1))
