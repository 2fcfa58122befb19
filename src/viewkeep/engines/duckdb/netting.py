"""Net changes on DuckDB: the log of each table past a point, combined once for all views that wait there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from viewkeep.capture.duckdb import base_table, log_table
from viewkeep.catalog.models import Table, View
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.names import DuckDBNames, bare, temporary
from viewkeep.engines.report import Counts, kinds_present
from viewkeep.idiff.bags import changed_rows, occurrence_changes, value_changes
from viewkeep.idiff.net import SEQ, census, net_changes_by_enforced_key, tally
from viewkeep.store.duckdb import Log, Store

Present = Mapping[str, frozenset[str]]
# what tells one form of a table from another: its name, its key and its columns
_Form = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class _Made:
    """A net relation that is there: of a table with these columns, between these points of the log; and what
    it holds."""

    table: Table
    after: int
    upto: int
    census: Sequence[Sequence[Any]]


class Nets:
    """The net relations of one session, which are temporary tables of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: dict[str, _Made] = {}
        self._texts: dict[_Form, tuple[str, ...]] = {}

    @property
    def _con(self) -> Any:
        return self._store.con

    def forget(self) -> None:
        """A transaction was rolled back: its relations are gone, and its numbers will be used again."""
        self._made.clear()

    def of(self, view: View, names: DuckDBNames, log: Log, after: int) -> tuple[Present, Counts]:
        """Makes the net changes of each table that a view waits for, unless they are there; which kinds of
        change there are, and how many."""
        present: dict[str, frozenset[str]] = {}
        counts: dict[str, dict[str, int]] = {}
        for table in view.tables:
            if log.changed_after(table.name, after):
                made = self._make(table, names, log, after)
                found = tally(table, made.table, made.census)
                present[table.name], counts[table.name] = kinds_present(found)
        return present, counts

    def _make(self, table: Table, names: DuckDBNames, log: Log, after: int) -> _Made:
        made = self._made.get(table.name)
        if made is None or (made.after, made.upto) != (after, log.upto) or not _serves(made.table, table):
            wide = _widened(table, log, after)
            first, *others, census = self._text(wide, names)
            self._con.execute(first, [after])
            for text in others:
                self._con.execute(text)
            held = self._con.execute(census).fetchall()
            made = self._made[table.name] = _Made(wide, after, log.upto, held)
        return made

    def _text(self, table: Table, names: DuckDBNames) -> tuple[str, ...]:
        """The statements that make a net relation, of which the first takes the point after which it begins,
        and the one that tells what it holds."""
        form = _form(table)
        if form not in self._texts:
            events = _events(table.name, exp.Placeholder())
            net = names.net(table.name)
            told = to_sql(census(table, net))
            if table.key:
                self._texts[form] = (temporary(net, net_changes_by_enforced_key(table, events)), told)
            else:
                values = exp.table_(f"viewkeep:values:{table.name.lower()}", quoted=True)
                rows = occurrence_changes(table, values, base_table(table.name))
                made = temporary(values, value_changes(table, events))
                self._texts[form] = (made, temporary(net, rows), told)
        return self._texts[form]


def waiting_rows(con: Any, table: Table, after: int) -> int:
    """How many rows of a table changed past a watermark, each counted once."""
    events = _events(table.name, exp.Literal.number(after))
    if table.key:
        query = counted(net_changes_by_enforced_key(table, events))
    else:
        query = changed_rows(exp.Subquery(this=value_changes(table, events), alias="net"))
    return int(con.execute(to_sql(query)).fetchone()[0])


def counted(query: exp.Query) -> exp.Select:
    """How many rows a query has."""
    return exp.select(exp.Count(this=exp.Star())).from_(exp.Subquery(this=query, alias="counted"))


def _events(table: str, after: exp.Expr) -> exp.Select:
    past = exp.GT(this=bare(SEQ), expression=after)
    return exp.select("*").from_(log_table(table)).where(past)


def _form(table: Table) -> _Form:
    return (table.name, table.key, tuple(c.name for c in table.columns))


def _serves(made: Table, wanted: Table) -> bool:
    """Whether a net relation can be read in place of one with fewer columns. Without a key it cannot: there
    rows are told apart by all the columns that are read."""
    if _form(made) == _form(wanted):
        return True
    fewer = {c.name for c in wanted.columns} <= {c.name for c in made.columns}
    return bool(wanted.key) and made.key == wanted.key and fewer


def _widened(table: Table, log: Log, after: int) -> Table:
    """The table with the columns of all views that wait for the same changes: they will read them here."""
    if not table.key:
        return table
    columns = {c.name: c for c in table.columns}
    for entry in log.entries:
        if entry.watermark == after:
            same = (t for t in entry.view.tables if (t.name, t.key) == (table.name, table.key))
            columns |= {c.name: c for t in same for c in t.columns if c.name not in columns}
    return replace(table, columns=tuple(columns.values()))
