"""What tables and views there are in a DuckDB database, asked for once until it may have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.errors import translated
from viewkeep.errors import Unsupported
from viewkeep.store.duckdb import Store

# information_schema has both, but takes three times as long to ask
_NAMES = """SELECT schema_name, view_name FROM duckdb_views()
            WHERE database_name = current_database() AND NOT internal
            UNION ALL SELECT schema_name, table_name FROM duckdb_tables()
            WHERE database_name = current_database()"""


@dataclass
class _Seen:
    """What was found, as of one version of the catalog: names by their lower case, and tables."""

    version: int
    names: dict[tuple[str, str], tuple[str, str]] | None = None
    tables: dict[str, Table | None] = field(default_factory=dict)


class Catalog:
    """The catalog of one database. Nobody else can change it while the file is open here."""

    def __init__(self, con: Any, store: Store, lock: threading.RLock) -> None:
        self.con = con
        self._store = store
        self._lock = lock
        self._seen = _Seen(-1)
        ((name,),) = con.execute("SELECT current_database()").fetchall()
        self._database = str(name).lower()

    def _known(self) -> _Seen:
        if self._seen.version != self.con.catalog_version:
            self._seen = _Seen(self.con.catalog_version)
        return self._seen

    @contextmanager
    def changing_view(self, view: str, *, made: bool) -> Iterator[None]:
        """The block makes or drops a view and what belongs to it: the user's tables are what they were, and
        of names only this one comes or goes."""
        with self._lock:
            before = self._known()
            names = self._names()
            try:
                yield
            except BaseException:
                self._seen = _Seen(self.con.catalog_version)
                raise
            schema, _, name = view.rpartition(".")
            own = (schema.lower() or "main", name.lower())
            names = {key: found for key, found in names.items() if key != own}
            if made:
                names[own] = (schema or "main", name)
            self._seen = _Seen(self.con.catalog_version, names, before.tables)

    def qualify(self, name: str) -> str:
        """The name as the catalog has it: R, r and main.r may be one table."""
        if name.count(".") > 1 and name.split(".")[0].lower() != self._database:
            raise Unsupported(
                f"{name} is in another database, whose changes are not seen",
                hint="copy it: CREATE TABLE t AS SELECT ...",
            )
        found = self.found(name)
        if found is None:
            return name
        return found[1] if found[0] == "main" else ".".join(found)

    def found(self, name: str) -> tuple[str, str] | None:
        """The schema and the name of the table or view that a name means, if there is one."""
        parts = name.lower().split(".")
        return self._names().get((parts[-2] if len(parts) > 1 else "main", parts[-1]))

    def _names(self) -> dict[tuple[str, str], tuple[str, str]]:
        """The schemas and names of tables and views, by their lower case."""
        with self._lock:
            known = self._known()
            if known.names is None:
                rows = self.con.execute(_NAMES).fetchall()
                known.names = {(schema.lower(), one.lower()): (schema, one) for schema, one in rows}
            return known.names

    def table(self, name: str) -> Table | None:
        """A base table as it is now."""
        name = self.qualify(name)
        with self._lock:
            known = self._known().tables
            if name not in known:
                known[name] = self._table(name)
            return known[name]

    def _table(self, name: str) -> Table | None:
        try:
            found = self.con.execute(
                'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', [name]
            ).fetchall()
        except duckdb.CatalogException:
            return None
        columns, refused, key = [], {}, []
        for column_name, type_name, required, in_key in found:
            kind = _parse_type(type_name)
            if kind is None or ":" in column_name:  # such names are viewkeep's own, next to the user's
                refused[column_name] = type_name
                continue
            columns.append(TableColumn(column_name, kind, not required))
            if in_key:
                key.append(column_name)
        doc = self._store.table_doc(name)
        return Table(name, tuple(columns), tuple(key), doc.foreign_keys if doc else (), refused)

    def is_plain_view(self, name: str) -> bool:
        """Whether a name means a view that is not materialized."""
        schema, _, bare = name.rpartition(".")
        rows = self._asked(
            "SELECT lower(schema_name), temporary FROM duckdb_views() WHERE lower(view_name) = ? "
            "AND database_name IN (current_database(), 'temp', 'system')",
            [bare.lower()],
        )
        return any(found == (schema.lower() or "main") or passing for found, passing in rows)

    def columns_of(self, query: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query, for CREATE TABLE ... AS."""
        columns = []
        for name, type_name, *_ in self._asked(f"DESCRIBE {to_sql(query)}"):
            # DuckDB's sum of integers, which Spark has as a BIGINT
            kind = t.BIGINT if type_name == "HUGEINT" else _parse_type(type_name)
            if kind is None:
                raise Unsupported(
                    f"column {name} has {type_name}, which viewkeep does not keep",
                    hint="CAST it to a type that tables can have, or leave it out",
                )
            columns.append(TableColumn(name, kind))
        return tuple(columns)

    def _asked(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                found: list[tuple[Any, ...]] = self.con.execute(sql, parameters).fetchall()
                return found
        except duckdb.Error as problem:
            raise translated(problem) from problem


def _parse_type(name: str) -> t.Type | None:
    if (
        name in ("HUGEINT", "UHUGEINT", "FLOAT", '"NULL"')
        or name.startswith(("U", "STRUCT", "MAP"))
        or "[" in name
    ):
        return None
    if name.startswith("TIMESTAMP"):
        return t.TIMESTAMP if name == "TIMESTAMP" else None
    return t.parse(name, "duckdb")
