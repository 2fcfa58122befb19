"""One DuckDB connection whose every result is read to its end at once.

DuckDB refuses other work on a connection while a result is unfinished, and a result of which one row was
fetched is unfinished even where there is no second.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import duckdb
from duckdb.func import SPECIAL

# how statements begin that change no table's definition, as viewkeep writes them; others may
_LEAVES_CATALOG = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "BEGIN", "COMMIT",
                   "CREATE OR REPLACE TEMPORARY TABLE ", 'CREATE OR REPLACE TABLE "viewkeep".',
                   'DROP TABLE IF EXISTS "viewkeep".', "CREATE INDEX ")  # fmt: skip

# a join with more rows than these scans the other side, which is then faster
LOOKED_UP = 1000

# DuckDB parses a text of so many characters for as long as it takes to ask for anything else
WORTH_PARSING_ONCE = 300


class Rows:
    """A finished result."""

    def __init__(self, cursor: Any) -> None:
        self.description = cursor.description
        self._rows: list[tuple[Any, ...]] = cursor.fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, if there is one."""
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self._rows


class Session:
    """The connection, for one thread at a time."""

    def __init__(self, path: str) -> None:
        self._con = duckdb.connect(path)
        # a join with so few rows looks them up in the other side's index, where there is one
        self._con.execute(f"SET dynamic_or_filter_threshold = {LOOKED_UP}")
        # a transaction that failed answers nothing: settings are not asked for in it
        self._settings = self._con.cursor()
        self._lock = threading.RLock()
        self.catalog_version = 0
        """Another number after each statement that may have changed what tables and columns there are."""

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Rows:
        """Runs a statement and reads its result."""
        with self._lock:
            if not sql.startswith(_LEAVES_CATALOG):
                self.catalog_version += 1
            return Rows(self._con.execute(_parsed(sql) or sql, parameters))

    @contextmanager
    def without_optimizers(self, names: str) -> Iterator[None]:
        """Statements that DuckDB plans without some of its optimizers; afterwards it has them again."""
        found = self._settings.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0][0]
        # not those of another session that is just doing the same: it would never have them again
        before = ",".join(name for name in found.split(",") if name not in names.split(","))
        switch = "SET GLOBAL disabled_optimizers = ?"
        self._settings.execute(switch, [f"{before},{names}" if before else names])
        try:
            yield
        finally:
            self._settings.execute(switch, [before])

    def beside(self) -> Any:
        """Another connection to the same database, of which viewkeep takes no notice."""
        return self._con.cursor()

    def arrow(self, sql: str) -> Any:
        """Runs a statement; its result as an Arrow table."""
        with self._lock:
            return self._con.sql(sql).to_arrow_table()

    def answer(self, sql: str) -> Any:
        """A query's result as an Arrow table, in which sums of integers are BIGINT, as on Spark: DuckDB's are
        HUGEINT, which Arrow takes for decimals."""
        with self._lock:
            found = self._con.sql(sql)
            table = found.to_arrow_table()
        for n, kind in enumerate(found.types):
            if kind == "HUGEINT":
                table = table.set_column(n, table.column_names[n], table.column(n).cast("int64"))
        return table

    def register(self, name: str, rows: Any) -> None:
        """Lets SQL read an Arrow table under a name."""
        with self._lock:
            self._con.register(name, rows)

    def unregister(self, name: str) -> None:
        """Forgets a registered name."""
        with self._lock:
            self._con.unregister(name)

    def create_function(self, name: str, function: Any, arguments: Sequence[str], returns: str) -> None:
        """Lets SQL call a Python function, in place of the one that had the name."""
        with self._lock:
            with suppress(duckdb.Error):
                self._con.remove_function(name)
            names = (f"a{n}" for n in range(len(arguments)))  # DuckDB counts the parameters
            kind = inspect.Parameter.POSITIONAL_ONLY
            function.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])
            self._con.create_function(name, function, list(arguments), returns, null_handling=SPECIAL)

    def close(self) -> None:
        """Closes the database."""
        self._con.close()


def _parsed(sql: str) -> Any:
    """A long text as it is after parsing, which is done once where refreshes repeat it; None where it is
    short, or not one statement."""
    return _parse(sql) if len(sql) >= WORTH_PARSING_ONCE else None


@lru_cache(maxsize=1000)
def _parse(sql: str) -> Any:
    statements = duckdb.extract_statements(sql)
    return statements[0] if len(statements) == 1 else None
