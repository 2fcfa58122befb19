"""Eager views on PostgreSQL: the server maintains them when a transaction that changes their tables commits.

A client of any kind commits; viewkeep may not even run. So the delta script is stored in the database, as the
statements that it consists of, and a deferred trigger runs them. It does so once for a transaction, however
many statements that has had: MERGE, cascades and statements that change several tables are one batch. In a
transaction, SET CONSTRAINTS ALL IMMEDIATE has the views follow at once; up to a statement that is made by
a trigger, or one on tables with cascades, which has them follow at the end again.

    eager     one row a view: up to which of its statements the last transaction was maintained
    steps     the statements that maintain each view
    waiting   transactions that have something to maintain

Whoever maintains a view changes its row in `eager`, and so waits for whoever did so and is not yet committed:
of two transactions that see only their own change, each would leave out the pairs that both have a row of. A
client at REPEATABLE READ that comes second cannot see what the first has done, and one that began to look
before the view was created does not see the view: PostgreSQL, or we, tell it to try again.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from viewkeep.capture.postgres import PLACES, XID
from viewkeep.catalog.models import Table, View
from viewkeep.engines.postgres.database import PostgresDatabase
from viewkeep.engines.postgres.dialect import to_sql
from viewkeep.engines.postgres.session import Session
from viewkeep.engines.transactional.names import TableNames
from viewkeep.idiff.bags import occurrence_changes, value_changes
from viewkeep.idiff.net import SEQ, net_changes_by_enforced_key
from viewkeep.passes.compiler import Compiled
from viewkeep.script.plan import statements

SINCE = "viewkeep.since"
"""The setting that holds the last statement of the transaction that a view shows already."""
_ALL = "everything"
SETUP = (
    "CREATE TABLE viewkeep.eager (view text PRIMARY KEY, xid xid8, seq bigint)",
    "CREATE TABLE viewkeep.steps (view text, variant text, position int, name text, guard text, source text, "
    "statement text NOT NULL, otherwise text, PRIMARY KEY (view, variant, position))",
    "CREATE TABLE viewkeep.waiting (xid xid8, view text)",
    """
    CREATE FUNCTION viewkeep.maintain() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        own xid8 := pg_current_xact_id();
        upto bigint;
        since bigint;
        kept text;
        chosen text;
        step record;
        counts jsonb;
        n bigint;
        loops text := current_setting('enable_nestloop');
    BEGIN
        -- We are called by capture() at once, while rows may be changed already of which the entries are yet
        -- to come: by the statement around one that a trigger makes, and by cascades.
        IF pg_trigger_depth() > 2 OR pg_trigger_depth() = 2 AND EXISTS (
            SELECT FROM pg_constraint c WHERE c.contype = 'f'
            AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
            AND c.conrelid IN (SELECT t.tgrelid FROM pg_trigger t WHERE t.tgname = 'viewkeep:update')
        ) THEN
            SET CONSTRAINTS viewkeep.maintain DEFERRED;
            DELETE FROM viewkeep.waiting WHERE xid = own AND view = NEW.view;
            INSERT INTO viewkeep.waiting VALUES (own, NEW.view);
            RETURN NULL;
        END IF;
        SELECT last_value INTO upto FROM viewkeep.seq;
        FOR kept IN SELECT w.view FROM viewkeep.waiting w WHERE w.xid = own ORDER BY w.view LOOP
            UPDATE viewkeep.eager e SET xid = own, seq = CASE WHEN e.xid = own THEN e.seq ELSE 0 END
            WHERE e.view = kept RETURNING e.seq INTO since;
            IF NOT FOUND THEN
                CONTINUE WHEN current_setting('transaction_isolation') = 'read committed';
                RAISE EXCEPTION 'view % was created after this transaction began', kept
                    USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
            END IF;
            PERFORM set_config('viewkeep.since', since::text, true);
            counts := '{}';
            chosen := NULL;
            -- a log is empty whenever the server looks at how large it is, see database.py
            PERFORM set_config('enable_nestloop', 'off', true);
            FOR step IN SELECT * FROM viewkeep.steps s WHERE s.view = kept AND s.variant = 'net'
                ORDER BY s.position
            LOOP
                EXECUTE step.statement;
                GET DIAGNOSTICS n = ROW_COUNT;
                IF n > 0 AND step.name IS NOT NULL THEN
                    chosen := CASE WHEN chosen IS NULL THEN step.name ELSE 'everything' END;
                END IF;
            END LOOP;
            PERFORM set_config('enable_nestloop', loops, true);
            FOR step IN SELECT * FROM viewkeep.steps s WHERE s.view = kept AND s.variant = chosen
                ORDER BY s.position
            LOOP
                IF step.source IS NOT NULL THEN
                    CONTINUE WHEN (counts ->> step.source)::bigint = 0;
                    EXECUTE step.statement;
                ELSIF step.guard IS NULL OR (counts ->> step.guard)::bigint > 0 THEN
                    EXECUTE step.statement;
                    GET DIAGNOSTICS n = ROW_COUNT;
                    counts := counts || jsonb_build_object(step.name, n);
                ELSE
                    EXECUTE step.otherwise;
                    counts := counts || jsonb_build_object(step.name, 0);
                END IF;
            END LOOP;
            UPDATE viewkeep.eager e SET seq = upto WHERE e.view = kept;
            -- at other levels, two who forget the same entries would be in each other's way
            IF current_setting('transaction_isolation') = 'read committed' THEN
                FOR step IN SELECT * FROM viewkeep.steps s WHERE s.view = kept AND s.variant = 'trim' LOOP
                    EXECUTE step.statement;
                END LOOP;
            END IF;
        END LOOP;
        DELETE FROM viewkeep.waiting WHERE xid = own;
        RETURN NULL;
    END $$
    """,
    "CREATE CONSTRAINT TRIGGER maintain AFTER INSERT ON viewkeep.waiting DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION viewkeep.maintain()",
    "ALTER TABLE viewkeep.waiting ENABLE ALWAYS TRIGGER maintain",
)
# entries that every other view has seen; views that come later will have seen what is over by now
_TRIM = """
    SELECT pg_snapshot_xmin(s) FROM (
        SELECT pg_current_snapshot() AS s UNION ALL
        SELECT v.watermark FROM viewkeep.views AS v
        WHERE v.doc::jsonb -> 'options' ->> 'maintenance' IS DISTINCT FROM 'eager' AND EXISTS (
            SELECT 1 FROM jsonb_array_elements(v.doc::jsonb -> 'tables') AS t
            WHERE lower(t ->> 'name') = :name
        )
    ) AS seen ORDER BY pg_snapshot_xmin(s) LIMIT 1
"""
_Row = tuple[str, str | None, str | None, str | None, str, str | None]


def follow(session: Session, database: PostgresDatabase, view: View, compiled: Compiled) -> None:
    """Stores how a view is maintained; from the end of this transaction on, it is."""
    forget(session, view)
    rows = [*_nets(database, view), *_scripts(database, view, compiled), *_trims(view)]
    for position, row in enumerate(rows):
        session.rows(
            "INSERT INTO viewkeep.steps (view, variant, position, name, guard, source, statement, otherwise) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING 1",
            *(view.name.lower(), row[0], position, *row[1:]),
        )
    session.rows("INSERT INTO viewkeep.eager (view, seq) VALUES ($1, 0) RETURNING 1", view.name.lower())


def forget(session: Session, view: View) -> None:
    """A view is maintained no more."""
    for table in ("steps", "eager"):
        named = exp.EQ(this=exp.column("view"), expression=exp.Literal.string(view.name.lower()))
        session.run(to_sql(exp.Delete(this=exp.table_(table, db="viewkeep"), where=exp.Where(this=named))))


def _trims(view: View) -> Iterator[_Row]:
    for table in view.tables:
        name = exp.Literal.string(table.name.lower())
        oldest = sqlglot.parse_one(_TRIM, dialect="postgres").transform(
            lambda node, name=name: name.copy() if isinstance(node, exp.Placeholder) else node
        )
        seen = exp.LT(this=exp.column(XID, quoted=True), expression=exp.Subquery(this=oldest))
        gone = exp.Delete(this=PLACES.log(table.name), where=exp.Where(this=seen))
        yield ("trim", None, None, None, to_sql(gone), None)


def _nets(database: PostgresDatabase, view: View) -> Iterator[_Row]:
    """The net changes of each table, of this transaction, past what the view shows already."""
    names = TableNames(database, view.name, view.tables)
    for table in view.tables:
        net, events = names.net(table.name), _events(table)
        if table.key:
            query: exp.Query = net_changes_by_enforced_key(table, events, database.unordered)
        else:
            values = database.places.passing(f"values:{table.name.lower()}")
            yield ("net", None, None, None, database.temporary(values, value_changes(table, events)), None)
            now = database.read(table, [c.name for c in table.columns])
            query = occurrence_changes(table, values, now)
        yield ("net", f"only {table.name}", None, None, database.temporary(net, query), None)


def _events(table: Table) -> exp.Select:
    own = exp.EQ(this=exp.column(XID, quoted=True), expression=exp.Anonymous(this="pg_current_xact_id"))
    setting = exp.Anonymous(this="current_setting", expressions=[exp.Literal.string(SINCE)])
    since = exp.Cast(this=setting, to=exp.DataType.build("BIGINT"))
    later = exp.GT(this=exp.column(SEQ, quoted=True), expression=since)
    return exp.select("*").from_(PLACES.log(table.name)).where(own, later)


def _scripts(database: PostgresDatabase, view: View, compiled: Compiled) -> Iterator[_Row]:
    """The script for changes of each table alone, and the one for changes of several."""
    names = TableNames(database, view.name, view.tables)
    everything = compiled.everything()
    variants = {_ALL: everything} | {f"only {name}": {name: kinds} for name, kinds in everything.items()}
    for variant, present in variants.items():
        made = statements(compiled.script(present), names)
        for c in made.computes:
            sql = database.temporary(names.ref(c.name), c.query)
            none = exp.select("*").from_(exp.Subquery(this=c.query.copy(), alias="q")).where(exp.false())
            empty = database.temporary(names.ref(c.name), none) if c.unless_empty else None
            yield (variant, c.name, c.unless_empty, None, sql, empty)
        for change in made.changes:
            yield (variant, None, None, change.source, database.sql(change.statement), None)
