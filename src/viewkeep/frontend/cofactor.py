"""COFACTOR(x1, ..., xm): the count, the sums and the sums of products of its arguments, each a column.

    COFACTOR(a, b)  ->  COUNT(*) AS n, SUM(a) AS sum_a, SUM(b) AS sum_b,
                        SUM(a * a) AS sum_a_a, SUM(a * b) AS sum_a_b, SUM(b * b) AS sum_b_b

over the rows in which no argument is NULL, and 0 where there are none. This is the matrix that linear
regression is solved from (F-IVM, section 6.2); it is kept like any other sums.

Of a category only sums for each of its values have a meaning, so it is a group:

    COFACTOR(a, b, CATEGORY(c))  ->  c, COFACTOR(a, b) ... GROUP BY c

over the rows in which c is not NULL either, if nothing else is selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.algebra.cofactors import Cofactor, upper_half
from viewkeep.algebra.expressions import Expr, conjunction
from viewkeep.errors import AmbiguousColumn, TypeMismatch, Unsupported
from viewkeep.frontend.aggregates import OR_ZERO
from viewkeep.frontend.binding import Binding, Output
from viewkeep.frontend.functions import CATEGORY, COFACTOR
from viewkeep.frontend.scope import Scope
from viewkeep.frontend.typed import Typed, said

_EXAMPLE = "COFACTOR(x, y) AS name"
# of a call: the names of its categories, which are groups by now; and whether it was all that was selected
_CATEGORIES, _ALONE = "viewkeep_categories", "viewkeep_alone"


def is_cofactor(entry: Expr) -> bool:
    """Whether an entry of the SELECT list is a COFACTOR, with or without an alias and FILTER."""
    return _call(entry) is not None


def cofactors_of(tree: exp.Select) -> tuple[Cofactor, ...]:
    """The matrices of a SELECT list."""
    return tuple(_named(entry) for entry in tree.expressions if is_cofactor(entry))


def refuse_misplaced(binding: Binding, tree: exp.Select) -> None:
    """Refuses a COFACTOR that is no entry of the SELECT list: it has many columns, and no one value."""
    own = {id(_call(entry)) for entry in tree.expressions}
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() == COFACTOR and id(call) not in own and call.parent_select is tree:
            raise binding.fail(
                Unsupported, call, "COFACTOR has many columns, so it stands in the SELECT list, by itself",
                f"{_EXAMPLE}, and name its columns: name_n, name_sum_x, name_sum_x_y",
            )  # fmt: skip


def with_categories(binding: Binding, tree: exp.Select) -> exp.Select:
    """A SELECT in which categories of a COFACTOR are groups, and columns before it."""
    entries = [entry for entry in tree.expressions if is_cofactor(entry)]
    if not any(_categories(entry) for entry in entries):
        return tree
    alone = _is_alone(tree)
    tree = tree.copy()
    entry = next(entry for entry in tree.expressions if _categories(entry))
    call, found = _call(entry), _categories(entry)
    assert call is not None
    group = tree.args.get("group")
    if len(entries) > 1:
        raise binding.fail(
            Unsupported, call, "a COFACTOR with categories has groups of its own, so it is the only one",
            "make a view of each",
        )  # fmt: skip
    if group is not None and not _is_plain(group):
        raise binding.fail(
            Unsupported, call, "beside a COFACTOR with categories GROUP BY has columns and expressions only",
            "name what is grouped by: no ROLLUP, CUBE, GROUPING SETS, ALL, and no numbers of columns",
        )  # fmt: skip
    if tree.args.get("order"):
        raise binding.fail(
            Unsupported, call, "a COFACTOR with categories has a row for each of them, in no order",
            "leave out ORDER BY",
        )  # fmt: skip
    columns = []
    for argument in found:
        marked = argument.this if isinstance(argument, exp.Alias) else argument
        if len(marked.expressions) != 1:
            raise binding.fail(
                Unsupported, marked, "CATEGORY takes one column", "COFACTOR(x, CATEGORY(a), CATEGORY(b))"
            )  # fmt: skip
        value = marked.expressions[0]
        own = argument.alias if isinstance(argument, exp.Alias) else value.unnest().name
        if not isinstance(argument, exp.Alias) and not isinstance(value.unnest(), exp.Column):
            raise binding.fail(
                Unsupported, marked, f"a category that is no column needs a name: {said(value)}",
                f"CATEGORY({said(value)}) AS name",
            )  # fmt: skip
        columns.append(exp.alias_(value.copy(), own, quoted=True))
    call.set("expressions", [argument for argument in call.expressions if argument not in found])
    call.meta[_CATEGORIES] = tuple(column.alias for column in columns)
    call.meta[_ALONE] = alone
    at = tree.expressions.index(entry)
    tree.set("expressions", [*tree.expressions[:at], *columns, *tree.expressions[at:]])
    grouped = [*(group.expressions if group is not None else []), *(column.this.copy() for column in columns)]
    tree.set("group", exp.Group(expressions=grouped))
    return tree


def _is_plain(group: exp.Group) -> bool:
    """Whether rows are grouped by expressions alone: what a number stands for would be another column."""
    special = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Literal)
    others = any(value for key, value in group.args.items() if key != "expressions")
    return not others and not any(isinstance(e, special) for e in group.expressions)


def _categories(entry: Expr) -> list[Expr]:
    """The arguments of a COFACTOR that are marked as categories."""
    call = _call(entry)
    return [argument for argument in call.expressions if _is_category(argument)] if call is not None else []


def _is_category(argument: Expr) -> bool:
    bare = argument.this if isinstance(argument, exp.Alias) else argument
    return isinstance(bare, exp.Anonymous) and bare.name.lower() == CATEGORY


def columns_of_cofactor(
    binding: Binding, tree: exp.Select, written: Expr, entry: Expr, scope: Scope
) -> list[Output]:
    """The outputs that a COFACTOR stands for. `written`: the entry before earlier aliases of the SELECT list
    were replaced by what they stand for."""
    call = _call(entry)
    assert call is not None
    _check(binding, call)
    made = _named(written)
    _check_names(binding, call, made)
    arguments = [_bare(argument) for argument in call.expressions]
    typed = [_number(binding, argument, scope) for argument in arguments]
    binding.by_plan_only = True  # no engine has such a function
    conditions = [] if _is_alone(tree) else _known(arguments, typed)
    bare = entry.this if isinstance(entry, exp.Alias) else entry
    if isinstance(bare, exp.Filter):
        conditions.append(exp.Paren(this=bare.expression.this.copy()))
    counted: Expr = exp.Count(this=exp.Star())
    if conditions:
        counted = exp.Count(this=_where(conditions, exp.Literal.number(1)))
    values: list[Expr] = [_total(argument.copy(), kind.type, conditions)
                          for argument, kind in zip(arguments, typed, strict=True)]  # fmt: skip
    wide = [_wide(argument, kind) for argument, kind in zip(arguments, typed, strict=True)]
    for (left, its), (right, other) in upper_half(wide):
        kind = t.arithmetic(exp.Mul, its, other)
        assert kind is not None  # both are numbers
        values.append(_total(exp.Mul(this=left.copy(), expression=right.copy()), kind, conditions))
    return list(zip([counted, *values], made.columns, strict=True))


def known_rows(tree: exp.Select, scope: Scope) -> Expr | None:
    """Which rows count where a COFACTOR is all that a SELECT has: a condition like one of WHERE. Beside
    groups and other aggregates the rows that do not count for it are still there, so each sum leaves them
    out by itself."""
    if not _is_alone(tree):
        return None
    (call,) = (_call(entry) for entry in tree.expressions if is_cofactor(entry))
    assert call is not None
    arguments = [_bare(argument) for argument in call.expressions]
    arguments += [_bare(entry) for entry in tree.expressions if not is_cofactor(entry)]
    typed = [scope.typing.type(scope.resolve(argument)) for argument in arguments]
    known = conjunction(_known(arguments, typed))
    return scope.typing.condition(scope.resolve(known), "WHERE") if known is not None else None


def _is_alone(tree: exp.Select) -> bool:
    if any(call.meta_get(_ALONE) for entry in tree.expressions if (call := _call(entry)) is not None):
        return True
    others = any(tree.args.get(key) for key in ("group", "having", "qualify", "order"))
    return len(tree.expressions) == 1 and is_cofactor(tree.expressions[0]) and not others


def _call(entry: Expr) -> exp.Anonymous | None:
    bare = entry.this if isinstance(entry, exp.Alias) else entry
    bare = bare.this if isinstance(bare, exp.Filter) else bare
    bare = bare.unnest()
    return bare if isinstance(bare, exp.Anonymous) and bare.name.lower() == COFACTOR else None


def _named(entry: Expr) -> Cofactor:
    """An argument is called by its alias or its column's name, and else by its position."""
    call = _call(entry)
    assert call is not None
    names = []
    for number, argument in enumerate(call.expressions, start=1):
        bare = argument.unnest()
        own = argument.alias if isinstance(argument, exp.Alias) else ""
        names.append(own or (bare.name if isinstance(bare, exp.Column) else f"x{number}"))
    alias = entry.alias if isinstance(entry, exp.Alias) else ""
    return Cofactor(alias, tuple(names), call.meta_get(_CATEGORIES, ()))


def _bare(argument: Expr) -> Expr:
    bare: Expr = argument.this if isinstance(argument, exp.Alias) else argument
    return exp.Paren(this=bare) if isinstance(bare, (exp.Binary, exp.Unary)) else bare


def _check(binding: Binding, call: exp.Anonymous) -> None:
    if not call.expressions:
        raise binding.fail(Unsupported, call, "COFACTOR needs an argument that is a number", _EXAMPLE)
    for argument in call.expressions:
        bare = argument.this if isinstance(argument, exp.Alias) else argument
        if isinstance(bare, exp.Distinct):
            raise binding.fail(
                Unsupported, call, "COFACTOR sums over all rows, so it has no DISTINCT",
                "select the distinct rows in a derived table",
            )  # fmt: skip
        if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
            raise binding.fail(Unsupported, call, "COFACTOR takes columns, and no *", "name the columns")


def _check_names(binding: Binding, call: exp.Anonymous, made: Cofactor) -> None:
    names = [name.lower() for name in made.arguments]
    for name, argument in zip(names, call.expressions, strict=True):
        if names.count(name) > 1:
            raise binding.fail(
                AmbiguousColumn, argument, f"two arguments of COFACTOR are called {name}",
                f"give one another name: {said(_bare(argument))} AS other",
            )  # fmt: skip
    columns = [name.lower() for name in made.columns]
    for name in columns:
        if columns.count(name) > 1:
            raise binding.fail(
                AmbiguousColumn, call, f"two columns of COFACTOR would be called {name}",
                "give an argument another name: column AS other",
            )  # fmt: skip


def no_clashes(binding: Binding, tree: exp.Select, outputs: Sequence[Output]) -> None:
    """Refuses a COFACTOR of which a column is called like another of the SELECT list."""
    names = [name.lower() for _, name in outputs]
    for entry in tree.expressions:
        call = _call(entry)
        if call is None:
            continue
        for name in _named(entry).columns:
            if names.count(name.lower()) > 1:
                raise binding.fail(
                    AmbiguousColumn, call, f"two columns are called {name}",
                    "give COFACTOR an alias, which its columns begin with: COFACTOR(...) AS name",
                )  # fmt: skip


def _number(binding: Binding, argument: Expr, scope: Scope) -> Typed:
    typed = scope.typing.type(scope.resolve(argument))
    if not typed.type.is_numeric:
        raise binding.fail(
            TypeMismatch, argument, f"COFACTOR needs numbers, and {said(argument)} is {typed.type}",
            f"use CAST, or CATEGORY({said(argument)}) for a category",
        )  # fmt: skip
    return typed


def _known(arguments: Sequence[Expr], typed: Sequence[Typed]) -> list[Expr]:
    """That no argument is NULL, as far as one may be."""
    return [
        exp.Not(this=exp.Paren(this=exp.Is(this=argument.copy(), expression=exp.Null())))
        for argument, its in zip(arguments, typed, strict=True)
        if its.nullable
    ]


def _wide(argument: Expr, typed: Typed) -> tuple[Expr, t.Type]:
    """An integer as the widest of them: the product of two INT is an INT, and prices would not fit."""
    if not typed.type.is_integer or typed.type == t.BIGINT:
        return argument, typed.type
    return exp.Cast(this=argument, to=t.BIGINT.sql()), t.BIGINT


def _total(value: Expr, kind: t.Type, conditions: Sequence[Expr]) -> Expr:
    zero = exp.Cast(this=exp.Literal.number(0), to=t.sum_type(kind).sql())
    summed: Expr = exp.Sum(this=_where(conditions, value) if conditions else value)
    summed.meta[OR_ZERO] = True
    return exp.Coalesce(this=summed, expressions=[zero])


def _where(conditions: Sequence[Expr], value: Expr) -> Expr:
    return exp.Case(ifs=[exp.If(this=conjunction(conditions), true=value)])
