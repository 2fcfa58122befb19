"""Functions, operators and casts: DuckDB answers what Spark answers, and so does Spark through viewkeep."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewkeep
from tests.frontend.function_cases import (
    CASES,
    COLUMNS,
    FAILING_CASES,
    INEXACT_CASES,
    NOT_ON_DUCKDB,
    ROWS,
    encoded,
)
from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.errors import AlreadyExists, EngineError, Place, UnknownFunction, Unsupported, ViewkeepError
from viewkeep.frontend.statements import parse_sql
from viewkeep.frontend.typed import Typed
from viewkeep.frontend.typing import Typing

VALUES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("function_values.json").read_text(encoding="utf-8")
)
TYPES = {name: t.parse(kind) for name, kind in COLUMNS.items()}


def fail(kind: type[ViewkeepError], node: Expr, message: str, hint: str) -> ViewkeepError:
    return kind(message, hint=hint)


def column_type(name: str) -> tuple[t.Type, bool]:
    kind = TYPES[name]
    assert kind is not None
    return kind, name != "id"


def typed(expression: str) -> Typed:
    return Typing(column_type, fail).type(parse_sql(f"SELECT {expression} AS z").selects[0].this)


@pytest.fixture(scope="module")
def con() -> Any:
    made = duckdb.connect()
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    made.execute(f"CREATE TABLE r ({columns})")
    made.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(COLUMNS))})", ROWS)
    return made


def agree(expected: Any, found: Any, exact: bool) -> bool:
    if expected == found:
        return True
    if exact or not isinstance(expected, dict) or not isinstance(found, dict):
        return False
    return math.isclose(float(expected["double"]), float(found["double"]), rel_tol=1e-15)


ON_DUCKDB = [case for case in CASES if case not in NOT_ON_DUCKDB]


@pytest.mark.parametrize("case", ON_DUCKDB)
def test_duckdb_answers_as_spark(con: Any, case: str) -> None:
    made = typed(case)
    rows = con.execute(f"SELECT {to_sql(made.expression)} FROM r ORDER BY id").fetchall()
    found = [encoded(value) for (value,) in rows]
    wrong = [
        (row[0], expected, value)
        for row, expected, value in zip(ROWS, VALUES[case]["values"], found, strict=True)
        if not agree(expected, value, case not in INEXACT_CASES)
    ]
    assert not wrong, to_sql(made.expression)
    kind = t.STRING if made.type == t.NULL else made.type
    assert str(kind) == VALUES[case]["type"]
    if not made.nullable:
        assert None not in found


@pytest.mark.parametrize("case", NOT_ON_DUCKDB)
def test_duckdb_refuses_what_it_has_not(case: str) -> None:
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE r (k INT, s STRING, u STRING, PRIMARY KEY (k))")
        with pytest.raises(Unsupported) as caught:
            vk.sql(f"CREATE MATERIALIZED VIEW v AS SELECT k, {case} AS c FROM r")
        assert caught.value.hint
        vk.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r")  # nothing of it was left


@pytest.mark.parametrize("case", FAILING_CASES)
def test_duckdb_fails_where_spark_fails(con: Any, case: str) -> None:
    made = typed(case)
    with pytest.raises(duckdb.Error):
        con.execute(f"SELECT {to_sql(made.expression)} FROM r WHERE id = 1").fetchall()


# --- in views ---


def sample(vk: viewkeep.Connection) -> None:
    """A third of the rows in a table, through viewkeep; the other rows come later."""
    vk.sql(f"CREATE TABLE r ({', '.join(f'{n} {k}' for n, k in COLUMNS.items())}, PRIMARY KEY (id))")


def literal(value: Any) -> str:
    """A value in SQL that every engine reads alike."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return str(value).upper()


def insert(vk: viewkeep.Connection, rows: list[tuple[Any, ...]]) -> None:
    listed = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    vk.sql(f"INSERT INTO r VALUES {listed}")


def test_views_with_functions_are_kept_on_duckdb() -> None:
    vk = viewkeep.connect("duckdb:")
    sample(vk)
    insert(vk, ROWS[:5])
    parts = [ON_DUCKDB[n::4] for n in range(4)]
    for n, part in enumerate(parts):
        columns = ", ".join(f"{case} AS c{m}" for m, case in enumerate(part))
        vk.sql(f"CREATE MATERIALIZED VIEW v{n} AS SELECT id, {columns} FROM r")
    vk.sql(
        "CREATE MATERIALIZED VIEW grouped AS SELECT DATE_TRUNC('month', ts) AS m, LENGTH(TRIM(s)) AS n, "
        "ROUND(SUM(p) / COUNT(*), 2) AS mean, GREATEST(SUM(i), 0) AS top FROM r "
        "WHERE d > DATE '2025-01-01' - INTERVAL '100' YEAR AND s NOT RLIKE 'x' "
        "GROUP BY DATE_TRUNC('month', ts), LENGTH(TRIM(s)) HAVING PMOD(COUNT(*), 5) > 0"
    )
    insert(vk, ROWS[5:])
    vk.sql("UPDATE r SET s = CONCAT(s, 'x'), j = j - 1, d = DATE '2024-02-29' WHERE id IN (2, 3, 7)")
    vk.sql("DELETE FROM r WHERE id = 4")
    for done in vk.refresh():
        assert done.strategy == "id"
        assert vk.verify(done.view)
    rows = {row[0]: row[1:] for row in vk.sql("SELECT * FROM v0").rows}
    for m, case in enumerate(parts[0]):
        expected = dict(zip((row[0] for row in ROWS), VALUES[case]["values"], strict=True))
        for untouched in (1, 5, 6, 13):
            found = encoded(rows[untouched][m])
            assert agree(expected[untouched], found, case not in INEXACT_CASES), case


# --- functions of the user's own ---


def doubled(x: float | None) -> float | None:
    return None if x is None else 2 * x


def with_functions(vk: viewkeep.Connection) -> None:
    # lambdas, for Spark sends those whole; of others it sends the name, and its workers have no tests
    vk.register_function("doubled", lambda x: x and 2 * x, returns="DOUBLE", arguments=("DOUBLE",))
    vk.register_function("is_missing", lambda s: s is None, returns="BOOLEAN", arguments=["STRING"])
    vk.register_function(
        "Later", lambda d, n: d and d + timedelta(days=n), returns="DATE", arguments=["DATE", "INT"]
    )
    vk.register_function("cents", lambda p: p and int(p * 100), returns="BIGINT", arguments=["DECIMAL(10,2)"])
    vk.register_function("half", lambda p: p and p / 2, returns="DECIMAL(12,2)", arguments=["DECIMAL(10,2)"])


OWN = "SELECT k, DOUBLED(k) AS a, is_missing(s) AS b, later(d, 1) AS c, cents(p) AS e, half(p) AS f FROM q"


def own_functions_are_kept(vk: viewkeep.Connection) -> None:
    vk.sql("CREATE TABLE q (k INT, s STRING, d DATE, p DECIMAL(10,2), PRIMARY KEY (k))")
    vk.sql("INSERT INTO q VALUES (1, 'a', DATE '2024-02-28', 1.25), (2, NULL, NULL, NULL)")
    with_functions(vk)
    vk.sql(f"CREATE MATERIALIZED VIEW own AS {OWN}")
    vk.sql("CREATE MATERIALIZED VIEW g AS SELECT doubled(k) AS a, COUNT(*) AS n FROM q GROUP BY doubled(k)")
    vk.sql("UPDATE q SET s = 'b' WHERE k = 2")
    vk.sql("INSERT INTO q VALUES (3, '', DATE '2023-12-31', -0.05)")
    vk.refresh()
    assert sorted(vk.sql("SELECT * FROM own").rows) == [
        (1, 2.0, False, date(2024, 2, 29), 125, Decimal("0.63")),
        (2, 4.0, False, None, None, None),
        (3, 6.0, False, date(2024, 1, 1), -5, Decimal("-0.03")),
    ]
    assert vk.verify("own")
    assert vk.verify("g")


def test_own_functions_on_duckdb() -> None:
    pytest.importorskip("numpy")
    own_functions_are_kept(viewkeep.connect("duckdb:"))


def test_a_view_whose_function_is_not_registered(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    where = f"duckdb:{tmp_path / 'w.duckdb'}"
    with viewkeep.connect(where) as vk:
        own_functions_are_kept(vk)
    with viewkeep.connect(where) as vk:
        with pytest.raises(UnknownFunction) as caught:
            vk.refresh("own")
        assert "register_function" in caught.value.hint
        assert "doubled" in vk.status()[0].problem.lower()
        with_functions(vk)
        vk.sql("DELETE FROM q WHERE k = 1")
        vk.refresh()
        assert vk.verify("own")


@pytest.mark.parametrize(
    ("name", "more", "error"),
    [
        ("round", {}, AlreadyExists),
        ("COUNT", {}, AlreadyExists),
        ("case", {}, AlreadyExists),
        ("list_sum", {}, AlreadyExists),
        ("two words", {}, Unsupported),
        ("f", {"deterministic": False}, Unsupported),
        ("f", {"returns": "ARRAY<INT>"}, Unsupported),
        ("f", {"arguments": ["nonsense"]}, Unsupported),
    ],
)
def test_functions_that_cannot_be_registered(name: str, more: Any, error: type[ViewkeepError]) -> None:
    with viewkeep.connect("duckdb:") as vk, pytest.raises(error) as caught:
        vk.register_function(name, doubled, **{"returns": "DOUBLE", "arguments": ["DOUBLE"], **more})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT k, doubled(s) AS x FROM q", 49),
        ("SELECT k, doubled(k, 1) AS x FROM q", 41),
    ],
)
def test_calls_that_are_refused(query: str, place: int) -> None:
    pytest.importorskip("numpy")
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE q (k INT, s STRING, PRIMARY KEY (k))")
        vk.register_function("doubled", doubled, returns="DOUBLE", arguments=["DOUBLE"])
        with pytest.raises(ViewkeepError) as caught:
            vk.sql(f"CREATE MATERIALIZED VIEW w AS {query}")
        assert caught.value.place == Place(1, place)


def test_a_result_of_another_type_is_an_error() -> None:
    pytest.importorskip("numpy")
    with viewkeep.connect("duckdb:") as vk:
        vk.sql("CREATE TABLE q (k INT, PRIMARY KEY (k)); INSERT INTO q VALUES (1)")
        vk.register_function("in_words", lambda k: "one", returns="INT", arguments=["INT"])
        with pytest.raises(EngineError):
            vk.sql("CREATE MATERIALIZED VIEW w AS SELECT k, in_words(k) AS t FROM q")
