"""Plans as text: one operator a line, inputs indented, IDs in brackets."""

from __future__ import annotations

from viewkeep.algebra.expressions import text
from viewkeep.algebra.nodes import (
    Aggregate,
    BaseDiff,
    Empty,
    Item,
    Join,
    LeftJoin,
    Node,
    Project,
    Ref,
    Scan,
    Select,
    SemiJoin,
    Stored,
    Union,
)


def tree(node: Node, *, ids: bool = False, depth: int = 0) -> str:
    """The plan, indented. With `ids`, each line ends in the operator's IDs."""
    shown = f"  [{', '.join(node.ids)}]" if ids else ""
    lines = ["  " * depth + line(node) + shown]
    lines += [tree(child, ids=ids, depth=depth + 1) for child in node.inputs]
    return "\n".join(lines)


def line(node: Node) -> str:
    """One operator."""
    if isinstance(node, Scan):
        state = " before" if node.state == "pre" else ""
        return f"Scan {node.table} AS {node.alias}{state}"
    if isinstance(node, Select):
        return f"Select {text(node.predicate)}"
    if isinstance(node, Project):
        return "Project " + ", ".join(_item(i) for i in node.items)
    if isinstance(node, Join):
        return "Join " + (text(node.condition) if node.condition is not None else "everything")
    if isinstance(node, Aggregate):
        measures = ", ".join(f"{m.function}({m.argument or '*'}) AS {m.name}" for m in node.measures)
        return f"Aggregate by ({', '.join(node.keys)}): {measures}"
    if isinstance(node, SemiJoin):
        pairs = ", ".join(a if a == b else f"{a} = {b}" for a, b in node.on)
        return f"{'AntiJoin' if node.anti else 'SemiJoin'} on {pairs}"
    if isinstance(node, LeftJoin):
        return "LeftJoin on " + ", ".join(f"{a} = {b}" for a, b in node.on)
    if isinstance(node, Stored):
        return f"Stored {node.target}"
    if isinstance(node, Union):
        return "Union distinct" if node.distinct else "Union"
    if isinstance(node, BaseDiff):
        return f"Diff {node.name}"
    if isinstance(node, Ref):
        return f"Ref {node.name}"
    assert isinstance(node, Empty)
    return "Empty"


def _item(item: Item) -> str:
    shown = text(item.expression)
    return item.name if shown == item.name else f"{shown} AS {item.name}"
