"""The modification log on Delta Lake: the table's own change feed. Time travel is the state before.

Whoever changes a table, by whatever means, its feed tells: one row an event, with the commit's version.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from sqlglot import exp

from viewkeep.algebra.expressions import pre_name
from viewkeep.catalog.models import Table
from viewkeep.idiff.bags import value_changes
from viewkeep.idiff.net import KINDS, LAST, NET_KIND, SEQ, SIGN, net_changes, non_keys

FEED = "delta.enableChangeDataFeed"
_TYPE, _VERSION = "_change_type", "_commit_version"
_BEFORE = ("update_preimage", "delete")


def read_feed(session: Any, table: str, after: int) -> Any:
    """The events of a table past a version, as a data frame; none where there is no later version."""
    return session.read.option("readChangeFeed", "true").option("startingVersion", after + 1).table(table)


def is_empty(feed: Any) -> bool:
    """Whether a feed has no commit to read, where the session can tell without a job, as classic ones can."""
    try:
        return int(feed.rdd.getNumPartitions()) == 0
    except (AttributeError, PySparkException):
        return False


def net_of_feed(table: Table, feed: str) -> exp.Select:
    """The net changes from a feed that is registered under a name; every key that has events is there."""
    return net_of_events(table, events_of_feed(table, feed))


def net_of_events(table: Table, events: exp.Query) -> exp.Select:
    """The same from its events."""
    return net_changes(table, events, all_keys=True)


def values_of_feed(table: Table, feed: str) -> exp.Select:
    """For a table without a key the changes of values; every value that has events is there."""
    return value_changes(table, events_of_feed(table, feed), all_values=True)


def events_of_feed(table: Table, feed: str) -> exp.Select:
    """The rows of a feed as the events of a log: which came when, and whether as it was or as it became."""
    before = exp.In(this=_column(_TYPE), expressions=[exp.Literal.string(kind) for kind in _BEFORE])
    one = exp.Literal.number(1)
    sign = exp.Case(ifs=[exp.If(this=before, true=exp.Neg(this=one))], default=one.copy())
    return exp.select(
        exp.alias_(_column(_VERSION), SEQ, quoted=True),
        exp.alias_(sign, SIGN, quoted=True),
        *(_column(c.name) for c in table.columns),
    ).from_(exp.table_(feed, quoted=True))


def summary_of(table: Table, net: Any) -> tuple[dict[str, int], int]:
    """What `summary` tells, and the last version, from net changes that are here as an Arrow table."""
    kinds = net.column(NET_KIND)
    found = {kind: _count(pc.equal(kinds, kind)) for kind in KINDS}
    updates = net.filter(pc.equal(kinds, "update"))
    moved = pa.array([False] * updates.num_rows, pa.bool_())
    for name in non_keys(table):
        new, old = updates.column(name), updates.column(pre_name(name))
        differ = pc.fill_null(pc.not_equal(new, old), False)
        one_null = pc.not_equal(pc.is_null(new), pc.is_null(old))
        changed = pc.or_(differ, one_null)
        found[f"update:{name}"] = _count(changed)
        moved = pc.or_(moved, changed)
    found["update"] = _count(moved)  # not rows in which only columns changed that the view does not use
    return {kind: n for kind, n in found.items() if n}, last_of(net)


def last_of(net: Any) -> int:
    """The last version that net changes in an Arrow table come from."""
    return int(pc.max(net.column(LAST)).as_py())


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))
