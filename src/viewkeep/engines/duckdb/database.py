"""What DuckDB does in a refresh, in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from sqlglot import exp

from viewkeep.algebra.nodes import Column
from viewkeep.capture.duckdb import PLACES
from viewkeep.catalog.models import Table, TableColumn
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.duckdb.session import LOOKED_UP, Session
from viewkeep.engines.following import cast
from viewkeep.engines.transactional.names import bare
from viewkeep.engines.transactional.netting import counted
from viewkeep.idiff.net import SEQ
from viewkeep.store.places import base_table

# common_subplan computes what is wanted twice only once, but whole, not restricted to the few rows that are
# asked for. statistics_propagation fails on some scripts ("BindBuiltinScalarFunction did not return ..."),
# and small diffs do not need it.
MISGUIDED = "common_subplan,statistics_propagation"
_TEMPORARY = exp.Properties(expressions=[exp.TemporaryProperty()])
# seconds that a statement takes for few rows, by its length: one of 8,000 characters took 15 ms, one of 1,500
# took 3, the shortest 0.5
A_STATEMENT, A_CHARACTER = 0.0005, 1.8e-6
# the rows of so many values of a column are stored together, in no order
NEAR = 100


class DuckDBDatabase:
    """One connection. The points of its log are the numbers of statements."""

    places = PLACES
    row = "rowid"
    full_joins = True
    indexes_several = False
    worth_an_index = 10_000
    indexes_in_refreshes = True  # nobody else writes while the file is open here
    unordered = ""
    keeps_images = True
    looked_up = LOOKED_UP

    def __init__(self, session: Session) -> None:
        self._session = session

    def sql(self, tree: exp.Expr) -> str:
        return to_sql(tree)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._session.execute(sql).fetchall()

    def run(self, sql: str) -> int:
        told = self._session.execute(sql).fetchone()
        return int(told[0]) if told else 0

    def read(self, table: Table, names: Sequence[str]) -> exp.Expr:
        return base_table(table.name)

    def events(self, table: str) -> exp.Select:
        return events_after(table, exp.Placeholder())

    def events_after(self, table: str, after: int) -> exp.Select:
        return events_after(table, exp.Literal.number(after))

    def arrow(self, query: exp.Query, columns: Sequence[TableColumn]) -> Any:
        return cast(columns, self._session.arrow(to_sql(query)))

    def run_after(self, sql: str, after: int) -> None:
        self._session.execute(sql, [after])

    def rows_after(self, sql: str, after: int) -> list[tuple[Any, ...]]:
        return self._session.execute(sql, [after]).fetchall()

    def temporary(self, name: exp.Expr, query: exp.Query) -> str:
        return to_sql(
            exp.Create(this=name, kind="TABLE", replace=True, properties=_TEMPORARY.copy(), expression=query)
        )

    def fill(self, place: exp.Table, query: exp.Query, by: Sequence[Column] = ()) -> int:
        """Rows that a script looks up together are stored near each other: a commit writes some 50 to 100
        microseconds long for each vector of 2,048 rows of which one was updated. Not next to each other: to
        fetch single rows of a column that was compressed by the lengths of its runs takes as long."""
        if by and all(column.type.is_integer for column in by):
            near = [exp.IntDiv(this=bare(c.name), expression=exp.Literal.number(NEAR)) for c in by]
            rows = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("rows")))
            query = exp.select("*").from_(rows).order_by(*near, exp.Rand())
        return self.run(to_sql(exp.Create(this=place, kind="TABLE", replace=True, expression=query)))

    def sizes(self, places: Sequence[exp.Table]) -> list[int]:
        counts = (counted(exp.select("*").from_(place)) for place in places)
        (row,) = self.rows(to_sql(exp.select(*(exp.Subquery(this=c) for c in counts))))
        return [int(n) for n in row]

    def distinct_values(self, table: str, column: str) -> int:
        values = exp.ApproxDistinct(this=bare(column))
        return self.run(to_sql(exp.select(values).from_(base_table(table))))

    def at_least(self, sql: str) -> float:
        return A_STATEMENT + A_CHARACTER * len(sql)

    def planning(self) -> AbstractContextManager[None]:
        return self._session.without_optimizers(MISGUIDED)


def events_after(table: str, after: exp.Expr) -> exp.Select:
    """The events of a table's log past a statement."""
    past = exp.GT(this=bare(SEQ), expression=after)
    return exp.select("*").from_(PLACES.log(table)).where(past)
