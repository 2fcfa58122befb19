"""What the expressions of a SELECT stand on: the rows of FROM, or, under GROUP BY, groups of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from viewkeep.algebra.expressions import Expr
from viewkeep.algebra.nodes import Column, Node
from viewkeep.frontend.scope import Scope
from viewkeep.frontend.typed import Typed


class Stage(Protocol):
    """Rows, or groups: subqueries and window functions are the same over both."""

    def finish(self, tree: Expr) -> Typed:
        """An expression as the user wrote it, over the columns that there are here."""

    def rewrite(self, resolved: Expr) -> Expr:
        """An expression over columns of FROM, over what they are called here."""

    def add(self, made: Column) -> Expr:
        """One more column, which a join or a window brings; a reference to it."""

    def build(self) -> Node:
        """The plan. What `finish` was asked for is in it."""


@dataclass(frozen=True)
class Rows:
    """The rows of FROM, as WHERE left them."""

    node: Node
    scope: Scope

    def finish(self, tree: Expr) -> Typed:
        return self.scope.own(self.scope.typing.type(self.scope.resolve(tree)))

    def rewrite(self, resolved: Expr) -> Expr:
        return resolved

    def add(self, made: Column) -> Expr:
        return self.scope.add(made)

    def build(self) -> Node:
        return self.node
