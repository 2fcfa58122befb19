"""Change relations: all that happens to a target, one row for each of its rows that changes.

A change relation has the target's IDs, every other column after (`c`) and before (`pre:c`), and KIND. Where
the engine can tell where in the target a row is, that is in ROW, so that applying need not search again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import PRE, Expr, column, pre_name
from viewkeep.algebra.nodes import Column, Item, Node, Project, Select, passing
from viewkeep.algebra.script_nodes import ROW
from viewkeep.algebra.types import STRING
from viewkeep.idiff.diff import Diff, Kind

KIND = ":kind"
KIND_COLUMN = Column(KIND, STRING, nullable=False)
KINDS = frozenset({"insert", "delete", "update"})


def literal(kind: str) -> Expr:
    """A kind of change, as it stands in KIND."""
    return exp.Literal.string(kind)


def is_kind(kind: str) -> Expr:
    """The condition that a change is of that kind."""
    return exp.EQ(this=column(KIND), expression=literal(kind))


def diffs_of(
    changes: Node,
    ids: Sequence[str],
    rule: str,
    *,
    kinds: Collection[str] = KINDS,
    changed: frozenset[str] | None = None,
) -> list[Diff]:
    """A change relation read as exact diffs by full ID. `kinds`: those that it has. One row that neither
    comes nor goes is only ever updated; that there are no IDs does not say so: a selection above sums without
    GROUP BY has none either. `changed`: the columns that updates change, all by default."""
    apart = {*ids, KIND, ROW}
    others = tuple(n for n in changes.names if n not in apart and not _is_pre(n, changes))
    both_states = [*ids, *others, *map(pre_name, others)]
    before = tuple(Item(changes.by_name[n], column(n if n in ids else pre_name(n))) for n in [*ids, *others])
    key = tuple(ids)
    queries: dict[Kind, Node] = {
        "insert": passing(Select(changes, is_kind("insert")), [*ids, *others]),
        "delete": Project(Select(changes, is_kind("delete")), before),
        "update": passing(Select(changes, is_kind("update")), both_states),
    }
    moved = frozenset(others) if changed is None else changed & frozenset(others)
    made = [
        Diff(kind, key, others, query, moved if kind == "update" else frozenset(), rule=rule)
        for kind, query in queries.items()
        if kind in kinds and (kind != "update" or moved)
    ]
    return made


def rows_before(changes: Node, columns: Sequence[Column], ids: Sequence[str]) -> Node:
    """The rows that a change relation takes away or replaces."""
    items = (Item(c, column(c.name if c.name in ids else pre_name(c.name))) for c in columns)
    gone = exp.NEQ(this=column(KIND), expression=literal("insert"))
    return Project(Select(changes, gone), tuple(items))


def rows_after(changes: Node, columns: Sequence[Column]) -> Node:
    """The rows that a change relation brings or leaves."""
    here = exp.NEQ(this=column(KIND), expression=literal("delete"))
    return passing(Select(changes, here), [c.name for c in columns])


def _is_pre(name: str, changes: Node) -> bool:
    return name.startswith(PRE) and name.removeprefix(PRE) in changes.by_name
