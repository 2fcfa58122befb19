"""Pass 3b: instantiated rules -> a script (idIVM section 4, pass 3).

Rules name the relations that more than one place reads. Those read once are put in place; those that
nothing reads are dropped; the rest become lets, in the order in which they were named.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from viewkeep.algebra.nodes import Node, rebuild, walk
from viewkeep.algebra.script_nodes import Ref
from viewkeep.rules.context import Context
from viewkeep.script.model import Apply, Let, Script


def compose(context: Context, strategy: str) -> Script:
    """The script for what was instantiated."""
    applies = [Apply(t, diffs, changes) for t, diffs, changes in context.applied]
    kept = _always_named(context, applies)
    readers = _count_readers(context, applies, kept)
    lets: dict[str, Node] = {}
    inlined: dict[str, Node] = {}
    for name, query in context.lets.items():
        if name not in readers and name not in kept:
            continue
        query = _inline(query, inlined)
        if name in kept or readers[name] > 1:
            lets[name] = query
        else:
            inlined[name] = query
    return Script(
        strategy,
        tuple(context.targets),
        tuple(Let(n, q, context.guards.get(n)) for n, q in lets.items()),
        tuple(
            replace(
                a,
                diffs=tuple(replace(d, query=_inline(d.query, inlined)) for d in a.diffs),
            )
            for a in applies
        ),
    )


def _always_named(context: Context, applies: list[Apply]) -> set[str]:
    """Change relations that are applied, relations that a guard is asked about, and those that a rule wants
    by themselves."""
    named = {a.changes.name for a in applies if a.changes is not None}
    return named | set(context.guards) | set(context.guards.values()) | context.alone


def _count_readers(context: Context, applies: list[Apply], kept: set[str]) -> Counter[str]:
    readers: Counter[str] = Counter()
    queue: list[Node] = [context.lets[name] for name in kept]
    queue += [d.query for a in applies if a.changes is None for d in a.diffs]
    while queue:
        for node in walk(queue.pop()):
            if isinstance(node, Ref):
                readers[node.name] += 1
                if readers[node.name] == 1 and node.name not in kept:
                    queue.append(context.lets[node.name])
    return readers


def _inline(query: Node, inlined: dict[str, Node]) -> Node:
    def swap(node: Node) -> Node:
        return inlined[node.name] if isinstance(node, Ref) and node.name in inlined else node

    return rebuild(query, swap)
