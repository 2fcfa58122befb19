"""Where the leaves of a plan are, in one database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeep.algebra.bags import OCCURRENCE
from viewkeep.algebra.expressions import pre_name
from viewkeep.algebra.nodes import Scan, State
from viewkeep.catalog.models import Table
from viewkeep.engines.transactional.database import Database
from viewkeep.idiff.bags import rows_before
from viewkeep.idiff.net import NET_KIND

# aliases that no column has: in a subquery b.k would be taken for a field of a column b
BASE, NET = "viewkeep_base", "viewkeep_net"


class TableNames:
    """Where the leaves of a plan are, for one view."""

    def __init__(self, database: Database, view: str, tables: Sequence[Table]) -> None:
        self._database = database
        self._view = view
        self._tables = {table.name: table for table in tables}
        self.row, self.full_joins = database.row, database.full_joins

    def table(self, scan: Scan) -> exp.Expr:
        """The table as it is, or as it was: without the rows that changed, with what they were."""
        table = self._tables[scan.table]
        names = [base for _, base in scan.fields if base != OCCURRENCE]
        if scan.state == "post":
            return self._database.read(table, names)
        known = {c.name for c in table.columns}
        before = self._before(table, [n for n in names if n in known])
        unknown = [(c, base) for c, base in scan.fields if base in set(names) - known]
        if not unknown:
            return exp.Subquery(this=before)
        # what is not logged, nothing comes of
        nulls = (exp.alias_(exp.Cast(this=exp.Null(), to=c.type.sql()), n, quoted=True) for c, n in unknown)
        return exp.Subquery(this=exp.select("*", *nulls).from_(exp.Subquery(this=before, alias=BASE)))

    def _before(self, table: Table, names: Sequence[str]) -> exp.Query:
        if not table.key:
            now = self._database.read(table, [c.name for c in table.columns])
            return rows_before(table, now, self.net(table.name))
        now = self._database.read(table, list(dict.fromkeys([*table.key, *names])))
        same = exp.select(exp.Literal.number(1)).from_(exp.alias_(self.net(table.name), NET, table=True))
        for key in table.key:
            same = same.where(exp.EQ(this=_of(NET, key), expression=_of(BASE, key)))
        kept = (
            exp.select(*(_of(BASE, n) for n in names))
            .from_(exp.alias_(now, BASE, table=True))
            .where(exp.Not(this=exp.Exists(this=same)))
        )
        old = exp.select(
            *(exp.alias_(bare(n if n in table.key else pre_name(n)), n, quoted=True) for n in names)
        )
        old = old.from_(self.net(table.name)).where(
            exp.NEQ(this=bare(NET_KIND), expression=exp.Literal.string("insert"))
        )
        return exp.Union(this=kept, expression=old, distinct=False)

    def net(self, table: str) -> exp.Expr:
        return self._database.places.passing(f"net:{table.lower()}")

    def images(self, table: str) -> exp.Expr | None:
        if not self._database.keeps_images or not self._tables[table].key:
            return None
        return self._database.places.passing(f"images:{table.lower()}")

    def ref(self, name: str) -> exp.Expr:
        return self._database.places.passing(name)

    def stored(self, target: str) -> exp.Expr:
        return self._database.places.target(self._view, target)


class AsOf:
    """Base tables as a view shows them: where they changed since, as they were."""

    def __init__(self, names: TableNames, changed: frozenset[str]) -> None:
        self._names = names
        self._changed = changed
        self.row, self.full_joins = names.row, names.full_joins

    def table(self, scan: Scan) -> exp.Expr:
        state: State = "pre" if scan.table in self._changed else "post"
        return self._names.table(replace(scan, state=state))

    def net(self, table: str) -> exp.Expr:
        return self._names.net(table)

    def images(self, table: str) -> exp.Expr | None:
        return self._names.images(table)

    def ref(self, name: str) -> exp.Expr:
        return self._names.ref(name)

    def stored(self, target: str) -> exp.Expr:
        return self._names.stored(target)


def bare(name: str) -> exp.Column:
    """A column by its name alone."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))
