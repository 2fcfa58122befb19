"""The SELECT list: stars written out, and a name for every output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.errors import AmbiguousColumn, UnknownTable, Unsupported
from viewkeep.frontend.aggregates import aggregates_in
from viewkeep.frontend.binding import Binding, Output
from viewkeep.frontend.scope import Relation, bound


def select_list(binding: Binding, tree: exp.Select, relation: Relation) -> list[Output]:
    """The outputs of a SELECT, with their names."""
    outputs: list[Output] = []
    for entry in tree.expressions:
        star = entry.this if isinstance(entry, exp.Column) else entry
        if isinstance(star, exp.Star):
            if star.args.get("replace") or star.args.get("rename"):
                raise binding.fail(
                    Unsupported, tree, "* with REPLACE or RENAME is not Spark's", "list the columns"
                )
            outputs += _starred(binding, entry, star, relation, tree)
        elif isinstance(entry, exp.Alias):
            outputs.append((entry.this, entry.alias))
        else:
            bare = entry.unnest()
            outputs.append((entry, bare.name if isinstance(bare, exp.Column) else _spark_name(entry)))
    return outputs


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


def no_aggregate(binding: Binding, tree: Expr, clause: str) -> None:
    """Refuses aggregates where a clause is about single rows."""
    for node in aggregates_in(tree):
        raise binding.fail(
            Unsupported, node, f"{node.sql('spark')} cannot stand in {clause}",
            "aggregate in a derived table, or use HAVING",
        )  # fmt: skip
