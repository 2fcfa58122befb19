"""GROUP BY and aggregates: what a group keeps, and the SELECT list over it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column
from viewkeep.algebra.nodes import Aggregate, Column, Function, Item, Measure, Node, Project
from viewkeep.errors import TypeMismatch, Unsupported
from viewkeep.frontend.scope import Fail, Scope
from viewkeep.frontend.typing import Typed, Typing, decimal_quotient

AGGREGATES = (exp.Sum, exp.Count, exp.Avg)


class Grouping:
    """Collects the keys and measures of one GROUP BY, and rewrites expressions over them."""

    def __init__(
        self,
        scope: Scope,
        node: Node,
        fail: Fail,
        fresh: Callable[[str], str],
        item: Callable[[str, Typed], tuple[str, Item]],
    ) -> None:
        """`fresh` and `item` make plan names and projection items that are not taken yet."""
        self._fail = fail
        self._fresh = fresh
        self._item = item
        self._scope = scope
        self._node = node
        self._inputs: list[Item] = []
        self._keys: dict[Expr, Column] = {}
        self._measures: dict[tuple[str, str | None], Measure] = {}
        self._rows = self._measure("rows", None, t.BIGINT, "n")

    def key(self, entry: Expr) -> None:
        """A grouping expression."""
        resolved = self._scope.resolve(entry)
        if resolved in self._keys:
            return
        typed = self._scope.typing.type(resolved)
        self._keys[resolved] = self._input(typed, entry.name or "key")

    def aggregate(self) -> Aggregate:
        """The operator, over a projection of what it needs."""
        below = Project(self._node, tuple(self._inputs))
        keys = tuple(c.name for c in self._keys.values())
        return Aggregate(below, keys, tuple(self._measures.values()))

    def finish(self, tree: Expr) -> Typed:
        """An expression of the SELECT list, over keys and measures."""
        made = self._rewrite(self._scope.resolve(tree))
        columns = {c.name: c for c in self._keys.values()}
        columns.update({m.name: m.column for m in self._measures.values()})

        def column_type(name: str) -> tuple[t.Type, bool]:
            if name not in columns:
                raise self._fail(
                    Unsupported, tree,
                    f"{tree.sql('spark')} is neither grouped nor aggregated",
                    "add it to GROUP BY, or wrap it in SUM, COUNT or AVG",
                )  # fmt: skip
            return columns[name].type, columns[name].nullable

        typing = _FinishTyping(column_type, self._fail)
        return typing.type(made)

    def _rewrite(self, node: Expr) -> Expr:
        if node in self._keys:
            grouped = column(self._keys[node].name)
            grouped.meta.update(node.meta)
            return grouped
        if isinstance(node, AGGREGATES):
            return self._finished(node)
        made = node.copy()
        for key, value in list(made.args.items()):
            if isinstance(value, exp.Expr):
                made.set(key, self._rewrite(value))
            elif isinstance(value, list):
                made.set(
                    key,
                    [self._rewrite(v) if isinstance(v, exp.Expr) else v for v in value],
                )
        return made

    def _finished(self, node: Expr) -> Expr:
        """SUM, COUNT or AVG from what is kept: SQL's SUM and AVG over no non-null value are NULL."""
        if node.find(exp.Distinct):
            raise self._fail(
                Unsupported, node, "DISTINCT in an aggregate is not supported yet",
                "group by the column in a derived table first",
            )  # fmt: skip
        if node.expressions:
            raise self._fail(Unsupported, node, f"{node.key.upper()} takes one argument", "use one column")
        argument = node.this
        if argument is None:
            raise self._fail(Unsupported, node, f"{node.key.upper()} needs an argument", "COUNT(*)")
        if isinstance(node, exp.Count) and isinstance(argument, (exp.Star, exp.Literal)):
            return column(self._rows.name)
        if list(aggregates_in(argument)):
            raise self._fail(
                Unsupported, node, "an aggregate of an aggregate", "aggregate in a derived table"
            )
        typed = self._scope.typing.type(argument)
        if isinstance(node, exp.Count):
            return column(self._values(self._input(typed, "value")).name)
        if not typed.type.is_numeric:
            raise self._fail(
                TypeMismatch, node, f"{node.key.upper()} needs a number, not {typed.type}", "use CAST"
            )
        given = self._input(typed, "value")
        values, total = self._values(given), self._sum(given)
        if isinstance(node, exp.Sum):
            result: Expr = column(total.name)
        elif typed.type.kind == "decimal":
            kind = t.avg_type(typed.type)
            result = decimal_quotient(
                column(total.name), total.column.type, column(values.name), t.BIGINT, kind
            )
        else:
            double = t.DOUBLE.sql()
            result = exp.Div(
                this=exp.Cast(this=column(total.name), to=double),
                expression=exp.Cast(this=column(values.name), to=double),
            )
        some = exp.GT(this=column(values.name), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=result)])

    def _input(self, typed: Typed, wanted: str) -> Column:
        for item in self._inputs:
            if item.expression == typed.expression:
                return item.column
        _, item = self._item(wanted, typed)
        self._inputs.append(item)
        return item.column

    def _values(self, argument: Column) -> Measure:
        """How many non-null values; for a column that is never null, how many rows."""
        if not argument.nullable:
            return self._rows
        return self._measure("count", argument.name, t.BIGINT, f"{argument.name}_count")

    def _sum(self, argument: Column) -> Measure:
        kind = t.sum_type(argument.type)
        total = self._measure("sum", argument.name, kind, f"{argument.name}_sum")
        if kind == t.DOUBLE:
            self._measure("mass", argument.name, t.DOUBLE, f"{argument.name}_mass")
            self._measure("magnitude", argument.name, t.DOUBLE, f"{argument.name}_magnitude")
        return total

    def _measure(self, function: Function, argument: str | None, kind: t.Type, wanted: str) -> Measure:
        found = self._measures.get((function, argument))
        if found is None:
            made = Column(self._fresh(wanted), kind, nullable=False)
            found = Measure(made, function, argument)
            self._measures[function, argument] = found
        return found


class _FinishTyping(Typing):
    """Types finished aggregates too: they hold the one function that SQL text cannot."""

    def _anonymous(self, node: exp.Anonymous) -> Typed:
        if not node.meta.get("made"):
            raise self._refusal(node)
        precision, scale = (int(e.name) for e in node.expressions[2:4])
        return Typed(node, t.decimal(precision, scale), True)


def aggregates_in(tree: Expr) -> list[Expr]:
    return [n for n in tree.find_all(*AGGREGATES) if not isinstance(n.parent, exp.Window)]
