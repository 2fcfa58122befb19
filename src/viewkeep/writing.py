"""INSERT, UPDATE, DELETE and MERGE of the user's own, in words that write what they would write on Spark.

    UPDATE t SET n = n / 2      ->  n = half of it with the fraction cut off, where n is an integer

A query that is inserted is taken by its plan, as one that is read is: see reading.py. Of other statements
each expression is bound by itself, over the columns that it may look at. What cannot be bound, as an
expression with a subquery in it, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, columns_of, conjunction, conjuncts, substitute
from viewkeep.algebra.types import Type
from viewkeep.catalog.models import Table
from viewkeep.errors import ViewkeepError
from viewkeep.frontend.binder import bind
from viewkeep.frontend.expressions.casts import cast_to
from viewkeep.frontend.typed import Typed
from viewkeep.reading import Reading, may_differ

Read = Callable[[exp.Query], Reading | None]
FindTable = Callable[[str], Table | None]


@dataclass(frozen=True)
class Writer:
    """How statements are read: tables by name, queries by their plan, and the engine's form of that."""

    find_table: FindTable
    read: Read
    query: Callable[[Reading, Sequence[Type | None]], exp.Query]

    def meant(self, tree: Expr, table: Table) -> Expr:
        """The statement, which changes this table."""
        if isinstance(tree, exp.Insert) and isinstance(tree.expression, exp.Values):
            cells = (cell for row in tree.expression.expressions for cell in row.iter_expressions())
            if all(map(_is_plain, cells)):  # there may be many
                return tree
        made = tree.copy()
        if isinstance(made, exp.Insert):
            self._insert(made, table)
        elif isinstance(made, exp.Merge):
            self._merge(made, table)
        elif isinstance(made, (exp.Update, exp.Delete)) and isinstance(made.this, exp.Table):
            columns = _Columns(self.find_table, (made.this,))
            if where := made.args.get("where"):
                where.set("this", columns.condition(where.this))
            if isinstance(made, exp.Update):
                _assign(made, columns, table)
        return made

    def _insert(self, tree: exp.Insert, table: Table) -> None:
        listed = [e.name for e in tree.this.expressions] if isinstance(tree.this, exp.Schema) else None
        kinds = _kinds(table, listed)
        source = tree.expression
        if isinstance(source, exp.Values):
            columns = _Columns(self.find_table, ())
            for row in source.expressions:
                if isinstance(row, exp.Tuple):
                    row.set("expressions", columns.values(row.expressions, kinds))
        elif isinstance(source, exp.Query):
            if tree.args.get("with_") and not source.args.get("with_"):
                source.set("with_", tree.args.pop("with_"))
            tree.set("expression", self._rows(source, table if tree.args.get("by_name") else kinds))

    def _rows(self, source: exp.Query, target: Table | Sequence[Type | None]) -> exp.Query:
        found = self.read(source)
        if found is None:
            return source
        if isinstance(target, Table):
            target = [_kind(target, name) for name in found.bound.names]
        casts = [
            kind if kind is not None and _loses_a_fraction(c.type, kind) else None
            for c, kind in zip(found.plan.columns, target, strict=False)
        ]
        return self.query(found, casts) if any(casts) or may_differ(source) else source

    def _merge(self, tree: exp.Merge, table: Table) -> None:
        using = tree.args["using"]
        if isinstance(using, exp.Subquery) and isinstance(using.this, exp.Query) and may_differ(using.this):
            using.set("this", self._rows(using.this, ()))
        columns = _Columns(self.find_table, (tree.this, using))
        tree.set("on", columns.condition(tree.args["on"]))
        for when in tree.args["whens"].expressions:
            if when.args.get("condition"):
                when.set("condition", columns.condition(when.args["condition"]))
            then = when.args["then"]
            if isinstance(then, exp.Update):
                _assign(then, columns, table)
            elif isinstance(then, exp.Insert) and isinstance(then.expression, exp.Tuple):
                listed = [c.name for c in then.this.expressions] if then.this is not None else None
                kinds = _kinds(table, listed)
                then.expression.set("expressions", columns.values(then.expression.expressions, kinds))


class _Columns:
    """The columns that an expression may look at: those of the target, and of a MERGE's source."""

    def __init__(self, find_table: FindTable, sources: Sequence[Expr]) -> None:
        self._find = find_table
        self._sources = sources

    def condition(self, tree: Expr) -> Expr:
        """A condition, term by term: one that cannot be bound does not keep the others from it."""
        if not may_differ(tree):
            return tree
        return conjunction(self._meant(term, None) for term in conjuncts(tree)) or tree

    def values(self, trees: Sequence[Expr], kinds: Sequence[Type | None]) -> list[Expr]:
        """Values for columns of these types."""
        known = [*kinds, *[None] * (len(trees) - len(kinds))]
        return [self._meant(tree, kind) for tree, kind in zip(trees, known, strict=False)]

    def _meant(self, tree: Expr, kind: Type | None) -> Expr:
        differs = not _is_plain(tree) and may_differ(tree)
        if not differs and (_is_plain(tree) or kind is None or not kind.is_integer):
            return tree
        try:
            typed, named = self._bound(tree)
        except ViewkeepError:
            return tree
        if not columns_of(typed.expression) <= named.keys():  # it is joined with a subquery
            return tree
        if kind is not None and _loses_a_fraction(typed.type, kind):
            return substitute(cast_to(typed, kind), named)
        return exp.Paren(this=substitute(typed.expression, named)) if differs else tree

    def _bound(self, tree: Expr) -> tuple[Typed, Mapping[str, Expr]]:
        """The expression over plan columns, and how the user wrote these."""
        written = list(dict.fromkeys(tree.find_all(exp.Column)))
        shown = (exp.alias_(c.copy(), f"c{n}") for n, c in enumerate(written))
        query = exp.select(exp.alias_(tree.copy(), "value"), *shown)
        for n, source in enumerate(self._sources):
            query = query.join(source.copy(), join_type="CROSS") if n else query.from_(source.copy())
        plan = bind(query, self._find, "", needs_table=False).plan
        value, *others = plan.items[: len(written) + 1]
        named = {item.expression.name: c for item, c in zip(others, written, strict=True)}
        return Typed(value.expression, value.column.type, value.column.nullable), named


def _assign(tree: exp.Update, columns: _Columns, table: Table) -> None:
    """SET of an UPDATE: x = ..., where SQL has t.x = ... as well, and values for the columns' types."""
    for assignment in tree.expressions:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            continue
        name = assignment.this.this
        assignment.set("this", exp.Column(this=name.copy()))
        (value,) = columns.values([assignment.expression], [_kind(table, name.name)])
        assignment.set("expression", value)


def _is_plain(tree: Expr) -> bool:
    """Whether a value is a literal that every engine stores as it is."""
    bare = tree.this if isinstance(tree, exp.Neg) else tree
    if isinstance(bare, exp.Literal):
        return bare.is_string or bare.is_int
    return isinstance(bare, (exp.Null, exp.Boolean))


def _kinds(table: Table, listed: Sequence[str] | None) -> list[Type | None]:
    """The types of the columns that values are given for: those that the statement lists, or all. Not known
    where all are meant and some have types of which viewkeep knows nothing."""
    if listed is None and table.refused:
        return []
    return [_kind(table, name) for name in listed or [c.name for c in table.columns]]


def _kind(table: Table, name: str) -> Type | None:
    column = table.column(name)
    return column.type if column is not None else None


def _loses_a_fraction(given: Type, kind: Type) -> bool:
    """Whether a value is cut to a whole number when it is stored: engines round it instead."""
    return kind.is_integer and given.is_numeric and not given.is_integer
