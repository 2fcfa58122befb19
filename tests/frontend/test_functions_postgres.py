"""Functions, operators and casts: PostgreSQL answers what Spark answers, or refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.frontend.function_cases import CASES, COLUMNS, FAILING_CASES, INEXACT_CASES, ROWS, encoded
from tests.frontend.test_functions import VALUES, agree, typed
from viewkeep.algebra import types as t
from viewkeep.bench.server import Server
from viewkeep.engines.postgres.dialect import collated, to_sql
from viewkeep.engines.postgres.session import Failure, Session
from viewkeep.errors import Unsupported
from viewkeep.store.postgres import Store

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture(scope="module")
def session(postgres_server: Server) -> Iterator[Session]:
    postgres_server.run("CREATE DATABASE functions")
    made = Session(postgres_server.address("functions"))
    Store(made)
    types = [t.parse(kind) for kind in COLUMNS.values()]
    kinds = [to_sql(kind.sql()) for kind in types if kind is not None]
    strings = [' COLLATE "C"' if kind == t.STRING else "" for kind in types]
    columns = ", ".join(f'"{n}" {k}{c}' for n, k, c in zip(COLUMNS, kinds, strings, strict=True))
    made.run(f"CREATE TABLE r ({columns})")
    for row in ROWS:
        made.rows(
            f"INSERT INTO r VALUES ({', '.join(f'${n}' for n in range(1, len(row) + 1))}) RETURNING 1", *row
        )
    yield made
    made.close()


# the character 0, which PostgreSQL's strings cannot hold
FAILING_HERE = ("CHR(i)", "CHR(l)")


@pytest.mark.parametrize("case", [case for case in CASES if case not in FAILING_HERE])
def test_postgres_answers_as_spark(session: Session, case: str) -> None:
    made = typed(case)
    try:
        sql = to_sql(made.expression)
    except Unsupported as refused:
        pytest.skip(f"refused: {refused}")
    rows = session.rows(f"SELECT {sql} FROM r ORDER BY id")
    found = [encoded(value) for (value,) in rows]
    wrong = [
        (row[0], expected, value)
        for row, expected, value in zip(ROWS, VALUES[case]["values"], found, strict=True)
        if not agree(expected, value, case not in INEXACT_CASES)
    ]
    assert not wrong, sql
    if not made.nullable:
        assert None not in found


@pytest.mark.parametrize("case", [*FAILING_CASES, *FAILING_HERE])
def test_postgres_fails_where_spark_fails(session: Session, case: str) -> None:
    made = typed(case)
    with pytest.raises((Failure, Unsupported)):
        session.rows(f"SELECT {to_sql(made.expression)} FROM r ORDER BY id")


def test_strings_compare_by_their_bytes(session: Session) -> None:
    assert session.rows("SELECT 'a' < 'B', 'a' COLLATE \"C\" < 'B'") == [[True, False]]
    assert to_sql(collated(typed("s").expression)).endswith('COLLATE "C"')
