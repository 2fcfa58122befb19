"""Spark's shorthands in MERGE, written out for databases that lack them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def expanded(tree: exp.Merge, names: Sequence[str]) -> exp.Merge:
    """UPDATE SET * and INSERT *, Delta's shorthands, with all columns of the target written out."""
    made = tree.copy()
    source = made.args["using"].alias or made.args["using"].name
    for when in made.args["whens"].expressions:
        then = when.args["then"]
        if isinstance(then, exp.Update) and any(isinstance(e, exp.Star) for e in then.expressions):
            sets = [exp.EQ(this=_column(n), expression=_column(n, source)) for n in names]
            when.set("then", exp.Update(expressions=sets))
        elif isinstance(then, exp.Insert) and isinstance(then.this, exp.Star):
            columns = exp.Tuple(expressions=[_column(n) for n in names])
            values = exp.Tuple(expressions=[_column(n, source) for n in names])
            when.set("then", exp.Insert(this=columns, expression=values))
        elif isinstance(then, exp.Update):
            for assignment in then.expressions:  # SET x = ..., not SET t.x = ...
                if isinstance(assignment.this, exp.Column):
                    assignment.set("this", exp.Column(this=assignment.this.this.copy()))
    return made


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.Column(
        this=exp.to_identifier(name, quoted=True),
        table=exp.to_identifier(table, quoted=True) if table else None,
    )
