"""Targets read by their files: which these are is asked once, not for each lookup.

Delta asks its log in three jobs which files a query needs, for each query anew. But the files of a version
never change, so a session that has asked once knows; and what it has appended since it has at hand. A lookup
is then one job, the one that reads.

Only plain files are read so: after a MERGE some rows of a file may be deleted by a vector beside it, which
Delta alone reads. So a target that was merged into is read through Delta again, until all its rows are
written anew.

Files that are on this machine are looked through right here, without a job (docs/decisions/0035).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlglot import exp

from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.names import LOCAL_ROWS, temporary
from viewkeep.idiff import log
from viewkeep.store import delta

# With more files, what Delta knows of the values in each is worth its jobs.
MOST_FILES = 64
# a file that is gone is an error, whatever the user has set: its rows would be missing
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
# what a file says of itself whose dates are of another calendar, which Spark alone converts
_OTHER_CALENDAR = b"org.apache.spark.legacyDateTime"
# characters that stand for others in the paths that the embedded database takes
_PATTERN = frozenset("*?[]{}")


@dataclass(frozen=True)
class OnThisMachine:
    """The files of a target, where they are here too: their paths, the rows that they hold in all, and those
    of the largest group of rows, of which a file knows the least and the largest values."""

    paths: tuple[str, ...]
    rows: int
    group: int

    @property
    def table(self) -> exp.Table:
        """The files, as a relation of the embedded database; no directory stands for a column."""
        paths = exp.Array(expressions=[exp.Literal.string(path) for path in self.paths])
        plain = exp.EQ(this=exp.column("hive_partitioning"), expression=exp.false())
        return exp.Table(this=exp.ReadParquet(expressions=[paths, plain]))


@dataclass(frozen=True)
class Listed:
    """A target as of a version: a temporary view of its files, and the rows that were appended since these
    were listed. `relation` is None where it has to be read through Delta."""

    version: int
    relation: str | None
    since: pa.Table | None = None
    here: OnThisMachine | None = None

    @property
    def table(self) -> exp.Table:
        """The files, as a relation."""
        return exp.table_(self.relation or "", quoted=True)


class StoredFiles:
    """The files of all targets that a session has looked up."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._listed: dict[tuple[str, str], Listed] = {}

    def of(self, view: str, target: str, version: int) -> Listed | None:
        """A target as of a version, if it can be read by its files."""
        known = self._listed.get((view, target))
        if known is None or known.version != version:
            known = self._listed[view, target] = self._list(view, target, version)
        return known if known.relation is not None else None

    def _list(self, view: str, target: str, version: int) -> Listed:
        """A temporary view of the files of a target, if they are plain and not too many."""
        table, through_delta = delta.storage(view, target, version), Listed(version, None)
        if not delta.has_plain_files(self._session, view, target, version):
            return through_delta
        rows = self._session.sql(to_sql(exp.select("*").from_(table)))
        paths = [unquote(path) for path in rows.inputFiles()]
        if not paths or len(paths) > MOST_FILES:
            return through_delta
        name = temporary(f"files_{view}_{target}")
        reader = self._session.read.schema(rows.schema).options(**_STRICT)
        reader.parquet(*paths).createOrReplaceTempView(name)
        return Listed(version, name, here=_on_this_machine(paths))

    def read_by_spark(self, view: str, target: str) -> None:
        """The files of a target cannot be read without Spark, though they are here."""
        known = self._listed.get((view, target))
        if known is not None:
            self._listed[view, target] = replace(known, here=None)

    def added(self, view: str, target: str, before: int, version: int, stored: pa.Table) -> None:
        """What a refresh has appended to a version, rows and entries, is committed as another."""
        known = self._listed.get((view, target))
        if known is None or known.version != before:
            return
        if known.relation is None:
            self._listed[view, target] = replace(known, version=version)
            return
        rows = stored.filter(pc.is_null(stored.column(log.IDS)))
        rows = rows.cast(pa.schema([f.with_nullable(True) for f in rows.schema]))
        since = (
            rows if known.since is None else pa.concat_tables([known.since, rows.cast(known.since.schema)])
        )
        if since.num_rows > LOCAL_ROWS:
            del self._listed[view, target]  # what was appended is listed with the others the next time
        else:
            self._listed[view, target] = replace(known, version=version, since=since)

    def forget(self, view: str) -> None:
        """The view is gone, filled anew, or a file of it is."""
        self._listed = {key: listed for key, listed in self._listed.items() if key[0] != view}


def _on_this_machine(paths: Sequence[str]) -> OnThisMachine | None:
    """Files by Spark's paths, if all of them are here. They are the same files: Delta names each by a number
    that no other has, and never changes it."""
    local, rows, group = [], 0, 0
    for path in paths:
        if not path.startswith("file:") or _PATTERN.intersection(path):
            return None
        file = Path("/" + path.removeprefix("file:").lstrip("/"))
        if not file.is_file():
            return None
        try:
            footer = pq.read_metadata(file)
        except (OSError, pa.ArrowException):
            return None  # Spark tells what is wrong, if anything is
        if _OTHER_CALENDAR in (footer.metadata or {}):
            return None
        local.append(str(file))
        rows += footer.num_rows
        group = max(group, *(footer.row_group(n).num_rows for n in range(footer.num_row_groups)), 0)
    return OnThisMachine(tuple(local), rows, group)
