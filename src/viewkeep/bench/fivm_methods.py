"""Ways to keep a ring aggregate over a join, for comparison: F-IVM, first-order and fully recursive
maintenance, and recomputing by NumPy and by DuckDB. All that maintain share kernels and key spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa

from viewkeep.bench.fivm_data import Columns
from viewkeep.bench.fivm_numpy import evaluate
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.runtime import CompiledRuntime
from viewkeep.fivm.order import VariableOrder, chosen
from viewkeep.fivm.query import Query
from viewkeep.fivm.tree import first_order_tree, view_tree

Answer = dict[Any, float]


@dataclass(frozen=True)
class Task:
    """What is kept: a query without free variables, a ring, an order, and which tables change."""

    query: Query
    ring: Ring
    order: VariableOrder
    updatable: tuple[str, ...] | None = None
    indicators: bool = True
    interpret: bool = False
    """Runs kernels without compiling them, which tests do."""


class Method(Protocol):
    """A way to keep the answer."""

    recomputes: bool

    def compile(self) -> float:
        """Gets ready; the seconds it took."""

    def load(self, tables: Mapping[str, Columns]) -> None: ...

    def update(self, table: str, columns: Columns) -> None: ...

    def answer(self) -> Answer: ...

    def memory(self) -> int: ...

    def stored(self) -> int:
        """How many keys of views, or rows of tables, it keeps."""


def answer_of(program: Program, row: Any) -> Answer:
    """A payload by what its numbers mean, so that layouts can be compared."""
    if isinstance(program.ring, Sums):
        return dict(zip(program.ring.products, map(float, row), strict=True))
    layout = program.layouts[program.tree.root]
    found: Answer = {"count": float(row[0])}
    found |= {e: float(row[1 + i]) for i, e in enumerate(layout.elements)}
    return found | {pair: float(row[place]) for pair, place in layout.places.items()}


class FactorizedIVM:
    """F-IVM: one view tree."""

    recomputes = False

    def __init__(self, task: Task) -> None:
        tree = view_tree(task.order, task.updatable, indicators=task.indicators)
        self.runtime = CompiledRuntime(tree, task.ring, interpret=task.interpret)

    def compile(self) -> float:
        return self.runtime.compile()

    def load(self, tables: Mapping[str, Columns]) -> None:
        self.runtime.load(tables)

    def update(self, table: str, columns: Columns) -> None:
        self.runtime.update(table, columns)

    def answer(self) -> Answer:
        root = self.runtime.program.width(self.runtime.tree.root)
        return answer_of(self.runtime.program, self.runtime.result().get((), np.zeros(root)))

    def memory(self) -> int:
        return self.runtime.memory()

    def stored(self) -> int:
        return sum(self.runtime.sizes().values())


class FirstOrder(FactorizedIVM):
    """Classical maintenance: the relations and the result, no views between them."""

    def __init__(self, task: Task) -> None:
        tree = first_order_tree(task.query)
        if task.updatable is not None:
            tree = replace(tree, updatable=frozenset(task.updatable))
        self.runtime = CompiledRuntime(tree, task.ring, interpret=task.interpret)
        self._interpret = task.interpret

    def load(self, tables: Mapping[str, Columns]) -> None:
        if len(self.runtime.tree.updatable) == len(self.runtime.tree.query.relations):
            self.runtime.load(tables)
            return
        tree, ring = first_order_tree(self.runtime.tree.query), self.runtime.ring
        whole = CompiledRuntime(tree, ring, interpret=self._interpret)
        whole.load(tables)
        self.runtime = whole


class Recursive:
    """Fully recursive maintenance, as DBToaster does it: for each relation that changes a hierarchy of its
    own, in which an update of the relation needs lookups alone; each of them is kept under all updates."""

    recomputes = False

    def __init__(self, task: Task) -> None:
        self.runtimes = []
        for relation in task.query.relations:
            if task.updatable is None or relation.name in task.updatable:
                on_top = chosen(Query(task.query.relations, relation.schema))
                order = VariableOrder(task.query, on_top.roots)
                tree = view_tree(order, task.updatable, indicators=False)
                self.runtimes.append(CompiledRuntime(tree, task.ring, interpret=task.interpret))

    def compile(self) -> float:
        return sum(runtime.compile() for runtime in self.runtimes)

    def load(self, tables: Mapping[str, Columns]) -> None:
        for runtime in self.runtimes:
            runtime.load(tables)

    def update(self, table: str, columns: Columns) -> None:
        for runtime in self.runtimes:
            runtime.update(table, columns)

    def answer(self) -> Answer:
        first = self.runtimes[0]
        width = first.program.width(first.tree.root)
        return answer_of(first.program, first.result().get((), np.zeros(width)))

    def memory(self) -> int:
        return sum(runtime.memory() for runtime in self.runtimes)

    def stored(self) -> int:
        return sum(sum(runtime.sizes().values()) for runtime in self.runtimes)


class Tables:
    """The rows of all tables as they are, to recompute from."""

    recomputes = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self.parts: dict[str, list[Columns]] = {r.name: [] for r in task.query.relations}
        self.found: Answer = {}

    def compile(self) -> float:
        return 0.0

    def load(self, tables: Mapping[str, Columns]) -> None:
        for table, columns in tables.items():
            self.parts[table].append(columns)

    def whole(self) -> dict[str, Columns]:
        merged = {}
        for relation in self.task.query.relations:
            parts = self.parts[relation.name]
            merged[relation.name] = {
                v: np.concatenate([part[v] for part in parts]) if parts else np.empty(0, np.int64)
                for v in relation.schema
            }
            self.parts[relation.name] = [merged[relation.name]]
        return merged

    def answer(self) -> Answer:
        return self.found

    def memory(self) -> int:
        return sum(a.nbytes for parts in self.parts.values() for part in parts for a in part.values())

    def stored(self) -> int:
        return sum(len(next(iter(part.values()))) for parts in self.parts.values() for part in parts)


class NumPy(Tables):
    """Recomputes the view tree with NumPy: sorted groups, vectorized products."""

    def update(self, table: str, columns: Columns) -> None:
        self.parts[table].append(columns)
        program = Program(view_tree(self.task.order, indicators=False), self.task.ring)
        self.found = answer_of(program, evaluate(program, self.whole()))


class DuckDB(Tables):
    """Recomputes with one SQL query over the join, on one thread."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.connection = duckdb.connect(config={"threads": 1})
        self.sums = _sums(task.ring)
        joined = " NATURAL JOIN ".join(f'"{r.name}"' for r in task.query.relations)
        listed = ", ".join(f"COALESCE(SUM({text}), 0)" for text in self.sums.values())
        self.sql = f"SELECT {listed} FROM {joined}"
        for relation in task.query.relations:
            columns = ", ".join(f'"{v}" BIGINT' for v in relation.schema)
            self.connection.execute(f'CREATE TABLE "{relation.name}" ({columns})')

    def load(self, tables: Mapping[str, Columns]) -> None:
        for table, columns in tables.items():
            self._insert(table, columns)

    def _insert(self, table: str, columns: Columns) -> None:
        self.connection.register("batch", pa.table(dict(columns)))
        self.connection.execute(f'INSERT INTO "{table}" BY NAME SELECT * FROM batch')

    def update(self, table: str, columns: Columns) -> None:
        self._insert(table, columns)
        row = self.connection.execute(self.sql).fetchone()
        assert row is not None
        self.found = {name: float(x) for name, x in zip(self.sums, row, strict=True)}

    def memory(self) -> int:
        row = self.connection.execute("SELECT SUM(memory_usage_bytes) FROM duckdb_memory()").fetchone()
        return int(row[0]) if row else 0

    def stored(self) -> int:
        asked = [f'SELECT COUNT(*) FROM "{r.name}"' for r in self.task.query.relations]
        return sum(int(self.connection.execute(sql).fetchall()[0][0]) for sql in asked)


def _sums(ring: Ring) -> dict[Any, str]:
    """The sums of a ring in SQL, by what `answer_of` calls them."""
    if isinstance(ring, Sums):
        return {p: " * ".join(f'"{v}"::DOUBLE' for v in p) or "1" for p in ring.products}
    assert isinstance(ring, Cofactor)
    found: dict[Any, str] = {"count": "1"}
    texts = {(c, 0): f'"{c}"::DOUBLE' for c in ring.columns}
    found |= dict(texts)
    for one, other in combinations_with_replacement(texts, 2):
        found[frozenset([one, other])] = f"{texts[one]} * {texts[other]}"
    return found


METHODS: dict[str, Any] = {
    "fivm": FactorizedIVM,
    "first-order": FirstOrder,
    "recursive": Recursive,
    "recompute-numpy": NumPy,
    "recompute-duckdb": DuckDB,
}
