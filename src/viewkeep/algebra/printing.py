"""Plans as text: one operator a line, inputs indented, IDs in brackets."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeep.algebra.expressions import text
from viewkeep.algebra.nodes import (
    Aggregate,
    Constant,
    Item,
    Join,
    Limit,
    MarkJoin,
    Measure,
    Node,
    Order,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
)
from viewkeep.algebra.script_nodes import BaseDiff, Empty, Images, LeftJoin, Ref, SemiJoin, Stored, Union


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
    if isinstance(node, (OuterJoin, MarkJoin)):
        shown = text(node.condition) if node.condition is not None else "everything"
        if isinstance(node, MarkJoin):
            return f"MarkJoin {shown} AS {node.mark.name}"
        return f"{'FullJoin' if node.full else 'LeftOuterJoin'} {shown}"
    if isinstance(node, UnionAll):
        return f"UnionAll AS {', '.join(node.names)}"
    if isinstance(node, Window):
        made = ", ".join(_item(i) for i in node.items)
        return f"Window by ({', '.join(node.partition)}) in order ({_orders(node.order)}): {made}"
    if isinstance(node, Limit):
        return f"Limit {node.limit} from {node.offset} in order ({_orders(node.order)})"
    if isinstance(node, Constant):
        return f"Constant {', '.join(map(str, node.numbers))} AS {node.column.name}"
    if isinstance(node, Aggregate):
        measures = ", ".join(_measure(m) for m in node.measures)
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
    if isinstance(node, Images):
        return f"Images of {node.scan.alias}, as they were and as they are"
    if isinstance(node, Ref):
        return f"Ref {node.name}"
    assert isinstance(node, Empty)
    return "Empty"


def _measure(m: Measure) -> str:
    called = text(m.call) if m.call is not None else f"{m.function}({m.argument or '*'})"
    return f"{called} AS {m.name}"


def _orders(order: Sequence[Order]) -> str:
    return ", ".join(o.column + (" desc" if o.descending else "") for o in order)


def _item(item: Item) -> str:
    shown = text(item.expression)
    return item.name if shown == item.name else f"{shown} AS {item.name}"
