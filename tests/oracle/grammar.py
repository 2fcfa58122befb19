"""Random databases, views and batches of changes, drawn by hypothesis so that failures shrink.

A database, its views and the batches are drawn together: several views share the tables and the changes, which
is cheaper than a database for each, and lets a view read another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from hypothesis import strategies as st

from .expressions import KINDS, one_in, value
from .queries import Source, views

MOST_VIEWS = 12


@dataclass(frozen=True)
class Col:
    name: str
    kind: str
    nullable: bool = True


@dataclass(frozen=True)
class Tab:
    name: str
    key: tuple[Col, ...]
    others: tuple[Col, ...]

    @property
    def columns(self) -> tuple[Col, ...]:
        return self.key + self.others

    def ddl(self) -> str:
        columns = ", ".join(f"{c.name} {c.kind}" for c in self.columns)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(c.name for c in self.key)}))"


@dataclass(frozen=True)
class Case:
    """Tables with rows, views over them, and changes. In a view's text `@v1` stands for another view."""

    tables: tuple[Tab, ...]
    views: tuple[str, ...]
    start: tuple[str, ...]
    batches: tuple[tuple[str, ...], ...]

    def created(self, number: int, strategy: str) -> str:
        """A view's query over views of the same strategy."""
        return re.sub(r"@v(\d+)", rf"v\1_{strategy}", self.views[number])

    def alone(self, number: int) -> str:
        """A view's query over base tables only: other views stand as derived tables."""
        return re.sub(r"@v(\d+)", lambda found: f"({self.alone(int(found[1]))})", self.views[number])

    def reads(self, number: int) -> set[int]:
        """A view and the views that it reads."""
        below = {int(n) for n in re.findall(r"@v(\d+)", self.views[number])}
        return {number}.union(*(self.reads(n) for n in below))

    def __str__(self) -> str:
        """A script that `viewkeep run` takes, but for the Python function that views may call."""
        lines = [t.ddl() for t in self.tables] + list(self.start)
        for n in range(len(self.views)):
            lines.append(f"CREATE MATERIALIZED VIEW v{n}_id AS {self.created(n, 'id')}")
        for batch in self.batches:
            lines += [*batch, "REFRESH MATERIALIZED VIEWS"]
        return ";\n".join(lines) + ";\n"

    def only(self, number: int) -> Case:
        """The case with one view, and those that it reads."""
        kept = self.reads(number)
        return replace(
            self, views=tuple(v if n in kept else "SELECT 1 AS x FROM r" for n, v in enumerate(self.views))
        )


@st.composite
def tables(draw: st.DrawFn) -> tuple[Tab, ...]:
    made = []
    for n in range(draw(st.integers(1, 3))):
        kinds = st.sampled_from(["INT", "INT", "STRING"])
        key = tuple(Col(f"k{i}", draw(kinds), False) for i in range(draw(st.integers(1, 2))))
        others = tuple(Col("abcd"[i], draw(st.sampled_from(KINDS))) for i in range(draw(st.integers(1, 4))))
        made.append(Tab("rst"[n], key, others))
    return tuple(made)


@st.composite
def change(draw: st.DrawFn, tabs: tuple[Tab, ...]) -> str:
    tab = draw(st.sampled_from(tabs))
    styles = ["insert"] * 5 + ["update"] * 6 + ["delete"] * 3 + ["key", "key", "merge", "merge", "whole"]
    style = draw(st.sampled_from(styles))
    column = draw(st.sampled_from(tab.columns))
    picked = f"{column.name} {draw(st.sampled_from(['=', '=', '<>']))} {draw(value(column.kind, False))}"
    if style == "insert":
        return draw(insertion(tab))
    if style == "update":
        sets = draw(st.lists(st.sampled_from(tab.others), min_size=1, max_size=2, unique=True))
        assigned = ", ".join(f"{c.name} = {draw(assigned_value(tab, c))}" for c in sets)
        return f"UPDATE {tab.name} SET {assigned} WHERE {picked}"
    if style == "delete":
        return f"DELETE FROM {tab.name} WHERE {picked}"
    if style == "key":
        first = tab.key[0]
        old, new = draw(value(first.kind, False)), draw(value(first.kind, False))
        return f"UPDATE {tab.name} SET {first.name} = {new} WHERE {first.name} = {old}"
    if style == "whole":
        overwritten = draw(insertion(tab)).replace("INSERT INTO", "INSERT OVERWRITE")
        return draw(st.sampled_from([f"TRUNCATE TABLE {tab.name}", f"DELETE FROM {tab.name}", overwritten]))
    row = draw(rows(tab))
    named = ", ".join(f"{v} AS {c.name}" for v, c in zip(row, tab.columns, strict=True))
    on = " AND ".join(f"t.{c.name} = s.{c.name}" for c in tab.key)
    whens = draw(
        st.sampled_from(
            [
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
                "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
                f"WHEN MATCHED AND t.{tab.others[0].name} IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET *",
            ]
        )
    )
    return f"MERGE INTO {tab.name} AS t USING (SELECT {named}) AS s ON {on} {whens}"


@lru_cache(maxsize=128)
@st.composite
def assigned_value(draw: st.DrawFn, tab: Tab, column: Col) -> str:
    """A value, the column's own one more, or another column of its type: rows swap values."""
    same = [c.name for c in tab.columns if c.kind == column.kind and c != column]
    if column.kind in ("INT", "BIGINT") and draw(one_in(4)):
        return f"{column.name} + 1"
    if same and draw(one_in(3)):
        return draw(st.sampled_from(same))
    return draw(value(column.kind, True))


@lru_cache(maxsize=128)
@st.composite
def rows(draw: st.DrawFn, tab: Tab) -> list[str]:
    return [draw(value(c.kind, c.nullable)) for c in tab.columns]


@lru_cache(maxsize=128)
@st.composite
def insertion(draw: st.DrawFn, tab: Tab) -> str:
    made = draw(st.lists(rows(tab), min_size=1, max_size=6, unique_by=lambda r: tuple(r[: len(tab.key)])))
    return f"INSERT INTO {tab.name} VALUES " + ", ".join(f"({', '.join(r)})" for r in made)


@st.composite
def cases(draw: st.DrawFn, most_views: int = MOST_VIEWS) -> Case:
    tabs = draw(tables())
    sources = [Source(t.name, tuple((c.name, c.kind) for c in t.columns)) for t in tabs]
    made: list[str] = []
    known: list[Source] = []
    for number in range(draw(st.integers(1, most_views))):
        text, columns, size = draw(views([*sources, *known]))
        made.append(text)
        if size < 4:
            known = [Source(f"@v{number}", tuple(columns), size)]  # the last one will do
    start = tuple(draw(insertion(tab)) for tab in tabs)
    batch = st.lists(change(tabs), min_size=1, max_size=4).map(tuple)
    return Case(tabs, tuple(made), start, tuple(draw(st.lists(batch, min_size=1, max_size=2))))
