"""What earlier refreshes did, from the logs of the views' own tables: for the chooser, and for SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from viewkeep.catalog.models import View
from viewkeep.chooser import Past
from viewkeep.results import Refresh, Row
from viewkeep.store import delta


class History:
    """The history of the views of a session, and what of it was read already."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._past: dict[str, list[Past]] = {}

    def rows(self, views: Iterable[View]) -> tuple[Row, ...]:
        """Every refresh that was committed, oldest first."""
        found = [row for view in views for row in delta.refreshes(self._session, view.name)]
        return tuple(sorted(found, key=lambda row: row[1]))

    def past(self, view: View) -> Sequence[Past]:
        """What the chooser asks for. Refreshes by others since it was first read are left out."""
        if view.name not in self._past:
            found = (dict(zip(delta.HISTORY, row, strict=True)) for row in self.rows([view]))
            self._past[view.name] = [
                Past(r["strategy"], r["changes_in"], r["seconds"], r["statements"]) for r in found
            ]
        return self._past[view.name]

    def note(self, done: Refresh) -> None:
        """A refresh of this session's own."""
        if done.view in self._past and done.strategy != "none":
            self._past[done.view].append(Past(done.strategy, done.changes_in, done.seconds, done.statements))

    def forget(self, view: View) -> None:
        """The view is dropped."""
        self._past.pop(view.name, None)


def reads_history(tree: exp.Expr) -> bool:
    """Whether a query names viewkeep.history."""
    return any(_is_history(table) for table in tree.find_all(exp.Table))


def with_history(tree: exp.Expr, rows: Sequence[Row]) -> exp.Expr:
    """A query in which viewkeep.history is replaced by its rows: no table holds them."""
    names = [exp.to_identifier(name) for name in delta.HISTORY]
    values = [exp.Tuple(expressions=[exp.convert(v) for v in row]) for row in rows or [(None,) * len(names)]]
    typed = [exp.alias_(exp.cast(exp.column(name), kind), name) for name, kind in delta.HISTORY.items()]
    told = exp.TableAlias(this=exp.to_identifier("told"), columns=names)
    query = exp.select(*typed).from_(exp.Values(expressions=values, alias=told))
    query = query.where(exp.column("view").is_(exp.null()).not_())

    def swap(node: exp.Expr) -> exp.Expr:
        if not _is_history(node):
            return node
        alias = exp.to_identifier(node.alias or "history")
        return exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=alias))

    return tree.copy().transform(swap)


def _is_history(node: exp.Expr) -> bool:
    return isinstance(node, exp.Table) and (node.db.lower(), node.name.lower()) == (delta.DATABASE, "history")
