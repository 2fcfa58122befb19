"""The oracle: a maintained view equals the recomputed one, after every batch."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import sqlglot

import viewkeep
from viewkeep.errors import DuplicateKey, EngineError, Unsupported

from .grammar import Case

OVERFLOWS = ("out of range", "overflow", "too large", "Overflow")


class Overflow(Exception):
    """A random expression left its type; the case says nothing about maintenance."""


def independent(sql: str) -> str:
    """The view's query for DuckDB by sqlglot alone: nothing of viewkeep's binder or passes in it."""
    return str(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).replace("TIMESTAMPTZ", "TIMESTAMP")


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
    return value


def bag(rows: Any) -> Counter[Any]:
    return Counter(tuple(canonical(v) for v in row) for row in rows)


def replay(case: Case, strategies: tuple[str, ...] = ("id", "tuple")) -> None:
    """Creates the tables and the view under each strategy, applies the batches, and compares after each."""
    with viewkeep.connect("duckdb:") as vk:
        for table in case.tables:
            vk.sql(table.ddl())
        for statement in case.start:
            vk.sql(statement)
        for strategy in strategies:
            create(vk, f"v_{strategy}", case.view, strategy)
        check(vk, case, strategies, "at creation")
        for number, batch in enumerate(case.batches, start=1):
            for statement in batch:
                try:
                    vk.sql(statement)
                except (DuplicateKey, EngineError):
                    continue  # refused, so it changed nothing
            refresh(vk, case)
            check(vk, case, strategies, f"after batch {number}")


def create(vk: viewkeep.Connection, name: str, view: str, strategy: str) -> None:
    try:
        vk.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {view}")
    except EngineError as problem:
        if any(word in str(problem) for word in OVERFLOWS):
            raise Overflow from problem
        raise


def refresh(vk: viewkeep.Connection, case: Case) -> None:
    try:
        vk.refresh()
    except Exception as problem:
        if any(word in str(problem) for word in OVERFLOWS):
            raise Overflow from problem
        raise


def check(vk: viewkeep.Connection, case: Case, strategies: tuple[str, ...], when: str) -> None:
    con = vk.engine._con  # type: ignore[attr-defined]
    try:
        expected = bag(con.execute(independent(case.view)).fetchall())
    except Exception as problem:
        if any(word in str(problem) for word in OVERFLOWS):
            raise Overflow from problem
        raise
    for strategy in strategies:
        found = bag(con.execute(f"SELECT * FROM v_{strategy}").fetchall())
        assert found == expected, (
            f"{strategy} view differs {when}\n  view: {case.view}\n"
            f"  missing: {list((expected - found).elements())[:5]}\n"
            f"  unexpected: {list((found - expected).elements())[:5]}"
        )


__all__ = ["Overflow", "Unsupported", "bag", "canonical", "check", "create", "independent", "replay"]
