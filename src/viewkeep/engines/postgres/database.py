"""What PostgreSQL does in a refresh, in its own words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sqlglot import exp

from viewkeep.algebra.nodes import Column
from viewkeep.algebra.types import STRING
from viewkeep.capture.postgres import AFTER, PLACES, XID, compares_bytes, events, quoted
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.engines.following import as_arrow
from viewkeep.engines.postgres.dialect import collated, to_sql
from viewkeep.engines.postgres.session import Session
from viewkeep.engines.transactional.names import bare
from viewkeep.engines.transactional.netting import counted

_TEMPORARY = exp.Properties(expressions=[exp.TemporaryProperty()])
# Room on each page for new versions of its rows: one that stays on its page needs no new entries in indexes.
_ROOMY = exp.Properties(expressions=[exp.Property(this=exp.var("fillfactor"), value=exp.Literal.number(85))])
# A log is empty whenever the server looks at how large it is, so it plans for one entry, and compares each
# entry with each. What combines entries has no use for loops.
WITHOUT_LOOPS = "SELECT set_config('enable_nestloop', 'off', true)"
_WITH_LOOPS = "SET LOCAL enable_nestloop TO DEFAULT"
# Of a relation of fewer rows the server's guess is good enough, and takes no time. Net changes are what all
# joins begin with: taken for ten pages full, 200 of them make it read whole tables.
WORTH_ANALYZING, NET_WORTH_ANALYZING = 20_000, 100

# seconds that a statement takes however little it reads
A_STATEMENT = 0.004


class PostgresDatabase:
    """One connection. The points of its log are snapshots."""

    places = PLACES
    # A row stays where it is until somebody changes it, and only who holds the view does; to move rows
    # otherwise (VACUUM FULL) takes a lock that waits for the refresh.
    row = "ctid"
    full_joins = False  # only of equalities
    indexes_several = True
    # Keys that may be null are not joined by hashing: without an index each is compared with every row.
    worth_an_index = 500
    indexes_in_refreshes = False  # everybody who writes to the table would have to wait
    unordered = XID  # triggers of the user's make statements within statements
    keeps_images = False
    looked_up = sys.maxsize  # its planner weighs both ways by what it knows of the relations

    def __init__(self, session: Session) -> None:
        self._session = session
        self._analyzes: dict[str, str] = {}
        """For each statement that makes a relation, the one that has the server look at it."""
        self.compares_bytes = compares_bytes(session)

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        return to_sql(tree, pretty, says_collation=not self.compares_bytes)

    def rows(self, sql: str) -> list[list[Any]]:
        return self._session.rows(sql)

    def run(self, sql: str) -> int:
        return self._made(sql, WORTH_ANALYZING)

    def _made(self, sql: str, worth_analyzing: int) -> int:
        count = self._session.run(sql)
        if count >= worth_analyzing and sql in self._analyzes:
            self._session.run(self._analyzes[sql])
        return count

    def read(self, table: Table, names: Sequence[str]) -> exp.Expr:
        strings = {c.name for c in table.columns if c.type == STRING}
        if not strings.intersection(names):
            return PLACES.base(table.name)
        outputs = [exp.alias_(collated(bare(n)), n, quoted=True) if n in strings else bare(n) for n in names]
        return exp.Subquery(this=exp.select(*outputs).from_(PLACES.base(table.name)))

    def events(self, table: str) -> exp.Select:
        return events(table)

    def events_after(self, table: str, after: str) -> exp.Select:
        return events(table, after)

    def arrow(self, query: exp.Query, columns: Sequence[TableColumn]) -> Any:
        return as_arrow(columns, self._session.rows(self.sql(query)))

    def run_after(self, sql: str, after: str) -> None:
        # a setting, since statements that make tables take no parameters
        self._session.rows(f"{WITHOUT_LOOPS}, set_config($1, $2, true)", AFTER, after)
        self._made(sql, NET_WORTH_ANALYZING)
        self._session.run(_WITH_LOOPS)

    def rows_after(self, sql: str, after: str) -> list[list[Any]]:
        self._session.rows("SELECT set_config($1, $2, true)", AFTER, after)
        return self._session.rows(sql)

    def temporary(self, name: exp.Expr, query: exp.Query) -> str:
        made = exp.Create(this=name, kind="TABLE", properties=_TEMPORARY.copy(), expression=query)
        place = exp.Table(this=name.this.copy(), db=exp.to_identifier("pg_temp"))
        drop = exp.Drop(tables=[place], kind="TABLE", exists=True)
        sql = "; ".join([self.sql(drop), self.sql(made)])
        self._analyzes[sql] = self.sql(exp.Analyze(tables=[place.copy()]))
        return sql

    def fill(self, place: exp.Table, query: exp.Query, by: Sequence[Column] = ()) -> int:
        """Rows are replaced, not their table: the user's view reads it, and a transaction that began before
        goes on seeing the old ones. Rows that a script looks up together are stored together: else each of
        them is on a page of its own, to be read, cleared of old versions, changed and written."""
        if by:
            rows = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("rows")))
            query = exp.select("*").from_(rows).order_by(*(bare(column.name) for column in by))
        known = self._session.rows("SELECT to_regclass($1) IS NOT NULL", place.sql(dialect="postgres"))
        if known[0][0]:
            self.run(self.sql(exp.Delete(this=place.copy())))
            count = self.run(self.sql(exp.Insert(this=place.copy(), expression=query)))
        else:
            made = exp.Create(this=place.copy(), kind="TABLE", properties=_ROOMY.copy(), expression=query)
            count = self.run(self.sql(made))
        self.run(self.sql(exp.Analyze(tables=[place.copy()])))
        return count

    def sizes(self, places: Sequence[exp.Table]) -> list[int]:
        # what is known since they were last analyzed, brought to the size that they have now
        rows = self._session.rows(
            "SELECT c.reltuples, c.relpages, pg_relation_size(c.oid) / current_setting('block_size')::int "
            "FROM unnest(CAST($1 AS text[])) WITH ORDINALITY AS p(name, number) "
            "JOIN pg_class c ON c.oid = CAST(p.name AS regclass) ORDER BY p.number",
            [place.sql(dialect="postgres") for place in places],
        )
        return [
            round(tuples / pages * int(now)) if tuples > 0 and pages else self._count(place)
            for place, (tuples, pages, now) in zip(places, rows, strict=True)
        ]

    def _count(self, place: exp.Table) -> int:
        return int(self.rows(self.sql(counted(exp.select("*").from_(place))))[0][0])

    def distinct_values(self, table: str, column: str) -> int:
        found = self._session.rows(
            "SELECT s.n_distinct, c.reltuples FROM pg_stats s "
            "JOIN pg_namespace n ON n.nspname = s.schemaname "
            "JOIN pg_class c ON c.relname = s.tablename AND c.relnamespace = n.oid "
            "WHERE c.oid = CAST($1 AS regclass) AND s.attname = $2",
            quoted(table),
            column,
        )
        if found:
            share, rows = found[0]
            return int(share if share >= 0 else -share * rows)
        values = exp.Count(this=exp.Distinct(expressions=[bare(column)]))
        return int(self.rows(self.sql(exp.select(values).from_(PLACES.base(table))))[0][0])

    def at_least(self, sql: str) -> float:
        return A_STATEMENT

    def planning(self) -> AbstractContextManager[None]:
        return nullcontext()
