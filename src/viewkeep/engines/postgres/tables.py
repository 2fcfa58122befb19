"""The base tables of a PostgreSQL database, as the catalog describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from viewkeep.algebra import types as t
from viewkeep.capture.postgres import HOME, quoted
from viewkeep.catalog.models import ForeignKey, Table, TableColumn
from viewkeep.engines.postgres.session import Session
from viewkeep.store.postgres import Store

# names are looked up as Spark does, whatever their case; of two that differ in nothing else, the exact one
_NAMED = """
    SELECT n.nspname, c.relname, c.relkind, c.oid
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE lower(c.relname) = lower($1) AND c.relkind IN ('r', 'p', 'v') AND n.nspname <> 'viewkeep'
    AND CASE WHEN $2 = '' THEN n.nspname = ANY (current_schemas(false)) ELSE lower(n.nspname) = lower($2) END
    ORDER BY array_position(current_schemas(false), n.nspname), c.relname <> $1 LIMIT 1
"""
# the triggers of a statement are those of the table that it names, whichever others hold its rows
_UNSEEN = """
    SELECT CASE
        WHEN c.relkind = 'p' THEN 'is partitioned, and statements may name its partitions'
        WHEN c.relispartition THEN 'is a partition, and statements may name the whole table'
        WHEN EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
            THEN 'inherits from another, and statements may name that'
        WHEN EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)
            THEN 'has others that inherit from it, and statements may name these'
        WHEN EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = c.oid)
            THEN 'is written by a subscription, which has no statements'
        WHEN EXISTS (
            SELECT FROM pg_class o JOIN pg_trigger t ON t.tgrelid = o.oid AND t.tgname = 'viewkeep:update'
            WHERE o.relnamespace = c.relnamespace AND lower(o.relname) = lower(c.relname) AND o.oid <> c.oid
        ) THEN 'has the name of another that views read, but for the case of letters, and with it a log'
        ELSE '' END
    FROM pg_class c WHERE c.oid = $1
"""
_IS_VIEW = """
    SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE lower(c.relname) = lower($1) AND c.relkind IN ('v', 'm') AND lower(n.nspname) = lower($2)
"""
_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           (SELECT array_position(CAST(i.indkey AS int2[]), a.attnum) FROM pg_index i
            WHERE i.indrelid = a.attrelid AND i.indisprimary AND i.indimmediate)
    FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# enforced, and at once: such a row names one of the other table whenever somebody else can look
_REFERENCES = """
    SELECT array(SELECT attname FROM unnest(k.conkey) WITH ORDINALITY AS u(n, i)
                 JOIN pg_attribute ON attrelid = k.conrelid AND attnum = n ORDER BY i),
           r.relname, n.nspname,
           array(SELECT attname FROM unnest(k.confkey) WITH ORDINALITY AS u(n, i)
                 JOIN pg_attribute ON attrelid = k.confrelid AND attnum = n ORDER BY i)
    FROM pg_constraint k JOIN pg_class r ON r.oid = k.confrelid JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE k.conrelid = $1 AND k.contype = 'f' AND k.convalidated AND NOT k.condeferrable
"""
# as much of tables as views depend on, to see whether anything has changed since one looked at all of it
_FORMS = """
    SELECT CAST(to_regclass(p.name) AS oid),
           (SELECT array_agg(concat_ws(' ', attname, atttypid, atttypmod, attnotnull) ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = to_regclass(p.name) AND attnum > 0 AND NOT attisdropped),
           (SELECT CAST(i.indkey AS text) FROM pg_index i
            WHERE i.indrelid = to_regclass(p.name) AND i.indisprimary AND i.indimmediate),
           (SELECT string_agg(concat_ws(' ', oid, xmin, tgenabled), ',' ORDER BY oid)
            FROM pg_trigger WHERE tgrelid = to_regclass(p.name) AND starts_with(tgname, 'viewkeep:')),
           EXISTS (SELECT FROM pg_inherits WHERE to_regclass(p.name) IN (inhrelid, inhparent)),
           EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = to_regclass(p.name))
    FROM unnest(CAST($1 AS text[])) WITH ORDINALITY AS p(name, number) ORDER BY p.number
"""


def forms(session: Session, tables: Sequence[str]) -> dict[str, Any]:
    """The columns and keys of tables, in a form that is good for nothing but to be compared."""
    rows = session.rows(_FORMS, [quoted(name) for name in tables])
    return dict(zip(tables, rows, strict=True))


def qualified(session: Session, name: str) -> str:
    """A user's name for a table or view, as the catalog has it."""
    found = _found(session, name)
    if found is not None:
        return _said(found[0], found[1])
    ((current,),) = session.rows("SELECT coalesce(current_schema(), $1)", HOME)
    return name if "." in name else _said(current, name.lower())


def find_table(session: Session, store: Store, name: str) -> Table | None:
    """A base table as it is now."""
    found = _found(session, name)
    if found is None or found[2] == "v":
        return None
    schema, relation, _, oid = found
    ((unseen,),) = session.rows(_UNSEEN, oid)
    columns, refused, key = [], {}, {}
    doc = store.table_doc(_said(schema, relation))
    tiny = {c.name for c in doc.columns if c.type == t.TINYINT} if doc else set()
    for column, type_name, required, position in session.rows(_COLUMNS, oid):
        type_ = _parse_type(type_name)
        if type_ is None or ":" in column:  # such names are viewkeep's own, next to the user's
            refused[column] = type_name
            continue
        if column in tiny and type_.kind == "smallint":
            type_ = t.TINYINT
        columns.append(TableColumn(column, type_, not required))
        if position is not None:
            key[position] = column
    declared = tuple(
        ForeignKey(tuple(own), _said(space, other), tuple(theirs))
        for own, other, space, theirs in session.rows(_REFERENCES, oid)
    )
    own = tuple(key[position] for position in sorted(key))
    if any(k in refused for k in own):
        own = ()
    made = Table(_said(schema, relation), tuple(columns), own, declared, refused, unseen=unseen)
    return replace(made, foreign_keys=(*declared, *doc.foreign_keys)) if doc else made


def is_plain_view(session: Session, name: str) -> bool:
    """Whether a name is that of a view, or of what PostgreSQL calls a materialized view."""
    parts = name.split(".")
    ((found,),) = session.rows(_IS_VIEW, parts[-1], parts[-2] if len(parts) > 1 else HOME)
    return bool(found)


def columns_of_temporary(session: Session, name: str) -> tuple[TableColumn, ...]:
    """The columns of a table of this session's own."""
    oid = "SELECT CAST(to_regclass(format('pg_temp.%I', CAST($1 AS text))) AS oid)"
    ((found,),) = session.rows(oid, name)
    rows = session.rows(_COLUMNS, found)
    return tuple(TableColumn(column, _parse_type(kind) or t.STRING) for column, kind, _, _ in rows)


def has_index(session: Session, table: str, key: str) -> bool:
    """Whether an index of a base table begins with a column, compared by the collation that `key` says."""
    rows = session.rows(
        "SELECT pg_get_indexdef(indexrelid, 1, true), c.collname FROM pg_index "
        "LEFT JOIN pg_collation c ON c.oid = indcollation[0] "
        "WHERE indrelid = CAST($1 AS regclass) AND indisvalid AND indpred IS NULL",
        quoted(table),
    )
    collation = '"C"' if " COLLATE " in key else ""
    wanted = key.partition(" COLLATE ")[0].strip('"')
    return any(found.strip('"') == wanted and (not collation or named == "C") for found, named in rows)


def _found(session: Session, name: str) -> tuple[str, str, str, int] | None:
    parts = name.split(".")
    rows = session.rows(_NAMED, parts[-1], parts[-2] if len(parts) > 1 else "")
    return tuple(rows[0]) if rows else None


def _said(schema: str, relation: str) -> str:
    return relation if schema == HOME else f"{schema}.{relation}"


_TYPES = {
    "boolean": t.BOOLEAN, "smallint": t.parse("SMALLINT"), "integer": t.INT, "bigint": t.BIGINT,
    "double precision": t.DOUBLE, "text": t.STRING, "character varying": t.STRING, "date": t.DATE,
    "timestamp without time zone": t.TIMESTAMP,
}  # fmt: skip


def _parse_type(name: str) -> t.Type | None:
    """character(n) is none of ours, since it compares without the blanks at its end; nor is a numeric without
    a scale, or with one of more digits than it has, which is no decimal type of Spark's."""
    base, _, rest = name.partition("(")
    if base == "numeric":
        digits, _, scale = rest.rstrip(")").partition(",")
        known = rest and 0 <= int(scale) <= int(digits) <= t.MAX_PRECISION
        return t.decimal(int(digits), int(scale)) if known else None
    _, _, after = rest.partition(")")
    return _TYPES.get(base + after)
