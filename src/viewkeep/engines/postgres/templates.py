"""PostgreSQL's SQL over a, b, c, which stand for the arguments; it is read once, and syntax trees are put in
their places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import sqlglot
from sqlglot import exp

from viewkeep.algebra.expressions import substitute

Expr = exp.Expr


@cache
def _template(text: str) -> Expr:
    made = sqlglot.parse_one(text, dialect="postgres")
    for part in made.find_all(exp.Bracket):
        if any(index.find(exp.Column) for index in part.expressions):
            part.set("offset", 1)  # sqlglot would move a position that is written out by one
    return made


def filled(text: str, arguments: Sequence[Expr]) -> Expr:
    """The template over these arguments."""
    made = substitute(_template(text), dict(zip("abcdef", arguments, strict=False)))
    return exp.Paren(this=made) if isinstance(made, (exp.Binary, exp.Unary)) else made
