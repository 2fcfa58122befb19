"""FROM: base tables, CTEs, derived tables, and joins of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.bags import bag_scan
from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Column, Constant, Project, Scan
from viewkeep.errors import TypeMismatch, UnknownTable, Unsupported
from viewkeep.frontend.binding import Binding, Ctes
from viewkeep.frontend.joins import join, lateral
from viewkeep.frontend.pivots import pivoted
from viewkeep.frontend.scope import Field, Relation

_ON_A_TABLE = {
    "sample": ("TABLESAMPLE", "filter by a column; a sample differs each time"),
    "version": ("an older version of a table", "name the plain table"),
    "laterals": ("LATERAL VIEW", "join with a table"),
    "hints": ("a hint on a table", "leave it out"),
}


def bind_from(binding: Binding, tree: exp.Select, ctes: Ctes) -> Relation:
    """What FROM offers."""
    if tree.args.get("from_") is None:  # SELECT 1: one row of nothing
        return Relation(Constant(Column(binding.fresh("row"), t.INT, nullable=False), (0,)), ())
    first = partial(_source, binding, tree.args["from_"].this, ctes)
    return _joined(binding, first, tree.args.get("joins") or [], ctes)


def _joined(
    binding: Binding, first: Callable[[], Relation], joins: Sequence[exp.Join], ctes: Ctes
) -> Relation:
    relation = first()
    for n, tree in enumerate(joins):
        again = partial(_joined, binding, first, joins[:n], ctes)
        if isinstance(tree.this, exp.Lateral):
            relation = lateral(binding, relation, tree, ctes, again)
        else:
            other = partial(_source, binding, tree.this, ctes)
            relation = join(binding, relation, other(), tree, ctes, (again, other))
    return relation


def _source(binding: Binding, tree: Expr, ctes: Ctes) -> Relation:
    if isinstance(tree, (exp.Table, exp.Subquery)) and tree.args.get("pivots"):
        return pivoted(binding, tree, ctes, lambda plain: _source(binding, plain, ctes))
    if isinstance(tree, exp.Subquery):
        return _joined(binding, partial(_derived, binding, tree, ctes), tree.args.get("joins") or [], ctes)
    if isinstance(tree, exp.Paren):
        return _source(binding, tree.this, ctes)
    if isinstance(tree, exp.Values):
        return _values(binding, tree)
    if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
        raise binding.fail(
            Unsupported, tree, f"{tree.sql('spark')} cannot stand in FROM",
            "use a table, a derived table or a CTE",
        )  # fmt: skip
    for key, (what, instead) in _ON_A_TABLE.items():
        if tree.args.get(key):
            raise binding.fail(Unsupported, tree, f"{what} is not supported in a view", instead)
    return _joined(binding, partial(_named, binding, tree, ctes), tree.args.get("joins") or [], ctes)


def _named(binding: Binding, tree: exp.Table, ctes: Ctes) -> Relation:
    name = ".".join(part.name for part in tree.parts)
    cte = ctes.get(name.lower())
    relation = _qualified(cte(), tree.alias or name) if cte else _scan(binding, tree, name)
    return renamed(binding, relation, tree)


def _derived(binding: Binding, tree: exp.Subquery, ctes: Ctes) -> Relation:
    if isinstance(tree.this, exp.Table) or _is_source(tree.this):  # FROM (a JOIN b ON ...)
        relation = _source(binding, tree.this, ctes)
        return _qualified(relation, tree.alias) if tree.alias else relation
    relation = renamed(binding, binding.query(tree.this, ctes), tree)
    return _qualified(relation, tree.alias)


def _is_source(tree: Expr) -> bool:
    """Whether brackets are around a derived table and what is joined to it: ((SELECT ...) AS a JOIN b ...).
    In ((SELECT ...)) they are around a query."""
    return isinstance(tree, exp.Subquery) and bool(tree.args.get("alias") or tree.args.get("joins"))


def renamed(binding: Binding, relation: Relation, aliased: Expr) -> Relation:
    """The relation with the column names of `AS name (a, b, ...)`, where there are any."""
    alias = aliased.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias else []
    if not names:
        return relation
    if len(names) != len(relation.fields):
        raise binding.fail(
            TypeMismatch, aliased,
            f"{len(names)} column names for {len(relation.fields)} columns", "name every column",
        )  # fmt: skip
    fields = (replace(f, name=n) for f, n in zip(relation.fields, names, strict=True))
    return Relation(relation.node, tuple(fields))


def _qualified(relation: Relation, qualifier: str) -> Relation:
    fields = (replace(f, qualifier=qualifier) for f in relation.starred())
    return Relation(relation.node, tuple(fields))


def _values(binding: Binding, tree: exp.Values) -> Relation:
    """VALUES (...), (...): a number for each row, and columns that choose by it."""
    rows = [list(e.expressions) if isinstance(e, exp.Tuple) else [e] for e in tree.expressions]
    if len({len(row) for row in rows}) != 1:
        raise binding.fail(Unsupported, tree, "rows of VALUES have different lengths", "make them equal")
    number = Column(binding.fresh("row"), t.INT, nullable=False)
    scope = binding.scope(Relation(Constant(number, ()), ()))
    items, fields = [], []
    for at, parts in enumerate(zip(*rows, strict=True), start=1):
        branches = [
            exp.If(
                this=exp.EQ(this=scope.add(number), expression=exp.Literal.number(n)),
                true=scope.resolve(part),
            )
            for n, part in enumerate(parts)
        ]
        chosen = scope.typing.type(exp.Case(ifs=branches))
        nullable = any(scope.typing.type(scope.resolve(part)).nullable for part in parts)
        items.append(binding.item(f"col{at}", replace(chosen, nullable=nullable)))
        fields.append(Field(tree.alias, f"col{at}", items[-1].column))
    node = Project(Constant(number, tuple(range(len(rows)))), tuple(items))
    return renamed(binding, Relation(node, tuple(fields)), tree)


def _scan(binding: Binding, tree: exp.Table, name: str) -> Relation:
    table = binding.find_table(tree, name)
    if table is None:
        raise binding.fail(
            UnknownTable, tree, f"there is no table {name}",
            "create it first, or check the spelling and the database",
        )  # fmt: skip
    if table.unseen:
        raise binding.fail(
            Unsupported, tree, f"changes of {name} would not be seen: it {table.unseen}",
            "read another table, into which you copy its rows",
        )  # fmt: skip
    if not table.columns:
        raise binding.fail(
            Unsupported, tree, f"table {name} has no column of a type that viewkeep has",
            "add a column to it, or read another table",
        )  # fmt: skip
    alias = tree.alias or tree.name
    fields = []
    for c in table.columns:
        nullable = c.nullable and c.name not in table.key
        fields.append((Column(binding.fresh(f"{alias}_{c.name}"), c.type, nullable), c.name))
    by_base = {base: c.name for c, base in fields}
    if table.key:
        scan = Scan(table.name, alias, tuple(fields), tuple(by_base[k] for k in table.key))
    else:
        scan = bag_scan(table.name, alias, tuple(fields), binding.fresh)
    binding.refused[alias.lower()] = table.refused
    return Relation(scan, tuple(Field(alias, base, c) for c, base in fields))
