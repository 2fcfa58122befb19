"""What exists: base tables and views, as every layer speaks of them, and as they are stored (JSON)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from viewkeep.algebra.types import Type
from viewkeep.cached import cached_property
from viewkeep.errors import CorruptCatalog

FORMAT = 1


@dataclass(frozen=True)
class TableColumn:
    """A column of a base table."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class ForeignKey:
    """Rows of this table name at most one row of `table`, by these columns."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A base table. `key` is empty where none was declared; `refused` maps columns to types we lack.

    Of a table as a view reads it, `columns` are those that something comes of, and `whole` are all that it
    had at CREATE: the view's text means what it meant then only where it is bound against all of them.
    `unseen` says why changes of the table would not be seen, where that is so.
    """

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    whole: tuple[TableColumn, ...] = ()
    unseen: str = ""

    def read_by(self, names: Collection[str]) -> Table:
        """The table as a view reads it that uses these columns: others may come, go and change."""
        used = tuple(c for c in self.columns if c.name in names)
        return Table(self.name, used, self.key, self.foreign_keys, whole=self.columns)

    def at_create(self) -> Table:
        """A table that a view reads, with all its columns."""
        return replace(self, columns=self.whole or self.columns, whole=())

    def column(self, name: str) -> TableColumn | None:
        """The column of that name, whatever its case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)})

    @staticmethod
    def from_json(text: str) -> Table:
        doc = _load(text, "table")
        try:
            return Table(
                doc["name"],
                _columns(doc["columns"]),
                tuple(doc["key"]),
                tuple(
                    ForeignKey(tuple(f["columns"]), f["table"], tuple(f["references"]))
                    for f in doc["foreign_keys"]
                ),
                doc["refused"],
                _columns(doc.get("whole", ())),
            )
        except (KeyError, TypeError) as problem:
            raise _corrupt("table", str(problem)) from problem


def _columns(docs: Iterable[Mapping[str, Any]]) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(c["name"], Type(**c["type"]), c["nullable"]) for c in docs)


def default_strategy(tables: Iterable[Table]) -> str:
    """`id`, or `tuple` where the rows of a table have no key to be named by."""
    return "id" if all(table.key for table in tables) else "tuple"


@dataclass(frozen=True)
class View:
    """A materialized view: its definition, its options, the base tables as they were at CREATE, and the views
    that its definition names."""

    name: str
    sql: str
    options: Mapping[str, str]
    tables: tuple[Table, ...]
    views: tuple[str, ...] = ()

    @property
    def strategy(self) -> str:
        """The strategy that the view is compiled for: what WITH (strategy = ...) says, else `id`, which needs
        keys."""
        return self.options.get("strategy") or default_strategy(self.tables)

    @property
    def policy(self) -> str:
        """When a refresh may recompute: see chooser.py. Who asks for a strategy gets that strategy."""
        return self.options.get("refresh_policy", "incremental" if "strategy" in self.options else "auto")

    @property
    def is_eager(self) -> bool:
        """Whether the view is maintained in the transaction that changes a table."""
        return self.options.get("maintenance") == "eager"

    def to_json(self) -> str:
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(
            {
                "format": FORMAT,
                "name": self.name,
                "sql": self.sql,
                "options": dict(self.options),
                "tables": [json.loads(t.to_json()) for t in self.tables],
                "views": list(self.views),
            }
        )

    @staticmethod
    @lru_cache(maxsize=4096)  # the catalog is read at every statement, and its texts hardly ever change
    def from_json(text: str) -> View:
        doc = _load(text, "view")
        try:
            tables = tuple(Table.from_json(json.dumps(t)) for t in doc["tables"])
            if not isinstance(doc["options"], dict):
                raise TypeError(f"options are {doc['options']!r}")
            views = tuple(str(name) for name in doc.get("views", ()))
            return View(doc["name"], doc["sql"], doc["options"], tables, views)
        except (KeyError, TypeError) as problem:
            raise _corrupt("view", str(problem)) from problem


def same_table(name: str, known: Iterable[str]) -> str | None:
    """Which known table a name in a view's text means: views store the names that they were resolved to,
    and `parts` may have become `sales.parts`."""
    lower = name.lower()
    exact = next((k for k in known if k.lower() == lower), None)
    longer = next((k for k in known if k.lower().endswith(f".{lower}")), None)
    return exact or longer or next((k for k in known if lower.endswith(f".{k.lower()}")), None)


def _load(text: str, what: str) -> dict[str, Any]:
    try:
        doc = json.loads(text)
    except (ValueError, TypeError) as problem:
        raise _corrupt(what, str(problem)) from problem
    if not isinstance(doc, dict) or doc.get("format") != FORMAT:
        found = doc.get("format") if isinstance(doc, dict) else type(doc).__name__
        raise _corrupt(what, f"format {found!r} where {FORMAT} was expected")
    return doc


def _corrupt(what: str, detail: str) -> CorruptCatalog:
    return CorruptCatalog(
        f"viewkeep's own record of a {what} cannot be read: {detail}",
        hint="restore it from a backup, or drop the viewkeep schema and create the views again; "
        "base tables are not affected",
    )
