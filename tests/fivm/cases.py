"""Random ring views: queries, variable orders, updatable relations, contents and batches, each from one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeep.fivm import order as orders
from viewkeep.fivm.order import VariableOrder
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.tree import ViewTree, view_tree

Key = tuple[Any, ...]
Batch = dict[str, list[tuple[Key, int]]]

SHAPES: tuple[tuple[Relation, ...], ...] = (
    (Relation("R", ("A", "B")), Relation("S", ("A", "C", "E")), Relation("T", ("C", "D"))),
    (Relation("R", ("A", "B")), Relation("S", ("B", "C")), Relation("T", ("C", "A"))),
    (Relation("R", ("A", "B", "X")), Relation("S", ("B", "C", "Y")), Relation("T", ("C", "A"))),
    # a cycle of four, and one with a chord
    (
        Relation("R", ("A", "B")),
        Relation("S", ("B", "C")),
        Relation("T", ("C", "D")),
        Relation("U", ("D", "A")),
    ),
    (
        *(Relation("R", ("A", "B")), Relation("S", ("B", "C")), Relation("T", ("C", "D"))),
        *(Relation("U", ("D", "A")), Relation("W", ("A", "C"))),
    ),
    # one table at several leaves
    (Relation("E1", ("A", "B"), "E"), Relation("E2", ("B", "C"), "E"), Relation("E3", ("C", "A"), "E")),
    (Relation("E1", ("A", "B"), "E"), Relation("E2", ("B", "C"), "E"), Relation("R", ("C",))),
    # Cartesian products
    (Relation("R", ("A",)), Relation("S", ("B",))),
    (Relation("R", ("A", "B")), Relation("S", ("B",)), Relation("T", ("C", "D"))),
    # stars and one relation
    (Relation("R", ("A", "B")), Relation("S", ("A", "C")), Relation("T", ("A", "D")), Relation("U", ("A",))),
    (Relation("R", ("A", "B", "C")),),
)


def cases(number: int) -> Callable[[Any], Any]:
    """Runs a test with so many seeds, always the same."""

    def decorate(test: Any) -> Any:
        how = settings(max_examples=number, deadline=None, derandomize=True, database=None)
        return how(given(seed=st.integers(0, 2**48))(test))

    return decorate


def random_query(random: Random, free: bool = True) -> Query:
    """A query of one of the shapes, or of random relations."""
    relations = random.choice(SHAPES) if random.random() < 0.6 else _random_relations(random)
    variables = list(dict.fromkeys(v for r in relations for v in r.schema))
    random.shuffle(variables)
    kept = variables[: random.choice((0, 0, 1, 2, len(variables)))] if free else []
    return Query(relations, tuple(kept))


def _random_relations(random: Random) -> tuple[Relation, ...]:
    found = []
    for number in range(random.randint(1, 4)):
        schema = random.sample("ABCDE", random.randint(1, 3))
        found.append(Relation(f"R{number}", tuple(schema)))
    return tuple(found)


def random_order(random: Random, query: Query) -> VariableOrder:
    """A chosen order, or one by a random elimination, written and read back."""
    if random.random() < 0.3:
        return orders.chosen(query, {r.source: random.randint(1, 1000) for r in query.relations})
    order = list(query.variables)
    random.shuffle(order)
    return orders.given(query, by_elimination(query, order))


def by_elimination(query: Query, order: list[str]) -> str:
    """The variable order in which variables are eliminated one by one, as a user writes it."""
    factors = [set(r.schema) for r in query.relations]
    below: dict[str, list[str]] = {v: [] for v in order}
    roots = []
    for number, variable in enumerate(order):
        met = [f for f in factors if variable in f]
        keys = set().union(*met) - {variable}
        factors = [f for f in factors if variable not in f] + [keys]
        above = next((u for u in order[number + 1 :] if u in keys), None)
        (below[above] if above else roots).append(variable)

    def text(variable: str) -> str:
        return f"{variable} - {{{', '.join(map(text, below[variable]))}}}" if below[variable] else variable

    return ", ".join(map(text, roots))


def random_tree(random: Random, query: Query) -> ViewTree:
    """A view tree; an updatable table has all its relations updatable."""
    tables = sorted({r.source for r in query.relations})
    chosen = set(tables if random.random() < 0.5 else random.sample(tables, random.randint(1, len(tables))))
    names = [r.name for r in query.relations if r.source in chosen]
    return view_tree(random_order(random, query), names, indicators=random.random() < 0.7)


def updatable_tables(tree: ViewTree) -> list[str]:
    return sorted({r.source for r in tree.query.relations if r.name in tree.updatable})


@dataclass
class Database:
    """How often each row of each table is there, as the tests themselves know it."""

    arities: dict[str, int]
    counts: dict[str, dict[Key, int]]

    @classmethod
    def random(cls, random: Random, query: Query, values: int = 3, rows: int = 6) -> Database:
        arities = {r.source: len(r.schema) for r in query.relations}
        made = cls(arities, {table: {} for table in arities})
        for table in arities:
            made.put({table: random_rows(random, arities[table], values, rows)})
        return made

    def put(self, batch: Batch) -> None:
        for table, rows in batch.items():
            for row, count in rows:
                now = self.counts[table].get(row, 0) + count
                self.counts[table].pop(row, None)
                if now:
                    self.counts[table][row] = now

    def pairs(self) -> dict[str, list[tuple[Key, int]]]:
        return {table: list(rows.items()) for table, rows in self.counts.items()}


def random_rows(random: Random, arity: int, values: int, rows: int) -> list[tuple[Key, int]]:
    return [
        (tuple(random.randrange(values) for _ in range(arity)), random.choice((1, 1, 1, 2)))
        for _ in range(random.randint(0, rows))
    ]


def batches(random: Random, database: Database, tables: list[str], number: int = 5) -> Iterator[Batch]:
    """Batches of inserts and deletes, of what is there and sometimes of what is not."""
    for _ in range(number):
        batch: Batch = {}
        for table in random.sample(tables, random.randint(1, len(tables))):
            there = database.counts[table]
            rows = random_rows(random, database.arities[table], 3, 3)
            rows += [(row, -there[row]) for row in random.sample(sorted(there), min(2, len(there)))]
            if random.random() < 0.2:
                rows += [(row, -1) for row, _ in random_rows(random, database.arities[table], 3, 1)]
            random.shuffle(rows)
            batch[table] = rows
        yield batch
