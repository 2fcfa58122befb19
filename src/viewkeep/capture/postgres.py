"""The modification log on PostgreSQL: triggers write it in the transaction of whoever changes a table.

One trigger for each kind of statement, with the rows that it took away and those that it brought (transition
tables). An entry has the number of its statement, the sign of its row, and the transaction it belongs to: a
view has seen the transactions that were visible to its refresh, whatever their numbers, so one that takes
long is neither lost nor seen twice.

The trigger runs with the rights of whoever set viewkeep up: a role that may write the table needs none in
viewkeep's schema.

Somebody may drop the triggers, switch them off for a while, or put another table in the place of this one. So
the log tells in its comment which triggers write it, and since which transaction they did without a gap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.types import BIGINT, STRING
from viewkeep.catalog.models import Table
from viewkeep.engines.postgres.dialect import to_sql
from viewkeep.engines.postgres.session import Session
from viewkeep.idiff.net import SEQ, SIGN
from viewkeep.store.places import Places

HOME = "public"
PLACES = Places(longest=63, home=HOME)
XID = ":xid"
AFTER = "viewkeep.after"
"""The setting that holds the snapshot past which events are read."""
_OLD, _NEW = "viewkeep_old", "viewkeep_new"

FUNCTIONS = (
    # Its arguments are the eager views of the table, as JSON, and the statements that write entries. In the
    # trigger, not in a table: a transaction may have begun to look before a view was created.
    """
    CREATE FUNCTION viewkeep.capture() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        seq bigint := nextval('viewkeep.seq');
        own xid8 := pg_current_xact_id();
    BEGIN
        FOR i IN 1 .. TG_NARGS - 1 LOOP
            EXECUTE TG_ARGV[i] USING seq;
        END LOOP;
        INSERT INTO viewkeep.waiting
        SELECT own, name FROM jsonb_array_elements_text(TG_ARGV[0]::jsonb) AS name
        WHERE NOT EXISTS (SELECT FROM viewkeep.waiting w WHERE w.xid = own AND w.view = name);
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION viewkeep.start_capture(
        relation regclass, eager text, taken text, brought text, emptied text
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        kind text;
    BEGIN
        EXECUTE format('CREATE OR REPLACE TRIGGER "viewkeep:insert" AFTER INSERT ON %s REFERENCING '
            'NEW TABLE AS viewkeep_new FOR EACH STATEMENT EXECUTE FUNCTION viewkeep.capture(%L, %L)',
            relation, eager, brought);
        EXECUTE format('CREATE OR REPLACE TRIGGER "viewkeep:delete" AFTER DELETE ON %s REFERENCING '
            'OLD TABLE AS viewkeep_old FOR EACH STATEMENT EXECUTE FUNCTION viewkeep.capture(%L, %L)',
            relation, eager, taken);
        EXECUTE format('CREATE OR REPLACE TRIGGER "viewkeep:update" AFTER UPDATE ON %s REFERENCING '
            'OLD TABLE AS viewkeep_old NEW TABLE AS viewkeep_new FOR EACH STATEMENT '
            'EXECUTE FUNCTION viewkeep.capture(%L, %L, %L)', relation, eager, taken, brought);
        EXECUTE format('CREATE OR REPLACE TRIGGER "viewkeep:truncate" BEFORE TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION viewkeep.capture(%L, %L)', relation, eager, emptied);
        -- Never called: where a table has such a trigger, PostgreSQL refuses to make it a partition, or the
        -- child of another, and statements that name the other would not call the triggers above.
        EXECUTE format('CREATE OR REPLACE TRIGGER "viewkeep:alone" AFTER DELETE ON %s REFERENCING '
            'OLD TABLE AS viewkeep_old FOR EACH ROW WHEN (false) '
            'EXECUTE FUNCTION viewkeep.capture()', relation);
        -- also where session_replication_role says that rows come from elsewhere; only owners may say so
        IF (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = relation) THEN
            FOREACH kind IN ARRAY ARRAY['insert', 'delete', 'update', 'truncate'] LOOP
                EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, 'viewkeep:' || kind);
            END LOOP;
        END IF;
    END $$
    """,
    """
    CREATE FUNCTION viewkeep.stop_capture(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        kind text;
    BEGIN
        FOREACH kind IN ARRAY ARRAY['insert', 'delete', 'update', 'truncate', 'alone'] LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', 'viewkeep:' || kind, relation);
        END LOOP;
    END $$
    """,
)


# The triggers that write a table's log, each with the transaction that made or changed it last: to switch one
# off and on again leaves another.
_TRIGGERS = """
    SELECT string_agg(concat_ws(' ', oid, xmin), ',' ORDER BY tgname) FROM pg_trigger
    WHERE tgrelid = to_regclass($1) AND starts_with(tgname, 'viewkeep:') AND tgenabled <> 'D'
"""


def create_log(session: Session, table: Table) -> None:
    """A log of the table's columns; those that it has not yet are added. Its transactions are indexed: most
    refreshes read its end. Of strings the collation is the one that plans compare them by: C, unless the
    database has that itself."""
    by_bytes = compares_bytes(session)
    log = PLACES.log(table.name)
    own = [
        exp.ColumnDef(this=_identifier(SEQ), kind=BIGINT.sql()),
        exp.ColumnDef(this=_identifier(SIGN), kind=exp.DataType.build("SMALLINT")),
        exp.ColumnDef(this=_identifier(XID), kind=exp.DataType.build("xid8", udt=True)),
    ]
    session.run(
        to_sql(exp.Create(this=exp.Schema(this=log.copy(), expressions=own), kind="TABLE", exists=True))
    )
    for c in table.columns:
        kind = exp.ColumnDef(this=_identifier(c.name), kind=c.type.sql())
        if c.type == STRING and not by_bytes:
            rule = exp.CollateColumnConstraint(this=_identifier("C"))
            kind.set("constraints", [exp.ColumnConstraint(kind=rule)])
        add = exp.Alter(this=log.copy(), kind="TABLE", actions=[kind])
        kind.set("exists", True)
        session.run(to_sql(add))
    index = exp.Index(
        this=_identifier(PLACES.fitting(f"{log.name}:xid")),
        table=log.copy(),
        params=exp.IndexParameters(columns=[exp.Ordered(this=_column(XID))]),
    )
    session.run(to_sql(exp.Create(this=index, kind="INDEX", exists=True)))


def compares_bytes(session: Session) -> bool:
    """Whether strings compare as Spark's do without a word."""
    own = "SELECT datcollate FROM pg_database WHERE datname = current_database() AND datlocprovider = 'c'"
    return session.rows(own) in ([["C"]], [["POSIX"]])


def start_capture(session: Session, table: Table, eager: Sequence[str] = ()) -> None:
    """Has every change of these columns logged, by whoever makes it, and `eager` views maintained. Waits for
    those who write just now."""
    taken, brought = (_entry(table, exp.table_(rows), sign) for rows, sign in ((_OLD, -1), (_NEW, 1)))
    emptied = _entry(table, reads(table.name), -1)
    texts = [to_sql(entry) for entry in (taken, brought, emptied)]
    since = logged_since(session, table.name)
    if since is None:
        stop_capture(session, table.name)
        ((since,),) = session.rows("SELECT CAST(pg_current_xact_id() AS text)")
    session.rows(
        "SELECT viewkeep.start_capture(CAST($1 AS regclass), $2, $3, $4, $5)",
        *(quoted(table.name), json.dumps([name.lower() for name in eager]), *texts),
    )
    ((triggers,),) = session.rows(f"SELECT ({_TRIGGERS})", quoted(table.name))
    said = exp.Literal.string(f"{since} {triggers}")
    session.run(to_sql(exp.Comment(this=PLACES.log(table.name), kind="TABLE", expression=said)))


def logged_since(session: Session, table: str) -> str | None:
    """The transaction since which every change of a table is in its log; None where that is not so any more,
    or has never been."""
    ((said, triggers),) = session.rows(
        f"SELECT obj_description(to_regclass($2), 'pg_class'), ({_TRIGGERS})",
        quoted(table),
        to_sql(PLACES.log(table)),
    )
    since, _, noted = (said or "").partition(" ")
    return since if noted and noted == triggers else None


def stop_capture(session: Session, table: str) -> None:
    """Logs the table's changes no more. The table may be gone, or have another name now."""
    session.rows(
        "SELECT viewkeep.stop_capture(CAST(r AS regclass)) FROM (SELECT DISTINCT tgrelid FROM pg_trigger "
        "WHERE starts_with(tgname, 'viewkeep:') AND position(convert_to($1, 'UTF8') IN tgargs) > 0) AS t(r)",
        f"INTO {to_sql(PLACES.log(table))} ",
    )


def events(table: str, snapshot: str | None = None) -> exp.Select:
    """The events of transactions that a snapshot does not show: this one, or the one in AFTER."""
    said = exp.Literal.string(AFTER if snapshot is None else snapshot)
    shown = exp.Anonymous(this="current_setting", expressions=[said]) if snapshot is None else said
    after = exp.Cast(this=shown, to=exp.DataType.build("pg_snapshot", udt=True))
    oldest = exp.Anonymous(this="pg_snapshot_xmin", expressions=[after])
    seen = exp.Anonymous(this="pg_visible_in_snapshot", expressions=[_column(XID), after.copy()])
    recent = exp.GTE(this=_column(XID), expression=oldest)  # which is what the index knows
    return exp.select("*").from_(PLACES.log(table)).where(recent, exp.Not(this=seen))


def reads(table: str) -> exp.Table:
    """A view over the columns of a base table that are logged."""
    return PLACES.own(f"reads:{table.lower()}")


def quoted(table: str) -> str:
    """A base table's name, as PostgreSQL reads it."""
    return PLACES.base(table).sql(dialect="postgres")


def _entry(table: Table, rows: exp.Table, sign: int) -> exp.Insert:
    names = [c.name for c in table.columns]
    number: exp.Expr = exp.Literal.number(1)
    query = exp.select(
        exp.Parameter(this=exp.Literal.number(1)),
        number if sign > 0 else exp.Neg(this=number),
        exp.Anonymous(this="pg_current_xact_id"),
        *(_column(n) for n in names),
    ).from_(rows)
    into = exp.Schema(this=PLACES.log(table.name), expressions=_identifiers([SEQ, SIGN, XID, *names]))
    return exp.Insert(this=into, expression=query)


def _identifiers(names: Sequence[str]) -> list[exp.Identifier]:
    return [_identifier(n) for n in names]


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=_identifier(name))
