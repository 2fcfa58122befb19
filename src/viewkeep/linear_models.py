"""Linear models of views with COFACTOR: which columns are the matrix, read, and solved by fivm/model.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from viewkeep.algebra.cofactors import Cofactor, upper_half
from viewkeep.algebra.expressions import Expr, column, conjunction
from viewkeep.engines.contract import Engine
from viewkeep.errors import NoData, Unavailable, UnknownColumn, Unsupported
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Regression, Row

if TYPE_CHECKING:  # it needs NumPy
    from viewkeep.fivm.model import Element, Number

Group = tuple[Any, ...]


def regression(
    engine: Engine,
    view: str,
    compiled: Compiled,
    label: str,
    features: Sequence[str] | None,
    ridge: float,
    group: Mapping[str, Any] | None,
    name: str | None,
) -> Regression | dict[Group, Regression]:
    """The model of a view, or of each of its groups."""
    matrix = _matrix(view, compiled.cofactors, name)
    label = _argument(matrix.arguments, label, "label")
    columns = (*matrix.arguments, *matrix.categories)
    if features is None:
        features = [x for x in columns if x != label]
    features = list(dict.fromkeys(_argument(columns, x, "column") for x in features))
    if label in features:
        raise Unsupported(f"{label} is the label, and a column to tell it by", hint="leave it out of one")
    if not (ridge >= 0 and math.isfinite(ridge)):
        raise Unsupported(f"ridge cannot be {ridge}", hint="use a number from 0 up")
    keys = [key for key in compiled.group_columns if key not in matrix.categories]
    chosen = _chosen(keys, group) if group is not None else {}
    rows = _rows(engine, view, matrix, keys, chosen)
    if group is None and keys:
        return _by_group(matrix, rows, keys, label, features, ridge)
    described = f"view {view}" + (f" for {_said(chosen)}" if chosen else "")
    if not rows and not matrix.categories:
        raise NoData(f"there is no row in {described}", hint="name a group that there is")
    if _are_alike(matrix, rows, keys):
        raise Unsupported(
            f"there are {len(rows)} groups in {described}, and nothing that tells them apart",
            hint="select all columns of GROUP BY in the view",
        )
    made = _model(matrix, [row[len(keys) :] for row in rows], label, features, ridge)
    if made is None:
        raise NoData(f"no row counts in {described}", hint="rows in which an argument is NULL do not")
    return made


def _are_alike(matrix: Cofactor, rows: Sequence[Row], keys: Sequence[str]) -> bool:
    """Whether two rows are of the same group and categories: then they are of groups that nothing tells."""
    width = len(keys) + len(matrix.categories)
    return len({tuple(row[:width]) for row in rows}) < len(rows)


def _matrix(view: str, matrices: Sequence[Cofactor], name: str | None) -> Cofactor:
    if not matrices:
        raise Unsupported(
            f"view {view} has no COFACTOR in its SELECT list",
            hint="CREATE MATERIALIZED VIEW name AS SELECT COFACTOR(label, column, ...) FROM ...",
        )
    named = ", ".join(m.name or "(no alias)" for m in matrices)
    if name is None:
        if len(matrices) > 1:
            raise Unsupported(f"view {view} has several COFACTORs: {named}", hint="say which: name='alias'")
        return matrices[0]
    for matrix in matrices:
        if matrix.name.lower() == name.lower():
            return matrix
    raise UnknownColumn(f"view {view} has no COFACTOR with the alias {name}", hint=f"there are: {named}")


def _argument(arguments: Sequence[str], name: str, what: str) -> str:
    """An argument of COFACTOR by its name, whatever its case."""
    for known in arguments:
        if known.lower() == name.lower():
            return known
    raise UnknownColumn(
        f"the {what} {name} is no argument of COFACTOR", hint=f"there are: {', '.join(arguments)}"
    )


def _chosen(keys: Sequence[str], group: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all group columns."""
    if not keys:
        raise Unsupported("the view has no GROUP BY to choose a group of", hint="leave out group")
    given = {name.lower(): value for name, value in group.items()}
    for name in group:
        if name.lower() not in {key.lower() for key in keys}:
            raise UnknownColumn(f"{name} is no group column of the view", hint=f"there are: {_listed(keys)}")
    missing = [key for key in keys if key.lower() not in given]
    if missing:
        raise Unsupported(f"group says nothing of {_listed(missing)}", hint=f"name {_listed(keys)}")
    return {key: given[key.lower()] for key in keys}


def _rows(
    engine: Engine, view: str, matrix: Cofactor, keys: Sequence[str], chosen: Mapping[str, Any]
) -> Sequence[Row]:
    parts = [exp.to_identifier(part, quoted=True) for part in view.split(".")]
    table = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
    query = exp.select(*(column(name) for name in (*keys, *matrix.categories, *matrix.columns))).from_(table)
    terms = [exp.NullSafeEQ(this=column(k), expression=exp.convert(v)) for k, v in chosen.items()]
    condition: Expr | None = conjunction(terms)
    if condition is not None:
        query = query.where(condition)
    return engine.run_query(query, query.sql("spark")).rows


def _by_group(
    matrix: Cofactor, rows: Sequence[Row], keys: Sequence[str], label: str, features: Sequence[str],
    ridge: float,
) -> dict[Group, Regression]:  # fmt: skip
    if _are_alike(matrix, rows, keys):
        raise Unsupported(
            f"several groups have the same {_listed(keys)}",
            hint="select all columns of GROUP BY in the view",
        )
    groups: dict[Group, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[: len(keys)]), []).append(row[len(keys) :])
    made = {group: _model(matrix, some, label, features, ridge) for group, some in groups.items()}
    # groups of which no row counts have no model
    return {group: model for group, model in made.items() if model is not None}


def _model(
    matrix: Cofactor, rows: Sequence[Row], label: str, features: Sequence[str], ridge: float
) -> Regression | None:
    """The model of a group: of one row of the view, or of one for each combination of categories. None where
    no row of the tables counts."""
    try:
        from viewkeep.fivm.model import fit, moments
    except ImportError as problem:
        raise Unavailable("NumPy is not installed", hint='pip install "viewkeep[fivm]"') from problem
    width = len(matrix.categories)
    rows = [row for row in rows if row[width] and None not in row[:width]]
    if not rows:
        return None
    infinite = [x for row in rows for x in row[width:] if isinstance(x, float) and not math.isfinite(x)]
    if infinite:
        raise NoData(
            f"a sum of the matrix is {infinite[0]}, so there is no model",
            hint="leave out the rows with infinite values or NaN, in WHERE",
        )
    elements, count, sums, products = _whole(matrix, rows)
    used = [e for x in features for e in elements if x == (e if isinstance(e, str) else e[0])]
    return fit(moments(elements, count, sums, products), label, used, ridge)


def _whole(matrix: Cofactor, rows: Sequence[Row]) -> tuple[list[Element], int, list[Number], list[Number]]:
    """One matrix of those of all combinations of categories. A category is a column that is 1 in the rows
    that have it, so its sum is their count, and its product with a column the sum of the column over them."""
    from viewkeep.fivm.model import added

    width, size = len(matrix.categories), len(matrix.arguments)
    elements: list[Element] = [*matrix.arguments]
    for i, name in enumerate(matrix.categories):
        elements += [(name, value) for value in sorted({row[i] for row in rows})]
    terms: dict[tuple[Element, ...], list[Number]] = {}
    for row in rows:
        count, sums, products = row[width], row[width + 1 : width + 1 + size], row[width + 1 + size :]
        own: list[Element] = [(name, row[i]) for i, name in enumerate(matrix.categories)]
        for x, total in zip(matrix.arguments, sums, strict=True):
            for it in ((x,), *((x, category) for category in own)):
                terms.setdefault(it, []).append(total)
        for pair, total in zip(upper_half(matrix.arguments), products, strict=True):
            terms.setdefault(pair, []).append(total)
        for it in (*((category,) for category in own), *upper_half(own)):
            terms.setdefault(it, []).append(count)
    return (
        elements,
        sum(row[width] for row in rows),
        [added(terms[e,]) for e in elements],
        [added(terms.get(pair, ())) for pair in upper_half(elements)],
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _said(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in chosen.items())
