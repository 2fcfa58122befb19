"""Where the leaves of a plan are on Spark: base tables and targets, each pinned to a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from viewkeep.algebra.nodes import Scan
from viewkeep.catalog.models import same_table
from viewkeep.frontend.views import means_cte
from viewkeep.store import delta


class SparkNames:
    """Where the leaves of a plan are: base tables and targets, each pinned to a version."""

    row = ""
    full_joins = True

    def __init__(
        self,
        view: str,
        before: Mapping[str, int],
        after: Mapping[str, int],
        targets: Callable[[str], exp.Expr] | None = None,
    ) -> None:
        """`targets`: how to read them, where not simply their tables as they are."""
        self._view = view
        self._before = before
        self._after = after
        self._targets = targets

    def table(self, scan: Scan) -> exp.Expr:
        versions = self._before if scan.state == "pre" else self._after
        return versioned(scan.table, versions.get(scan.table))

    def images(self, table: str) -> None:
        return None

    def net(self, table: str) -> exp.Expr:
        return exp.table_(temporary(f"net_{table}"), quoted=True)

    def ref(self, name: str) -> exp.Expr:
        return exp.table_(temporary(name), quoted=True)

    def stored(self, target: str) -> exp.Expr:
        return delta.storage(self._view, target) if self._targets is None else self._targets(target)


def versioned(name: str, version: int | None) -> exp.Table:
    """A base table by its name, as of a version."""
    parts = name.split(".")
    padded = [None] * (3 - len(parts)) + list(parts)
    table = exp.table_(padded[2] or "", db=padded[1], catalog=padded[0], quoted=True)
    return delta.at_version(table, version) if version is not None else table


def temporary(name: str) -> str:
    return "viewkeep_" + "".join(c if c.isalnum() else "_" for c in name)


def pinned(query: exp.Expr, versions: Mapping[str, int], columns: Mapping[str, Sequence[str]]) -> exp.Query:
    """The user's query with each base table as of a version, and with those columns: one that was added since
    is none that `*` means. CTE names are not tables."""

    made = query.copy()
    assert isinstance(made, exp.Query)
    for node in [node for node in made.find_all(exp.Table) if not means_cte(node)]:
        name = same_table(".".join(part.name for part in node.parts), versions)
        if name is not None:
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
            rows = exp.select(*map(bare, columns[name])).from_(versioned(name, versions[name]))
            # in brackets what is joined to a table is a part of it
            node.replace(exp.Subquery(this=rows, alias=alias, joins=node.args.get("joins")))
    return made


# Relations up to this size are brought to the driver and sent back as local data: Spark then knows their
# size, broadcasts them, and does not compute them again for each statement that reads them.
LOCAL_ROWS = 100_000


def local_frame(session: Any, rows: Any) -> Any:
    """An Arrow table as local data of a session."""
    # PySpark stumbles over columns without any chunk
    return session.createDataFrame(rows if rows.num_rows else rows.schema.empty_table())


def bare(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))
