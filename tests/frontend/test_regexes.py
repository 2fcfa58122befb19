"""Regular expressions that find something: the same on DuckDB and PostgreSQL as where one backtracks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from tests.frontend import regex_cases
from tests.frontend.regex_cases import STRINGS, cases
from tests.frontend.test_functions import typed
from viewkeep.bench.server import Server
from viewkeep.engines.duckdb.dialect import to_sql as duckdb_sql
from viewkeep.engines.postgres.dialect import to_sql as postgres_sql
from viewkeep.engines.postgres.session import Session
from viewkeep.errors import Unsupported
from viewkeep.frontend.regex import finding
from viewkeep.store.postgres import Store

Ask = Callable[[list[exp.Expr]], list[tuple[Any, ...]]]
PATTERNS = cases(200, seed=7)


def calls(pattern: str) -> list[tuple[str, list[Any]]]:
    """Expressions over s, with what they are for each string; none where the pattern is refused."""
    found = finding(pattern)
    if found is None:
        return []
    text = pattern.replace("\\", "\\\\")
    groups = range(found.groups + 1)
    made: list[tuple[str, list[Any]]] = [
        (f"REGEXP_EXTRACT(s, '{text}', {n})", regex_cases.extracted(pattern, n)) for n in groups
    ]
    if found.shortest:
        by = "<$1>" if found.groups else "<$0>"
        made += [
            (f"REGEXP_REPLACE(s, '{text}', '{by}')", regex_cases.replaced(pattern, by)),
            (f"REGEXP_COUNT(s, '{text}')", regex_cases.counted(pattern)),
            (f"SPLIT(s, '{text}')", regex_cases.split(pattern)),
        ]
    return made


def wrong_answers(
    to_sql: Callable[[exp.Expr], str], ask: Callable[[str], list[Any]]
) -> tuple[int, list[str]]:
    """How many expressions were asked for, and those that were answered otherwise."""
    asked, wrong = 0, []
    for pattern in PATTERNS:
        columns, expected = [], []
        for call, values in calls(pattern):
            try:
                columns.append(to_sql(typed(call).expression))
            except Unsupported:
                continue
            expected.append((call, values))
        if not columns:
            continue
        rows = ask(", ".join(columns))
        for n, (call, values) in enumerate(expected):
            asked += 1
            wrong += [
                f"{call} of {s!r}: {row[n]!r}, not {value!r}"
                for s, row, value in zip(STRINGS, rows, values, strict=True)
                if row[n] != value
            ]
    return asked, wrong


def test_on_duckdb() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE r (n INT, s VARCHAR)")
    con.executemany("INSERT INTO r VALUES (?, ?)", list(enumerate(STRINGS)))
    asked, wrong = wrong_answers(
        duckdb_sql, lambda columns: con.execute(f"SELECT {columns} FROM r ORDER BY n").fetchall()
    )
    assert not wrong, "\n".join(wrong[:20])
    assert asked > 400


@pytest.mark.xdist_group("postgres")
def test_on_postgres(postgres_server: Server) -> None:
    postgres_server.run("CREATE DATABASE regexes")
    session = Session(postgres_server.address("regexes"))
    Store(session)
    session.run('CREATE TABLE r (n INTEGER, s TEXT COLLATE "C")')
    for n, s in enumerate(STRINGS):
        session.rows("INSERT INTO r VALUES ($1, $2) RETURNING 1", n, s)
    asked, wrong = wrong_answers(
        postgres_sql, lambda columns: session.rows(f"SELECT {columns} FROM r ORDER BY n")
    )
    session.close()
    assert not wrong, "\n".join(wrong[:20])
    assert asked > 200


@pytest.mark.parametrize(
    "call",
    [
        "REGEXP_REPLACE(s, 'a*', 'x')",  # finds the empty string
        "REGEXP_REPLACE(s, 'a$', 'x')",  # $ is before a line end, too
        "REGEXP_REPLACE(s, 'a+?', 'x')",
        "REGEXP_REPLACE(s, '(?i)a', 'x')",
        "REGEXP_REPLACE(s, 'a', '\\\\1')",
        "REGEXP_REPLACE(s, '(a)', '$2')",
        "REGEXP_REPLACE(s, '(a)', '$12')",
        "REGEXP_REPLACE(s, 'a', '$')",
        "REGEXP_REPLACE(s, u, 'x')",
        "REGEXP_REPLACE(s, 'a', u)",
        "REGEXP_EXTRACT(s, 'a')",  # has no group 1
        "REGEXP_EXTRACT(s, '(a)|(b)+', 2)",  # a group that is repeated
        "REGEXP_EXTRACT(s, '(?:a*)+', 0)",
        "REGEXP_EXTRACT(s, '(a)(?=b)', 1)",
        "REGEXP_EXTRACT(s, 'a|^b', 0)",
        "REGEXP_EXTRACT(s, '^a|b', 0)",
        "REGEXP_COUNT(s, '')",
        "SPLIT(s, '')",
        "SPLIT(s, ',', 2)",
        "SUBSTRING_INDEX(s, 'aa', 1)",
        "SUBSTRING_INDEX(s, ',', 0)",
    ],
)
def test_what_engines_might_find_differently_is_refused(call: str) -> None:
    with pytest.raises(Unsupported) as caught:
        typed(call)
    assert caught.value.hint
