"""What the parts of the binder share while one query is bound: its text, its tables, the names taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.cofactors import Cofactor
from viewkeep.algebra.expressions import Expr, columns_of
from viewkeep.algebra.nodes import Column, Item
from viewkeep.catalog.models import Table
from viewkeep.errors import Place, ViewkeepError
from viewkeep.frontend.scope import Relation, Scope
from viewkeep.frontend.statements import place_at, place_of, tokenize
from viewkeep.frontend.typed import Typed

Ctes = Mapping[str, Callable[[], Relation]]
Output = tuple[Expr, str]
"""An entry of the SELECT list, and what it is called."""
# engines tell where a stored row is by a column of such a name, which a column of a view would hide
_ENGINES_OWN = frozenset({"rowid", "ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"})


@dataclass(frozen=True)
class Inner:
    """A bound subquery. `terms` are the conditions that look outside; they speak of columns of the relation
    and of the outer query. `one_row`: there is always exactly one row for each value of the outer columns
    that it is correlated by, or would be: `if_empty` has its values where the group is missing, None for
    NULL. `cofactors`: the matrices of its SELECT list, and `keys` the outputs that tell its groups apart."""

    relation: Relation
    terms: tuple[Expr, ...]
    one_row: bool = False
    if_empty: tuple[Expr | None, ...] = ()
    cofactors: tuple[Cofactor, ...] = ()
    keys: tuple[str, ...] = ()

    def pairs(self) -> list[tuple[str, Expr, type[Expr]]] | None:
        """The terms as columns of the relation, what each must equal, and by which equality. None where a
        term is anything else."""
        own = frozenset(self.relation.node.names)
        found = [equality(term, own) for term in self.terms]
        return [pair for pair in found if pair is not None] if all(found) else None


def equality(term: Expr, own: frozenset[str]) -> tuple[str, Expr, type[Expr]] | None:
    """A term that equates an own column with something outside, as (column, that, EQ or NullSafeEQ)."""
    if not isinstance(term, (exp.EQ, exp.NullSafeEQ)):
        return None
    for mine, other in ((term.this, term.expression), (term.expression, term.this)):
        bare = mine.unnest()
        if isinstance(bare, exp.Column) and bare.name in own and not columns_of(other) & own:
            return bare.name, other, type(term)
    return None


class Binding:
    """The binding of one statement. `bind` binds any query in it; see binder.py."""

    def __init__(
        self,
        find_table: Callable[[str], Table | None],
        text: str,
        start: int,
        bind: Callable[[Binding, Expr, Ctes, Scope | None, bool], Inner],
    ) -> None:
        self._find_table = find_table
        self._text = text
        self._start = start
        self._bind = bind
        self._taken: set[str] = set(_ENGINES_OWN)
        self.refused: dict[str, Mapping[str, str]] = {}
        """For each alias the columns that are there, but of a type that views cannot have."""
        self.tells_null_from_false = False
        self.by_plan_only = False

    def query(self, tree: Expr, ctes: Ctes) -> Relation:
        """A query that looks at nothing outside itself."""
        return self._bind(self, tree, ctes, None, False).relation

    def subquery(self, tree: Expr, ctes: Ctes, outer: Scope, by_value: bool = False) -> Inner:
        """A query that may look at the one around it. `by_value`: its terms must be equalities."""
        inner = self._bind(self, tree, ctes, outer, False)
        if by_value and inner.pairs() is None:
            inner = self._bind(self, tree, ctes, outer, True)
        return inner

    def scope(self, relation: Relation, outer: Scope | None = None) -> Scope:
        """The names that a relation offers."""
        return Scope(relation, self.fail, self.refused, outer)

    def find_table(self, tree: exp.Table, name: str) -> Table | None:
        """The base table of that name; what goes wrong has the place of the name."""
        try:
            return self._find_table(name)
        except ViewkeepError as problem:
            problem.place = problem.place or place_of(tree, self._text, self._start)
            raise

    # --- errors ---

    def fail(self, kind: type[ViewkeepError], node: Expr, message: str, hint: str) -> ViewkeepError:
        """An error at a node's place; a node without one borrows its nearest ancestor's."""
        at = node
        while (place := place_of(at, self._text, self._start)) is None and at.parent is not None:
            at = at.parent
        return kind(message, hint=hint, place=place)

    def keyword(self, word: str, before: Place | None) -> Place | None:
        """Where a clause's keyword stands: sqlglot keeps places of names alone."""
        found = before
        for token in tokenize(self._text):
            place = place_at(self._text, token.start)
            if before is not None and (place.line, place.column) > (before.line, before.column):
                break
            if token.text.upper().split()[:1] == [word]:
                found = place
        return found

    def argument_counts(self, function: str) -> set[int]:
        """With how many arguments the statement calls a function; sqlglot drops what it has no place for."""
        tokens = [token.text.upper() for token in tokenize(self._text)]
        found = set()
        for at, word in enumerate(tokens[:-1]):
            if word == function.upper() and tokens[at + 1] == "(":
                depth, count = 0, 1
                for token in tokens[at + 1 :]:
                    depth += {"(": 1, ")": -1}.get(token, 0)
                    count += depth == 1 and token == ","
                    if depth == 0:
                        break
                found.add(count)
        return found

    # --- names ---

    def fresh(self, wanted: str) -> str:
        """A plan column name that is not taken yet; case does not tell names apart."""
        wanted = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted).strip("_") or "c"
        name, n = wanted, 1
        while name.lower() in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name.lower())
        return name

    def item(self, wanted: str, typed: Typed) -> Item:
        """A projection's output for a typed expression; a bare NULL is a string."""
        kind, expression = typed.type, typed.expression
        if typed.type == t.NULL:
            kind = t.STRING
            expression = exp.Cast(this=expression, to=kind.sql())
        return Item(Column(self.fresh(wanted), kind, typed.nullable), expression)
