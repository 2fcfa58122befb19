"""CREATE TABLE and ALTER TABLE ... ADD PRIMARY KEY: what they say of a table."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.catalog.models import ForeignKey, Table, TableColumn
from viewkeep.errors import SyntaxProblem, TypeMismatch, UnknownColumn, Unsupported
from viewkeep.frontend.statements import place_of


def table_of(node: exp.Create, text: str, describe: Callable[[exp.Expr], tuple[TableColumn, ...]]) -> Table:
    """The table that CREATE TABLE defines. `describe`: the columns of a query, for CREATE TABLE ... AS."""
    schema = node.this
    target = schema.this if isinstance(schema, exp.Schema) else schema
    name = ".".join(part.name for part in target.parts)
    if any("." in part.name for part in target.parts):  # it would be taken for a schema and a name
        raise Unsupported(f"a table cannot be called {name}, with a point", hint="use another name")
    columns: list[TableColumn] = []
    key: tuple[str, ...] = ()
    foreign: list[ForeignKey] = []
    if not isinstance(schema, exp.Schema) and node.expression is not None:
        columns += describe(node.expression)
        for c in columns:
            if c.type.kind == "array":
                raise Unsupported(
                    f"column {c.name} has {c.type}, which viewkeep does not keep",
                    hint="CAST it to a type that tables can have, or leave it out",
                    place=place_of(node.expression, text),
                )
    for part in schema.expressions if isinstance(schema, exp.Schema) else ():
        if isinstance(part, exp.Constraint):
            part = part.expressions[0]
        if isinstance(part, exp.ColumnDef):
            made, is_key, reference = _column_def(part, text)
            columns.append(made)
            key = (made.name,) if is_key else key
            foreign += [reference] if reference else []
        elif isinstance(part, exp.PrimaryKey):
            key = tuple(e.name for e in part.expressions)
        elif isinstance(part, exp.ForeignKey):
            foreign.append(_foreign_key(part))
        else:
            raise Unsupported(
                f"{part.sql('spark')} cannot stand in CREATE TABLE",
                hint="columns, PRIMARY KEY and FOREIGN KEY can",
                place=place_of(part, text),
            )
    if not columns:
        raise SyntaxProblem("a table needs columns", hint="CREATE TABLE t (a INT, PRIMARY KEY (a))")
    by_lower = {c.name.lower(): c.name for c in columns}
    if len(by_lower) < len(columns):
        raise TypeMismatch("two columns have the same name", hint="name each column once")
    for k in key:
        if k.lower() not in by_lower:
            raise UnknownColumn(
                f"the key names {k}, which is no column", hint=f"columns: {', '.join(by_lower.values())}"
            )
    return Table(name, tuple(columns), tuple(by_lower[k.lower()] for k in key), tuple(foreign))


def added_key(node: exp.Alter) -> tuple[str, ...] | None:
    """The key that ALTER TABLE ... ADD PRIMARY KEY declares."""
    for action in node.args.get("actions") or []:
        if isinstance(action, exp.AddConstraint):
            for part in action.expressions:
                inner = part.expressions[0] if isinstance(part, exp.Constraint) else part
                if isinstance(inner, exp.PrimaryKey):
                    return tuple(e.name for e in inner.expressions)
    return None


def _column_def(part: exp.ColumnDef, text: str) -> tuple[TableColumn, bool, ForeignKey | None]:
    kind = t.from_sql(part.args["kind"]) if part.args.get("kind") else None
    if kind is None:
        shown = part.args["kind"].sql("spark") if part.args.get("kind") else "no type"
        raise Unsupported(
            f"column {part.name} has {shown}, which viewkeep does not keep",
            hint="use BOOLEAN, an integer type, DOUBLE, DECIMAL, STRING, DATE or TIMESTAMP",
            place=place_of(part, text),
        )
    nullable, is_key, reference = True, False, None
    for constraint in part.args.get("constraints") or []:
        rule = constraint.args["kind"]
        if isinstance(rule, exp.NotNullColumnConstraint):
            nullable = bool(rule.args.get("allow_null"))
        elif isinstance(rule, exp.PrimaryKeyColumnConstraint):
            is_key = True
        elif isinstance(rule, exp.Reference):
            table, columns = _referenced(rule)
            reference = ForeignKey((part.name,), table, columns)
        elif not isinstance(rule, exp.CommentColumnConstraint):  # which says nothing about rows
            raise Unsupported(
                f"{rule.sql('spark')} on a column is not supported",
                hint="NOT NULL, PRIMARY KEY and REFERENCES are",
                place=place_of(part, text),
            )
    return TableColumn(part.name, kind, nullable and not is_key), is_key, reference


def _foreign_key(part: exp.ForeignKey) -> ForeignKey:
    table, columns = _referenced(part.args["reference"])
    return ForeignKey(tuple(e.name for e in part.expressions), table, columns)


def _referenced(rule: exp.Reference) -> tuple[str, tuple[str, ...]]:
    target = rule.this
    if isinstance(target, exp.Schema):
        return target.this.name, tuple(e.name for e in target.expressions)
    return target.name, ()
