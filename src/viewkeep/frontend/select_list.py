"""The SELECT list: stars and earlier aliases written out, and a name for every output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, over_parts
from viewkeep.algebra.types import Type
from viewkeep.errors import AmbiguousColumn, UnknownTable, Unsupported
from viewkeep.frontend.aggregates import aggregates_in
from viewkeep.frontend.binding import Binding, Output
from viewkeep.frontend.cofactor import columns_of_cofactor, is_cofactor, no_clashes
from viewkeep.frontend.scope import Relation, Scope, bound


def select_list(binding: Binding, tree: exp.Select, relation: Relation, scope: Scope) -> list[Output]:
    """The outputs of a SELECT, with their names."""
    outputs: list[Output] = []
    columns = {f.name.lower() for f in relation.fields}
    earlier: dict[str, Expr] = {}
    for written in tree.expressions:
        entry = _with_aliases(written, {n: e for n, e in earlier.items() if n not in columns})
        star = entry.this if isinstance(entry, exp.Column) else entry
        if isinstance(star, exp.Star):
            if star.args.get("replace") or star.args.get("rename"):
                raise binding.fail(
                    Unsupported, tree, "* with REPLACE or RENAME is not Spark's", "list the columns"
                )
            outputs += _starred(binding, entry, star, relation, tree)
        elif is_cofactor(entry):
            outputs += columns_of_cofactor(binding, tree, written, entry, scope)
        elif isinstance(entry, exp.Alias):
            outputs.append((entry.this, entry.alias))
            earlier[entry.alias.lower()] = entry.this
        else:
            bare = written.unnest()
            outputs.append((entry, bare.name if isinstance(bare, exp.Column) else _spark_name(written)))
    no_clashes(binding, tree, outputs)
    return outputs


def _with_aliases(tree: Expr, earlier: Mapping[str, Expr]) -> Expr:
    """The expression with what an earlier alias of the list stands for; in a subquery it has no meaning."""
    if isinstance(tree, exp.Query) or not earlier:
        return tree
    if isinstance(tree, exp.Column):
        known = not tree.table and not isinstance(tree.this, exp.Star) and tree.name.lower() in earlier
        return exp.Paren(this=earlier[tree.name.lower()].copy()) if known else tree
    return over_parts(tree, lambda part: _with_aliases(part, earlier))


def _spark_name(entry: Expr) -> str:
    """An expression without a name is called what Spark would call it: by its text."""
    text = entry.sql("spark")
    return text.replace("COUNT(*)", "count(1)") if isinstance(entry, exp.Count) else text.lower()


def _starred(
    binding: Binding, entry: Expr, star: exp.Star, relation: Relation, tree: exp.Select
) -> list[Output]:
    """The columns of * or alias.*, but for those that EXCEPT names."""
    qualifier = entry.table if isinstance(entry, exp.Column) else ""
    fields = relation.starred()
    if qualifier:  # a column that USING merged away is still its table's, and comes first
        hidden = [f for f in relation.fields if f.merged]
        fields = [f for f in hidden + fields if f.qualifier.lower() == qualifier.lower()]
    if not fields:
        raise binding.fail(UnknownTable, entry, f"nothing in FROM is called {qualifier}", "check the alias")
    unwanted = star.args.get("except_") or []
    names = {column.name.lower() for column in unwanted}
    for alias, columns in binding.refused.items():
        left = {name: kind for name, kind in columns.items() if name.lower() not in names}
        if left and (not qualifier or qualifier.lower() == alias):
            name, type_name = next(iter(left.items()))
            raise binding.fail(
                Unsupported, tree, f"* brings in {alias}.{name} of type {type_name}",
                "list the columns that the view needs",
            )  # fmt: skip
    refused = {name.lower() for columns in binding.refused.values() for name in columns}
    scope = binding.scope(replace(relation, fields=tuple(fields)))
    gone = set()
    for column in unwanted:
        if column.name.lower() not in refused:
            named = isinstance(column, exp.Column) and column.table
            gone.add(scope.find(named or None, column.name, column).column.name)
    return [(bound(f.column.name), f.name) for f in fields if f.column.name not in gone]


def no_duplicates(binding: Binding, tree: Expr, names: Sequence[str]) -> None:
    """Each output needs a name of its own."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise binding.fail(
                AmbiguousColumn, tree, f"two columns are called {name}", "give one an alias: AS"
            )
        seen.add(name.lower())


def no_array(binding: Binding, tree: Expr, *kinds: Type) -> None:
    """Refuses arrays where rows are told apart by them: they cannot be keys of what is stored."""
    if any(kind.kind == "array" for kind in kinds):
        raise binding.fail(
            Unsupported, tree, "rows cannot be grouped by an array, nor made distinct", "use ARRAY_JOIN(...)"
        )


def no_aggregate(binding: Binding, tree: Expr, clause: str) -> None:
    """Refuses aggregates where a clause is about single rows."""
    for node in aggregates_in(tree):
        raise binding.fail(
            Unsupported, node, f"{node.sql('spark')} cannot stand in {clause}",
            "aggregate in a derived table, or use HAVING",
        )  # fmt: skip
