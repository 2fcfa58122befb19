"""Base tables on Delta Lake: their columns, keys, feeds and identities, from Spark's catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from sqlglot import exp

from viewkeep.algebra import types as t
from viewkeep.capture.delta import FEED
from viewkeep.catalog.models import ForeignKey, Table, TableColumn
from viewkeep.engines.spark.dialect import to_sql
from viewkeep.engines.spark.errors import first_line
from viewkeep.engines.spark.names import bare, of, versioned
from viewkeep.errors import (
    AlreadyExists,
    BaseTableChanged,
    CorruptCatalog,
    DuplicateKey,
    EngineError,
)
from viewkeep.idiff.net import NET_KIND
from viewkeep.store import delta

# aliases that no column has: in a subquery b.k would be taken for a field of a column b
BASE, NET = "viewkeep_base", "viewkeep_net"


class BaseTables:
    """What one session knows of base tables."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def _sql(self, tree: exp.Expr) -> Any:
        return self._session.sql(to_sql(tree))

    def find(self, name: str) -> Table | None:
        return self.find_with_identity(name)[0]

    def find_with_identity(self, name: str) -> tuple[Table | None, str]:
        """A table, if it is there, and its identity, if it has one yet."""
        if not self._session.catalog.tableExists(name):
            return None, ""
        properties = self.properties(versioned(name, None))
        if properties is None:
            return None, ""
        return self._table(name, properties), properties.get(delta.ID_PROPERTY, "")

    def _table(self, name: str, properties: Mapping[str, str]) -> Table:
        columns, refused = [], {}
        for part in self._session.table(name).schema.fields:
            kind = type_of(part.dataType)
            if kind is None or ":" in part.name:
                refused[part.name] = part.dataType.simpleString()
            else:
                columns.append(TableColumn(part.name, kind, part.nullable))
        exact = {c.name.lower(): c.name for c in columns}
        declared = [k.strip() for k in properties.get(delta.KEY_PROPERTY, "").split(",") if k.strip()]
        for k in declared:
            if k.lower() not in exact:
                raise CorruptCatalog(
                    f"property {delta.KEY_PROPERTY} of {name} names {k}, which is no column",
                    hint=f"ALTER TABLE {name} ADD PRIMARY KEY (column, ...) declares it again",
                )
        foreign = tuple(
            ForeignKey(tuple(f["columns"]), f["table"], tuple(f["references"]))
            for f in json.loads(properties.get(delta.FOREIGN_PROPERTY, "[]"))
        )
        return Table(name, tuple(columns), tuple(exact[k.lower()] for k in declared), foreign, refused)

    def properties(self, table: exp.Table) -> dict[str, str] | None:
        """The properties of a Delta table; None for anything else, such as a view."""
        try:
            rows = self._session.sql(f"SHOW TBLPROPERTIES {to_sql(table)}").collect()
        except AnalysisException:
            return None
        return {row.key: row.value for row in rows}

    def detail(self, name: str) -> Any:
        try:
            return self._session.sql(f"DESCRIBE DETAIL {to_sql(versioned(name, None))}").collect()[0]
        except (AnalysisException, IndexError) as problem:
            raise BaseTableChanged(
                f"table {name} cannot be read: {first_line(problem)}",
                hint="views need Delta tables; was it dropped?",
            ) from problem

    def create_sql(self, tree: exp.Create, table: Table) -> str:
        """The statement that creates a table as Delta knows it: keys are properties, not constraints."""
        if self._session.catalog.tableExists(table.name) and not tree.args.get("exists"):
            raise AlreadyExists(
                f"table {table.name} exists already", hint="drop it first, or use IF NOT EXISTS"
            )
        made = tree.copy()
        if isinstance(made.this, exp.Schema):
            kept = []
            for part in made.this.expressions:
                if isinstance(part, exp.ColumnDef):
                    required = part.name in table.key or not _nullable(table, part.name)
                    rule = [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if required else []
                    part.set("constraints", rule)
                    kept.append(part)
            made.this.set("expressions", kept)
        given = made.args.get("properties")
        properties = list(given.expressions) if given else []
        if not any(isinstance(p, exp.FileFormatProperty) for p in properties):
            properties.append(exp.FileFormatProperty(this=exp.Var(this="DELTA")))
        if table.key:
            properties.append(_property(delta.KEY_PROPERTY, ",".join(table.key)))
            properties.append(_property(FEED, "true"))
            properties.append(_property(delta.ID_PROPERTY, str(uuid.uuid4())))
        if table.foreign_keys:
            docs = [
                {"columns": f.columns, "table": f.table, "references": f.references}
                for f in table.foreign_keys
            ]
            properties.append(_property(delta.FOREIGN_PROPERTY, json.dumps(docs)))
        made.set("properties", exp.Properties(expressions=properties))
        return to_sql(made)

    def set_properties(self, name: str, values: Mapping[str, str]) -> None:
        pairs = [
            exp.EQ(this=exp.Literal.string(k), expression=exp.Literal.string(v)) for k, v in values.items()
        ]
        listed = ", ".join(to_sql(pair) for pair in pairs)
        self._session.sql(f"ALTER TABLE {to_sql(versioned(name, None))} SET TBLPROPERTIES ({listed})")

    def check_all_unique(self, table: Table, version: int) -> int:
        """Every key must be there once; how many rows there are."""
        rows = self._rows_with_a_hash_each(table, version)
        if rows is not None:
            return rows
        self.check_unique(table, version)
        count = exp.select(exp.Count(this=exp.Star())).from_(versioned(table.name, version))
        return int(self._sql(count).collect()[0][0])

    def check_unique(self, table: Table, version: int | None = None, among: str | None = None) -> None:
        """Every key must be there once, in the whole table or among the keys of a temporary view."""
        if not table.key or (among is None and self._rows_with_a_hash_each(table, version) is not None):
            return
        keys = [bare(k) for k in table.key]
        source = exp.alias_(versioned(table.name, version), BASE, table=True)
        query = exp.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "times")).from_(source)
        if among is not None:
            same = exp.select(exp.Literal.number(1)).from_(
                exp.alias_(exp.table_(among, quoted=True), NET, table=True)
            )
            same = same.where(exp.EQ(this=of(NET, NET_KIND), expression=exp.Literal.string("insert")))
            for k in table.key:
                same = same.where(exp.EQ(this=of(NET, k), expression=of(BASE, k)))
            query = query.where(exp.Exists(this=same))
        query = query.group_by(*(k.copy() for k in keys))
        nulls = [exp.Is(this=k.copy(), expression=exp.Null()) for k in keys]
        bad: exp.Expr = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        for null in nulls:
            bad = exp.Or(this=bad, expression=null)
        rows = self._sql(query.having(bad).limit(5)).collect()
        if rows:
            shown_keys = ", ".join(str(tuple(row)[:-1]) for row in rows)
            raise DuplicateKey(
                f"({', '.join(table.key)}) is no key of {table.name}: null or more than once: {shown_keys}",
                hint="delete or change the rows that share a key, then try again",
            )

    def _rows_with_a_hash_each(self, table: Table, version: int | None) -> int | None:
        """The rows of a table, if no two keys have the same hash, and none is null. To tell numbers of eight
        bytes apart is quicker than to tell keys apart; where two are the same the keys themselves are looked
        at."""
        columns = [table.at_create().column(k) for k in table.key]
        if any(c is None or c.type == t.DOUBLE for c in columns):  # 0.0 and -0.0 are one key with two hashes
            return None
        keys = [bare(k) for k in table.key]
        hashed = exp.Anonymous(this="xxhash64", expressions=keys)
        null = exp.or_(*(exp.Is(this=key.copy(), expression=exp.Null()) for key in keys))
        times, nulls = ":times", ":nulls"  # what no column is called
        once = exp.select(
            exp.alias_(exp.Count(this=exp.Star()), times, quoted=True),
            exp.alias_(exp.CountIf(this=null), nulls, quoted=True),
        )
        once = once.from_(versioned(table.name, version)).group_by(hashed)
        sums = (exp.Sum(this=bare(name)) for name in (times, nulls))
        query = exp.select(*sums, exp.Max(this=bare(times))).from_(once.subquery("hashes"))
        rows, without_key, most = self._sql(query).collect()[0]
        if rows is None:
            return 0
        return None if without_key or most > 1 else int(rows)

    def start_feed(self, table: Table) -> str:
        """Sees to it that a table has a change feed and an identity that a new table would not have; its
        identity. Only where one is missing is the table looked at more closely: that takes Spark a job."""
        known = self.properties(versioned(table.name, None)) or {}
        if known.get(FEED) == "true" and delta.ID_PROPERTY in known:
            return known[delta.ID_PROPERTY]
        detail = self.detail(table.name)
        if (detail.format or "").lower() != "delta":
            raise EngineError(
                f"table {table.name} is {detail.format}, not Delta", hint="CONVERT TO DELTA, or copy it"
            )
        missing = {}
        if known.get(FEED) != "true":
            missing[FEED] = "true"
        identity = known.get(delta.ID_PROPERTY)
        if identity is None:
            missing[delta.ID_PROPERTY] = identity = str(uuid.uuid4())
        self.set_properties(table.name, missing)
        return identity

    def newest(self, name: str) -> int:
        return int(delta.history(self._session, versioned(name, None), limit=1)[0].version)

    def identity(self, name: str) -> str:
        return (self.properties(versioned(name, None)) or {}).get(delta.ID_PROPERTY, "")


def _property(key: str, value: str) -> exp.Property:
    return exp.Property(this=exp.Literal.string(key), value=exp.Literal.string(value))


def _nullable(table: Table, name: str) -> bool:
    found = table.column(name)
    return found is None or found.nullable


def type_of(data_type: Any) -> t.Type | None:
    name = data_type.simpleString()
    if name == "float" or name.startswith(("array", "map", "struct", "interval", "varchar", "char")):
        return None
    if name in ("timestamp_ntz", "binary", "variant", "void", "time"):
        return None
    return t.parse(name, "spark")
