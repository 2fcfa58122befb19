"""i-diffs (idIVM section 2): small relations that say which rows of a plan node change, by their IDs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from viewkeep.algebra.expressions import Expr, column, columns_of, pre_name, substitute
from viewkeep.algebra.nodes import Node

Kind = Literal["insert", "delete", "update"]


@dataclass(frozen=True)
class Diff:
    """A diff over a plan node, computed by `query`.

    insert   ids are all IDs of the node; every column is known. Each row is in the node after the change
             and was not before. The same row may come from two diffs.
    delete   no row with these ids exists after the change. Known columns hold what they held before.
    update   each row with these ids has, after the change, the known values; `pre:c` is what c was before.
             It answers for the columns in `changed`; other known columns may have changed too, and then
             another diff answers for them.

    `ids` may be a part of the node's IDs: one row then changes many. Known columns depend on `ids` alone.
    `exact`: every row of the diff matches some row; else the diff may overestimate.
    `rule` is the name of the rule that made it.
    """

    kind: Kind
    ids: tuple[str, ...]
    known: tuple[str, ...]
    query: Node
    changed: frozenset[str] = frozenset()
    exact: bool = True
    rule: str = ""

    def knows(self, names: Iterable[str]) -> bool:
        """Whether the diff carries all these columns."""
        return set(names) <= set(self.ids) | set(self.known)

    def post(self, expression: Expr) -> Expr:
        """The expression over the diff's values after the change."""
        return expression.copy()

    def pre(self, expression: Expr) -> Expr:
        """The expression over the diff's values before the change."""
        if self.kind != "update":
            return expression.copy()
        before = {name: column(pre_name(name)) for name in columns_of(expression) & set(self.known)}
        return substitute(expression, before)

    def schema(self) -> str:
        """What a person reads: update(pid; price_pre -> price)."""
        ids = ", ".join(self.ids)
        if self.kind == "insert":
            return f"insert({ids}; {', '.join(self.known)})" if self.known else f"insert({ids})"
        if self.kind == "delete":
            return f"delete({ids})"
        return f"update({ids}; {', '.join(n for n in self.known if n in self.changed)})"
