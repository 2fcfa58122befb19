"""Scalar expressions are sqlglot syntax trees over plan columns; these are the few things we do to them.

A plan column is an unqualified `exp.Column` whose name is unique in the whole plan, so substitution and
column sets need no scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from viewkeep.algebra.types import Type

Expr = exp.Expr

PRE = "pre:"  # no plan column has a colon in its name, so none can be taken for one of these
USERS = "users"  # what the meta of a call has if the function is one that the user registered


def column(name: str) -> exp.Column:
    """A reference to a plan column."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def pre_name(name: str) -> str:
    """The column of a diff that carries the value `name` had before the change."""
    return PRE + name


def calls_users(expression: Expr) -> bool:
    """Whether an expression calls a function of the user's own."""
    return any(call.meta_get(USERS) for call in expression.find_all(exp.Anonymous))


def columns_of(expression: Expr) -> frozenset[str]:
    """The plan columns that an expression looks at."""
    return frozenset(c.name for c in expression.find_all(exp.Column))


def substitute(expression: Expr, by: Mapping[str, Expr]) -> Expr:
    """The expression with each plan column replaced; columns not named stay."""

    def swap(node: Expr) -> Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in by:
            replacement = by[node.name].copy()
            needs_brackets = isinstance(replacement, (exp.Binary, exp.Unary, exp.Between, exp.In))
            return exp.Paren(this=replacement) if needs_brackets else replacement
        return node

    if isinstance(expression, exp.Column):
        return by[expression.name].copy() if expression.name in by else expression.copy()
    return expression.transform(swap)  # of a copy


COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def unchained(node: Expr) -> Expr:
    """(a = b) = c for a = b = c: not every engine takes a chain of comparisons."""
    for key in ("this", "expression"):
        if isinstance(node.args[key], COMPARISONS):
            node.set(key, exp.Paren(this=node.args[key]))
    return node


def rewritten(tree: Expr, rewrite: Callable[[Expr], Expr]) -> Expr:
    """The tree with every node rewritten, those below first.

    Unlike sqlglot's transform, which does not look into what a node was replaced by: in (a / b) / c the
    inner division would stay as it is.
    """
    tree = tree.copy()
    for node in reversed(list(tree.bfs())):
        made = rewrite(node)
        if made is not node:
            if node is tree:
                tree = made
            else:
                node.replace(made)
    return tree


# marks of nodes, and the digits of a decimal past which Spark rounds its negative
EXACTLY, AS_ITS_ENGINE_DOES = "exactly", "as its engine does"
DIGITS_OF_A_NEGATIVE = 34


def exactly(node: Expr, kind: Type) -> Expr:
    """A sum or a negative of decimals of a type, which is to keep all their digits: an engine that would
    round it has to say it in another way."""
    if kind.kind == "decimal":
        node.meta[EXACTLY] = (kind.precision, kind.scale)
    return node


def over_parts(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The node with each of its direct parts changed."""
    made = node.copy()
    for key, value in list(made.args.items()):
        if isinstance(value, exp.Expr):
            made.set(key, change(value))
        elif isinstance(value, list):
            made.set(key, [change(v) if isinstance(v, exp.Expr) else v for v in value])
    return made


def rename(expression: Expr, by: Callable[[str], str]) -> Expr:
    """The expression over renamed plan columns."""
    return substitute(expression, {name: column(by(name)) for name in columns_of(expression)})


def conjuncts(expression: Expr | None) -> list[Expr]:
    """The terms of a conjunction, brackets dropped."""
    if expression is None:
        return []
    bare = expression.unnest()
    if isinstance(bare, exp.And):
        return conjuncts(bare.left) + conjuncts(bare.right)
    return [bare]


def conjunction(terms: Iterable[Expr]) -> Expr | None:
    """All terms joined by AND, or None where there are none."""
    joined: Expr | None = None
    for term in terms:
        wrapped = exp.Paren(this=term.copy()) if isinstance(term, exp.Or) else term.copy()
        joined = wrapped if joined is None else exp.And(this=joined, expression=wrapped)
    return joined


def disjunction(terms: Iterable[Expr]) -> Expr:
    """Any of the terms; there must be one."""
    joined: Expr | None = None
    for term in terms:
        wrapped = exp.Paren(this=term.copy()) if isinstance(term, exp.And) else term.copy()
        joined = wrapped if joined is None else exp.Or(this=joined, expression=wrapped)
    if joined is None:
        raise ValueError("a disjunction needs a term")
    return joined


def both(left: Expr, right: Expr) -> Expr:
    """left AND right."""
    joined = conjunction([left, right])
    assert joined is not None
    return joined


def same(left: Expr, right: Expr) -> Expr:
    """Null-safe equality: IDs and group keys that are null match each other."""
    return exp.NullSafeEQ(this=left.copy(), expression=right.copy())


def differs(left: Expr, right: Expr) -> Expr:
    """Null-safe inequality."""
    return exp.NullSafeNEQ(this=left.copy(), expression=right.copy())


def is_not_true(condition: Expr) -> Expr:
    """FALSE or NULL. In three-valued logic NOT phi is not that: it is NULL where phi is NULL."""
    return exp.Not(this=exp.Paren(this=exp.Coalesce(this=condition.copy(), expressions=[exp.false()])))


def equated_columns(condition: Expr | None, *, or_both_null: bool = False) -> list[tuple[str, str]]:
    """Pairs of plan columns that a condition equates by a plain `a = b` conjunct, or `a IS NOT DISTINCT FROM
    b` where both may be null."""
    kinds = (exp.EQ, exp.NullSafeEQ) if or_both_null else exp.EQ
    pairs = []
    for term in conjuncts(condition):
        if isinstance(term, kinds):
            left, right = term.left.unnest(), term.right.unnest()
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                pairs.append((left.name, right.name))
    return pairs


def text(expression: Expr) -> str:
    """What a person reads in a plan."""
    return expression.sql(dialect="spark").replace("`", "")
