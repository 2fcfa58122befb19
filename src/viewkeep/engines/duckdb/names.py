"""Where the leaves of a plan are, in one DuckDB database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.expressions import pre_name
from viewkeep.algebra.nodes import Scan, State
from viewkeep.capture.duckdb import base_table
from viewkeep.catalog.models import Table
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.idiff.bags import rows_before
from viewkeep.idiff.net import NET_KIND
from viewkeep.store.duckdb import target_table

# aliases that no column has: in a subquery b.k would be taken for a field of a column b
BASE, NET = "viewkeep_base", "viewkeep_net"
_TEMPORARY = exp.Properties(expressions=[exp.TemporaryProperty()])


class DuckDBNames:
    """Where the leaves of a plan are, for one view."""

    row = "rowid"

    def __init__(self, view: str, tables: Sequence[Table]) -> None:
        self._view = view
        self._tables = {table.name: table for table in tables}

    def table(self, scan: Scan) -> exp.Expr:
        """The table as it is, or as it was: without the rows that changed, with what they were."""
        if scan.state == "post":
            return base_table(scan.table)
        table = self._tables[scan.table]
        if not table.key:
            return exp.Subquery(this=rows_before(table, base_table(scan.table), self.net(scan.table)))
        same = exp.select(exp.Literal.number(1)).from_(exp.alias_(self.net(scan.table), NET, table=True))
        for key in table.key:
            same = same.where(exp.EQ(this=_of(NET, key), expression=_of(BASE, key)))
        names = [base for _, base in scan.fields]
        kept = (
            exp.select(*(_of(BASE, n) for n in names))
            .from_(exp.alias_(base_table(scan.table), BASE, table=True))
            .where(exp.Not(this=exp.Exists(this=same)))
        )
        old = exp.select(
            *(exp.alias_(bare(n if n in table.key else pre_name(n)), n, quoted=True) for n in names)
        )
        old = old.from_(self.net(scan.table)).where(
            exp.NEQ(this=bare(NET_KIND), expression=exp.Literal.string("insert"))
        )
        return exp.Subquery(this=exp.Union(this=kept, expression=old, distinct=False))

    def net(self, table: str) -> exp.Expr:
        return exp.table_(f"viewkeep:net:{table.lower()}", quoted=True)

    def ref(self, name: str) -> exp.Expr:
        return exp.table_(f"viewkeep:{name}", quoted=True)

    def stored(self, target: str) -> exp.Expr:
        return target_table(self._view, target)


class AsOf:
    """Base tables as a view shows them: where they changed since, as they were."""

    row = DuckDBNames.row

    def __init__(self, names: DuckDBNames, changed: frozenset[str]) -> None:
        self._names = names
        self._changed = changed

    def table(self, scan: Scan) -> exp.Expr:
        state: State = "pre" if scan.table in self._changed else "post"
        return self._names.table(replace(scan, state=state))

    def net(self, table: str) -> exp.Expr:
        return self._names.net(table)

    def ref(self, name: str) -> exp.Expr:
        return self._names.ref(name)

    def stored(self, target: str) -> exp.Expr:
        return self._names.stored(target)


def temporary(name: exp.Expr, query: exp.Query) -> str:
    """The statement that computes a relation for this session alone."""
    return to_sql(
        exp.Create(this=name, kind="TABLE", replace=True, properties=_TEMPORARY.copy(), expression=query)
    )


def bare(name: str) -> exp.Column:
    """A column by its name alone."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))
