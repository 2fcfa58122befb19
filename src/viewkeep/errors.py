"""Every error a user can meet: a code, what happened, where, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """A position in the user's SQL, both counted from one."""

    line: int
    column: int


class ViewkeepError(Exception):
    """The base of all errors of viewkeep. `code` is stable; messages may improve."""

    code = "error"
    refreshed: Sequence[Any] = ()
    """Of a refresh of several views: the refreshes of those that did not fail."""
    failures: Mapping[str, Exception] = {}
    """Of a refresh of several views: the problem of each view that failed."""

    def __init__(self, message: str, *, hint: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        where = f" (line {self.place.line}, column {self.place.column})" if self.place else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.message}{where}{hint}"


class SyntaxProblem(ViewkeepError):
    """The text is not SQL that the parser can read."""

    code = "syntax"


class Unsupported(ViewkeepError):
    """Valid SQL that a materialized view cannot have (yet)."""

    code = "unsupported"


class UnknownFunction(Unsupported):
    """A function that views do not have, and that nobody registered in this session."""

    code = "unknown_function"


class UnknownTable(ViewkeepError):
    code = "unknown_table"


class UnknownColumn(ViewkeepError):
    code = "unknown_column"


class AmbiguousColumn(ViewkeepError):
    code = "ambiguous_column"


class TypeMismatch(ViewkeepError):
    code = "type_mismatch"


class NoKey(ViewkeepError):
    """Something was asked for that names rows by their key, and a table has none."""

    code = "no_key"


class DuplicateKey(ViewkeepError):
    """Two rows of a base table share a key."""

    code = "duplicate_key"


class AlreadyExists(ViewkeepError):
    code = "already_exists"


class UnknownView(ViewkeepError):
    code = "unknown_view"


class NoData(ViewkeepError):
    """There are no rows from which something could be computed."""

    code = "no_data"


class DependentViews(ViewkeepError):
    """A table cannot be dropped or altered while views read it."""

    code = "dependent_views"


class BaseTableChanged(ViewkeepError):
    """A base table was dropped, replaced or altered under a view, or its log was lost."""

    code = "base_table_changed"


class CorruptCatalog(ViewkeepError):
    """What viewkeep stored about itself cannot be read back."""

    code = "corrupt_catalog"


class WarehouseHeld(ViewkeepError):
    """Another process has the warehouse open."""

    code = "warehouse_held"


class ConcurrentRefresh(ViewkeepError):
    """Another refresh of the same view came first; nothing was applied twice."""

    code = "concurrent_refresh"


class ViewReplaced(ViewkeepError):
    """Another session replaced or dropped the view; its definition here is an old one."""

    code = "view_replaced"


class EngineError(ViewkeepError):
    """The engine refused a statement of the user's own."""

    code = "engine"


class Unavailable(ViewkeepError):
    """A part that this engine needs is not installed."""

    code = "unavailable"
