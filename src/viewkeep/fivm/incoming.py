"""What comes into a runtime: rows of tables, as changes of the relations that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.rings import P, Ring, RingProblem, has, multiple, named
from viewkeep.fivm.storage import Key, collected
from viewkeep.fivm.tree import ViewTree

Rows = Mapping[Key, Any] | Iterable[tuple[Key, Any]]


def instances(query: Query, table: str) -> tuple[Relation, ...]:
    """The relations that show a table. A relation's own name will do where its table has no other."""
    if not any(r.source == table for r in query.relations):
        for relation in query.relations:
            if relation.name == table and len(query.of_table(relation.source)) == 1:
                return (relation,)
    return query.of_table(table)


def changing(tree: ViewTree, table: str) -> tuple[Relation, ...]:
    """The relations that change with a table. Refused where one was declared not to."""
    found = instances(tree.query, table)
    for relation in found:
        if relation.name not in tree.updatable:
            raise Unsupported(
                f"{relation.name} was declared not to change, and what its changes need is not stored",
                hint=f"make the view tree with {relation.name} among its updatable relations",
            )
    return found


def weighed(relation: Relation, ring: Ring[P], rows: Rows, payloads: bool = False) -> dict[Key, P]:
    """Rows with their payloads: a number of rows is so many times one, and anything else a payload itself;
    with `payloads` numbers are too."""
    pairs = rows.items() if isinstance(rows, Mapping) else rows
    return collected(
        ring, ((_key(relation, key), as_payload(ring, weight, payloads)) for key, weight in pairs)
    )


def _key(relation: Relation, key: Any) -> Key:
    if not isinstance(key, tuple) or len(key) != len(relation.schema):
        raise TypeMismatch(
            f"{key!r} is no row of {relation}", hint=f"give tuples of {len(relation.schema)} values"
        )
    try:
        hash(key)
    except TypeError as problem:
        raise TypeMismatch(
            f"{key!r}, a row of {relation}, has a value that cannot be looked up: {problem}",
            hint="give numbers, strings, dates, tuples or None",
        ) from problem
    return key


def as_payload(ring: Ring[P], weight: Any, payloads: bool = False) -> P:
    """A number of rows, or a payload, as a payload."""
    if isinstance(weight, int) and not payloads:
        return multiple(ring, int(weight))
    if not has(ring, weight):
        raise RingProblem(
            f"{weight!r}, the payload of a row, is no value of {named(ring)}",
            hint="give a value of the ring, or a number of rows",
        )
    value: P = weight
    return value
