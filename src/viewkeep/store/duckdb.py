"""What viewkeep keeps in a DuckDB file: the schema `viewkeep`, next to the user's tables.

    meta    the format; the number of the last logged statement, of all (seq) and of one table (log:T); of a
            view, whether it is without its caches (bare:V), and the microseconds that its longest relation
            took to be filled (longest:V)
    views   one row a view: its definition and its watermark, the last statement that it shows
    tables  foreign keys, which DuckDB itself would enforce too eagerly to be declared there
    history one row a refresh: when, to which versions, how, why, and what it took
    log:T   the modification log of base table T       view:V:rows, view:V:cache_1  what view V stores

View, caches and watermark move in one transaction. A refresh that had nothing to do changes none of them, so
that it is noted with the next one that does: its row of the history, and how far it looked.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
from sqlglot import exp

from viewkeep.capture.duckdb import PLACES, create_log
from viewkeep.catalog.models import FORMAT, Table, View
from viewkeep.chooser import Past
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.errors import CorruptCatalog
from viewkeep.idiff.net import SEQ
from viewkeep.results import Refresh

# how many earlier refreshes of a view the chooser looks at
REMEMBERED = 50
# how many refreshes that did nothing may be not written down
MOST_UNWRITTEN = 100
_MISSING = object()
# For each database file that this process has open, how often viewkeep's tables in it may have changed, and
# the stores that are in a transaction. Nobody else can write to the file, so what was read is right until the
# number moves, whoever moved it, as long as no other store is about to commit.
_CHANGES: Counter[str] = Counter()
_OPEN: defaultdict[str, set[int]] = defaultdict(set)
_COUNTING = Lock()


@dataclass(frozen=True)
class Entry:
    """A view as it is registered."""

    view: View
    watermark: int


@dataclass(frozen=True)
class Log:
    """The modification log as a transaction sees it: the views that read it, the number of the last
    statement, and what else `meta` has."""

    entries: Sequence[Entry]
    upto: int
    numbers: Mapping[str, int]

    def watermark(self, view: str) -> int:
        """The last statement that a view shows."""
        mark = next((e.watermark for e in self.entries if e.view.name.lower() == view.lower()), _MISSING)
        if mark is _MISSING:
            raise CorruptCatalog(
                f"view {view} is not registered any more", hint="was it dropped by another session?"
            )
        if not isinstance(mark, int) or mark > self.upto:
            raise CorruptCatalog(
                f"the watermark of view {view} is {mark}, past the last logged statement",
                hint=f"drop view {view} and create it again; base tables are not affected",
            )
        return mark

    def changed_after(self, table: str, after: int) -> bool:
        """Whether a statement past a watermark changed the table. Of a file that an earlier version of
        viewkeep made it may not be known."""
        return after < min(self.upto, self.numbers.get(f"log:{table.lower()}", self.upto))

    def waiting_at(self, after: int) -> list[View]:
        """The views that show the log up to a statement."""
        return [e.view for e in self.entries if e.watermark == after]

    def is_bare(self, view: View) -> bool:
        """Whether a view is without its caches."""
        return bool(self.numbers.get(f"bare:{view.name.lower()}"))

    def longest(self, view: View) -> float | None:
        """The seconds that the longest of a view's relations took to be filled."""
        found = self.numbers.get(f"longest:{view.name.lower()}")
        return None if found is None else found / 1e6

    def moved(self, view: View) -> Log:
        """The log after a view was brought to its end."""
        entries = [replace(e, watermark=self.upto) if e.view.name == view.name else e for e in self.entries]
        return replace(self, entries=entries)

    def seen_by_all(self, table: str) -> int:
        """The last statement that every view that reads the table shows."""
        readers = (e for e in self.entries if any(t.name == table for t in e.view.tables))
        return min((e.watermark for e in readers), default=0)


@dataclass(frozen=True)
class _Read:
    """What was read of views and meta, with what this session has written since, and when."""

    at: int
    entries: tuple[Entry, ...] | None = None
    numbers: Mapping[str, int] | None = None


@dataclass(frozen=True)
class _Note:
    """A refresh that is to be written down, and when it was, by the clock of this process. `watermark`: where
    the view is then, unless that is written down already."""

    done: Refresh
    watermark: int | None
    versions: Mapping[str, int]
    when: float


class Store:
    """viewkeep's own tables in one DuckDB database. `path`: of its file; "" in memory."""

    def __init__(self, con: Any, path: str = "") -> None:
        self.con = con
        self._database = str(Path(path).resolve()) if path else f"memory {id(self)}"
        self._read = _Read(-1)
        self._began: int | None = None
        """How often viewkeep's tables had changed when the transaction began, where no other was open."""
        self._own = 0
        """How often this transaction has changed them."""
        self._notes: list[_Note] = []
        self._later: list[_Note] = []
        """Of earlier transactions: refreshes that did nothing."""
        self._before: list[_Note] = []
        """Those that there were when the transaction began."""
        self._logged: dict[str, tuple[str, ...]] = {}
        """The columns of logs, by the lower case of their tables' names."""
        self._past: dict[str, list[Past]] = {}
        known = con.execute(
            "SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'viewkeep' "
            "AND database_name = current_database()"
        ).fetchone()[0]
        if not known:
            self._create()
        self._check()
        self.con.execute(
            "CREATE TABLE IF NOT EXISTS viewkeep.history (view VARCHAR, refreshed TIMESTAMP, "
            "versions VARCHAR, strategy VARCHAR, reason VARCHAR, changes_in BIGINT, rows_changed BIGINT, "
            "diff_rows BIGINT, statements BIGINT, seconds DOUBLE)"
        )

    def _create(self) -> None:
        self.con.execute("BEGIN")
        self.con.execute("CREATE SCHEMA viewkeep")
        self.con.execute("CREATE TABLE viewkeep.meta (key VARCHAR PRIMARY KEY, value BIGINT)")
        self.con.execute("INSERT INTO viewkeep.meta VALUES ('format', ?), ('seq', 0)", [FORMAT])
        self.con.execute(
            "CREATE TABLE viewkeep.views (name VARCHAR PRIMARY KEY, position BIGINT, doc VARCHAR, "
            "watermark BIGINT, refreshed TIMESTAMP)"
        )
        self.con.execute("CREATE TABLE viewkeep.tables (name VARCHAR PRIMARY KEY, doc VARCHAR)")
        self.con.execute("COMMIT")

    def _check(self) -> None:
        try:
            row = self.con.execute("SELECT value FROM viewkeep.meta WHERE key = 'format'").fetchone()
            self.con.execute("SELECT name, position, doc, watermark, refreshed FROM viewkeep.views LIMIT 0")
            self.con.execute("SELECT name, doc FROM viewkeep.tables LIMIT 0")
        except duckdb.Error as problem:
            raise CorruptCatalog(
                f"the schema viewkeep is not as viewkeep left it: {problem}",
                hint="restore the file from a backup, or DROP SCHEMA viewkeep CASCADE and create "
                "the views again; base tables are not affected",
            ) from problem
        if row is None or row[0] != FORMAT:
            raise CorruptCatalog(
                f"the file has viewkeep format {row[0] if row else 'none'}, this is format {FORMAT}",
                hint="open it with the version of viewkeep that wrote it",
            )

    # --- what was read before ---

    def _known(self) -> _Read:
        if self._read.at != _CHANGES[self._database] or self._others():
            self._read = _Read(_CHANGES[self._database])
        return self._read

    def _others(self) -> set[int]:
        """The other stores of this database that are in a transaction."""
        return _OPEN[self._database] - {id(self)}

    def _write(self, sql: str, values: Sequence[Any], **known: Any) -> None:
        """Changes viewkeep's own tables. `known`: what is known of them then, of what was read before; None
        where it is to be read again."""
        with _COUNTING:
            is_right = self._read.at == _CHANGES[self._database]
            _CHANGES[self._database] += 1
            self._own += 1
            if is_right:
                self._read = replace(self._read, at=_CHANGES[self._database], **known)
        self.con.execute(sql, values)

    # --- transactions ---

    def begun(self) -> None:
        """A transaction begins."""
        with _COUNTING:
            self._began = _CHANGES[self._database] if not self._others() else None
            self._own = 0
            self._before = list(self._later)
            _OPEN[self._database].add(id(self))

    def ended(self, *, committed: bool) -> None:
        """A transaction has ended: what others read meanwhile was as before it. What this one has read, and
        written, is right where it was committed and alone."""
        with _COUNTING:
            _OPEN[self._database].discard(id(self))
            alone = self._began is not None and not self._others()
            alone = alone and _CHANGES[self._database] == (self._began or 0) + self._own
            is_right = committed and alone and self._read.at == _CHANGES[self._database]
            if self._own:
                _CHANGES[self._database] += 1
            self._read = replace(self._read, at=_CHANGES[self._database]) if is_right else _Read(-1)
        self._later = [*self._later, *self._notes] if committed else self._before
        self._notes = []

    def settle(self) -> None:
        """Writes down what the transaction did, before it is committed. Where it did nothing, that can wait:
        were it lost, the next refresh would look at the same part of the log again."""
        if any(note.done.strategy != "none" for note in self._notes):
            self._write_notes()
        if len(self._later) >= MOST_UNWRITTEN:
            self.write_down()

    @property
    def is_behind(self) -> bool:
        """Whether refreshes are not written down yet."""
        return bool(self._later or self._notes)

    def write_down(self) -> None:
        """Writes down all refreshes that are not yet: before anyone reads of them, and before the log loses
        what they have seen."""
        self._write_notes()
        if not self._later:
            return
        now = time.time()
        marks = {
            (n.done.view.lower(), n.watermark): round((now - n.when) * 1e6)
            for n in self._later
            if n.watermark is not None
        }
        if marks:  # another session may have moved a view further since
            rows = ", ".join("(?, ?, ?)" for _ in marks)
            self._write(
                "UPDATE viewkeep.views AS v SET watermark = greatest(v.watermark, d.mark), "
                "refreshed = greatest(v.refreshed, now()::TIMESTAMP - to_microseconds(d.ago)) FROM "
                "(SELECT name, max(mark) AS mark, min(ago) AS ago "
                f"FROM (VALUES {rows}) AS n(name, mark, ago) GROUP BY name) AS d WHERE v.name = d.name",
                [value for (name, mark), ago in marks.items() for value in (name, mark, ago)],
            )
        self._write_history(self._later, now)
        self._later = []

    def _write_notes(self) -> None:
        for mark in sorted({n.watermark for n in self._notes if n.watermark is not None}):
            names = [note.done.view.lower() for note in self._notes if note.watermark == mark]
            self._write(
                "UPDATE viewkeep.views SET watermark = ?, refreshed = now()::TIMESTAMP "
                f"WHERE name IN ({', '.join('?' for _ in names)})",
                [mark, *names],
            )
        if self._notes:
            self._write_history(self._notes, None)
        self._notes = []

    def _write_history(self, notes: Sequence[_Note], now: float | None) -> None:
        """`now`: the time, if the refreshes were before this transaction."""
        values: list[Any] = []
        for note in notes:
            done, ago = note.done, 0 if now is None else round((now - note.when) * 1e6)
            values += [done.view, ago, json.dumps(note.versions), done.strategy, done.reason]
            values += [done.changes_in, done.rows_changed, done.diff_rows, done.statements, done.seconds]
        row = "(?, now()::TIMESTAMP - to_microseconds(?), ?, ?, ?, ?, ?, ?, ?, ?)"
        rows = ", ".join(row for _ in notes)
        self.con.execute(f"INSERT INTO viewkeep.history VALUES {rows}", values)

    # --- views ---

    def entries(self) -> Sequence[Entry]:
        known = self._known()
        if known.entries is None:
            rows = self.con.execute("SELECT doc, watermark, position FROM viewkeep.views").fetchall()
            rows = sorted(rows, key=lambda row: row[2])  # for which DuckDB takes longer than for all the rest
            entries = tuple(Entry(View.from_json(doc), mark) for doc, mark, _ in rows)
            for note in self._later:
                entries = _moved(entries, note, back=False)
            for note in self._notes:
                entries = _moved(entries, note)
            known = self._read = replace(known, entries=entries)
        assert known.entries is not None
        return known.entries

    def add_view(self, view: View, watermark: int) -> None:
        self._write(
            "INSERT INTO viewkeep.views SELECT ?, coalesce(max(position), 0) + 1, ?, ?, "
            "now()::TIMESTAMP FROM viewkeep.views",
            [view.name.lower(), view.to_json(), watermark],
            entries=None,
        )
        self._past[view.name.lower()] = []

    def refreshed(self, view: str) -> datetime | None:
        """When a view was last refreshed, of what is written down."""
        rows = self.con.execute("SELECT refreshed FROM viewkeep.views WHERE name = ?", [view.lower()])
        (when,) = rows.fetchone()
        return when  # type: ignore[no-any-return]

    def move_watermark(self, view: str, watermark: int) -> None:
        """Has a view wait at a point, be it before the one where it was."""
        self.write_down()
        self._write(
            "UPDATE viewkeep.views SET watermark = ?, refreshed = now()::TIMESTAMP WHERE name = ?",
            [watermark, view.lower()],
            entries=None,
        )

    def note_filled(self, view: str, longest: float | None) -> None:
        """A view was computed: with its caches, or bare."""
        if longest is None:
            self._note({f"bare:{view.lower()}": 1})
        else:
            self._note({f"bare:{view.lower()}": 0, f"longest:{view.lower()}": round(longest * 1e6)})

    def _note(self, noted: Mapping[str, int]) -> None:
        numbers = {**self._numbers(), **noted}
        self._write(
            f"INSERT OR REPLACE INTO viewkeep.meta VALUES {', '.join('(?, ?)' for _ in noted)}",
            [value for pair in noted.items() for value in pair],
            numbers=numbers,
        )

    def remove_view(self, view: str) -> None:
        self.write_down()
        self._write(
            "DELETE FROM viewkeep.meta WHERE key IN (?, ?)",
            [f"bare:{view.lower()}", f"longest:{view.lower()}"],
            numbers=None,
        )
        self._write("DELETE FROM viewkeep.views WHERE name = ?", [view.lower()], entries=None)
        self.con.execute("DELETE FROM viewkeep.history WHERE lower(view) = ?", [view.lower()])

    # --- the history ---

    def record(self, done: Refresh, watermark: int | None, versions: Mapping[str, int]) -> None:
        """Notes a refresh, and how far the view is then, unless that is written down already."""
        past = self._noted(done.view)
        if done.strategy != "none":
            # without what it shares with other views, and without making the script, which is done once
            seconds = done.seconds - done.phases.get("net", 0) - done.phases.get("plan", 0)
            past.append(Past(done.strategy, done.changes_in, seconds, done.statements))
        note = _Note(done, watermark, versions, time.time())
        self._notes.append(note)
        if self._read.entries is not None:
            self._read = replace(self._read, entries=_moved(self._read.entries, note))

    def past(self, view: str) -> Sequence[Past]:
        """The last refreshes that did something, oldest first."""
        return self._noted(view)[-REMEMBERED:]

    def forget(self) -> None:
        """Reads all again when it is next asked for: what was noted may have been rolled back."""
        self._past.clear()
        self._logged.clear()

    def _noted(self, view: str) -> list[Past]:
        if view.lower() not in self._past:
            rows = self.con.execute(
                "SELECT strategy, changes_in, seconds, statements FROM viewkeep.history "
                "WHERE lower(view) = ? AND strategy <> 'none' ORDER BY rowid",
                [view.lower()],
            ).fetchall()
            self._past[view.lower()] = [Past(*row) for row in rows[-REMEMBERED:]]
        return self._past[view.lower()]

    # --- the log ---

    def log(self) -> Log:
        """How far the log and the views are."""
        numbers = self._numbers()
        return Log(self.entries(), numbers["seq"], numbers)

    def last_seq(self) -> int:
        """The number of the last logged statement."""
        return self._numbers()["seq"]

    def _numbers(self) -> Mapping[str, int]:
        known = self._known()
        if known.numbers is not None:
            return known.numbers
        numbers = dict(self.con.execute("SELECT key, value FROM viewkeep.meta").fetchall())
        if numbers.get("seq") is None:
            raise CorruptCatalog(
                "the number of the last logged statement is lost",
                hint="restore the file from a backup, or DROP SCHEMA viewkeep CASCADE and create the views "
                "again; base tables are not affected",
            )
        self._read = replace(known, numbers=numbers)
        return numbers

    def next_seq(self, table: str) -> int:
        """The number of a statement that changes a table."""
        seq = self.last_seq() + 1
        self._note({"seq": seq, f"log:{table.lower()}": seq})
        return seq

    def start_log(self, table: Table) -> None:
        """A log for a table that no view reads yet."""
        create_log(self.con, table)
        self._logged.pop(table.name.lower(), None)
        self._write(
            "INSERT OR IGNORE INTO viewkeep.meta VALUES (?, ?)",
            [f"log:{table.name.lower()}", self.last_seq()],
            numbers=None,
        )

    def widen_log(self, table: Table) -> None:
        """Columns of the table that were added since its log was started are logged from now on."""
        there = {name.lower() for name in self._log_columns(table.name)}
        for column in table.columns:
            if column.name.lower() not in there:
                definition = exp.ColumnDef(
                    this=exp.to_identifier(column.name, quoted=True), kind=column.type.sql()
                )
                alter = exp.Alter(this=PLACES.log(table.name), kind="TABLE", actions=[definition])
                self.con.execute(to_sql(alter))
                self._logged.pop(table.name.lower(), None)

    def logged(self, table: Table) -> Table:
        """A table with the columns that its log has: no view reads others."""
        there = {name.lower() for name in self._log_columns(table.name)}
        return replace(table, columns=tuple(c for c in table.columns if c.name.lower() in there))

    def _log_columns(self, table: str) -> tuple[str, ...]:
        if table.lower() not in self._logged:
            rows = self.con.execute(
                "SELECT name FROM pragma_table_info(?)", [to_sql(PLACES.log(table))]
            ).fetchall()
            self._logged[table.lower()] = tuple(name for (name,) in rows)
        return self._logged[table.lower()]

    def stop_log(self, table: str) -> None:
        """No view reads the table any more: neither its log nor indexes on it are of use."""
        self._logged.pop(table.lower(), None)
        self.con.execute(to_sql(exp.Drop(tables=[PLACES.log(table)], kind="TABLE", exists=True)))
        indexes = self.con.execute(
            "SELECT schema_name, index_name FROM duckdb_indexes() "
            "WHERE database_name = current_database() AND starts_with(index_name, ?)",
            [PLACES.base_index_name(table, "")],
        ).fetchall()
        for schema, name in indexes:
            index = exp.table_(name, db=schema, quoted=True)
            self.con.execute(to_sql(exp.Drop(tables=[index], kind="INDEX", exists=True)))

    def trim_log(self, table: str, upto: int) -> None:
        """Forgets events that every view that reads the table has seen."""
        self.write_down()
        seen = exp.LTE(this=_seq(), expression=exp.Literal.number(upto))
        self.con.execute(to_sql(exp.Delete(this=PLACES.log(table), where=exp.Where(this=seen))))

    # --- tables ---

    def table_doc(self, name: str) -> Table | None:
        row = self.con.execute("SELECT doc FROM viewkeep.tables WHERE name = ?", [name.lower()]).fetchone()
        return Table.from_json(row[0]) if row else None

    def save_table(self, table: Table) -> None:
        self.con.execute(
            "INSERT OR REPLACE INTO viewkeep.tables VALUES (?, ?)",
            [table.name.lower(), table.to_json()],
        )

    def remove_table(self, name: str) -> None:
        self.con.execute("DELETE FROM viewkeep.tables WHERE name = ?", [name.lower()])


def _moved(entries: tuple[Entry, ...], note: _Note, *, back: bool = True) -> tuple[Entry, ...]:
    """The entries after a refresh. `back`: also where that is before the watermark of the view."""
    mark, own = note.watermark, note.done.view.lower()
    if mark is None:
        return entries
    return tuple(
        replace(e, watermark=mark) if e.view.name.lower() == own and (back or e.watermark < mark) else e
        for e in entries
    )


def _seq() -> exp.Column:
    return exp.Column(this=exp.to_identifier(SEQ, quoted=True))
