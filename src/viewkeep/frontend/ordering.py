"""ORDER BY, LIMIT and OFFSET, and which output ORDER BY 2 or an alias means.

ORDER BY counts only where LIMIT or OFFSET cuts: a stored view has no order.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Item, Limit, Order, Project, passing
from viewkeep.errors import UnknownColumn, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.typed import Typed

CUTS = ("order", "limit", "offset")
Sort = tuple[Expr, int | Typed]
"""An entry of ORDER BY: the position of an output, or an expression that is none."""


def orders(tree: Expr) -> list[Expr]:
    """The entries of ORDER BY that decide which rows there are."""
    cuts = tree.args.get("limit") or tree.args.get("offset")
    return list(tree.args["order"].expressions) if cuts and tree.args.get("order") else []


def output_at(binding: Binding, wanted: Expr, names: Sequence[str]) -> int | None:
    """Where in the SELECT list an entry of ORDER BY or GROUP BY is, given by number or name; None if it is
    an expression."""
    if isinstance(wanted, exp.Literal) and not wanted.is_string:
        position = int(wanted.name) if wanted.name.isdigit() else 0
        if not 1 <= position <= len(names):
            raise binding.fail(
                UnknownColumn, wanted, f"there is no column {wanted.name} in the SELECT list",
                f"count from 1 to {len(names)}",
            )  # fmt: skip
        return position - 1
    if isinstance(wanted, exp.Column) and not wanted.table:
        return next((n for n, name in enumerate(names) if name.lower() == wanted.name.lower()), None)
    return None


def sort_key(entry: Expr, name: str) -> Order:
    """An entry of ORDER BY, over the column that it sorts by. Nulls are the smallest unless it says else."""
    descending = bool(entry.args.get("desc"))
    nulls_first = entry.args.get("nulls_first")
    return Order(name, descending, not descending if nulls_first is None else bool(nulls_first))


def limited(
    binding: Binding, tree: Expr, project: Project, sorts: Sequence[Sort], own: Sequence[Item],
    terms: Sequence[Expr] = (),
) -> Project:  # fmt: skip
    """The first rows, where LIMIT or OFFSET asks for them; what they are ordered by goes again. `own` are the
    items that the query shows, `terms` the conditions that look at the query around it."""
    limit, offset = _count(binding, tree, "limit"), _count(binding, tree, "offset")
    if limit is None and offset is None:
        return project
    if terms:
        raise binding.fail(
            Unsupported, tree, "LIMIT in a subquery that looks at the outer query", "use ROW_NUMBER"
        )
    added: list[Item] = []
    order = []
    for entry, at in sorts:
        if isinstance(at, int):
            order.append(sort_key(entry, own[at].name))
            continue
        if tree.args.get("distinct"):
            raise binding.fail(
                Unsupported, entry, "DISTINCT is ordered by something that it does not select",
                "select it too",
            )  # fmt: skip
        item = binding.item("order", at)
        added.append(item)
        order.append(sort_key(entry, item.name))
    wide = Project(project.input, (*project.items, *added)) if added else project
    return passing(Limit(wide, tuple(order), limit, offset or 0), [i.name for i in own])


def _count(binding: Binding, tree: Expr, key: str) -> int | None:
    clause = tree.args.get(key)
    if clause is None:
        return None
    number = clause.args.get("expression")
    if isinstance(clause, (exp.Limit, exp.Offset)) and isinstance(number, exp.Literal) and number.is_int:
        return int(number.name)
    raise binding.fail(Unsupported, tree, f"{key.upper()} needs a whole number", "write it as a literal")
