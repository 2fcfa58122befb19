"""Targets read by their files: which these are is asked once, not for each lookup.

Delta asks its log in three jobs which files a query needs, for each query anew. But the files of a version
never change, so a session that has asked once knows; and what it has appended since it has at hand. A lookup
is then one job, the one that reads.

Only plain files are read so: after a MERGE some rows of a file may be deleted by a vector beside it, which
Delta alone reads. So a target that was folded is read through Delta again, until it is filled anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.names import LOCAL_ROWS, temporary
from viewkeep.idiff import log
from viewkeep.store import delta

# With more files, what Delta knows of the values in each is worth its jobs.
MOST_FILES = 64
# a file that is gone is an error, whatever the user has set: its rows would be missing
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


@dataclass(frozen=True)
class Listed:
    """A target as of a version: a temporary view of its files, and the rows that were appended since these
    were listed. `relation` is None where it has to be read through Delta."""

    version: int
    relation: str | None
    since: pa.Table | None = None

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
            known = self._listed[view, target] = Listed(version, self._list(view, target, version))
        return known if known.relation is not None else None

    def _list(self, view: str, target: str, version: int) -> str | None:
        """A temporary view of the files of a target, if they are plain and not too many."""
        table = delta.storage(view, target, version)
        if not delta.has_plain_files(self._session, view, target, version):
            return None
        rows = self._session.sql(to_sql(exp.select("*").from_(table)))
        paths = [unquote(path) for path in rows.inputFiles()]
        if not paths or len(paths) > MOST_FILES:
            return None
        name = temporary(f"files_{view}_{target}")
        reader = self._session.read.schema(rows.schema).options(**_STRICT)
        reader.parquet(*paths).createOrReplaceTempView(name)
        return name

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
