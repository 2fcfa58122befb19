"""Names in a query: what a FROM clause offers, and what a column name means in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, column, columns_of
from viewkeep.algebra.nodes import Column, Node
from viewkeep.algebra.types import Type, decimal
from viewkeep.errors import AmbiguousColumn, UnknownColumn, Unsupported, ViewkeepError
from viewkeep.frontend.typed import Typed
from viewkeep.frontend.typing import Typing

# makes an error at a syntax node's place: class, node, message, hint
Fail = Callable[[type[ViewkeepError], Expr, str, str], ViewkeepError]
# binds what a scope offers a second time: the plan, and what each column of the first is called in it
Again = Callable[[], tuple[Node, Mapping[str, str]]]


class NeedsDomain(Exception):
    """A subquery depends on the outer row by more than what a join can take over; see domain.py."""


@dataclass(frozen=True)
class Field:
    """A column that a FROM clause offers under a qualifier. Merged away by USING: only by qualifier."""

    qualifier: str
    name: str
    column: Column
    merged: bool = False


@dataclass(frozen=True)
class Relation:
    """A bound FROM item or query: a plan, and the names by which its columns can be called."""

    node: Node
    fields: tuple[Field, ...]
    first: tuple[str, ...] = ()  # plan columns that SELECT * shows before all others

    def starred(self) -> list[Field]:
        """What SELECT * shows: columns shared by USING or NATURAL come first, and once."""
        own = [f for f in self.fields if not f.merged]
        return [f for name in self.first for f in own if f.column.name == name] + [
            f for f in own if f.column.name not in self.first
        ]


class PlanTyping(Typing):
    """Types what we put into expressions too: the one function that SQL text cannot call."""

    def type(self, node: Expr) -> Typed:
        if isinstance(node, exp.Anonymous) and node.meta_get("made") and "typed" not in node.meta:
            precision, scale = (int(e.name) for e in node.expressions[2:4])
            return Typed(node, decimal(precision, scale), True)
        return super().type(node)


class Scope:
    """Resolves column names against the fields of a relation."""

    def __init__(
        self,
        relation: Relation,
        fail: Fail,
        refused: Mapping[str, Mapping[str, str]],
        outer: Scope | None = None,
    ) -> None:
        """`refused`: for each alias the columns that are there, but of a type that views cannot have.
        `outer`: the scope of the query around this one, whose columns can be named here too."""
        self._fail = fail
        self._refused = refused
        self._fields = relation.fields
        self._outer = outer
        self.again: Again | None = None
        self._columns = {f.column.name: f.column for f in relation.fields}
        self.typing = PlanTyping(self._type_of, fail)

    def _type_of(self, name: str) -> tuple[Type, bool]:
        if name not in self._columns and self._outer is not None:
            return self._outer._type_of(name)
        return self._columns[name].type, self._columns[name].nullable

    def add(self, made: Column) -> exp.Column:
        """One more column, that no text can name; a reference to it that stands in an expression."""
        self._columns[made.name] = made
        return bound(made.name)

    def is_outer(self, name: str) -> bool:
        """Whether a plan column belongs to the query around this one."""
        return name not in self._columns

    def own(self, typed: Typed) -> Typed:
        """The expression, if it looks at nothing outside."""
        if any(self.is_outer(name) for name in columns_of(typed.expression)):
            raise NeedsDomain
        return typed

    def has(self, name: str) -> bool:
        return any(f.name.lower() == name.lower() for f in self._fields)

    def find(self, qualifier: str | None, name: str, node: Expr) -> Field:
        """The one field of that name, or an error that says what there is."""
        matches = [
            f
            for f in self._fields
            if f.name.lower() == name.lower()
            and (f.qualifier.lower() == qualifier.lower() if qualifier else not f.merged)
        ]
        if len(matches) == 1:
            return matches[0]
        called = f"{qualifier}.{name}" if qualifier else name
        if not matches and self._outer is not None and self._outer.knows(qualifier, name):
            return self._outer.find(qualifier, name, node)
        if matches:
            owners = ", ".join(f"{f.qualifier}.{f.name}" for f in matches)
            raise self._fail(
                AmbiguousColumn, node, f"{called} could be {owners}", "write which: alias.column"
            )
        for columns in self._refused.values():
            for refused_name, type_name in columns.items():
                if refused_name.lower() == name.lower():
                    raise self._fail(
                        Unsupported, node, f"column {called} has type {type_name}",
                        "a view can use BOOLEAN, integers, DOUBLE, DECIMAL, STRING, DATE, TIMESTAMP",
                    )  # fmt: skip
        offered = ", ".join(dict.fromkeys(f.name for f in self._fields))
        raise self._fail(UnknownColumn, node, f"there is no column {called}", f"there are: {offered}")

    def offers(self, qualifier: str | None, name: str) -> bool:
        """Whether a name means something here."""
        return any(
            f.name.lower() == name.lower() and (not qualifier or f.qualifier.lower() == qualifier.lower())
            for f in self._fields
        )

    def knows(self, qualifier: str | None, name: str) -> bool:
        """Whether a name means something here, or around here."""
        outside = self._outer is not None and self._outer.knows(qualifier, name)
        return self.offers(qualifier, name) or outside

    def resolve(self, tree: Expr) -> Expr:
        """The expression over plan columns."""

        def swap(node: Expr) -> Expr:
            if isinstance(node, exp.Column) and not node.meta_get("bound"):
                if isinstance(node.this, exp.Star):
                    raise self._fail(Unsupported, node, "* stands alone in a SELECT list", "name a column")
                if len(node.parts) > 2:
                    raise self._fail(
                        Unsupported, node, f"{node.sql('spark')} has too many parts",
                        "write alias.column",
                    )  # fmt: skip
                field = self.find(node.table or None, node.name, node)
                made = column(field.column.name)
                made.meta.update(node.this.meta)
                made.meta["written"] = node
                return made
            return node

        return tree.transform(swap)  # of a copy


def bound(name: str) -> exp.Column:
    """A plan column in an expression that is not resolved yet."""
    made = column(name)
    made.meta["bound"] = True
    return made
