"""What every engine does with a compiled view apart from refreshing it: fill it, show it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Node
from viewkeep.algebra.script_nodes import Stored
from viewkeep.passes.compiler import Compiled
from viewkeep.passes.reduce_groups import reduce_groups
from viewkeep.rules.context import Target
from viewkeep.script.render import Names, Renderer


def fill_queries(compiled: Compiled, names: Names, *, caches: bool) -> Iterator[tuple[Target, exp.Query]]:
    """Each target with the query that fills it, in an order in which later ones read earlier ones; without
    caches the view itself, from base tables alone."""
    if not caches or not compiled.caches:
        yield from _fill_view(compiled, names)
        return
    filled: dict[Node, Stored] = {}
    for target in compiled.placement.targets:
        query = Renderer(names).query(_over(target.node, filled))
        yield target, query
        filled[target.node] = Stored.of(target.name, target.node)


def _fill_view(compiled: Compiled, names: Names) -> Iterator[tuple[Target, exp.Query]]:
    for target in compiled.placement.targets:
        if target.role == "view":
            yield target, Renderer(names).query(reduce_groups(target.node))


def _over(node: Node, filled: dict[Node, Stored]) -> Node:
    if node in filled:
        return filled[node]
    return node.with_inputs([_over(child, filled) for child in node.inputs])


def shown(compiled: Compiled, names: Names) -> exp.Select:
    """What a user sees under the view's name: no hidden IDs, and aggregates finished from what is kept."""
    root = compiled.placement.root
    items = {i.name: i.expression for i in compiled.plan.items}
    outputs: list[Expr] = []
    for user_name, plan_name in compiled.visible:
        value = column(plan_name) if root is compiled.plan else items[plan_name]
        outputs.append(exp.alias_(value.copy(), user_name, quoted=True))
    return exp.select(*outputs).from_(names.stored("rows"))
