"""Following tables of a database with a log: their rows and what the log has past a point, in the transaction
that the caller has begun."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeep.algebra.types import BIGINT
from viewkeep.engines.following import Followed, Following
from viewkeep.engines.transactional.database import Database, Log
from viewkeep.engines.transactional.names import BASE, bare
from viewkeep.idiff.bags import TIMES, value_changes

MOVED = "the log of {} was not kept for it: its anchor was moved by another"


def follow(database: Database, log: Log, followed: Sequence[Followed]) -> Following:
    """Changes since the points, where the log has them all; else whole tables."""
    whole = ""
    for one in followed:
        if one.point is None:
            whole = whole or "not loaded yet"
        elif log.watermark(one.anchor) != one.held:
            whole = whole or MOVED.format(one.table.name)
    rows = {}
    for one in followed:
        columns = one.table.columns
        if whole:
            names = [c.name for c in columns]
            times = exp.alias_(exp.Cast(this=exp.Literal.number(1), to=BIGINT.sql()), TIMES, quoted=True)
            source = exp.alias_(database.read(one.table, names), BASE, table=True)
            query = exp.select(*map(bare, names), times).from_(source)
            rows[one.table.name] = database.arrow(query, columns)
        else:
            changes = value_changes(one.table, database.events_after(one.table.name, one.point))
            outputs = [bare(c.name) for c in columns]
            query = exp.select(*outputs, bare(TIMES)).from_(exp.Subquery(this=changes, alias="changes"))
            rows[one.table.name] = database.arrow(query, columns)
    return Following(rows, {one.table.name: log.upto for one in followed}, whole)
