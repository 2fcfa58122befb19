"""What an engine is: the one place where the rest of viewkeep meets Spark, DuckDB or another database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlglot import exp

from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.engines.following import Followed, Following
from viewkeep.frontend.functions import UserFunction
from viewkeep.passes.compiler import Compiled
from viewkeep.results import Refresh, Result, Verification
from viewkeep.script.render import Names

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Standing:
    """Where a view stands: the base versions it shows, and how many logged changes lie past them."""

    rows: int
    pending: int
    refreshed: datetime | None
    versions: Mapping[str, int]
    problem: str = ""
    """Why it cannot be refreshed, where that is known."""


class Engine(Protocol):
    """An engine holds base tables, captures their changes, and keeps views."""

    name: str
    dialect: str
    locates: bool
    """Whether a stored row can be found again by where it is, within one transaction."""
    maintains_eagerly: bool
    """Whether views can be maintained in the transaction that changes a table."""
    logs_for_views: bool
    """Whether changes of a table are logged as long as a view reads it, and no longer."""

    @property
    def reading_names(self) -> Callable[[Sequence[Table]], Names] | None:
        """Where tables are, for a query that is written from its plan. None where a query means to the engine
        what it means to Spark."""

    def qualify(self, name: str) -> str:
        """A user's name for a table or view, as it can be told apart later, whatever is current then."""

    def find_table(self, name: str) -> Table | None:
        """A base table as it is now."""

    def is_plain_view(self, name: str) -> bool:
        """Whether the name is that of a view of the engine's own, of which no change is told."""

    def create_table(self, tree: exp.Create, table: Table) -> None:
        """Creates a base table with a declared key."""

    def describe_query(self, tree: exp.Expr) -> tuple[TableColumn, ...]:
        """The columns of a query, for CREATE TABLE ... AS."""

    def declare_key(self, table: Table, key: Sequence[str]) -> None:
        """Declares the key of a table that exists; its rows must be unique by it."""

    def drop_table(self, name: str, if_exists: bool) -> None:
        """Drops a base table that no view reads."""

    def run_dml(self, tree: exp.Expr, text: str, eager: Sequence[tuple[View, Compiled]] = ()) -> Result:
        """INSERT, UPDATE, DELETE or MERGE of the user's own, its changes captured; `eager` views are
        maintained in the same transaction."""

    def write_batch(self, table: str, batch: Any, mode: str, stream: str, number: int) -> None:
        """Appends a batch of a stream to a base table, or with mode `upsert` merges it in by the table's key;
        once, however often the batch of that number comes."""

    def run_query(self, tree: exp.Expr, text: str) -> Result:
        """A SELECT of the user's own."""

    def run_other(self, tree: exp.Expr, text: str) -> Result:
        """Any other statement that the engine understands."""

    def register_function(self, signature: UserFunction, function: Callable[..., Any]) -> None:
        """Lets views call a Python function, in this session; nulls are passed to it as None."""

    def views(self) -> list[View]:
        """All materialized views, in the order in which they were created."""

    def create_view(
        self,
        view: View,
        compiled: Compiled,
        progress: Progress,
        replacing: tuple[View, Compiled] | None = None,
    ) -> int:
        """Fills and registers a view; the number of its rows. On failure nothing of it stays, and a view
        that it was to replace is as it was."""

    def drop_view(self, view: View, compiled: Compiled) -> None:
        """Removes a view and all that was stored for it."""

    def refresh(self, view: View, compiled: Compiled, full: bool, progress: Progress) -> Refresh:
        """Brings a view up to date, or changes nothing."""

    def refresh_together(
        self, views: Sequence[tuple[View, Compiled]], full: bool, progress: Progress
    ) -> list[Refresh]:
        """Brings views to one common version of their base tables."""

    def follow(self, followed: Sequence[Followed]) -> Following:
        """What is new of tables since they were last read, all at one moment; whole tables where they were
        not read yet, or where it cannot be told what changed since."""

    def hold(self, points: Mapping[str, Any]) -> None:
        """The log is needed from these points on, for the views that anchor who follows."""

    def optimize(self, view: View, compiled: Compiled, progress: Progress) -> str:
        """Makes what is stored of a view quick to read; what was done, in words."""

    def verify(self, view: View, compiled: Compiled) -> Verification:
        """Recomputes the query at the versions that the view shows, and compares."""

    def history(self) -> Result:
        """Every refresh that is remembered, oldest first; SQL reads the same as viewkeep.history."""

    def standing(self, view: View, compiled: Compiled) -> Standing:
        """Where a view stands."""

    def sql(self, tree: exp.Expr, pretty: bool = False) -> str:
        """A syntax tree in the engine's own words."""

    def explain(self, view: View, compiled: Compiled) -> list[tuple[str, str]]:
        """The delta script for every kind of change: a title and the engine's SQL for each step."""

    def close(self) -> None:
        """Lets go of what the engine holds."""
