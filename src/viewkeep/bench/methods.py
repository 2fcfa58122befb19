"""The ways to bring a view up to date that are measured against each other, on one connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from viewkeep.bench.workload import MergeJob, Workload
from viewkeep.connection import Connection
from viewkeep.errors import Unsupported
from viewkeep.frontend.statements import parse_sql
from viewkeep.results import Refresh

Facts = dict[str, Any]
# As viewkeep's own tables have: without them a MERGE would rewrite every file that it touches.
_MERGED_TABLE = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


class Method(Protocol):
    """One way to keep one view."""

    view: str
    name: str
    relation: str

    def create(self) -> None:
        """Makes what the method keeps, from the tables as they are."""

    def refresh(self) -> None:
        """Brings it up to date. This alone is timed."""

    def facts(self) -> Facts:
        """What the last refresh did, found out after the clock has stopped."""

    def problem(self) -> str:
        """What is wrong with the result, compared with the query over the tables as they are now."""


class Maintained:
    """A materialized view of viewkeep's: with one strategy, whatever recomputing would cost, or as viewkeep
    makes it unless told otherwise."""

    def __init__(
        self,
        vk: Connection,
        view: str,
        query: str,
        strategy: str | None,
        exact: bool,
        name: str = "",
        more: str = "",
    ) -> None:
        """`name`: of the method, if it is not that of the strategy; `more`: options of the view."""
        self._vk = vk
        self._query = query
        self._options = f"WITH (strategy = '{strategy}'{more}) " if strategy else ""
        self._exact = exact
        name = name or strategy or "auto"
        self.view, self.name, self.relation = view, name, f"{view}_{name}"
        self._last: Refresh | None = None

    def create(self) -> None:
        self._vk.sql(f"CREATE MATERIALIZED VIEW {self.relation} {self._options}AS {self._query}")

    def refresh(self) -> None:
        self._last = self._vk.refresh(self.relation)[0]

    def facts(self) -> Facts:
        assert self._last is not None
        last = self._last
        facts: Facts = {"rows_changed": last.rows_changed, "statements": last.statements}
        facts["changes"] = last.changes_in
        if last.commits is not None:
            facts["commits"] = last.commits
        if last.lookups is not None:
            facts["lookups"] = last.lookups
        if last.rows_read is not None:  # also what was read beside Spark, which counts its own alone
            facts["rows_read"] = last.rows_read
        if last.cache_rows is not None:
            facts |= {"cache_rows": last.cache_rows, "cache_inserts": last.cache_inserts}
        facts |= {"strategy": last.strategy, "reported_seconds": round(last.seconds, 6)}
        if last.phases:
            facts["phases"] = {name: round(seconds, 6) for name, seconds in last.phases.items()}
        return facts

    def unfinished(self) -> str:
        """What a refresh has left undone: a view that was never refreshed is right about the versions that it
        shows."""
        late = self._vk.refresh(self.relation)[0]
        return f"{late.changes_in:,} changes were left for another refresh" if late.strategy != "none" else ""

    def problem(self) -> str:
        if late := self.unfinished():
            return late
        if self._exact:
            return difference(lambda text: self._vk.sql(text).rows, self._query, self.relation)
        verification = self._vk.verify(self.relation)
        return "" if verification else str(verification)


class DuckDBRecompute:
    """The query once more into a table, in DuckDB's own words and without viewkeep."""

    def __init__(self, vk: Connection, view: str, query: str) -> None:
        self._con = vk.engine._con.beside()  # type: ignore[attr-defined]
        self._query = vk.engine.sql(parse_sql(query))
        self.view, self.name, self.relation = view, "recompute", f"{view}_recompute"
        self._rows = 0

    def create(self) -> None:
        self._write()

    def refresh(self) -> None:
        self._write()

    def _write(self) -> None:
        made = self._con.execute(f"CREATE OR REPLACE TABLE {self.relation} AS {self._query}")
        self._rows = int(made.fetchall()[0][0])

    def facts(self) -> Facts:
        return {"rows_changed": self._rows, "statements": 1}

    def problem(self) -> str:
        return difference(lambda text: self._con.execute(text).fetchall(), self._query, self.relation)


class PostgresRecompute:
    """The query once more into a table, in PostgreSQL's own words and without viewkeep: a new one that takes
    the place of the old, which is quicker than to delete its rows."""

    def __init__(self, vk: Connection, view: str, query: str) -> None:
        self._session = vk.engine._session  # type: ignore[attr-defined]
        self._query = vk.engine.sql(parse_sql(query))
        self.view, self.name, self.relation = view, "recompute", f"{view}_recompute"
        self._rows = 0

    def create(self) -> None:
        self._write()

    def refresh(self) -> None:
        self._write()

    def _write(self) -> None:
        with self._session.transaction():
            self._session.run(f"DROP TABLE IF EXISTS {self.relation}")
            self._rows = self._session.run(f"CREATE TABLE {self.relation} AS {self._query}")

    def facts(self) -> Facts:
        return {"rows_changed": self._rows, "statements": 1}

    def problem(self) -> str:
        return difference(self._session.rows, self._query, self.relation)


class SparkRecompute:
    """The query once more over a Delta table, in plain Spark. `written`: as an engineer writes it."""

    def __init__(self, vk: Connection, view: str, query: str, written: str | None = None) -> None:
        self._session = vk.engine._user  # type: ignore[attr-defined]
        self._query, self._written = query, written or query
        self.view, self.name, self.relation = view, "recompute", f"{view}_recompute"

    def create(self) -> None:
        self._write()

    def refresh(self) -> None:
        self._write()

    def _write(self) -> None:
        rows = self._session.sql(self._written)
        rows.write.format("delta").mode("overwrite").saveAsTable(self.relation)

    def facts(self) -> Facts:
        metrics = _last_commit(self._session, self.relation).operationMetrics
        return {"rows_changed": int(metrics["numOutputRows"]), "statements": 1, "commits": 1}

    def problem(self) -> str:
        return difference(lambda text: self._session.sql(text).collect(), self._query, self.relation)


class SparkMerge:
    """A job as an engineer writes it by hand: the change feed since the last run, joined and merged."""

    def __init__(self, vk: Connection, view: str, query: str, job: MergeJob) -> None:
        self._session = vk.engine._user  # type: ignore[attr-defined]
        self._query = query
        self._job = job
        self.view, self.name, self.relation = view, "merge", f"{view}_merge"
        self._done = -1

    def create(self) -> None:
        self._done = self._newest()
        self._session.sql(
            f"CREATE TABLE {self.relation} USING delta {_MERGED_TABLE} AS {self._query}"
        ).collect()

    def refresh(self) -> None:
        newest = self._newest()
        reader = self._session.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", self._done + 1).option("endingVersion", newest)
        reader.table(self._job.table).createOrReplaceTempView("feed")
        self._session.sql(self._job.changes).createOrReplaceTempView("changes")
        self._session.sql(self._job.merge.format(target=self.relation)).collect()
        self._done = newest

    def _newest(self) -> int:
        return int(_last_commit(self._session, self._job.table).version)

    def facts(self) -> Facts:
        metrics = _last_commit(self._session, self.relation).operationMetrics
        return {"rows_changed": int(metrics["numTargetRowsUpdated"]), "statements": 1, "commits": 1}

    def problem(self) -> str:
        return difference(lambda text: self._session.sql(text).collect(), self._query, self.relation)


def difference(ask: Callable[[str], Sequence[Any]], query: str, relation: str) -> str:
    """How a relation differs from a query over the tables as they are now, if it does."""
    kept, wanted = f"SELECT * FROM {relation}", f"SELECT * FROM ({query}) AS wanted"
    rows, wanted_rows, missing = (
        ask(f"SELECT COUNT(*) AS n FROM ({text}) AS counted")[0][0]
        for text in (kept, wanted, f"{wanted} EXCEPT ALL {kept}")
    )
    # what is not missing is there; whatever else is there is too much
    unexpected = rows - (wanted_rows - missing)
    return f"{missing:,} rows missing, {unexpected:,} unexpected" if missing or unexpected else ""


def fingerprint(ask: Callable[[str], Sequence[Any]], relation: str) -> tuple[Any, ...]:
    """The number of rows of a relation on Spark, and the sum of their hashes: quick to compare with that of
    another one, and the same for the same rows."""
    hashes = "SUM(CAST(xxhash64(*) AS DECIMAL(38, 0)))"
    return tuple(ask(f"SELECT COUNT(*) AS n, {hashes} AS hashes FROM {relation}")[0])


def _last_commit(session: Any, table: str) -> Any:
    return session.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]


Maker = Callable[[Connection, Workload, str], Method]


def _maintained(strategy: str | None) -> Maker:
    return lambda vk, workload, view: Maintained(vk, view, workload.views[view], strategy, workload.exact)


_MAINTAINED: Mapping[str, Maker] = {
    "auto": _maintained(None),
    "id": _maintained("id"),
    "tuple": _maintained("tuple"),
}
METHODS: Mapping[str, Mapping[str, Maker]] = {
    "duckdb": {
        **_MAINTAINED,
        "recompute": lambda vk, workload, view: DuckDBRecompute(vk, view, workload.views[view]),
    },
    "postgres": {
        **_MAINTAINED,
        "recompute": lambda vk, workload, view: PostgresRecompute(vk, view, workload.views[view]),
    },
    "spark": {
        **_MAINTAINED,
        "recompute": lambda vk, workload, view: SparkRecompute(
            vk, view, workload.views[view], workload.recomputes.get(view)
        ),
        "merge": lambda vk, workload, view: SparkMerge(vk, view, workload.views[view], workload.merges[view]),
    },
}


def methods_of(workload: Workload, engine: str, asked: Sequence[str] | None) -> list[str]:
    """The methods to compare: what was asked for, or those that the workload is about."""
    known = [name for name in METHODS.get(engine, {}) if name != "merge" or workload.merges]
    return chosen("method", known, asked or [name for name in workload.methods if name in known])


def chosen(what: str, known: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """What was asked for, each once, or all there are."""
    for name in asked or ():
        if name not in known:
            raise Unsupported(f"there is no {what} {name} here", hint=f"there are: {', '.join(known)}")
    return list(dict.fromkeys(asked)) if asked else list(known)
