"""The modification log on Delta Lake: the table's own change feed. Time travel is the state before.

Whoever changes a table, by whatever means, its feed tells: one row an event, with the commit's version.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from viewkeep.catalog.models import Table
from viewkeep.idiff.net import SEQ, SIGN, net_changes

FEED = "delta.enableChangeDataFeed"
_TYPE, _VERSION = "_change_type", "_commit_version"
_BEFORE = ("update_preimage", "delete")


def read_feed(session: Any, table: str, after: int) -> Any:
    """The events of a table past a version, as a data frame; none where there is no later version."""
    return (
        session.read.option("readChangeFeed", "true")
        .option("startingVersion", after + 1)
        .table(table)
    )


def net_of_feed(table: Table, feed: str) -> exp.Select:
    """The net changes from a feed that is registered under a name; every key that has events is there."""
    before = exp.In(
        this=_column(_TYPE), expressions=[exp.Literal.string(kind) for kind in _BEFORE]
    )
    one = exp.Literal.number(1)
    sign = exp.Case(ifs=[exp.If(this=before, true=exp.Neg(this=one))], default=one.copy())
    events = exp.select(
        exp.alias_(_column(_VERSION), SEQ, quoted=True),
        exp.alias_(sign, SIGN, quoted=True),
        *(_column(c.name) for c in table.columns),
    ).from_(exp.table_(feed, quoted=True))
    return net_changes(table, events, all_keys=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))
