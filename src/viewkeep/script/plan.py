"""A script as the statements that an engine with UPDATE ... FROM runs: computed first, then applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Node, passing
from viewkeep.algebra.script_nodes import ROW, Ref
from viewkeep.rules.context import Target, by_kind
from viewkeep.rules.overlay import union_rows
from viewkeep.script import dml
from viewkeep.script.model import Apply, Script
from viewkeep.script.render import Names, Renderer, Sought


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
    """One DML statement on a target, from a computed relation; pointless where that has no such rows.

    `among`: the relation holds changes of all kinds, and the statement takes those of its own kind.
    """

    target: Target
    source: str
    kind: str
    ids: tuple[str, ...]
    changed: tuple[str, ...]
    statement: Expr
    among: bool = False


@dataclass(frozen=True)
class Statements:
    computes: tuple[Compute, ...]
    changes: tuple[Change, ...]


def statements(script: Script, names: Names, sought: Sought = ()) -> Statements:
    """Inserts go last, though effective diffs allow any order: an insert then never makes a later search
    longer. `sought`: the scans of which rows are looked up, see `Renderer`."""
    viewed = {a.changes.name for a in script.applies if a.changes and a.target.role == "view"}
    computes = [
        Compute(
            let.name,
            Renderer(names, sought).query(let.query),
            let.unless_empty,
            let.query,
            let.name in viewed,
        )
        for let in script.lets
    ]
    changes: list[Change] = []
    for apply in script.applies:
        if apply.changes is not None and ROW in apply.changes.by_name:
            changes += _from_changes(apply, apply.changes, names)
        else:
            for compute, change in _from_diffs(apply, names, sought):
                computes.append(compute)
                changes.append(change)
    return Statements(tuple(computes), tuple(changes))


def _from_changes(apply: Apply, changes: Ref, names: Names) -> Iterator[Change]:
    """One statement a kind, all from the change relation, which says where the rows are. Updates go first:
    most relations have no other changes, which is known when as many rows as there are were updated."""
    target, stored, source = apply.target, names.stored(apply.target.name), names.ref(changes.name)
    made = {diff.kind: diff for diff in apply.diffs}
    for kind in ("update", "delete", "insert"):
        if kind not in made:
            continue
        changed = tuple(sorted(made[kind].changed))
        if kind == "insert":
            statement: Expr = dml.insert(stored, source, target.node.names, among_changes=True)
        elif kind == "delete":
            statement = dml.delete(stored, source, dml.matched_by_row(names.row, kind))
        else:
            statement = dml.update(stored, source, dml.matched_by_row(names.row, kind), changed)
        yield Change(target, changes.name, kind, target.node.ids, changed, statement, among=True)


def _from_diffs(apply: Apply, names: Names, sought: Sought) -> Iterator[tuple[Compute, Change]]:
    """One statement a diff, by the diff's own ids."""
    target, node, stored = apply.target, apply.target.node, names.stored(apply.target.name)
    for kind in ("delete", "update", "insert"):
        diffs = by_kind(apply.diffs, kind)
        if kind == "insert" and diffs:
            queries: list[Node] = [union_rows([passing(d.query, node.names) for d in diffs])]
            diffs = [diffs[0]]
        else:
            queries = [passing(d.query, [*d.ids, *sorted(d.changed)]) for d in diffs]
        for number, (diff, query) in enumerate(zip(diffs, queries, strict=True), start=1):
            name = f"{kind}_{target.name}" + (f"_{number}" if number > 1 else "")
            rendered = Renderer(names, sought).query(query)
            compute = Compute(name, rendered, None, query, target.role == "view")
            source, changed = names.ref(name), tuple(sorted(diff.changed))
            matched = dml.matched_by_ids(node, diff.ids)
            if kind == "insert":
                statement: Expr = dml.insert(stored, source, node.names)
            elif kind == "delete":
                statement = dml.delete(stored, source, matched)
            else:
                statement = dml.update(stored, source, matched, changed)
            yield compute, Change(target, name, kind, diff.ids, changed, statement)
