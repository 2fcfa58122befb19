"""What a database does for those engines that refresh in one transaction, each in its own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlglot import exp

from viewkeep.algebra.nodes import Column
from viewkeep.catalog.models import Table, TableColumn, View
from viewkeep.chooser import Past
from viewkeep.results import Refresh
from viewkeep.store.places import Places

Point = Any
"""A point of the modification log, up to which a view has seen it; each database counts in its own way."""


class Log(Protocol):
    """The modification log as a transaction sees it."""

    @property
    def upto(self) -> Point:
        """Where it ends."""

    def watermark(self, view: str) -> Point:
        """The last point that a view shows."""

    def changed_after(self, table: str, after: Point) -> bool:
        """Whether a statement past a point may have changed the table."""

    def waiting_at(self, after: Point) -> Sequence[View]:
        """The views that show the log up to that point."""

    def is_bare(self, view: View) -> bool:
        """Whether a view is without its caches."""

    def longest(self, view: View) -> float | None:
        """The seconds that the longest of a view's relations took to be filled."""


class Notes(Protocol):
    """What a store remembers of views, apart from their rows."""

    def note_filled(self, view: str, longest: float | None) -> None:
        """A view was computed: with its caches, or bare."""

    def record(self, done: Refresh, watermark: Point, versions: Mapping[str, Point]) -> None:
        """Notes a refresh, after which the view shows the log up to a point."""

    def past(self, view: str) -> Sequence[Past]:
        """The last refreshes that did something, oldest first."""

    def forget(self) -> None:
        """Reads again when next asked: what was noted may have been rolled back."""


class Database(Protocol):
    """One session of a database."""

    places: Places
    row: str
    """What the database calls the column that tells where a row is; "" where scripts do not use it."""
    full_joins: bool
    """Whether FULL JOIN takes any condition."""
    indexes_several: bool
    """Whether an index on several columns together finds the rows that a join names by all of them."""
    worth_an_index: int
    """How many rows a stored relation must have to be worth an index."""
    indexes_in_refreshes: bool
    """Whether a refresh may index base tables: others who write to them would have to wait."""
    unordered: str
    """The column of the log that names a transaction, where its statements may be logged in another order
    than they changed rows; else ""."""
    keeps_images: bool
    """Whether changed rows, as they were and as they are, get a relation of their own for all views: it takes
    a statement more, and spares each script the planning."""
    looked_up: int
    """How many values a statement of a script may look for in an index; for more it scans the relation."""

    def sql(self, tree: exp.Expr) -> str:
        """A syntax tree in the database's own words."""

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        """What a query answers."""

    def run(self, sql: str) -> int:
        """Runs a statement; how many rows it made or changed."""

    def read(self, table: Table, names: Sequence[str]) -> exp.Expr:
        """A base table as it is, of which these columns are read; it can stand in FROM."""

    def events(self, table: str) -> exp.Select:
        """The events of a table's log past a point that `run_after` gives."""

    def events_after(self, table: str, after: Point) -> exp.Select:
        """The events of a table's log past a point."""

    def arrow(self, query: exp.Query, columns: Sequence[TableColumn]) -> Any:
        """What a query of some columns of a table, and how many there are of each row, answers, as an Arrow
        table."""

    def run_after(self, sql: str, after: Point) -> None:
        """Runs a statement that reads events."""

    def rows_after(self, sql: str, after: Point) -> Sequence[Sequence[Any]]:
        """What a query that reads events answers."""

    def temporary(self, name: exp.Expr, query: exp.Query) -> str:
        """The statement that computes a relation for this session alone, in place of one of that name."""

    def fill(self, place: exp.Table, query: exp.Query, by: Sequence[Column] = ()) -> int:
        """Stores what a query answers, in place of what is there; how many rows it has. `by`: the columns by
        which scripts will look most of them up, if they do."""

    def sizes(self, places: Sequence[exp.Table]) -> Sequence[int]:
        """How many rows relations have, about."""

    def distinct_values(self, table: str, column: str) -> int:
        """How many values a column of a base table has, about."""

    def at_least(self, sql: str) -> float:
        """The seconds that a statement takes however little it reads, most of them for planning it."""

    def planning(self) -> AbstractContextManager[None]:
        """Statements of a delta script: planned as small diffs need it."""
