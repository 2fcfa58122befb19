"""Views over views: a materialized view in FROM stands for its query, as a derived table under its name.

So a view over views is kept equal to its query over the base tables as of one version, however fresh the
views between are; refreshing it brings those to the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from viewkeep.algebra.expressions import Expr
from viewkeep.errors import Unsupported

Definition = Callable[[str], Expr | None]


def with_views_in_place(query: Expr, definition: Definition) -> Expr:
    """The query with each view that it names replaced by the view's own query, which `definition` gives."""
    made = query.copy()
    ctes = {cte.alias.lower() for cte in made.find_all(exp.CTE)}
    for table in list(tables_in(made)):
        inner = definition(".".join(part.name for part in table.parts))
        if inner is None:
            continue
        # inside its new place a name of the view's tables would be taken for a CTE around it
        hidden = next((t.name for t in tables_in(inner) if t.name.lower() in ctes and not t.db), None)
        if hidden is not None:
            raise Unsupported(
                f"the CTE {hidden} has the name of a table that view {table.name} reads",
                hint="give the CTE another name",
            )
        alias = table.args.get("alias")
        name = alias.this.copy() if alias is not None else exp.to_identifier(table.name)
        columns = [c.copy() for c in alias.args.get("columns") or []] if alias is not None else []
        derived = exp.Subquery(this=inner.copy(), alias=exp.TableAlias(this=name, columns=columns))
        derived.this.meta.clear()
        for key in ("joins", "laterals"):
            if table.args.get(key):
                derived.set(key, table.args[key])
        table.replace(derived)
    return made


def tables_in(query: Expr) -> Iterator[exp.Table]:
    """The tables that a query names; the name of a CTE is none."""
    return (table for table in query.find_all(exp.Table) if not means_cte(table))


def means_cte(table: exp.Table) -> bool:
    """Whether a name means a CTE. In the body of a CTE its own name, and later ones, mean tables."""
    inside: Expr | None = table
    while inside is not None and not table.db:
        clause = inside.args.get("with_")
        if clause is not None:
            names = [cte.alias.lower() for cte in clause.expressions]
            at = next((n for n, cte in enumerate(clause.expressions) if _within(table, cte)), len(names))
            if table.name.lower() in names[:at]:
                return True
        inside = inside.parent
    return False


def _within(node: Expr, whole: Expr) -> bool:
    at: Expr | None = node
    while at is not None and at is not whole:
        at = at.parent
    return at is whole
