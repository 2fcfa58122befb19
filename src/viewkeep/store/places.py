"""What viewkeep calls its own relations in a database, next to the user's: all in the schema `viewkeep`.

log:T   the modification log of base table T       view:V:rows, view:V:cache_1  what view V stores
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from sqlglot import exp

SCHEMA = "viewkeep"


def base_table(name: str) -> exp.Table:
    """A base table by the user's name, which may have a schema."""
    parts = name.split(".")
    return exp.table_(parts[-1], db=parts[-2] if len(parts) > 1 else None, quoted=True)


@dataclass(frozen=True)
class Places:
    """Names for one kind of database. `longest`: how many bytes of a name it looks at; None for all. `home`:
    the schema of tables that are named without one; None for what is current."""

    longest: int | None = None
    home: str | None = None

    def base(self, name: str) -> exp.Table:
        """A base table or view by the user's name."""
        made = base_table(name)
        if self.home is not None and not made.db:
            made.set("db", exp.to_identifier(self.home, quoted=True))
        return made

    def fitting(self, name: str) -> str:
        """The name, or what tells it from all others in fewer bytes: a database that cuts names would take
        two that begin alike for one."""
        if self.longest is None or len(name.encode()) <= self.longest:
            return name
        digest = sha256(name.encode()).hexdigest()[:16]
        room = self.longest - len(digest) - 1
        return name.encode()[:room].decode(errors="ignore") + "~" + digest

    def own(self, name: str) -> exp.Table:
        """A relation of viewkeep's own."""
        return exp.table_(self.fitting(name), db=SCHEMA, quoted=True)

    def passing(self, name: str) -> exp.Table:
        """A relation that is there for one session alone."""
        return exp.table_(self.fitting(f"viewkeep:{name}"), quoted=True)

    def log(self, table: str) -> exp.Table:
        """Where the log of a base table is kept."""
        return self.own(f"log:{table.lower()}")

    def target(self, view: str, target: str) -> exp.Table:
        """Where a target of a view is stored."""
        return self.own(f"view:{view.lower()}:{target}")

    def drop_target(self, view: str, target: str) -> exp.Drop:
        """The statement that drops a target, if it is there."""
        return exp.Drop(tables=[self.target(view, target)], kind="TABLE", exists=True)

    def index_on(self, view: str, target: str, *columns: str) -> exp.Create:
        """The statement that makes an index on one column of a target, or on several together."""
        name = f"view:{view.lower()}:{target}:{':'.join(columns)}"
        return self._index(name, self.target(view, target), *map(_column, columns))

    def base_index(self, table: str, column: str, key: exp.Expr | None = None) -> exp.Create:
        """The statement that makes an index on one column of a base table, unless it is there. `key`: what to
        index, if not the column as it is."""
        made = self._index(self.base_index_name(table, column), self.base(table), key or _column(column))
        made.set("exists", True)
        return made

    def base_index_name(self, table: str, column: str) -> str:
        """What the index on a column of a base table is called."""
        return self.fitting(f"viewkeep:{table.lower()}:{column.lower()}")

    def _index(self, name: str, table: exp.Table, *keys: exp.Expr) -> exp.Create:
        params = exp.IndexParameters(columns=[exp.Ordered(this=key) for key in keys])
        named = exp.to_identifier(self.fitting(name), quoted=True)
        return exp.Create(this=exp.Index(this=named, table=table, params=params), kind="INDEX")


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))
