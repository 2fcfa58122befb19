"""GROUP BY: its keys, GROUPING SETS, and the SELECT list over groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, columns_of, over_parts, substitute
from viewkeep.algebra.nodes import Aggregate, Column, Constant, Join, Node, Project
from viewkeep.errors import Unsupported, ViewkeepError
from viewkeep.frontend.aggregates import AGGREGATES, COLLECTED, COUNTS, Aggregates, aggregates_in
from viewkeep.frontend.binding import Binding, Output
from viewkeep.frontend.ordering import output_at
from viewkeep.frontend.scope import NeedsDomain, PlanTyping, Scope, bound
from viewkeep.frontend.select_list import no_aggregate, no_array
from viewkeep.frontend.typed import Typed, said
from viewkeep.frontend.typing import SUBQUERIES


def bind_grouping(
    binding: Binding, group: exp.Group | None, node: Node, scope: Scope, outputs: Sequence[Output]
) -> Grouping:
    """The groups of a SELECT that has GROUP BY or aggregates: without GROUP BY all rows are one."""
    grouping = Grouping(binding, scope, node)
    entries, sets = _entries(binding, group, outputs, scope)
    if sets is not None:
        grouping.sets(entries, sets)
    else:
        for entry in entries:
            grouping.key(entry)
    return grouping


class Grouping:
    """Collects the keys and measures of one GROUP BY, and rewrites expressions over them. A stage: see
    stages.py."""

    def __init__(self, binding: Binding, scope: Scope, node: Node) -> None:
        self._binding = binding
        self._scope = scope
        self._node = node
        self._aggregates = Aggregates(binding, scope)
        self._keys: dict[Expr, Column] = {}
        self._others: dict[str, Column] = {}
        self._entries: list[Expr] = []
        self._set_of: tuple[str, list[list[int]]] = ("", [])

    # --- keys ---

    def key(self, entry: Expr) -> None:
        """A grouping expression."""
        resolved = self._scope.resolve(entry)
        if resolved not in self._keys:
            typed = self._scope.typing.type(resolved)
            no_array(self._binding, entry, typed.type)
            self._keys[resolved] = self._aggregates.input(typed, entry.name or "key")

    def own_key(self, tree: Expr) -> Expr:
        """A grouping expression over plan columns, that the SELECT list does not name; the key."""
        if tree not in self._keys:
            self._keys[tree] = self._aggregates.input(self._scope.typing.type(tree), "key")
        return column(self._keys[tree].name)

    def has(self, name: exp.Column) -> bool:
        """Whether a name is that of a column of FROM, and rows are grouped by it."""
        return self._scope.has(name.name) and self._scope.resolve(name) in self._keys

    def sets(self, entries: Sequence[Expr], sets: list[list[int]]) -> None:
        """GROUPING SETS: every row once for each set, with the keys that are not in the set null.

        The number of the set is a key of its own, or a null in the data would join the total.
        """
        number = Column(self._binding.fresh("grouping_set"), t.INT, nullable=False)
        self._node = Join(self._node, Constant(number, tuple(range(len(sets)))), None)
        self._scope.add(number)
        self._set_of = number.name, sets
        for at, entry in enumerate(entries):
            resolved = self._scope.resolve(entry)
            self._entries.append(resolved)
            if resolved in self._keys:
                continue
            typed = self._scope.typing.type(resolved)
            here = [n for n, members in enumerate(sets) if at in members]
            shown = exp.Case(ifs=[exp.If(this=_among(number.name, here), true=typed.expression)])
            typed = Typed(shown, typed.type, True)
            self._keys[resolved] = self._aggregates.input(typed, entry.name or "key")
        own = Typed(column(number.name), t.INT, False)
        self._keys[column(number.name)] = self._aggregates.input(own, number.name)

    # --- the stage ---

    def add(self, made: Column) -> exp.Column:
        """A column that is joined to the groups; a reference to it."""
        self._others[made.name] = made
        return bound(made.name)

    def build(self) -> Aggregate:
        """The operator, over a projection of what it needs."""
        below = Project(self._node, tuple(self._aggregates.inputs))
        keys = tuple(c.name for c in self._keys.values())
        return Aggregate(below, keys, tuple(self._aggregates.measures))

    def finish(self, tree: Expr) -> Typed:
        """An expression of the SELECT list, over keys and measures."""
        made = self._rewritten(self._scope.resolve(tree))
        columns = {c.name: c for c in self._keys.values()}
        columns.update({m.name: m.column for m in self._aggregates.measures})
        columns.update(self._others)

        def column_type(name: str) -> tuple[t.Type, bool]:
            if name not in columns:
                raise NeedsDomain if self._scope.is_outer(name) else self._ungrouped(tree)
            return columns[name].type, columns[name].nullable

        return PlanTyping(column_type, self._binding.fail).type(made)

    def rewrite(self, resolved: Expr) -> Expr:
        """An expression over columns of FROM, over keys and measures instead; other columns stay."""
        made = self._rewritten(resolved)
        if not all(self._scope.is_outer(name) for name in columns_of(made)):
            raise self._ungrouped(resolved)
        return made

    def _rewritten(self, node: Expr) -> Expr:
        if node in self._keys:
            grouped = column(self._keys[node].name)
            grouped.meta.update(node.meta)
            return grouped
        if isinstance(node, (exp.Filter, *AGGREGATES)):
            return self._aggregates.finished(node)
        if self._set_of[1] and isinstance(node, (exp.Grouping, exp.GroupingId)):
            return self._grouping(node)
        return over_parts(node, self._rewritten)

    def _ungrouped(self, tree: Expr) -> ViewkeepError:
        return self._binding.fail(
            Unsupported, tree, f"{said(tree)} is neither grouped nor aggregated",
            "add it to GROUP BY, or wrap it in SUM, COUNT or AVG",
        )  # fmt: skip

    def over_nothing(self, tree: Expr) -> Typed:
        """What an expression over groups is for a group of no rows: COUNT is 0, COLLECT_LIST empty, other
        aggregates are NULL."""

        def swap(node: Expr) -> Expr:
            if not isinstance(node, (exp.Filter, *AGGREGATES)):
                return node
            kind = self.finish(node).type
            bare = node.this if isinstance(node, exp.Filter) else node
            value: Expr = exp.Literal.number(0) if isinstance(bare, COUNTS) else exp.Null()
            made = exp.Cast(this=exp.Array() if isinstance(bare, COLLECTED) else value, to=kind.sql())
            made.meta["typed"] = (kind, isinstance(value, exp.Null))
            return made

        return self.finish(tree.copy().transform(swap))

    def empty(self, tree: Expr, terms: Sequence[Expr]) -> Expr | None:
        """What an expression of the SELECT list is over no rows; None where that is NULL. `terms` say what
        the keys equal outside."""
        known = (*COUNTS, *COLLECTED)
        if not any(isinstance(a, known) for a in aggregates_in(tree)) and _is_strict(tree):
            return None
        outside = {term.this.name: _from_outside(term.expression) for term in terms}
        made = substitute(self.over_nothing(tree).expression, outside)
        if columns_of(made) - frozenset().union(*(columns_of(term.expression) for term in terms)):
            raise self._binding.fail(
                Unsupported, tree, f"{said(tree)} over no rows is not known here",
                "move what is not an aggregate out of the subquery",
            )  # fmt: skip
        return exp.Paren(this=made)

    def _grouping(self, node: Expr) -> Expr:
        """GROUPING(key): 1 where the row is a total over the key; GROUPING_ID: all of them as bits."""
        name, sets = self._set_of
        entries = node.expressions or self._entries
        total: Expr | None = None
        for position, entry in enumerate(reversed(entries)):
            at = next((n for n, e in enumerate(self._entries) if e == entry), None)
            if at is None:
                raise self._binding.fail(
                    Unsupported, node, "GROUPING takes a grouping column", "name one of them"
                )
            aggregated = [n for n, members in enumerate(sets) if at not in members]
            bit = exp.Case(
                ifs=[exp.If(this=_among(self._keys[column(name)].name, aggregated),
                            true=exp.Literal.number(2**position))],
                default=exp.Literal.number(0),
            )  # fmt: skip
            total = bit if total is None else exp.Add(this=total, expression=bit)
        assert total is not None
        kind = t.TINYINT if isinstance(node, exp.Grouping) else t.BIGINT
        return exp.Cast(this=exp.Paren(this=total), to=kind.sql())


def _is_strict(tree: Expr) -> bool:
    """Whether an expression is NULL where an aggregate in it is: AVG(x) * 2, but not COALESCE(AVG(x), 0)."""
    if isinstance(tree, (exp.Filter, *AGGREGATES)):
        return True
    strict = (exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Cast, exp.Round)
    if not isinstance(tree, strict):
        return False
    return any(_is_strict(part) for part in (tree.this, tree.args.get("expression")) if part is not None)


def _from_outside(tree: Expr) -> Expr:
    """An expression over columns of the outer query, as that query can use it."""
    return tree.transform(lambda node: bound(node.name) if isinstance(node, exp.Column) else node)


def _among(name: str, numbers: Sequence[int]) -> Expr:
    if not numbers:
        return exp.false()
    return exp.In(this=column(name), expressions=[exp.Literal.number(n) for n in numbers])


# --- what GROUP BY says ---


def _entries(
    binding: Binding, group: exp.Group | None, outputs: Sequence[Output], scope: Scope
) -> tuple[list[Expr], list[list[int]] | None]:
    """The grouping expressions, and for GROUPING SETS which of them each set has."""
    if group is None:
        return [], None
    if group.args.get("all"):  # GROUP BY ALL: everything that is not aggregated
        return [_no_subquery(binding, e) for e, _ in outputs if not aggregates_in(e)], None
    if group.args.get("totals"):
        raise binding.fail(Unsupported, group, "GROUP BY TOTALS is not Spark's", "use ROLLUP")
    entries, sets = grouping_sets(group)
    if sets == [[]]:  # GROUPING SETS (()) is one group, also over no rows; as one of several it is not
        return [], None
    return [_meant(binding, entry, outputs, scope) for entry in entries], sets


def _meant(binding: Binding, entry: Expr, outputs: Sequence[Output], scope: Scope) -> Expr:
    """An entry of GROUP BY: a position or an alias stands for an output; a column comes before an alias."""
    if not (isinstance(entry, exp.Column) and scope.has(entry.name)):
        at = output_at(binding, entry, [name for _, name in outputs])
        entry = outputs[at][0] if at is not None else entry
    no_aggregate(binding, entry, "GROUP BY")
    return _no_subquery(binding, entry)


def _no_subquery(binding: Binding, entry: Expr) -> Expr:
    if (found := entry.find(*SUBQUERIES)) is not None:
        raise binding.fail(
            Unsupported, found, "a subquery cannot stand in GROUP BY",
            "select it in a derived table, and group by its column",
        )  # fmt: skip
    return entry


def grouping_sets(group: exp.Group) -> tuple[list[Expr], list[list[int]] | None]:
    """GROUP BY as a list of expressions and, for ROLLUP, CUBE and GROUPING SETS, the sets of their positions.

    Several of them multiply: GROUP BY a, ROLLUP (b, c) is GROUPING SETS ((a, b, c), (a, b), (a)).
    """
    special = (exp.GroupingSets, exp.Rollup, exp.Cube)
    plain = [e for e in group.expressions if not isinstance(e, special)]
    written = [e for e in group.expressions if isinstance(e, special)]
    for key in ("rollup", "cube", "grouping_sets"):
        for clause in group.args.get(key) or []:
            if clause.expressions:
                written.append(clause)
            else:  # GROUP BY a, b WITH ROLLUP
                written.append(type(clause)(expressions=plain))
                plain = []
    if not written:
        return plain, None
    entries: list[Expr] = []

    def at(entry: Expr) -> int:
        if entry not in entries:
            entries.append(entry)
        return entries.index(entry)

    def members(entry: Expr) -> list[int]:
        bare = entry.this if isinstance(entry, exp.Paren) else entry
        return [at(e) for e in bare.expressions] if isinstance(bare, exp.Tuple) else [at(bare)]

    def sets_of(entry: Expr) -> list[list[int]]:
        if isinstance(entry, exp.GroupingSets):
            return [s for e in entry.expressions for s in sets_of(e)]
        if not isinstance(entry, (exp.Rollup, exp.Cube)):
            return [members(entry)]
        parts = [members(e) for e in entry.expressions]
        if isinstance(entry, exp.Rollup):
            return [list(chain(*parts[:n])) for n in range(len(parts), -1, -1)]
        chosen = product((True, False), repeat=len(parts))
        return [[n for part, on in zip(parts, which, strict=True) if on for n in part] for which in chosen]

    factors = [[[at(e)]] for e in plain] + [sets_of(e) for e in written]
    return entries, [sorted(set(chain(*chosen))) for chosen in product(*factors)]
