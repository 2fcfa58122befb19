"""Stored relations narrowed to the values that small relations look for.

A diff of a few rows is joined with a table or a cache of many. Where the values that it will look for are
known, they stand in the query as literals: an engine that keeps the least and the largest value of each file
and page then reads a few of them, and not all. Narrowing leaves out rows that no one asks for, nothing else,
so it may stop at any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, equated_columns
from viewkeep.algebra.nodes import Aggregate, Join, Node, Project, Scan, Select
from viewkeep.algebra.script_nodes import BaseDiff, Images, LeftJoin, Ref, SemiJoin, Stored, Union
from viewkeep.algebra.types import Type

# More values than these are not worth a predicate: they are then in most pages of a table.
MOST_VALUES = 500

Small = Ref | BaseDiff | Images
Values = Callable[[Small, str], frozenset[Any] | None]
_Wanted = Mapping[str, frozenset[Any]]


@dataclass(frozen=True)
class _Known:
    """What small relations have in their columns, where that is known and so many values at most."""

    values: Values
    most: int

    def of(self, small: Small, name: str) -> frozenset[Any] | None:
        return self.few(self.values(small, name))

    def few(self, found: frozenset[Any] | None) -> frozenset[Any] | None:
        return found if found is not None and len(found) <= self.most else None


def pruned(query: Node, values: Values, most: int = MOST_VALUES) -> Node:
    """The query with its stored relations narrowed. `values`: all that a small relation has in a column, or
    None where that is not known. `most`: how many values are worth a predicate."""
    return _narrowed(query, {}, _Known(values, most))


def one_of(value: Expr, kind: Type, values: frozenset[Any]) -> Expr | None:
    """The condition that a value is one of these; None where they cannot be written exactly."""
    known = [v for v in values if v is not None]
    literals = [_literal(v, kind) for v in sorted(known)]
    there = [literal for literal in literals if literal is not None]
    if len(there) < len(literals):
        return None
    parts: list[Expr] = [exp.In(this=value.copy(), expressions=there)] if there else []
    if len(known) < len(values):
        parts.append(exp.Is(this=value.copy(), expression=exp.Null()))
    if not parts:
        return exp.false()
    return parts[0] if len(parts) == 1 else exp.Or(this=parts[0], expression=parts[1])


def reads_little(query: Node, findable: Collection[str]) -> bool:
    """Whether a query that was narrowed reads, of all that is stored, some values at most, and these of
    targets in which they can be found."""
    if isinstance(query, Select) and isinstance(query.input, Stored) and query.predicate.find(exp.In):
        return query.input.target in findable
    if isinstance(query, (Scan, Stored)):
        return False
    return all(reads_little(node, findable) for node in query.inputs)


def _narrowed(node: Node, wanted: _Wanted, known: _Known) -> Node:
    if isinstance(node, (Scan, Stored)):
        return _restricted(node, wanted)
    if isinstance(node, Select):
        return node.with_inputs([_narrowed(node.input, wanted, known)])
    if isinstance(node, Project):
        below = {i.copies: wanted[i.name] for i in node.items if i.copies and i.name in wanted}
        return node.with_inputs([_narrowed(node.input, below, known)])
    if isinstance(node, Aggregate):
        return node.with_inputs([_narrowed(node.input, _of(wanted, node.keys), known)])
    if isinstance(node, Union):
        return node.with_inputs([_narrowed(part, wanted, known) for part in node.parts])
    if isinstance(node, Join):
        pairs = _of_one_type(equated_columns(node.condition, or_both_null=True), node)
        both = [*pairs, *((b, a) for a, b in pairs)]
        left = _asked_of(node.left, node.right, both, wanted, known)
        right = _asked_of(node.right, node.left, both, wanted, known)
        return node.with_inputs([_narrowed(node.left, left, known), _narrowed(node.right, right, known)])
    if isinstance(node, (SemiJoin, LeftJoin)):
        kept = _of(wanted, node.left.names)
        theirs = node.right.by_name
        pairs = [(a, b) for a, b in node.on if node.left.by_name[a].type == theirs[b].type]
        if isinstance(node, SemiJoin) and not node.anti:
            kept = {**_looked_for(node.right, [(b, a) for a, b in pairs], known), **kept}
        asked = {**_looked_for(node.left, pairs, known), **_equal_to(kept, pairs)}
        return node.with_inputs([_narrowed(node.left, kept, known), _narrowed(node.right, asked, known)])
    return node.with_inputs([_narrowed(child, {}, known) for child in node.inputs])


def _of_one_type(pairs: Iterable[tuple[str, str]], node: Node) -> list[tuple[str, str]]:
    """Not a BIGINT that looks for an INT: its values may be none."""
    return [(a, b) for a, b in pairs if node.by_name[a].type == node.by_name[b].type]


def _asked_of(
    side: Node, other: Node, pairs: Iterable[tuple[str, str]], wanted: _Wanted, known: _Known
) -> _Wanted:
    """What is wanted of one side of a join: what is wanted of the join, and what the other side looks for."""
    pairs = [(a, b) for a, b in pairs if a in other.by_name and b in side.by_name]
    own = {**_looked_for(other, pairs, known), **_equal_to(_of(wanted, other.names), pairs)}
    return {**own, **_of(wanted, side.names)}


def _looked_for(node: Node, pairs: Iterable[tuple[str, str]], known: _Known) -> _Wanted:
    """The values that rows of a node look for, by the names of whom they look at."""
    found = {b: _values(node, a, known) for a, b in pairs}
    return {name: told for name, told in found.items() if told is not None}


def _equal_to(wanted: _Wanted, pairs: Iterable[tuple[str, str]]) -> _Wanted:
    return {b: wanted[a] for a, b in pairs if a in wanted}


def _of(wanted: _Wanted, names: Iterable[str]) -> _Wanted:
    return {name: wanted[name] for name in names if name in wanted}


def _restricted(leaf: Node, wanted: _Wanted) -> Node:
    for name, values in wanted.items():
        condition = one_of(column(name), leaf.by_name[name].type, values)
        if condition is not None:
            leaf = Select(leaf, condition)
    return leaf


def _values(node: Node, name: str, known: _Known) -> frozenset[Any] | None:
    """All values that a column may have, where few are possible."""
    if isinstance(node, (Ref, BaseDiff, Images)):
        return known.of(node, name)
    if isinstance(node, (Select, Aggregate)):
        return _values(node.input, name, known) if name in node.input.by_name else None
    if isinstance(node, Project):
        copied = next(i.copies for i in node.items if i.name == name)
        return _values(node.input, copied, known) if copied is not None else None
    if isinstance(node, Union):
        parts = [_values(part, name, known) for part in node.parts]
        told = [part for part in parts if part is not None]
        return known.few(frozenset().union(*told)) if len(told) == len(parts) else None
    if isinstance(node, LeftJoin):
        return _values(node.left, name, known) if name in node.left.by_name else None
    if isinstance(node, SemiJoin):
        own = _values(node.left, name, known)
        theirs = node.right.by_name
        pairs = [(a, b) for a, b in node.on if node.left.by_name[a].type == theirs[b].type]
        return own if own is not None or node.anti else _of_partner(node.right, name, pairs, known)
    if isinstance(node, Join):
        side, other = (node.left, node.right) if name in node.left.by_name else (node.right, node.left)
        own = _values(side, name, known)
        pairs = _of_one_type(equated_columns(node.condition, or_both_null=True), node)
        both = [*pairs, *((b, a) for a, b in pairs)]
        return own if own is not None else _of_partner(other, name, both, known)
    return None


def _of_partner(
    other: Node, name: str, pairs: Iterable[tuple[str, str]], known: _Known
) -> frozenset[Any] | None:
    """The values that a column may have because it equals one of another relation, where that has few."""
    partners = (b for a, b in pairs if a == name and b in other.by_name)
    found = (_values(other, partner, known) for partner in partners)
    return next((values for values in found if values is not None), None)


def _literal(value: Any, kind: Type) -> Expr | None:
    """A value as it can be written without loss, or None."""
    if kind.is_integer and isinstance(value, int):
        return exp.Cast(this=exp.Literal.number(value), to=kind.sql())
    if kind.kind == "decimal" and isinstance(value, Decimal):
        return exp.Cast(this=exp.Literal.string(str(value)), to=kind.sql())
    if kind.kind == "string" and isinstance(value, str):
        return exp.Literal.string(value)
    if kind.kind == "date" and isinstance(value, date) and not isinstance(value, datetime):
        return exp.Cast(this=exp.Literal.string(value.isoformat()), to=kind.sql())
    return None
