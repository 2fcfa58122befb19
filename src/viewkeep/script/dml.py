"""Applying diffs as SQL DML (idIVM section 2, APPLY), as syntax trees."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, conjunction
from viewkeep.algebra.nodes import Node
from viewkeep.algebra.script_nodes import ROW
from viewkeep.idiff.changes import KIND

_TARGET, _DIFF = "v", "d"


def matched_by_ids(node: Node, ids: Sequence[str]) -> Expr:
    """v.ids = d.ids, null-safe where an ID may be null: one diff row may stand for many rows."""
    terms: list[Expr] = []
    for i in ids:
        kind = exp.NullSafeEQ if node.by_name[i].nullable else exp.EQ
        terms.append(kind(this=_of(_TARGET, i), expression=_of(_DIFF, i)))
    return conjunction(terms) or exp.true()


def matched_by_row(row: str, kind: str) -> Expr:
    """The rows that a change relation has found before, and of one kind of change."""
    return exp.And(this=exp.EQ(this=_of(_TARGET, row), expression=_of(_DIFF, ROW)), expression=_is(kind))


def update(target: Expr, diff: Expr, matched: Expr, changed: Sequence[str]) -> exp.Update:
    """UPDATE v SET c = d.c FROM diff AS d WHERE matched."""
    sets = [exp.EQ(this=_bare(c), expression=_of(_DIFF, c)) for c in changed]
    return exp.Update(
        this=_aliased(target, _TARGET),
        expressions=sets,
        from_=exp.From(this=_aliased(diff, _DIFF)),
        where=exp.Where(this=matched),
    )


def delete(target: Expr, diff: Expr, matched: Expr) -> exp.Delete:
    """DELETE FROM v USING diff AS d WHERE matched."""
    return exp.Delete(
        this=_aliased(target, _TARGET),
        using=[_aliased(diff, _DIFF)],
        where=exp.Where(this=matched),
    )


def insert(target: Expr, diff: Expr, columns: Sequence[str], among_changes: bool = False) -> exp.Insert:
    """INSERT INTO v SELECT ... FROM diff: insert diffs are exact, so no row is there yet."""
    rows = exp.select(*(_bare(c) for c in columns)).from_(_aliased(diff, _DIFF))
    if among_changes:
        rows = rows.where(_is("insert"))
    return exp.Insert(
        this=exp.Schema(this=target.copy(), expressions=[_identifier(c) for c in columns]),
        expression=rows,
    )


def _is(kind: str) -> Expr:
    return exp.EQ(this=_of(_DIFF, KIND), expression=exp.Literal.string(kind))


def _aliased(relation: Expr, alias: str) -> Expr:
    made = relation.copy()
    made.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return made


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _bare(name: str) -> exp.Column:
    return exp.Column(this=_identifier(name))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=_identifier(name), table=exp.to_identifier(alias))
