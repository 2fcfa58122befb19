"""Net changes: the log of each table past a point, combined once for all views that wait there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from viewkeep.algebra.script_nodes import SIGN as SIGN_OF_IMAGE
from viewkeep.catalog.models import Table, View
from viewkeep.engines.report import Counts, kinds_present
from viewkeep.engines.transactional.database import Database, Log, Point
from viewkeep.engines.transactional.names import TableNames, bare
from viewkeep.idiff.bags import changed_rows, occurrence_changes, value_changes
from viewkeep.idiff.net import SEQ, SIGN, census, images, net_changes_by_enforced_key, tally

# seconds that combining takes by estimate, before any was timed: for a table, and for an event of its log
A_TABLE, AN_EVENT = 0.006, 1e-6
MANY_EVENTS = 5_000

Present = Mapping[str, frozenset[str]]
# what tells one form of a table from another: its name, its key and its columns
_Form = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class _Made:
    """A net relation that is there: of a table with these columns, between these points of the log; and what
    it holds."""

    table: Table
    after: Point
    upto: Point
    census: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Waiting:
    """Changes that nobody has combined yet: of each table the rows that statements inserted or deleted, and
    the rows that they updated, which a view need not see; the seconds that combining them should take; and a
    view's share of these, where others will use what was combined."""

    rows: Mapping[str, tuple[int, int]]
    seconds: float
    share: float

    @property
    def moved(self) -> int:
        """The rows that came or went, in all tables."""
        return sum(moved for moved, _ in self.rows.values())


class Nets:
    """The net relations of one session, which are temporary tables of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._made: dict[str, _Made] = {}
        self._imaged: dict[str, _Made] = {}
        """The net relations of which there are images."""
        self._texts: dict[_Form, tuple[str, ...]] = {}
        self._image_texts: dict[_Form, str] = {}
        self._counted: dict[str, tuple[Point, Point, int, int]] = {}
        self._an_event = AN_EVENT

    def forget(self) -> None:
        """A transaction was rolled back: its relations are gone, and its numbers will be used again."""
        self._made.clear()
        self._imaged.clear()
        self._counted.clear()

    def waiting(
        self, view: View, log: Log, after: Point, propagates: Callable[[View], bool]
    ) -> Waiting | None:
        """What the log has for a view, where something of it is still to be combined. A statement that takes
        rows and brings as many is an update of them. `propagates`: whether a view is likely to use what is
        combined, rather than be recomputed."""
        changed = [table for table in view.tables if log.changed_after(table.name, after)]
        if all(self._is_made(table, log, after) for table in changed):
            return None
        rows = {table.name: self._count(table, log, after) for table in changed}
        todo = [table for table in changed if not self._is_made(table, log, after)]
        others = [v for v in log.waiting_at(after) if v.name != view.name and propagates(v)]
        seconds = {table.name: self._combining(*rows[table.name]) for table in todo}
        share = sum(took / (1 + _readers(table, others)) for table, took in seconds.items())
        return Waiting(rows, sum(seconds.values()), share)

    def _combining(self, moved: int, updated: int) -> float:
        return A_TABLE + self._an_event * (moved + 2 * updated)

    def _count(self, table: Table, log: Log, after: Point) -> tuple[int, int]:
        known = self._counted.get(table.name)
        if known is None or known[:2] != (after, log.upto):
            sql = self._database.sql(moves_and_updates(self._database.events(table.name)))
            rows = self._database.rows_after(sql, after)
            brought, taken = ([int(row[n]) for row in rows] for n in (0, 1))
            moves = sum(abs(b - t) for b, t in zip(brought, taken, strict=True))
            updates = sum(min(b, t) for b, t in zip(brought, taken, strict=True))
            known = self._counted[table.name] = (after, log.upto, moves, updates)
        return known[2:]

    def _is_made(self, table: Table, log: Log, after: Point) -> bool:
        made = self._made.get(table.name)
        return (
            made is not None and (made.after, made.upto) == (after, log.upto) and _serves(made.table, table)
        )

    def of(self, view: View, names: TableNames, log: Log, after: Point) -> tuple[Present, Counts]:
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

    def image(self, tables: Iterable[str], names: TableNames) -> None:
        """Makes the images of net changes that are there, unless there are images of them."""
        for table in tables:
            made, place = self._made.get(table), names.images(table)
            if made is not None and place is not None and self._imaged.get(table) is not made:
                form = _form(made.table)
                if form not in self._image_texts:
                    query = images(made.table, names.net(table), SIGN_OF_IMAGE.name)
                    self._image_texts[form] = self._database.temporary(place, query)
                self._database.run(self._image_texts[form])
                self._imaged[table] = made

    def _make(self, table: Table, names: TableNames, log: Log, after: Point) -> _Made:
        made = self._made.get(table.name)
        if made is None or not self._is_made(table, log, after):
            started = time.perf_counter()
            wide = _widened(table, log, after)
            first, *others, census = self._text(wide, names)
            self._database.run_after(first, after)
            for text in others:
                self._database.run(text)
            held = self._database.rows(census)
            made = self._made[table.name] = _Made(wide, after, log.upto, held)
            counted = self._counted.get(table.name)
            if counted is not None and counted[:2] == (after, log.upto):
                took = max(0.0, time.perf_counter() - started - A_TABLE)
                events = counted[2] + 2 * counted[3]
                if events >= MANY_EVENTS:  # of few, most of the time is there for any number of them
                    self._an_event = took / events
        return made

    def _text(self, table: Table, names: TableNames) -> tuple[str, ...]:
        """The statements that make a net relation, of which the first takes the point after which it begins,
        and the one that tells what it holds."""
        form = _form(table)
        if form not in self._texts:
            database = self._database
            events, net = database.events(table.name), names.net(table.name)
            told = database.sql(census(table, net))
            if table.key:
                made = [
                    database.temporary(net, net_changes_by_enforced_key(table, events, database.unordered))
                ]
            else:
                values = database.places.passing(f"values:{table.name.lower()}")
                now = database.read(table, [c.name for c in table.columns])
                made = [
                    database.temporary(values, value_changes(table, events)),
                    database.temporary(net, occurrence_changes(table, values, now)),
                ]
            self._texts[form] = (*made, told)
        return self._texts[form]


def _readers(table: str, views: Sequence[View]) -> int:
    return sum(any(read.name == table for read in view.tables) for view in views)


def moves_and_updates(events: exp.Select) -> exp.Select:
    """For each statement of a log, how many rows it brought and how many it took."""

    def signed(kind: type[exp.GT] | type[exp.LT]) -> exp.Expr:
        of_sign = kind(this=bare(SIGN), expression=exp.Literal.number(0))
        case = exp.Case(ifs=[exp.If(this=of_sign, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        return exp.Sum(this=case)

    log = exp.Subquery(this=events, alias=exp.TableAlias(this=exp.to_identifier("log")))
    return exp.select(signed(exp.GT), signed(exp.LT)).from_(log).group_by(bare(SEQ))


def waiting_rows(table: Table, events: exp.Select, unordered: str) -> exp.Select:
    """How many rows of a table changed, each counted once, from its events."""
    if table.key:
        return counted(net_changes_by_enforced_key(table, events, unordered))
    return changed_rows(exp.Subquery(this=value_changes(table, events), alias="net"))


def counted(query: exp.Query) -> exp.Select:
    """How many rows a query has."""
    return exp.select(exp.Count(this=exp.Star())).from_(exp.Subquery(this=query, alias="counted"))


def _form(table: Table) -> _Form:
    return (table.name, table.key, tuple(c.name for c in table.columns))


def _serves(made: Table, wanted: Table) -> bool:
    """Whether a net relation can be read in place of one with fewer columns. Without a key it cannot: there
    rows are told apart by all the columns that are read."""
    if _form(made) == _form(wanted):
        return True
    fewer = {c.name for c in wanted.columns} <= {c.name for c in made.columns}
    return bool(wanted.key) and made.key == wanted.key and fewer


def _widened(table: Table, log: Log, after: Point) -> Table:
    """The table with the columns of all views that wait for the same changes: they will read them here."""
    if not table.key:
        return table
    columns = {c.name: c for c in table.columns}
    for view in log.waiting_at(after):
        same = (t for t in view.tables if (t.name, t.key) == (table.name, table.key))
        columns |= {c.name: c for t in same for c in t.columns if c.name not in columns}
    return replace(table, columns=tuple(columns.values()))
