"""PIVOT, as one aggregate with a FILTER for each value:

    t PIVOT (SUM(x) FOR y IN ('a', 'b' AS c))
    ->  SELECT k, SUM(x) FILTER (WHERE y = 'a') AS a, SUM(x) FILTER (WHERE y = 'b') AS c FROM t GROUP BY k

where k are the columns of t that PIVOT does not name. A value that a group has no row with gives NULL, also
for a count: Spark looks for it among the counts of the values that are there.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr
from viewkeep.errors import Unsupported
from viewkeep.frontend.binding import Binding, Ctes
from viewkeep.frontend.scope import Field, Relation
from viewkeep.frontend.select_list import no_aggregate

_COUNTS = (exp.Count, exp.CountIf)
_AGGREGATES = (*_COUNTS, exp.Sum, exp.Avg, exp.Min, exp.Max)
_READ = {"expressions", "fields", "alias", "columns", "unpivot", "default_on_null"}
_HINT = "write one aggregate a column: SUM(x) FILTER (WHERE y = 'a') AS a"


def pivoted(binding: Binding, tree: Expr, ctes: Ctes, source: Callable[[Expr], Relation]) -> Relation:
    """A table or derived table with PIVOT behind it. `source` binds it without."""
    plain = tree.copy()
    (pivot, *more) = tree.args["pivots"]
    plain.set("pivots", None)
    marks = {key for key, value in pivot.args.items() if value and isinstance(value, (exp.Expr, list, bool))}
    if (
        more
        or tree.args.get("joins")
        or pivot.args.get("unpivot")
        or len(pivot.args.get("fields") or []) != 1
    ):
        raise binding.fail(Unsupported, pivot, "this form of PIVOT is not supported", _HINT)
    if marks - _READ - {"identify_pivot_strings", "prefixed_pivot_columns"}:
        raise binding.fail(Unsupported, pivot, "this form of PIVOT is not supported", _HINT)
    relation = source(plain)
    by = pivot.args["fields"][0]
    plainly = isinstance(by, exp.In) and isinstance(by.this, exp.Column) and len(by.this.parts) == 1
    if not plainly or not by.expressions:
        raise binding.fail(Unsupported, pivot, "PIVOT is by one column, and by values that are listed", _HINT)
    chosen = binding.scope(relation).find(None, by.this.name, by.this)
    columns: list[Expr] = []
    for value in by.expressions:
        name, literal = _value(binding, value, chosen)
        for aggregate in pivot.expressions:
            columns.append(_column(binding, aggregate, by.this, name, literal, len(pivot.expressions) > 1))
    named = {c.name.lower() for part in (*pivot.expressions, by.this) for c in part.find_all(exp.Column)}
    groups = [exp.column(f.name, quoted=True) for f in relation.starred() if f.name.lower() not in named]
    query = exp.select(*(g.copy() for g in groups), *columns, copy=False).from_(plain, copy=False)
    if groups:
        query.group_by(*groups, copy=False)
    binding.by_plan_only = True  # not every engine takes the text
    made = binding.query(query, ctes)
    alias = pivot.args.get("alias")
    fields = (Field(alias.name if alias else "", f.name, f.column) for f in made.fields)
    return Relation(made.node, tuple(fields))


def _value(binding: Binding, value: Expr, by: Field) -> tuple[str, Expr]:
    """What the columns of a value are called, and the value."""
    name = value.args["alias"].name if isinstance(value, exp.PivotAlias) else ""
    literal = value.this if isinstance(value, exp.PivotAlias) else value
    bare = literal.this if isinstance(literal, exp.Neg) else literal
    if isinstance(bare, exp.Boolean):
        fits, text = by.column.type == t.BOOLEAN, str(bare.this).lower()
    elif isinstance(bare, exp.Literal) and bare.is_string:
        fits, text = by.column.type == t.STRING and bare is literal, bare.name
    else:
        fits = by.column.type.is_integer and isinstance(bare, exp.Literal) and bare.name.isdigit()
        text = f"{'-' if bare is not literal else ''}{bare.name}"
    if not fits or not (name or text):
        raise binding.fail(
            Unsupported, value, f"PIVOT by {by.name} needs literal values of its type, {by.column.type}",
            "PIVOT (SUM(x) FOR y IN ('a', 'b')): strings, integers or booleans",
        )  # fmt: skip
    return name or text, literal


def _column(binding: Binding, written: Expr, by: exp.Column, name: str, value: Expr, several: bool) -> Expr:
    aggregate = written.unalias()
    if not isinstance(aggregate, _AGGREGATES):
        raise binding.fail(Unsupported, written, "PIVOT of this is not supported", _HINT)
    for part in aggregate.iter_expressions():
        no_aggregate(binding, part, "an aggregate")
    if several and not written.alias:
        raise binding.fail(
            Unsupported, written, "of several aggregates in PIVOT each needs a name", "SUM(x) AS total"
        )
    same = exp.Where(this=exp.EQ(this=by.copy(), expression=value.copy()))
    made: Expr = exp.Filter(this=aggregate.copy(), expression=same)
    if isinstance(aggregate, _COUNTS):
        rows = exp.Filter(this=exp.Count(this=exp.Star()), expression=same.copy())
        some = exp.GT(this=rows, expression=exp.Literal.number(0))
        made = exp.Case(ifs=[exp.If(this=some, true=made)])
    return exp.alias_(made, f"{name}_{written.alias}" if several else name, quoted=True)
