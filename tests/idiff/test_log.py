"""Rows read through a log of diffs are what the diffs would have made of them, one refresh after the other."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from viewkeep.algebra.nodes import Column, Scan
from viewkeep.algebra.script_nodes import Empty
from viewkeep.algebra.types import INT
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.idiff import log
from viewkeep.idiff.diff import Diff

A, B = Column("a", INT, nullable=False), Column("b", INT)
X, Y = Column("x", INT), Column("y", INT)
COLUMNS = (A, B, X, Y)
VALUES = [None, 1, 2, 3]
T = exp.table_("t")
Row = tuple[Any, Any, Any, Any]


def diff(kind: Any, ids: tuple[str, ...], *changed: str) -> Diff:
    return Diff(kind, ids, changed, Empty(COLUMNS), frozenset(changed))


DIFFS = (
    diff("delete", ("a", "b")), diff("delete", ("a",)), diff("delete", ("b",)),
    diff("update", ("a",), "x"), diff("update", ("a",), "y"), diff("update", ("b",), "x", "y"),
    diff("update", ("a", "b"), "y"), diff("update", (), "x"), diff("insert", ("a", "b")),
)  # fmt: skip
NODE = Scan("t", "t", ((A, "a"), (B, "b"), (X, "x"), (Y, "y")), ("a", "b"))


def literal(value: Any) -> exp.Expr:
    return exp.cast(exp.Null() if value is None else exp.Literal.number(value), "INT")


def of_one(values: dict[str, Any]) -> exp.Select:
    return exp.select(*(exp.alias_(literal(v), name, quoted=True) for name, v in values.items()))


class Target:
    """A stored target, and beside it the rows as they should be."""

    def __init__(self, random: Random) -> None:
        self.random, self.now = random, dict[tuple[Any, Any], Row]()
        self.diffs = random.sample(DIFFS[:-1], random.randint(1, 5))
        self.layout = log.layout(NODE, self.diffs)
        self.con = duckdb.connect()
        for _ in range(random.randint(0, 6)):
            row = self.any_row()
            self.now[row[:2]] = row
        values = [of_one(dict(zip("abxy", row, strict=True))) for row in self.now.values()]
        values = values or [of_one(dict.fromkeys("abxy")).where(exp.false())]
        first: exp.Query = values[0]
        for more in values[1:]:
            first = exp.Union(this=first, expression=more, distinct=False)
        self.run(exp.Create(this=T, kind="TABLE", expression=log.rows_to_fill(self.layout, first)))

    def run(self, tree: exp.Expr) -> list[Any]:
        return self.con.execute(to_sql(tree)).fetchall()

    def any_row(self) -> Row:
        pick = self.random.choice
        return (self.random.randint(1, 3), pick(VALUES), pick(VALUES), pick(VALUES))

    def refresh(self, number: int, *, wide: bool) -> None:
        """Some diffs, all against the rows before: as entries, or folded in at once."""
        old, born, touched = dict(self.now), exp.Literal.number(number), dict[str, Any]()
        stored: list[exp.Query] = []
        for made in self.diffs:
            if self.random.random() < 0.5:
                continue
            named = {
                i: self.random.randint(1, 3) if i == "a" else self.random.choice(VALUES) for i in made.ids
            }
            sets = {c: touched.setdefault(c, self.random.choice(VALUES)) for c in made.changed}  # they agree
            stored.append(log.entries(self.layout, born, made, of_one({**named, **sets})))
            for key, row in old.items():
                at = dict(zip("abxy", row, strict=True))
                if key in self.now and all(at[i] == named[i] for i in made.ids):
                    if made.kind == "delete":
                        del self.now[key]
                    else:
                        at = dict(zip("abxy", self.now[key], strict=True)) | sets
                        self.now[key] = (at["a"], at["b"], at["x"], at["y"])
        for _ in range(self.random.randint(0, 2)):
            row = self.any_row()
            if row[:2] not in self.now:
                self.now[row[:2]] = row
                new = of_one(dict(zip("abxy", row, strict=True)))
                stored.append(log.inserted(self.layout, born, new))
        for query in stored if not wide else ():
            self.run(exp.Insert(this=T.copy(), expression=query))
        if wide:
            self.fold(number, stored)

    def fold(self, number: int, more: list[exp.Query]) -> None:
        all_entries: exp.Query = exp.select("*").from_(T.copy()).where(log.is_entry())
        for query in more:
            all_entries = exp.Union(this=all_entries, expression=query, distinct=False)
        self.run(exp.Create(this=exp.table_("e"), kind="TABLE", replace=True, expression=all_entries))
        entries = exp.table_("e")
        if self.random.random() < 0.5:
            anew = log.folded(self.layout, log.both(T, entries) if more else T, entries)
            self.run(exp.Create(this=T, kind="TABLE", replace=True, expression=anew))
            assert self.run(exp.select("*").from_(T.copy()).where('":born" <> 0')) == []
            return
        changes = log.to_fold(self.layout, exp.Literal.number(number), T, entries, entries)
        self.run(log.fold(self.layout, T, changes, brings_rows=True))
        assert self.run(exp.select("*").from_(T.copy()).where(log.is_entry())) == []

    def read(self) -> list[Row]:
        return self.run(log.resolved(self.layout, T, T))


@pytest.mark.parametrize("seed", range(200))
def test_reading_through_the_log(seed: int) -> None:
    random = Random(seed)
    target = Target(random)
    for number in range(1, random.randint(3, 8)):
        target.refresh(number, wide=random.random() < 0.2)
        expected = sorted(target.now.values(), key=str)
        assert sorted(target.read(), key=str) == expected, f"after refresh {number}"
        if random.random() < 0.2:
            target.fold(number, [])
            assert sorted(target.read(), key=str) == expected, f"folded after refresh {number}"


def test_rows_that_differ_are_counted() -> None:
    """By their IDs; a row of NULLs is not the same as none."""
    target = Target(Random(1))
    con, names = target.con, "a INT, b INT, x INT, y INT"
    for name in ("one", "other"):
        con.execute(f"CREATE TABLE {name} ({names})")

    def differ(one: str, other: str, ids: tuple[str, ...] = ("a", "b")) -> Any:
        for name, rows in (("one", one), ("other", other)):
            con.execute(f"DELETE FROM {name}")
            con.execute(f"INSERT INTO {name} VALUES {rows}") if rows else None
        layout = replace(target.layout, ids=ids)
        return target.run(log.differing(layout, exp.table_("one"), exp.table_("other")))[0][0]

    same = "(1, 1, 1, 1), (1, NULL, NULL, 2)"
    assert differ(same, same) == 0
    assert differ(same, "(1, 1, 1, 1), (1, NULL, 2, 2)") == 1
    assert differ(same, "(1, 1, 1, NULL), (1, NULL, NULL, 3), (2, 1, 1, 1)") == 3
    assert differ("(NULL, NULL, NULL, NULL)", "") == 1
    assert differ("", same) == 2
    assert differ("(1, 1, 1, 1)", "(1, 1, 1, 2)", ()) == 1
    assert differ("(1, 1, 1, 1)", "(1, 1, 1, 1)", ()) == 0


def test_a_row_that_comes_with_a_refresh_is_out_of_reach_of_its_diffs() -> None:
    target = Target(Random(1))
    target.diffs = [DIFFS[1]]
    target.layout = log.layout(NODE, target.diffs)
    target.run(exp.Delete(this=T.copy()))
    one = exp.Literal.number(1)
    gone = log.entries(target.layout, one, DIFFS[1], of_one({"a": 1}))
    come = log.inserted(target.layout, one, of_one({"a": 1, "b": 1, "x": 5, "y": 5}))
    for query in (gone, come):
        target.run(exp.Insert(this=T.copy(), expression=query))
    assert target.read() == [(1, 1, 5, 5)]
    later = log.entries(target.layout, exp.Literal.number(2), DIFFS[1], of_one({"a": 1}))
    target.run(exp.Insert(this=T.copy(), expression=later))
    assert target.read() == []


def test_diffs_of_unknown_shape_have_no_room() -> None:
    layout = log.layout(NODE, [diff("update", ("a",), "x"), diff("delete", ("b",))])
    assert layout.has_room_for([diff("update", ("a",), "x"), diff("insert", ("a", "b"))])
    assert layout.has_room_for([diff("delete", ("a", "b"))]), "rows can always be removed by all their IDs"
    assert not layout.has_room_for([diff("update", ("a",), "y")])
    assert not layout.has_room_for([diff("delete", ("a",))])
    assert not layout.has_room_for([diff("update", ("b",), "x")])
