"""A script as the statements that an engine with UPDATE ... FROM runs: computed first, then applied."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Node, passing
from viewkeep.rules.context import Target, by_kind
from viewkeep.rules.overlay import union_rows
from viewkeep.script import dml
from viewkeep.script.model import Script
from viewkeep.script.render import Names, Renderer


@dataclass(frozen=True)
class Compute:
    """Computes a relation of the script and keeps it under a name."""

    name: str
    query: exp.Query
    unless_empty: str | None
    node: Node
    is_view_diff: bool = False


@dataclass(frozen=True)
class Change:
    """One DML statement on a target, from a computed relation; pointless where that is empty."""

    target: Target
    source: str
    kind: str
    ids: tuple[str, ...]
    changed: tuple[str, ...]
    statement: Expr


@dataclass(frozen=True)
class Statements:
    computes: tuple[Compute, ...]
    changes: tuple[Change, ...]


def statements(script: Script, names: Names) -> Statements:
    """Deletes go first and inserts last, though effective diffs allow any order: an insert then never
    makes a later search longer."""
    computes = [
        Compute(let.name, Renderer(names).query(let.query), let.unless_empty, let.query)
        for let in script.lets
    ]
    changes: list[Change] = []
    for apply in script.applies:
        target, node = apply.target, apply.target.node
        stored = names.stored(target.name)
        for kind in ("delete", "update", "insert"):
            diffs = by_kind(apply.diffs, kind)
            if kind == "insert" and diffs:
                rows = union_rows([passing(d.query, node.names) for d in diffs])
                diffs = [diffs[0]]
                queries: list[Node] = [rows]
            else:
                queries = [passing(d.query, [*d.ids, *sorted(d.changed)]) for d in diffs]
            for number, (diff, query) in enumerate(zip(diffs, queries, strict=True), start=1):
                name = f"{kind}_{target.name}" + (f"_{number}" if number > 1 else "")
                view_diff = target.role == "view"
                computes.append(Compute(name, Renderer(names).query(query), None, query, view_diff))
                source = names.ref(name)
                if kind == "delete":
                    made: Expr = dml.delete(stored, node, source, diff.ids)
                elif kind == "update":
                    made = dml.update(stored, node, source, diff.ids, sorted(diff.changed))
                else:
                    made = dml.insert(stored, source, node.names)
                changes.append(Change(target, name, kind, diff.ids, tuple(sorted(diff.changed)), made))
    return Statements(tuple(computes), tuple(changes))
