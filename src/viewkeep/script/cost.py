"""How many rows a script reads, by estimate: what the chooser weighs scripts and recomputing by.

A relation that a diff gives is small. A stored relation is read whole, unless a small one names its rows by
a column that the engine can look up; then it is small, too, and may in turn name rows of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import conjuncts
from viewkeep.algebra.nodes import Constant, Item, Join, Node, Project, Scan
from viewkeep.algebra.script_nodes import BaseDiff, Images, LeftJoin, Ref, SemiJoin, Stored
from viewkeep.script.model import Script


@dataclass(frozen=True)
class Sizes:
    """What is known of the stored relations: their rows, and the columns that find rows without a scan."""

    tables: Mapping[str, int]
    targets: Mapping[str, int]
    is_looked_up: Callable[[Scan | Stored, str], bool]
    rows_a_value: Callable[[Scan | Stored, str], float] = lambda leaf, column: 1.0
    """How many rows have one value of a column."""
    looked_up: int = 0
    """How many changes may look rows up; with more, relations are scanned."""

    def of(self, leaf: Scan | Stored) -> int:
        """The rows of a table, or of a target; a target of unknown size is as large as the largest table."""
        if isinstance(leaf, Scan):
            return self.tables.get(leaf.table, 0)
        return self.targets.get(leaf.target, max(self.tables.values(), default=0))


def rows_read(script: Script, sizes: Sizes) -> int:
    """The rows that a script's queries scan, without those that they look up."""
    queries = [let.query for let in script.lets]
    queries += [diff.query for apply in script.applies if apply.changes is None for diff in apply.diffs]
    return sum(_read(query, frozenset(), sizes)[0] for query in queries)


def lookups(script: Script) -> set[tuple[Scan | Stored, str]]:
    """The stored relations of which a script's queries look rows up, and by which column."""
    found: set[tuple[Scan | Stored, str]] = set()

    def note(leaf: Scan | Stored, column: str) -> bool:
        found.add((leaf, column))
        return True

    rows_read(script, Sizes({}, {}, note))
    return found


def rows_of_plan(plan: Node, sizes: Sizes) -> int:
    """The rows that recomputing scans: all of every table, each time that it is named."""
    if isinstance(plan, Scan):
        return sizes.of(plan)
    return sum(rows_of_plan(child, sizes) for child in plan.inputs)


def _read(node: Node, named: frozenset[str], sizes: Sizes) -> tuple[int, bool]:
    """The rows scanned below a node, and whether what comes out is small. `named`: columns of which a small
    relation gives the values."""
    if isinstance(node, (Ref, BaseDiff, Images, Constant)):
        return 0, True
    if isinstance(node, (Scan, Stored)):
        found = [name for name in named if sizes.is_looked_up(node, name)]
        if found:
            return 0, True
        return sizes.of(node), bool(named)  # a filter, though not an index: little is left after the scan
    if isinstance(node, SemiJoin):
        right, small = _read(node.right, frozenset(), sizes)
        by = frozenset(a for a, _ in node.on) if small and not node.anti else frozenset()
        left, few = _read(node.left, _below(node.left, named | by), sizes)
        return left + right, few
    if isinstance(node, LeftJoin):
        left, small = _read(node.left, _below(node.left, named), sizes)
        by = frozenset(b for _, b in node.on) if small else frozenset()
        right, few = _read(node.right, by, sizes)
        return left + right, small and few
    if isinstance(node, Join):
        return _joined(node, named, sizes)
    if isinstance(node, Project):
        return _read(node.input, _renamed(node.items, named), sizes)
    if not node.inputs:
        return 0, True
    below = [_read(child, _below(child, named), sizes) for child in node.inputs]
    return sum(rows for rows, _ in below), all(few for _, few in below)


def _joined(node: Join, named: frozenset[str], sizes: Sizes) -> tuple[int, bool]:
    """The side that is small names rows of the other by the columns that the join equates."""
    equal = {
        side.name
        for term in conjuncts(node.condition)
        if isinstance(term, (exp.EQ, exp.NullSafeEQ))
        for side in (term.left, term.right)
        if isinstance(side, exp.Column)
    }
    sides = [(side, _below(side, named)) for side in (node.left, node.right)]
    first, second = (_read(side, own, sizes) for side, own in sides)
    for (rows, small), (other, own) in ((first, sides[1]), (second, sides[0])):
        if small:
            more = frozenset(name for name in other.names if name in equal)
            found, few = _read(other, own | more, sizes)
            return rows + found, few
    return first[0] + second[0], False


def _renamed(items: Sequence[Item], named: frozenset[str]) -> frozenset[str]:
    """What the input of a projection calls the columns that are named."""
    passed = (i.expression for i in items if i.name in named)
    return frozenset(e.name for e in passed if isinstance(e, exp.Column))


def _below(child: Node, named: frozenset[str]) -> frozenset[str]:
    return named & frozenset(child.names)
