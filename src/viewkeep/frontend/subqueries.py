"""Subqueries in expressions: each becomes a join, and the expression reads a column of it instead.

    EXISTS, IN, ANY, ALL   a mark: whether some row of the subquery makes a condition true
    a scalar subquery      an outer join with its one value, computed once for each value that it is
                           correlated by, so that a change of the subquery is a change of groups

SQL's logic has three values. x IN (...) is null, not false, where no y equals x but some comparison is null.
Where only truth counts (a conjunct of WHERE), one mark will do; elsewhere a second one tells null from false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.expressions import Expr, column, columns_of, conjunction, over_parts
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Item,
    Join,
    MarkJoin,
    Measure,
    Node,
    OuterJoin,
    Project,
    passing,
)
from viewkeep.errors import TypeMismatch, UnknownColumn, Unsupported
from viewkeep.frontend.binding import Binding, Ctes, Inner
from viewkeep.frontend.ordering import CUTS
from viewkeep.frontend.scope import NeedsDomain, Relation, Scope
from viewkeep.frontend.stages import Stage

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)


class Subqueries:
    """The subqueries of some expressions of one SELECT, joined to its rows or groups."""

    def __init__(self, binding: Binding, ctes: Ctes, scope: Scope, stage: Stage) -> None:
        self._binding = binding
        self._ctes = ctes
        self._fail = binding.fail
        self._fresh = binding.fresh
        self._scope = scope
        self._stage = stage
        self._joins: list[Callable[[Node], Node]] = []

    def _bound(self, query: Expr, by_value: bool = False) -> Inner:
        inner = self._binding.subquery(query.copy(), self._ctes, self._scope, by_value)
        own = frozenset(inner.relation.node.names)
        if any(self._scope.is_outer(name) for term in inner.terms for name in columns_of(term) - own):
            raise NeedsDomain  # it looks at a query further out
        return inner

    def _sides(self, query: Expr) -> tuple[Expr, ...]:
        """Both sides of a UNION that looks at the outer query, which can do so one by one; else nothing."""
        union = query.unnest()
        if not isinstance(union, exp.SetOperation) or not self._looks_out(union):
            return ()
        if not isinstance(union, exp.Union) or any(union.args.get(key) for key in (*CUTS, "with_")):
            raise self._fail(
                Unsupported, union, f"{union.key.upper()} in a subquery that looks at the outer query",
                "write one subquery for each side",
            )  # fmt: skip
        self._binding.by_plan_only = True  # Spark does not take the text
        return union.this.copy(), union.expression.copy()

    def _looks_out(self, query: exp.SetOperation) -> bool:
        """Whether a set operation names columns of the outer query: alone its sides do not know them."""
        try:
            self._bound(query)
        except UnknownColumn:
            for side in (query.this, query.expression):
                if not isinstance(side.unnest(), exp.SetOperation):
                    self._bound(side)  # or the column is one that nobody has
            return True
        return False

    def attach(self, node: Node) -> Node:
        """The node with the joins that the expressions need."""
        for join in self._joins:
            node = join(node)
        self._joins = []
        return node

    def condition(self, tree: Expr) -> Expr:
        """A condition of which only truth counts, its subqueries replaced."""
        return self._lifted(tree, only_truth=True)

    def value(self, tree: Expr) -> Expr:
        """Any other expression, its subqueries replaced."""
        return self._lifted(tree, only_truth=False)

    def _lifted(self, node: Expr, only_truth: bool) -> Expr:
        if not has_subquery(node):
            return node
        if isinstance(node, (exp.And, exp.Or, exp.Paren)):
            return self._over_parts(node, only_truth)
        if isinstance(node, exp.Not):
            return self._negated(node, only_truth)
        if isinstance(node, exp.Exists):
            if sides := self._sides(node.this):
                return self._lifted(_any_of(exp.Exists(this=side) for side in sides), only_truth)
            inner = self._bound(node.this)
            # an aggregate without GROUP BY has a row even over no rows
            return exp.true() if inner.one_row else self._mark(inner, None)
        if isinstance(node, exp.In) and node.args.get("query"):
            return self._quantified(node.this, exp.EQ, node.args["query"], "any", only_truth)
        if isinstance(node, _COMPARISONS) and isinstance(node.expression, (exp.Any, exp.All)):
            kind = "any" if isinstance(node.expression, exp.Any) else "all"
            return self._quantified(node.this, type(node), node.expression.this, kind, only_truth)
        if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
            return self._scalar(node)
        return self._over_parts(node, only_truth=False)

    def _over_parts(self, node: Expr, only_truth: bool) -> Expr:
        return over_parts(node, lambda part: self._lifted(part, only_truth))

    def _negated(self, node: exp.Not, only_truth: bool) -> Expr:
        inner = node.this.unnest()
        if only_truth and isinstance(inner, exp.In) and inner.args.get("query"):
            # x NOT IN (...) is true where no comparison is true and none is null
            return self._quantified(inner.this, exp.NEQ, inner.args["query"], "all", only_truth)
        return exp.Not(this=exp.Paren(this=self._lifted(inner, only_truth=False)))

    # --- marks ---

    def _quantified(self, left: Expr, compare: type[Expr], query: Expr, kind: str, only_truth: bool) -> Expr:
        """left op ANY (query), or ALL: by marks for comparisons that are true, false or null."""
        if sides := self._sides(query):  # of ANY one must do, of ALL both
            parts = [self._quantified(left, compare, side, kind, only_truth) for side in sides]
            return exp.Paren(this=exp.or_(*parts) if kind == "any" else exp.and_(*parts))
        inner = self._bound(query)
        if inner.one_row and inner.terms:  # one row for every outer row, over no rows too
            return exp.Paren(this=compare(this=self.value(left), expression=self._scalar(query)))
        operands = left.unnest()
        lefts = list(operands.expressions) if isinstance(operands, exp.Tuple) else [left]
        values = [self._stage.finish(self.value(part)) for part in lefts]
        # (1, 2) <> (1, 3), though 1 = 1: rows differ where not all of their columns are equal
        by = exp.EQ if compare is exp.NEQ and len(lefts) > 1 else compare
        if len(lefts) > 1 and by not in (exp.EQ, exp.NullSafeEQ):
            raise self._fail(
                Unsupported, left, "rows of several columns are compared by order",
                "compare them by =, or column by column",
            )  # fmt: skip

        def compared(relation: Relation) -> tuple[Expr, bool]:
            if len(relation.fields) != len(values):
                raise self._fail(
                    TypeMismatch, query, f"{len(relation.fields)} columns are compared with {len(values)}",
                    "select as many columns as stand on the other side",
                )  # fmt: skip
            terms, nullable = [], False
            for value, part, field in zip(values, lefts, relation.fields, strict=True):
                if t.widest(value.type, field.column.type) is None:
                    raise self._fail(
                        TypeMismatch, part,
                        f"{value.type} is compared with {field.column.type}", "use CAST on one side",
                    )  # fmt: skip
                terms.append(by(this=value.expression.copy(), expression=column(field.column.name)))
                nullable = nullable or value.nullable or field.column.nullable
            joined = conjunction(terms)
            assert joined is not None
            if by is not compare:
                joined = exp.Not(this=exp.Paren(this=joined))
            if compare is exp.NullSafeEQ:
                nullable = False
            return joined, nullable

        first, nullable = compared(inner.relation)
        if kind == "any":
            true = self._mark(inner, first)
            if only_truth or not nullable:
                return true
            return _three_valued(true, exp.true(), self._null_mark(query, compared), exp.false())
        if only_truth:
            return exp.Not(this=self._mark(inner, _not_true(first, nullable)))
        false = self._mark(inner, exp.Not(this=exp.Paren(this=first)))
        if not nullable:
            return exp.Not(this=false)
        return _three_valued(false, exp.false(), self._null_mark(query, compared), exp.true())

    def _null_mark(self, query: Expr, compared: Callable[[Relation], tuple[Expr, bool]]) -> Expr:
        """Whether some comparison is null."""
        self._binding.tells_null_from_false = True
        inner = self._bound(query)  # once more, under other names
        return self._mark(inner, _is_null(compared(inner.relation)[0]))

    def _mark(self, inner: Inner, condition: Expr | None) -> Expr:
        """Whether some row of the subquery makes the condition true."""
        mark = Column(self._fresh("exists"), t.BOOLEAN, nullable=False)
        terms = [self._stage.rewrite(term) for term in inner.terms]
        on = conjunction([*terms, condition] if condition is not None else terms)
        self._joins.append(lambda node: MarkJoin(node, inner.relation.node, on, mark))
        return self._stage.add(mark)

    # --- values ---

    def _scalar(self, query: Expr) -> Expr:
        inner = self._bound(query, by_value=True)
        if len(inner.relation.fields) != 1:
            raise self._fail(
                TypeMismatch, query, f"a subquery in an expression has {len(inner.relation.fields)} columns",
                "select one column",
            )  # fmt: skip
        value = inner.relation.fields[0].column
        if inner.one_row and not inner.terms:
            self._joins.append(lambda node: Join(node, inner.relation.node, None))
            return self._stage.add(value)
        pairs = inner.pairs()
        assert pairs is not None  # it was bound so
        node = inner.relation.node if inner.one_row else self._single(inner, [k for k, _, _ in pairs], value)
        there = Column(self._fresh("found"), t.BOOLEAN, nullable=False)
        shown = Column(self._fresh(value.name), value.type)
        keys = passing(node, dict.fromkeys(k for k, _, _ in pairs)).items
        right = Project(node, (*keys, Item(shown, column(value.name)), Item(there, exp.true())))
        on = [kind(this=self._stage.rewrite(outer), expression=column(k)) for k, outer, kind in pairs]
        self._joins.append(lambda left: OuterJoin(left, right, conjunction(on)))
        found, marker = self._stage.add(shown), self._stage.add(Column(there.name, t.BOOLEAN))
        empty = inner.if_empty[0] if inner.one_row else None
        if empty is None:
            return found
        missing = exp.Is(this=marker, expression=exp.Null())
        return exp.Paren(this=exp.Case(ifs=[exp.If(this=missing, true=empty)], default=found))

    def _single(self, inner: Inner, keys: Sequence[str], value: Column) -> Node:
        """One row a group, or an error where a value is asked for and there are several."""
        rows = Measure(Column(self._fresh("n"), t.BIGINT, nullable=False), "rows")
        several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        message = exp.Literal.string("a subquery in an expression returned more than one row")
        problem = exp.Anonymous(this="raise_error", expressions=[message])
        only = exp.LogicalOr if value.type == t.BOOLEAN else exp.Max  # not every engine orders booleans
        call = exp.Case(ifs=[exp.If(this=several, true=problem)], default=only(this=column(value.name)))
        kept = Measure(Column(self._fresh(value.name), value.type), "any", None, call)
        made = Aggregate(inner.relation.node, tuple(dict.fromkeys(keys)), (rows, kept))
        return Project(made, (*passing(made, made.keys).items, Item(value, column(kept.name))))


def _any_of(conditions: Iterable[Expr]) -> Expr:
    return exp.Paren(this=exp.or_(*conditions))


def has_subquery(tree: Expr) -> bool:
    """Whether an expression has a query in it."""
    return tree.find(exp.Select, exp.SetOperation) is not None


def _is_null(condition: Expr) -> Expr:
    return exp.Is(this=exp.Paren(this=condition), expression=exp.Null())


def _not_true(condition: Expr, nullable: bool) -> Expr:
    bare = exp.Not(this=exp.Paren(this=condition))
    if not nullable:
        return bare
    known = exp.Coalesce(this=exp.Paren(this=condition.copy()), expressions=[exp.false()])
    return exp.Not(this=known)


def _three_valued(first: Expr, then: Expr, null: Expr, default: Expr) -> Expr:
    unknown = exp.Cast(this=exp.Null(), to=t.BOOLEAN.sql())
    return exp.Paren(
        this=exp.Case(ifs=[exp.If(this=first, true=then), exp.If(this=null, true=unknown)], default=default)
    )
