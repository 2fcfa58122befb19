"""Queries that fill targets, as they are best put to Spark, and the order in which rows are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import conjunction, conjuncts
from viewkeep.chooser import LARGE_TABLES
from viewkeep.passes.compiler import Compiled
from viewkeep.store import delta


def looked_for_by(state: delta.State, compiled: Compiled, target: str) -> str | None:
    """The column by which refreshes look for rows of a target, where there are very many."""
    if target not in compiled.read_targets() or sum(state.sizes.values()) < LARGE_TABLES:
        return None
    by = compiled.lookups()[target]
    return by[0] if by else None


@contextmanager
def in_order(rows: Any, by: str | None) -> Iterator[Any]:
    """Rows as they are written: sorted by a column over all files, if there is one. Spark samples rows to see
    where files should begin, and would compute them once more to write them."""
    if by is None:
        yield rows
        return
    kept = rows.persist()
    try:
        yield kept.repartitionByRange(by).sortWithinPartitions(by)
    finally:
        kept.unpersist()


def selected_first(query: exp.Query) -> exp.Query:
    """a JOIN b ... JOIN c ... WHERE p(c) -> c JOIN b ... JOIN a ..., along the conditions.

    Spark joins in the order that is written: the whole of a with the whole of b, and then finds that few of
    these rows have a c.
    """
    for select in query.find_all(exp.Select):
        _reorder(select)
    return query


def _reorder(select: exp.Select) -> None:
    joins, source = select.args.get("joins") or [], select.args.get("from_")
    if len(joins) < 2 or source is None or select.find(exp.Window) or not all(map(_is_inner, joins)):
        return  # rows that are numbered keep their numbers
    leaves = {leaf.alias_or_name: leaf for leaf in (source.this, *(join.this for join in joins))}
    terms = [term for join in joins for term in conjuncts(join.args["on"])]
    where = select.args.get("where")
    selected = [_tables(term) for term in conjuncts(where.this if where else None)]
    first = next((name for name in leaves if {name} in selected), None)
    if first is None or first == source.this.alias_or_name or len(leaves) != len(joins) + 1:
        return
    order, made = [first], []
    while len(order) < len(leaves):
        rest = [name for name in leaves if name not in order]
        following = next((name for name in rest if _connected(order, name, terms)), None)
        if following is None:
            return  # a product, which is left as it is
        order.append(following)
        here = [term for term in terms if _tables(term) <= set(order)]
        terms = [term for term in terms if term not in here]
        made.append(exp.Join(this=leaves[following].copy(), on=conjunction([t.copy() for t in here])))
    if terms:
        return  # a condition with a subquery of its own
    select.set("from_", exp.From(this=leaves[first].copy()))
    select.set("joins", made)


def _is_inner(join: exp.Expr) -> bool:
    return {name for name, value in join.args.items() if value} <= {"this", "on"} and bool(join.args["on"])


def _tables(term: exp.Expr) -> set[str]:
    return {column.table for column in term.find_all(exp.Column)}


def _connected(order: Sequence[str], name: str, terms: Sequence[exp.Expr]) -> bool:
    return any(name in (own := _tables(term)) and own <= {*order, name} for term in terms)
