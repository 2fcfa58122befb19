"""The oracle: a maintained view equals the recomputed one, after every batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp

import viewkeep
from viewkeep.errors import DuplicateKey, EngineError, ViewkeepError

from .expressions import PYTHON
from .grammar import Case

STRATEGIES = {"id": "id", "tuple": "tuple"}
OVERFLOWS = ("out of range", "overflow", "too large", "Overflow")
# DuckDB 2.0.0 where statistics decide a CASE: over a table of the one row k = 3,
# SELECT CASE WHEN k = 0 THEN 'a' END <> 'c' fails
BUGS_OF_DUCKDB = ("BindBuiltinScalarFunction did not return",)


class Overflow(Exception):
    """A random expression left its type, or DuckDB failed; the view says nothing about maintenance."""


def independent(sql: str) -> str:
    """The view's query for DuckDB by sqlglot alone: nothing of viewkeep's binder or passes in it."""
    tree = sqlglot.parse_one(sql, read="spark").transform(_plain)
    return tree.sql(dialect="duckdb").replace("TIMESTAMPTZ", "TIMESTAMP")


def _plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.CountIf):  # which sqlglot writes as a SUM, null over no rows
        return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
    if isinstance(node, exp.Anonymous) and node.name.lower() == PYTHON:  # of what is a BIGINT on DuckDB alone
        return exp.Anonymous(this=PYTHON, expressions=[exp.Cast(this=e, to="INT") for e in node.expressions])
    return node


def canonical(value: Any) -> Any:
    """Values that SQL calls equal, equal in Python: 1, 1.0 and Decimal('1.00'); doubles to nine digits."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        value = Decimal(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return str(value)
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return f"{value:.9e}" if value else "0"
    if isinstance(value, datetime) and value.time() == time():
        return value.date()
    return value


def bag(rows: Any) -> Counter[Any]:
    return Counter(tuple(canonical(v) for v in row) for row in rows)


def _plus(x: int | None) -> int | None:
    return None if x is None else x + 1


class Replay:
    """A case's tables, and copies of each of its views, on a DuckDB of their own. `copies`: what each copy is
    called, with the strategy that keeps it."""

    def __init__(self, vk: viewkeep.Connection, case: Case, copies: Mapping[str, str] = STRATEGIES) -> None:
        self.vk, self.case, self.copies = vk, case, copies
        self.con: Any = vk.engine._con  # type: ignore[attr-defined]
        # the tables are tiny: a second thread costs more than it does
        self.con.execute("SET threads = 1")
        if any(PYTHON in view for view in case.views):
            vk.register_function(PYTHON, _plus, "INT", ["INT"])
        for statement in (*(t.ddl() for t in case.tables), *case.start):
            vk.sql(statement)
        self.queries: dict[int, str] = {}
        for number in range(len(case.views)):
            if case.reads(number) - {number} <= set(self.queries):
                self._create(number)
        self.check("at creation")

    def _create(self, number: int) -> None:
        try:
            for copy, strategy in self.copies.items():
                options = f"WITH (strategy = '{strategy}') " if strategy != "auto" else ""
                self.vk.sql(
                    f"CREATE MATERIALIZED VIEW v{number}_{copy} {options}AS {self.case.created(number, copy)}"
                )
        except EngineError as problem:
            if not _is_overflow(problem):
                raise
        else:
            self.queries[number] = independent(self.case.alone(number))

    def change(self, batch: Iterable[str]) -> None:
        for statement in batch:
            try:
                self.vk.sql(statement)
            except (DuplicateKey, EngineError):
                continue  # refused, so it changed nothing

    def refresh(self, *views: str) -> list[viewkeep.Refresh]:
        try:
            return self.vk.refresh(*views)
        except ViewkeepError as problem:
            raise _overflow(problem) from problem

    def contents(self, number: int, copy: str) -> Counter[Any]:
        return bag(self.con.execute(f"SELECT * FROM v{number}_{copy}").fetchall())

    def check(self, when: str) -> None:
        """Every copy of every view equals its query."""
        for number in self.queries:
            try:
                expected = bag(self.con.execute(self.queries[number]).fetchall())
            except Exception as problem:
                raise _overflow(problem) from problem
            for copy in self.copies:
                found = self.contents(number, copy)
                assert found == expected, (
                    f"v{number}_{copy} differs {when}\n"
                    f"  missing: {list((expected - found).elements())[:5]}\n"
                    f"  unexpected: {list((found - expected).elements())[:5]}\n{self.case.only(number)}"
                )


def _is_overflow(problem: Exception) -> bool:
    return any(words in str(problem) for words in (*OVERFLOWS, *BUGS_OF_DUCKDB))


def _overflow(problem: Exception) -> Exception:
    return Overflow() if _is_overflow(problem) else problem


def replay(case: Case, copies: Mapping[str, str] = STRATEGIES) -> Counter[str]:
    """Applies the batches, and compares after each. How many views were checked to the end, and how the
    refreshes were made."""
    tally: Counter[str] = Counter()
    with viewkeep.connect("duckdb:") as vk:
        try:
            run = Replay(vk, case, copies)
            for number, batch in enumerate(case.batches, start=1):
                run.change(batch)
                tally.update(done.strategy for done in run.refresh())
                run.check(f"after batch {number}")
        except Overflow:
            tally["overflow"] += 1
        else:
            tally["views"] += len(run.queries)
    return tally
