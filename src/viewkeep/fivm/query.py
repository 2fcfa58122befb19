"""What a ring view computes: a sum over a natural join, grouped by its free variables.

    SELECT X1, ..., Xf, SUM(g(Xf+1) * ... * g(Xm))
    FROM R1 NATURAL JOIN ... NATURAL JOIN Rn GROUP BY X1, ..., Xf

The sum and the product are those of a ring (rings.py); each bound variable has a lifting function g into it.
Paper: F-IVM, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeep.errors import Unsupported


@dataclass(frozen=True)
class Relation:
    """A relation as it occurs in a query: its variables, and the table whose changes are its changes. A table
    that is joined with itself has one relation for each occurrence. `columns` are the table's, one for each
    variable, where they have other names."""

    name: str
    schema: tuple[str, ...]
    table: str = ""
    columns: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The table that it shows."""
        return self.table or self.name

    def column(self, variable: str) -> str:
        """The table's column that a variable stands for."""
        return dict(zip(self.schema, self.columns or self.schema, strict=True))[variable]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(self.schema)}]"


@dataclass(frozen=True)
class Query:
    """A natural join of relations, with the variables that are kept."""

    relations: tuple[Relation, ...]
    free: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.relations:
            raise Unsupported("a ring view joins at least one relation", hint="name the relations it reads")
        names = [relation.name for relation in self.relations]
        for name in names:
            if names.count(name) > 1:
                raise Unsupported(
                    f"two relations are named {name}",
                    hint="give each occurrence of a table a name of its own, and say which table it shows",
                )
        for relation in self.relations:
            if len(set(relation.schema)) != len(relation.schema):
                raise Unsupported(f"{relation} names a variable twice", hint="rename one, and filter rows")
            if relation.columns and len(relation.columns) != len(relation.schema):
                raise Unsupported(f"{relation} has another number of columns", hint="name one a variable")
        for variable in self.free:
            if variable not in self.variables:
                raise Unsupported(
                    f"no relation has the free variable {variable}",
                    hint=f"there are: {', '.join(self.variables)}",
                )

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in the order in which relations name them."""
        return tuple(dict.fromkeys(v for relation in self.relations for v in relation.schema))

    @property
    def bound(self) -> tuple[str, ...]:
        """The variables that are summed away."""
        return tuple(v for v in self.variables if v not in self.free)

    def relation(self, name: str) -> Relation:
        """The relation of a name."""
        for relation in self.relations:
            if relation.name == name:
                return relation
        raise Unsupported(
            f"the query has no relation {name}",
            hint=f"there are: {', '.join(relation.name for relation in self.relations)}",
        )

    def of_table(self, table: str) -> tuple[Relation, ...]:
        """The relations that show a table: an update of it is an update of each of them, one after the
        other."""
        found = tuple(relation for relation in self.relations if relation.source == table)
        if not found:
            known = dict.fromkeys(relation.source for relation in self.relations)
            raise Unsupported(f"the query does not read {table}", hint=f"it reads: {', '.join(known)}")
        return found
