"""ORDER BY, LIMIT and OFFSET, and which output ORDER BY 2 or an alias means.

ORDER BY counts only where LIMIT or OFFSET cuts: a stored view has no order.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, conjunction
from viewkeep.algebra.nodes import Column, Item, Limit, Node, Order, Project, Select, Window, passing
from viewkeep.errors import UnknownColumn, Unsupported
from viewkeep.frontend.binding import Binding
from viewkeep.frontend.scope import NeedsDomain
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


def row_counts(binding: Binding, tree: Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET, as numbers."""
    return _count(binding, tree, "limit"), _count(binding, tree, "offset") or 0


def limited(
    binding: Binding, tree: Expr, project: Project, sorts: Sequence[Sort], own: Sequence[Item],
    within: Sequence[str] | None = (),
) -> Project:  # fmt: skip
    """The first rows, where LIMIT or OFFSET asks for them; what they are ordered by goes again. `own` are the
    items that the query shows. In a correlated subquery they are the first `within` some columns each."""
    limit, offset = row_counts(binding, tree)
    if limit is None and not offset:
        return project
    if within is None:
        raise NeedsDomain
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
    cut = _first_within(binding, wide, within, order, limit, offset) if within else None
    return passing(cut or Limit(wide, tuple(order), limit, offset), project.names)


def _first_within(
    binding: Binding,
    node: Node,
    within: Sequence[str],
    order: Sequence[Order],
    limit: int | None,
    offset: int,
) -> Node:
    number = Item(Column(binding.fresh("number"), t.INT, nullable=False), exp.RowNumber())
    numbered = Window(node, tuple(within), tuple(order), (number,), None, ties=True)
    place = column(number.name)
    terms: list[Expr] = [exp.GT(this=place, expression=exp.Literal.number(offset))]
    if limit is not None:
        terms.append(exp.LTE(this=place.copy(), expression=exp.Literal.number(offset + limit)))
    kept = conjunction(terms)
    assert kept is not None
    return Select(numbered, kept)


def _count(binding: Binding, tree: Expr, key: str) -> int | None:
    clause = tree.args.get(key)
    if clause is None:
        return None
    number = clause.args.get("expression")
    if isinstance(clause, (exp.Limit, exp.Offset)) and isinstance(number, exp.Literal) and number.is_int:
        return int(number.name)
    raise binding.fail(Unsupported, tree, f"{key.upper()} needs a whole number", "write it as a literal")
