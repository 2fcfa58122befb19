"""How a view lives on Delta Lake, and how a refresh survives a crash between any two commits.

A view is a table of rows and some tables of caches, in the database `viewkeep`; each also holds the diffs
that wait to be folded into its rows (idiff/log.py). Delta commits one table at a time, so the commit of the
rows is the one that counts: its metadata names the base versions that the view shows and the cache versions
that belong to it. Caches are committed first. After a crash the rows are old or new, never between; and a
cache that is ahead of what the rows name is restored before the next refresh. Folding changes how a table is
written, not what it says, so a cache may be ahead by that.

A view can do without its caches: the rows' commit then names no version of them. Their tables stay as they
are, behind the rows, and nobody reads them, since a cache is read only at a version that the rows name. To
have them again all targets are filled.

Two refreshes at once: each commit, and each table that is filled anew, carries its table's next version as an
idempotent transaction number, so of two that start from one version the second commits nothing, notices, and
starts over. In a warehouse that one process holds there are no two, and no numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from viewkeep.engines.spark.dialect import to_sql
from viewkeep.errors import BaseTableChanged, ConcurrentRefresh, CorruptCatalog

DATABASE = "viewkeep"
ROWS = "rows"  # the target that is the view itself
FORMAT = 3  # 3: the IDs of entries are named in alphabetical order
FOLDED = json.dumps({"viewkeep": FORMAT, "folded": True})  # what the commit of a folded cache says
VIEW_PROPERTY, SHOWN_PROPERTY = "viewkeep.view", "viewkeep.shown"
ID_PROPERTY = "viewkeep.id"
KEY_PROPERTY, FOREIGN_PROPERTY = "viewkeep.key", "viewkeep.foreign_keys"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TXN_APP, _TXN_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
# commits of others that leave the rows as they are
_HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
             "REORG", "ANALYZE", "UPGRADE PROTOCOL")  # fmt: skip
# commits after which no row of a file is deleted by a vector, if none was before
_PLAIN = ("WRITE", "OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
_FILLING = ("CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT")
# the watermark is in the log of the rows' table: keep that log as long as the table
TABLE_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.logRetentionDuration": "interval 36500 days",
    # to write a checkpoint takes longer than some refreshes; to read so many commits does not
    "delta.checkpointInterval": "50",
}


@dataclass(frozen=True)
class Waiting:
    """The entries of a table that wait to be folded into its rows, and the seconds that reading through them
    has cost so far."""

    entries: int = 0
    debt: float = 0.0


NOTHING_WAITS = Waiting()


@dataclass(frozen=True)
class State:
    """What a view's rows show, and the versions of the tables that it lives in. `caches` is empty
    for a view that does without them. `sizes` and `cached`: about
    how many rows its base tables and its caches have, as far as that is known."""

    watermark: Mapping[str, int]
    table_ids: Mapping[str, str]
    caches: Mapping[str, int]
    rows: int
    refreshed: datetime
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    cached: Mapping[str, int] = field(default_factory=dict)

    def version(self, target: str) -> int:
        """The version of a target's table that belongs to this state."""
        return self.rows if target == ROWS else self.caches[target]

    def is_bare(self, caches: Iterable[str]) -> bool:
        """Whether the view is without its caches, which are these."""
        return not set(caches) <= self.caches.keys()

    def without_caches(self) -> State:
        """The state of a view that has given up its caches. How large they were is still known."""
        waiting = {target: waits for target, waits in self.waiting.items() if target == ROWS}
        return replace(self, caches={}, waiting=waiting)

    def waits(self, target: str) -> Waiting:
        return self.waiting.get(target, NOTHING_WAITS)

    def waits_for(self, target: str, waiting: Waiting) -> State:
        """The state in which this waits for a target."""
        return replace(self, waiting={**self.waiting, target: waiting})

    def moved(self, target: str, version: int) -> State:
        """The state to which this version of a target's table belongs."""
        if target == ROWS:
            return replace(self, rows=version)
        return replace(self, caches={**self.caches, target: version})

    def metadata(self, report: Report | None) -> str:
        """As it stands in the commit of the rows, with what is to be told of the refresh, if it was one."""
        doc = {
            "viewkeep": FORMAT,
            "watermark": dict(self.watermark),
            "table_ids": dict(self.table_ids),
            "caches": dict(self.caches),
            "waiting": {target: asdict(waiting) for target, waiting in self.waiting.items()},
            "refreshed": self.refreshed.isoformat(timespec="seconds"),
            "sizes": dict(self.sizes),
            "cached": dict(self.cached),
        }
        return json.dumps({**doc, "report": asdict(report)} if report else doc)


@dataclass(frozen=True)
class Report:
    """What a commit of rows says of its refresh. `started`: seconds since 1970; it ends with the commit.
    `rows_changed`: None where the rows that a diff names were not looked for."""

    strategy: str
    reason: str
    started: float
    changes_in: int = 0
    diff_rows: int = 0
    statements: int = 0
    rows_changed: int | None = None


def storage_name(view: str, target: str) -> str:
    """The table of a target, in the database `viewkeep`."""
    return f"{view.lower().replace('.', '__')}__{target}"


def storage(view: str, target: str, version: int | None = None) -> exp.Table:
    """A target as it is now, or as of a version."""
    table = exp.table_(storage_name(view, target), db=DATABASE, quoted=True)
    return at_version(table, version) if version is not None else table


def at_version(table: exp.Table, version: int) -> exp.Table:
    """A table as of a version."""
    number = exp.Literal.number(version)
    table.set("version", exp.Version(this="VERSION", expression=number, kind="AS OF"))
    return table


@contextmanager
def settings(session: Any, values: Mapping[str, str]) -> Iterator[None]:
    """Session settings for a while; whatever they were before, they are again."""
    before = {key: session.conf.get(key, None) for key in values}
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


def commit(
    session: Any,
    view: str,
    target: str,
    before: int,
    metadata: str,
    write: Callable[[], object],
    *,
    alone: bool,
) -> int:
    """Writes to a target's table, of which one version was read, in one commit; the version that it made.
    `write` may be called twice. `alone`: nobody else can be refreshing views here. To know which transaction
    numbers are taken Delta reads the table's whole log, in a job that takes longer than the rest of a small
    commit; but what changes nothing it commits only with a number."""
    with settings(session, {_METADATA: metadata} | ({} if alone else _numbered(view, target, before))):
        session.conf.unset(_LAST_COMMIT)
        write()
        made = session.conf.get(_LAST_COMMIT, None)
    if made is None and alone:
        return commit(session, view, target, before, metadata, write, alone=False)
    if made is None:
        raise _came_second(view)
    if int(made) > before + 1:
        _check_untouched(session, view, target, before, int(made))
    return int(made)


def writing_once(session: Any, writer: str, number: int) -> Any:
    """Settings under which a commit is left out where that writer has made one of that number, or of a later
    one, already."""
    return settings(session, {_TXN_APP: writer, _TXN_VERSION: str(number)})


def _numbered(view: str, target: str, before: int) -> dict[str, str]:
    """Settings under which a commit is left out where another was made that had read the same version."""
    return {_TXN_APP: f"viewkeep/{storage_name(view, target)}", _TXN_VERSION: str(before + 1)}


def _came_second(view: str) -> ConcurrentRefresh:
    return ConcurrentRefresh(f"another refresh of {view} came first", hint="refresh again")


@contextmanager
def filling(session: Any, view: str, target: str, metadata: str, before: int | None) -> Iterator[None]:
    """The block fills a target, in one commit. `before`: the version of its table that is replaced, where
    there is one, and others may be refreshing it."""
    numbered = {} if before is None else _numbered(view, target, before)
    with settings(session, {_METADATA: metadata, **numbered}):
        session.conf.unset(_LAST_COMMIT)
        yield
        if session.conf.get(_LAST_COMMIT, None) is None:
            raise _came_second(view)


def last_version(session: Any) -> int:
    """The version that this session's last commit made."""
    return int(session.conf.get(_LAST_COMMIT))


def history(session: Any, table: exp.Table, limit: int = 200) -> list[Any]:
    """The commits of a table, newest first."""
    describe = f"DESCRIBE HISTORY {to_sql(table)} LIMIT {limit:d}"
    rows: list[Any] = session.sql(describe).collect()
    return rows


def rows_written(session: Any, table: exp.Table) -> int:
    """How many rows the last commit of a table wrote."""
    made = history(session, table, limit=1)[0]
    return int((made.operationMetrics or {}).get("numOutputRows", 0))


# the columns of the history, with their types
HISTORY = {
    "view": "STRING",
    "refreshed": "TIMESTAMP",
    "versions": "STRING",
    "strategy": "STRING",
    "reason": "STRING",
    "changes_in": "BIGINT",
    "rows_changed": "BIGINT",
    "diff_rows": "BIGINT",
    "statements": "BIGINT",
    "seconds": "DOUBLE",
}


def refreshes(session: Any, view: str) -> list[tuple[Any, ...]]:
    """What the log of a view's rows tells of its refreshes, oldest first, with the columns of HISTORY."""
    found: list[tuple[Any, ...]] = []
    for entry in reversed(history(session, storage(view, ROWS), limit=1000)):
        doc = _own(entry.userMetadata)
        if doc is None or "report" not in doc or entry.operation == "RESTORE":
            continue
        report = Report(**doc["report"])
        changed = report.rows_changed
        if report.strategy == "full":
            changed = int((entry.operationMetrics or {}).get("numOutputRows", 0))
        seconds = max(entry.timestamp.timestamp() - report.started, 0.0)
        found.append(
            (view, entry.timestamp, json.dumps(doc["watermark"]), report.strategy, report.reason,
             report.changes_in, changed, report.diff_rows, report.statements, round(seconds, 3))
        )  # fmt: skip
    return found


def load_state(session: Any, view: str, caches: tuple[str, ...]) -> State:
    """The state of a view from its tables' own logs; caches that are ahead are put back first. Those that it
    does not name are left alone."""
    state = shown_state(session, view)
    named = {cache: state.caches[cache] for cache in caches if cache in state.caches}
    versions = {cache: _settle_cache(session, view, cache, version) for cache, version in named.items()}
    return replace(state, caches=versions)


def shown_state(session: Any, view: str, *, as_it_is: bool = False) -> State:
    """The state that readers of a view see, whoever refreshed it last; caches are left as they are.
    `as_it_is`: though others have written to its rows, too."""
    rows = storage(view, ROWS)
    doc, newest = None, 0
    for entry in history(session, rows):
        newest = max(newest, entry.version)
        doc = _own(entry.userMetadata)
        if doc is not None and entry.operation not in ("RESTORE",):
            break
        if not as_it_is:
            _refuse(view, entry)
    if doc is None:
        raise CorruptCatalog(
            f"the log of view {view} does not say which base versions it shows",
            hint=f"REFRESH MATERIALIZED VIEW {view} FULL, or drop and create the view again",
        )
    waiting = {target: Waiting(**given) for target, given in doc["waiting"].items()}
    refreshed = datetime.fromisoformat(doc["refreshed"])
    sizes, cached = doc.get("sizes", {}), doc.get("cached", {})  # which views of before do not tell
    versions = doc["watermark"], doc["table_ids"], doc["caches"], newest
    return State(*versions, refreshed, waiting, sizes, cached)


def has_plain_files(session: Any, view: str, target: str, version: int) -> bool:
    """Whether the rows of a target, as of a version, are what its files hold, by their columns' names: since
    all of them were written there were only commits that add files."""
    properties = session.sql(f"SHOW TBLPROPERTIES {to_sql(storage(view, target))}").collect()
    mapped = {row.value for row in properties if row.key == "delta.columnMapping.mode"}
    if mapped - {"none"}:
        return False
    for entry in history(session, storage(view, target), limit=1000):
        if entry.version <= version and _fills(entry):
            return True
        if entry.operation not in _PLAIN:
            return False
    return False


def _fills(entry: Any) -> bool:
    """Whether a commit has left nothing of what was stored before. One that overwrites may do so to a part of
    the table, which a predicate names."""
    told = entry.operationParameters or {}
    is_whole = told.get("mode") == "Overwrite" and "predicate" not in told
    return entry.operation in _FILLING or (entry.operation == "WRITE" and is_whole)


def _check_untouched(session: Any, view: str, target: str, read: int, made: int) -> None:
    """Between the version that a commit has read and the one that it made nobody may have written. Where
    somebody has, the commit is taken back: it says that the view is up to date, and whoever looked next
    would not look past it."""
    table = storage(view, target)
    for entry in history(session, table):
        if read < entry.version < made and entry.operation not in _HARMLESS:
            _restore(session, table, made - 1)
            _refuse(view, entry)


def _restore(session: Any, table: exp.Table, version: int) -> None:
    session.sql(f"RESTORE TABLE {to_sql(table)} TO VERSION AS OF {version:d}").collect()


def _refuse(view: str, entry: Any) -> None:
    if entry.operation not in _HARMLESS:
        raise BaseTableChanged(
            f"the rows of view {view} were changed by someone else ({entry.operation})",
            hint=f"REFRESH MATERIALIZED VIEW {view} FULL puts them right",
        )


def _own(metadata: str | None) -> dict[str, Any] | None:
    try:
        doc = json.loads(metadata) if metadata else None
    except ValueError:
        return None
    return doc if isinstance(doc, dict) and doc.get("viewkeep") == FORMAT and "watermark" in doc else None


def _settle_cache(session: Any, view: str, cache: str, named: int) -> int:
    """The version at which a cache is what the rows name; a cache that a crash left ahead is restored."""
    table = storage(view, cache)
    newest = named
    ahead = False
    for entry in history(session, table):
        if entry.version <= named:
            break
        newest = max(newest, entry.version)
        ahead = ahead or (entry.operation not in _HARMLESS and entry.userMetadata != FOLDED)
    if not ahead:
        return newest
    _restore(session, table, named)
    return last_version(session)
