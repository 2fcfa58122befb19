"""What viewkeep keeps in a PostgreSQL database: the schema `viewkeep`, next to the user's.

    meta    the format; of a view, whether it is without its caches (bare:V), and the microseconds that its
            longest relation took to be filled (longest:V)
    views   one row a view: its definition and its watermark, the snapshot whose transactions it shows
    tables  what CREATE TABLE said that PostgreSQL does not keep
    history one row a refresh: when, to which versions, how, why, and what it took
    eager, steps, waiting: of eager views, see engines/postgres/eager.py
    log:T   the modification log of base table T       view:V:rows, view:V:cache_1  what view V stores
    reads:T the columns of T that views read, as a view: PostgreSQL refuses to drop or alter them

View, caches and watermark move in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlglot import exp

from viewkeep.capture.postgres import (
    FUNCTIONS,
    PLACES,
    XID,
    create_log,
    events,
    logged_since,
    quoted,
    reads,
    start_capture,
    stop_capture,
)
from viewkeep.catalog.models import FORMAT, Table, TableColumn, View
from viewkeep.chooser import Past
from viewkeep.engines.postgres.dialect import to_sql
from viewkeep.engines.postgres.eager import SETUP as EAGER
from viewkeep.engines.postgres.session import Failure, Session
from viewkeep.errors import CorruptCatalog
from viewkeep.results import Refresh
from viewkeep.store.places import SCHEMA

# how many earlier refreshes of a view the chooser looks at
REMEMBERED = 50
# what the name of a view ends in that is announced; no name of the user's has a colon
NEW = ":new"
_SETUP = (
    "CREATE SCHEMA viewkeep",
    "CREATE SEQUENCE viewkeep.seq",
    "CREATE TABLE viewkeep.meta (key text PRIMARY KEY, value bigint)",
    "CREATE TABLE viewkeep.views (name text PRIMARY KEY, position bigserial, doc text NOT NULL, "
    "watermark pg_snapshot NOT NULL, refreshed timestamp, ready boolean NOT NULL)",
    "CREATE TABLE viewkeep.tables (name text PRIMARY KEY, doc text NOT NULL)",
    "CREATE TABLE viewkeep.history (id bigserial PRIMARY KEY, view text, refreshed timestamp, versions text, "
    "strategy text, reason text, changes_in bigint, rows_changed bigint, diff_rows bigint, "
    "statements bigint, seconds double precision)",
    # volatile, so that it is not called while a query is planned
    """
    CREATE FUNCTION viewkeep.fail(message text, instead anyelement) RETURNS anyelement
    LANGUAGE plpgsql VOLATILE AS $$ BEGIN RAISE EXCEPTION USING MESSAGE = message; END $$
    """,
    """
    CREATE FUNCTION viewkeep.try_date(day text) RETURNS date LANGUAGE plpgsql IMMUTABLE STRICT AS $$
    BEGIN
        RETURN CAST(day AS date);
    EXCEPTION WHEN datetime_field_overflow THEN
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION viewkeep.tinyint(number bigint) RETURNS smallint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
    BEGIN
        IF number BETWEEN -128 AND 127 THEN
            RETURN number;
        END IF;
        RAISE EXCEPTION 'tinyint out of range: %', number;
    END $$
    """,
    # PostgreSQL fails where a double is too large or too small; Spark's is infinite, or zero
    """
    CREATE FUNCTION viewkeep.power(base double precision, exponent double precision)
    RETURNS double precision LANGUAGE plpgsql IMMUTABLE STRICT AS $$
    BEGIN
        RETURN pg_catalog.power(base, exponent);
    EXCEPTION WHEN numeric_value_out_of_range THEN
        RETURN CASE WHEN SQLERRM LIKE '%underflow%' THEN '0'
            WHEN base < 0 AND pg_catalog.mod(exponent::numeric, 2) <> 0 THEN '-Infinity'
            ELSE 'Infinity' END::double precision;
    END $$
    """,
    *FUNCTIONS,
    *EAGER,
)


@dataclass(frozen=True)
class Entry:
    """A view as it is registered. The watermark is a snapshot, as PostgreSQL writes it."""

    view: View
    watermark: str
    refreshed: datetime | None


@dataclass(frozen=True)
class Log:
    """The modification log as a transaction sees it: the views that read it, and what it can see."""

    session: Session
    entries: Sequence[Entry]
    upto: str
    numbers: Mapping[str, int]
    found: dict[str, frozenset[str]] = field(default_factory=dict)
    """For a snapshot, the tables that were changed past it."""

    def watermark(self, view: str) -> str:
        """The snapshot that a view shows."""
        for entry in self.entries:
            if entry.view.name.lower() == view.lower():
                return entry.watermark
        raise CorruptCatalog(
            f"view {view} is not registered any more", hint="was it dropped by another session?"
        )

    def changed_after(self, table: str, after: str) -> bool:
        """Whether a transaction past a snapshot changed the table. All tables that are waited for are asked
        about at once."""
        if after not in self.found:
            waiting = sorted({t.name for view in self.waiting_at(after) for t in view.tables} | {table})
            asked = (exp.Exists(this=events(name, after)) for name in waiting)
            (row,) = self.session.rows(to_sql(exp.select(*asked)))
            self.found[after] = frozenset(n for n, changed in zip(waiting, row, strict=True) if changed)
        return table in self.found[after]

    def waiting_at(self, after: str) -> list[View]:
        """The views that show a snapshot."""
        return [e.view for e in self.entries if e.watermark == after]

    def is_bare(self, view: View) -> bool:
        """Whether a view is without its caches."""
        return bool(self.numbers.get(f"bare:{view.name.lower()}"))

    def longest(self, view: View) -> float | None:
        """The seconds that the longest of a view's relations took to be filled."""
        found = self.numbers.get(f"longest:{view.name.lower()}")
        return None if found is None else found / 1e6


def version(snapshot: str) -> int:
    """A snapshot as one number: all transactions below it are shown, or were still running."""
    return int(snapshot.split(":")[1])


class Store:
    """viewkeep's own tables in one PostgreSQL database."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._past: dict[str, list[Past]] = {}
        with session.holding(["schema"]):
            if not session.rows("SELECT 1 FROM pg_namespace WHERE nspname = $1", SCHEMA):
                with session.transaction():
                    for statement in _SETUP:
                        session.run(statement)
                    session.rows("INSERT INTO viewkeep.meta VALUES ('format', $1) RETURNING 1", FORMAT)
        self._check()

    def _check(self) -> None:
        again = (
            "restore it from a backup, or DROP SCHEMA viewkeep CASCADE and create the views again; "
            "base tables are not affected"
        )
        try:
            found = self._session.rows("SELECT value FROM viewkeep.meta WHERE key = 'format'")
            self._session.rows("SELECT doc, watermark, refreshed, ready FROM viewkeep.views LIMIT 0")
        except Failure as problem:
            if problem.code == "42501":
                raise CorruptCatalog(
                    f"this role may not use viewkeep's schema: {problem.message}",
                    hint="GRANT USAGE ON SCHEMA viewkeep and rights on its tables, or connect as its owner",
                ) from problem
            raise CorruptCatalog(
                f"the schema viewkeep is not as viewkeep left it: {problem.message}", hint=again
            ) from problem
        if not found or found[0][0] != FORMAT:
            raise CorruptCatalog(
                f"the database has format {found[0][0] if found else 'none'}, this is format {FORMAT}",
                hint="open it with the version of viewkeep that wrote it",
            )

    # --- views ---

    def entries(self) -> list[Entry]:
        """The views that are there, in the order in which they were created."""
        rows = self._session.rows(
            "SELECT doc, CAST(watermark AS text), refreshed FROM viewkeep.views WHERE ready ORDER BY position"
        )
        return [Entry(View.from_json(doc), mark, when) for doc, mark, when in rows]

    def announce(self, view: View) -> None:
        """Notes a view that is yet to be filled: what is logged from now on is kept for it."""
        self._register(view.name.lower() + NEW, view, None)

    def withdraw(self, view: str) -> None:
        """A view that was announced will not come."""
        self._session.rows("DELETE FROM viewkeep.views WHERE name = $1 RETURNING 1", view.lower() + NEW)

    def add_view(self, view: View, watermark: str) -> None:
        """A view that was announced is there."""
        self.withdraw(view.name)
        self._register(view.name.lower(), view, watermark)

    def _register(self, name: str, view: View, watermark: str | None) -> None:
        self._session.rows(
            "INSERT INTO viewkeep.views (name, doc, watermark, refreshed, ready) VALUES ($1, $2, "
            "coalesce(CAST($3 AS pg_snapshot), pg_current_snapshot()), localtimestamp, $4) "
            "ON CONFLICT (name) DO UPDATE SET doc = excluded.doc, watermark = excluded.watermark RETURNING 1",
            *(name, view.to_json(), watermark, watermark is not None),
        )

    def readers(self, table: str) -> list[tuple[View, int]]:
        """The views that read a table, those included that are yet to be filled; of each, the first
        transaction that it may not show."""
        return [(view, oldest) for view, oldest in self._registered() if _reads(view, table)]

    def _registered(self) -> list[tuple[View, int]]:
        rows = self._session.rows("SELECT doc, CAST(pg_snapshot_xmin(watermark) AS text) FROM viewkeep.views")
        return [(View.from_json(doc), int(oldest)) for doc, oldest in rows]

    def move_watermark(self, view: str, watermark: str) -> None:
        self._session.rows(
            "UPDATE viewkeep.views SET watermark = CAST($1 AS pg_snapshot), refreshed = localtimestamp "
            "WHERE name = $2 RETURNING 1",
            watermark,
            view.lower(),
        )

    def note_filled(self, view: str, longest: float | None) -> None:
        """A view was computed: with its caches, or bare."""
        notes = {f"bare:{view.lower()}": 0 if longest is not None else 1}
        if longest is not None:
            notes[f"longest:{view.lower()}"] = round(longest * 1e6)
        for key, value in notes.items():
            self._session.rows(
                "INSERT INTO viewkeep.meta VALUES ($1, $2) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING 1",
                key,
                value,
            )

    def remove_view(self, view: str) -> None:
        name = view.lower()
        for statement in (
            "DELETE FROM viewkeep.meta WHERE key IN ('bare:' || $1, 'longest:' || $1) RETURNING 1",
            "DELETE FROM viewkeep.views WHERE name = $1 RETURNING 1",
            "DELETE FROM viewkeep.history WHERE lower(view) = $1 RETURNING 1",
        ):
            self._session.rows(statement, name)
        self._past.pop(name, None)

    # --- the history ---

    def record(self, done: Refresh, watermark: str, versions: Mapping[str, str]) -> None:
        """Notes a refresh, and how far the view is then."""
        self.move_watermark(done.view, watermark)
        self.remember(done, versions)

    def remember(self, done: Refresh, versions: Mapping[str, str]) -> None:
        """Notes a refresh."""
        past = self._noted(done.view)
        if done.strategy != "none":
            # without what it shares with other views, and without making the script, which is done once
            seconds = done.seconds - done.phases.get("net", 0) - done.phases.get("plan", 0)
            past.append(Past(done.strategy, done.changes_in, seconds, done.statements))
        told = json.dumps({table: version(mark) for table, mark in versions.items()})
        self._session.rows(
            "INSERT INTO viewkeep.history (view, refreshed, versions, strategy, reason, changes_in, "
            "rows_changed, diff_rows, statements, seconds) "
            "VALUES ($1, localtimestamp, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING 1",
            *(done.view, told, done.strategy, done.reason, done.changes_in, done.rows_changed),
            *(done.diff_rows, done.statements, done.seconds),
        )

    def past(self, view: str) -> Sequence[Past]:
        """The last refreshes that did something, oldest first."""
        return self._noted(view)[-REMEMBERED:]

    def forget(self) -> None:
        """Reads the history again when it is next asked for: what was noted may have been rolled back."""
        self._past.clear()

    def _noted(self, view: str) -> list[Past]:
        name = view.lower()
        if name not in self._past:
            rows = self._session.rows(
                "SELECT strategy, changes_in, seconds, statements FROM viewkeep.history "
                "WHERE lower(view) = $1 AND strategy <> 'none' ORDER BY id DESC LIMIT $2",
                name,
                REMEMBERED,
            )
            self._past[name] = [Past(*row) for row in reversed(rows)]
        return self._past[name]

    # --- the log ---

    def log(self) -> Log:
        """How far the log and the views are, as the open transaction sees it."""
        ((snapshot,),) = self._session.rows("SELECT CAST(pg_current_snapshot() AS text)")
        numbers = dict(self._session.rows("SELECT key, value FROM viewkeep.meta"))
        return Log(self._session, self.entries(), snapshot, numbers)

    def start_log(self, table: Table) -> None:
        """Logs the changes of a table's columns, besides those that are logged already."""
        there = {c.name for c in table.columns} <= self.logged(table.name)
        if there and logged_since(self._session, table.name) is not None:
            return
        wide = self._read_by_all(table)
        create_log(self._session, wide)
        self._protect(wide)
        self.capture(wide)

    def capture(self, table: Table) -> None:
        """Has the table's changes logged for all views that read it, and those that are eager maintained."""
        eager = [view.name for view, _ in self.readers(table.name) if view.is_eager]
        start_capture(self._session, self._read_by_all(table), eager)

    def _read_by_all(self, table: Table) -> Table:
        """The table with the columns that any view reads."""
        known: dict[str, TableColumn] = {c.name: c for c in table.columns}
        for view, _ in self.readers(table.name):
            known |= {c.name: c for t in view.tables if t.name == table.name for c in t.columns}
        return replace(table, columns=tuple(known.values()))

    def logged(self, table: str) -> frozenset[str]:
        """The columns of a base table that its log has."""
        rows = self._session.rows(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 "
            "AND NOT attisdropped AND attname NOT LIKE ':%'",
            to_sql(PLACES.log(table)),
        )
        return frozenset(name for (name,) in rows)

    def unlogged(self, view: View) -> list[Table]:
        """The tables of a view that may have changed, after what the view shows, without an entry in the
        log."""
        missed = []
        for table in view.tables:
            since = logged_since(self._session, table.name)
            if since is None or not self._session.rows(
                "SELECT 1 FROM viewkeep.views "
                "WHERE name = $1 AND pg_visible_in_snapshot(CAST($2 AS xid8), watermark)",
                view.name.lower(),
                since,
            ):
                missed.append(table)
        return missed

    def _protect(self, table: Table) -> None:
        """A view over what views read of a table: PostgreSQL then refuses to drop or alter it."""
        columns = (exp.column(c.name, quoted=True) for c in table.columns)
        self._session.run(to_sql(exp.Drop(tables=[reads(table.name)], kind="VIEW", exists=True)))
        query = exp.select(*columns).from_(PLACES.base(table.name))
        self._session.run(to_sql(exp.Create(this=reads(table.name), kind="VIEW", expression=query)))

    def stop_log(self, table: str) -> None:
        """No view reads the table any more: neither its log nor indexes on it are of use."""
        stop_capture(self._session, table)
        self._session.run(to_sql(exp.Drop(tables=[reads(table)], kind="VIEW", exists=True)))
        self._session.run(to_sql(exp.Drop(tables=[PLACES.log(table)], kind="TABLE", exists=True)))
        indexes = self._session.rows(
            "SELECT n.nspname, c.relname FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE i.indrelid = to_regclass($1) AND starts_with(c.relname, $2)",
            quoted(table),
            PLACES.base_index_name(table, ""),
        )
        for schema, name in indexes:
            index = exp.table_(name, db=schema, quoted=True)
            self._session.run(to_sql(exp.Drop(tables=[index], kind="INDEX", exists=True)))

    def trim_logs(self, tables: Collection[str]) -> None:
        """Forgets events that every view that reads a table has seen. Those that somebody else forgets just
        now are left to him: nobody waits. After a crash of the server they may be there again."""
        known = [(view, oldest) for view, oldest in self._registered() if not view.is_eager]
        gone = []
        for table in sorted(tables):
            seen = [oldest for view, oldest in known if _reads(view, table)]
            if seen:
                gone.append(to_sql(_forgetting(PLACES.log(table), min(seen))))
        if gone:
            with self._session.transaction("BEGIN ISOLATION LEVEL READ COMMITTED"):
                self._session.run("; ".join(["SET LOCAL synchronous_commit TO off", *gone]))

    # --- tables ---

    def table_doc(self, name: str) -> Table | None:
        rows = self._session.rows("SELECT doc FROM viewkeep.tables WHERE name = $1", name.lower())
        return Table.from_json(rows[0][0]) if rows else None

    def save_table(self, table: Table) -> None:
        self._session.rows(
            "INSERT INTO viewkeep.tables VALUES ($1, $2) "
            "ON CONFLICT (name) DO UPDATE SET doc = excluded.doc RETURNING 1",
            table.name.lower(),
            table.to_json(),
        )

    def remove_table(self, name: str) -> None:
        self._session.rows("DELETE FROM viewkeep.tables WHERE name = $1 RETURNING 1", name.lower())


def _reads(view: View, table: str) -> bool:
    return any(t.name.lower() == table.lower() for t in view.tables)


def _forgetting(log: exp.Table, seen: int) -> exp.Delete:
    """Deletes the entries of transactions below one, but for those that somebody else is deleting."""
    place = exp.column("ctid")
    oldest = exp.Cast(this=exp.Literal.string(str(seen)), to=exp.DataType.build("xid8", udt=True))
    entries = exp.select(place.copy()).from_(log.copy())
    entries = entries.where(exp.LT(this=exp.column(XID, quoted=True), expression=oldest))
    entries.set("locks", [exp.Lock(update=True, wait=False)])
    found = exp.Any(this=exp.Paren(this=exp.Array(expressions=[entries])))
    return exp.Delete(this=log, where=exp.Where(this=exp.EQ(this=place, expression=found)))
