"""The same random tables, views and batches on PostgreSQL. What a view must show, DuckDB says: its tables go
through the same statements, and its queries know nothing of viewkeep's binder or passes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from unittest.mock import patch
from uuid import uuid4

import pytest
from hypothesis import given, seed
from hypothesis.strategies import SearchStrategy

import viewkeep
from tests.helpers import con
from viewkeep.bench.server import Server
from viewkeep.engines.transactional import refresh
from viewkeep.errors import DuplicateKey, EngineError, UnknownFunction, Unsupported, ViewkeepError

from .backend import independent_cases
from .grammar import Case, cases
from .harness import OVERFLOWS, bag, independent
from .test_bags import cases as cases_of_bags

pytestmark = pytest.mark.xdist_group("postgres")

DATABASES = int(os.environ.get("VIEWKEEP_FUZZ_POSTGRES", "30"))
FIXED = "VIEWKEEP_FUZZ_POSTGRES" not in os.environ
# the options that copies of a view are created with
ID, TUPLE, EAGER = "strategy = 'id'", "strategy = 'tuple'", "maintenance = 'eager'"


@pytest.fixture(scope="module")
def template(postgres_server: Server) -> str:
    """A database that viewkeep has been in: copies of it are quick to make."""
    postgres_server.run("CREATE DATABASE prepared")
    viewkeep.connect(postgres_server.address("prepared")).close()
    return "prepared"


@contextmanager
def copied(server: Server, template: str) -> Iterator[viewkeep.Connection]:
    name = f"oracle_{uuid4().hex}"
    server.run(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        with viewkeep.connect(server.address(name)) as vk:
            yield vk
    finally:
        server.run(f"DROP DATABASE {name} WITH (FORCE)")


class Overflow(Exception):
    """A random expression left its type on one of the engines, so it says nothing about maintenance."""


class Replay:
    """A case on PostgreSQL, and its tables on DuckDB."""

    def __init__(
        self, vk: viewkeep.Connection, other: viewkeep.Connection, case: Case, copies: Mapping[str, str]
    ) -> None:
        self.vk, self.other, self.case, self.copies = vk, other, case, copies
        con(other).execute("SET threads = 1")
        for statement in (*(t.ddl() for t in case.tables), *case.start):
            self.change(statement)
        self.queries: dict[int, str] = {}
        for number in range(len(case.views)):
            if case.reads(number) - {number} <= set(self.queries):
                self._create(number)
        self.check("at creation")

    def _create(self, number: int) -> None:
        try:
            for copy, options in self.copies.items():
                self.vk.sql(
                    f"CREATE MATERIALIZED VIEW v{number}_{copy} WITH ({options}) "
                    f"AS {self.case.created(number, copy)}"
                )
        except (Unsupported, UnknownFunction):
            return
        except EngineError as problem:
            if not _is_overflow(problem):
                raise
        else:
            self.queries[number] = independent(self.case.alone(number))

    def change(self, statement: str) -> None:
        """Both refuse it, or neither does."""
        if "BY SOURCE" in statement:  # PostgreSQL has it from version 17 on
            return
        refused = []
        for engine in (self.vk, self.other):
            try:
                engine.sql(statement)
            except (DuplicateKey, EngineError) as problem:
                refused.append(f"{engine.engine.name}: {problem}")
        if len(refused) == 1:
            raise Overflow if _is_overflow(refused[0]) else AssertionError(f"{statement}: {refused}")

    def check(self, when: str) -> None:
        for number, query in self.queries.items():
            try:
                expected = bag(con(self.other).execute(query).fetchall())
            except Exception as problem:
                raise Overflow from problem
            for copy in self.copies:
                found = bag(self.vk.sql(f"SELECT * FROM v{number}_{copy}").rows)
                assert found == expected, (
                    f"v{number}_{copy} differs {when}\n"
                    f"  missing: {list((expected - found).elements())[:5]}\n"
                    f"  unexpected: {list((found - expected).elements())[:5]}\n{self.case.only(number)}"
                )


def _is_overflow(problem: object) -> bool:
    return any(words in str(problem) for words in (*OVERFLOWS, "division by zero"))


def replay(vk: viewkeep.Connection, case: Case, copies: Mapping[str, str], tally: Counter[str]) -> None:
    with viewkeep.connect("duckdb:") as other:
        try:
            run = Replay(vk, other, case, copies)
            for number, batch in enumerate(case.batches, start=1):
                for statement in batch:
                    run.change(statement)
                tally.update(done.strategy for done in vk.refresh())
                run.check(f"after batch {number}")
        except Overflow:
            tally["overflow"] += 1
        except ViewkeepError as problem:
            if not _is_overflow(problem):
                raise
            tally["overflow"] += 1
        else:
            tally["views"] += len(run.queries)


@pytest.mark.parametrize(
    ("drawn", "copies", "databases"),
    [
        pytest.param(cases(), {"id": ID, "tuple": TUPLE, "eager": EAGER}, DATABASES, id="keys"),
        pytest.param(cases_of_bags(), {"tuple": TUPLE, "eager": EAGER}, DATABASES // 2, id="bags"),
    ],
)
def test_maintained_equals_recomputed(
    postgres_server: Server,
    template: str,
    drawn: SearchStrategy[Case],
    copies: Mapping[str, str],
    databases: int,
) -> None:
    tally: Counter[str] = Counter()

    @independent_cases(max(1, databases))
    @given(case=drawn)
    def maintained_equals_recomputed(case: Case) -> None:
        # half of them with indexes, as over large tables
        indexed = len(case.views) % 2 == 0
        as_if_large = patch.object(refresh, "WORTH_AN_INDEX", 0) if indexed else nullcontext()
        with as_if_large, copied(postgres_server, template) as vk:
            replay(vk, case, copies, tally)

    draw = seed(1)(maintained_equals_recomputed) if FIXED else maintained_equals_recomputed
    draw()
    if FIXED:
        assert tally["views"] >= databases, f"too few cases: {tally}"
        assert tally["full"] == 0, f"a small change needs no full recompute: {tally}"
