"""Queries of a delta script over few rows, answered by an embedded database beside Spark.

A refresh of a few changes reads a few rows: the changes, and what they look up. Once these rows are here,
Spark has nothing to distribute, and each query, join and broadcast of it is one more job of a fifth of a
second. So Spark fetches the rows that a query looks up, in one job for each relation, and the query itself
runs here, in the words that views have on DuckDB, where they mean the same (docs/decisions/0027).

It answers only where nothing can differ: for tables with keys and types that both engines compare and add up
alike, and without functions of the user's own. Where it does not answer, Spark computes the query: also where
it fails, so that an error is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from viewkeep.algebra.bags import is_bag
from viewkeep.algebra.expressions import (
    AS_ITS_ENGINE_DOES,
    Expr,
    column,
    columns_of,
    conjuncts,
    pre_name,
    substitute,
)
from viewkeep.algebra.nodes import Column, Item, Node, Project, Scan, Select, passing, walk
from viewkeep.algebra.script_nodes import BaseDiff, Images, Ref, SemiJoin, Stored, Union
from viewkeep.algebra.types import Type
from viewkeep.engines.duckdb.database import MISGUIDED
from viewkeep.engines.duckdb.dialect import to_sql
from viewkeep.engines.spark.dialect import to_sql as to_spark_sql
from viewkeep.engines.spark.errors import FAILURES
from viewkeep.engines.spark.files import Listed, StoredFiles
from viewkeep.engines.spark.names import LOCAL_ROWS, SparkNames, temporary
from viewkeep.engines.spark.relations import Relations
from viewkeep.engines.spark.waiting import WaitingDiffs
from viewkeep.frontend.functions import PREFIX
from viewkeep.frontend.signatures import APPROXIMATE
from viewkeep.frontend.typed import QUOTIENT
from viewkeep.idiff import log
from viewkeep.script.prune import MOST_VALUES
from viewkeep.script.render import Names, Renderer
from viewkeep.store import delta

# Relations up to this size are fetched whole, once for all queries of a refresh.
WHOLE = 10_000
# So many values are looked for in files that are here; Spark is given fewer of them to look for.
MANY_VALUES = 10_000
# To look through more rows of a cache is for Spark, which has more threads, and reads single pages.
LOOKED_THROUGH = 2_000_000

_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
}
STORED = {log.BORN: pa.int64(), log.IDS: pa.string(), log.SETS: pa.list_(pa.field("element", pa.string()))}


def arrow_type(kind: Type) -> pa.DataType | None:
    """The type of values that mean the same here and on Spark. Not doubles, whose sums depend on the order,
    nor timestamps, which Spark shows in the session's time zone."""
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW.get(kind.kind)


def schema_of(columns: Sequence[Column], first: Mapping[str, pa.DataType] | None = None) -> pa.Schema | None:
    """The columns of a relation in Arrow's types, if all have one."""
    kinds = [(c.name, arrow_type(c.type)) for c in columns]
    if any(kind is None for _, kind in kinds):
        return None
    return pa.schema([*(first or {}).items(), *kinds])


def embedded() -> Any:
    """A database in memory."""
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute("SET disabled_optimizers = ?", [MISGUIDED])
    return con


def answered(con: Any, query: exp.Query, rows: Mapping[str, pa.Table]) -> pa.Table:
    """What a query over rows that are here comes to in an embedded database."""
    for name, table in rows.items():
        con.register(name, table)
    try:
        return con.sql(to_sql(query)).to_arrow_table()
    finally:
        for name in rows:
            con.unregister(name)


@dataclass(frozen=True)
class Place:
    """What one refresh reads: the view's targets at a state, and base tables after the change. `sizes`: about
    how many rows base tables have. `in_order`: the columns by which large targets are stored."""

    view: str
    state: delta.State
    layouts: Mapping[str, log.Layout]
    names: SparkNames
    changed: frozenset[str]
    sizes: Mapping[str, int]
    in_order: Mapping[str, str]

    def is_small(self, leaf: Scan | Stored) -> bool:
        """Whether a relation is small as a whole; a target is where all tables of its view are."""
        rows = self.sizes.values() if isinstance(leaf, Stored) else [self.sizes.get(leaf.table, WHOLE + 1)]
        return bool(self.sizes) and sum(rows) <= WHOLE


class Nearby:
    """Answers queries of one refresh."""

    def __init__(
        self,
        con: Any,
        place: Place,
        relations: Relations,
        waiting: WaitingDiffs,
        files: StoredFiles,
        fetching: Callable[[str, Node], Any],
        too_many: set[tuple[str, str]],
    ) -> None:
        """`fetching`: a context in which rows are fetched, by the leaf's name and the leaf as narrowed.
        `too_many`: views and leaves that were found to have too many rows, in other refreshes too."""
        self._con, self._place, self._relations, self._waiting = con, place, relations, waiting
        self._files, self._fetching = files, fetching
        self._fetched: dict[str, pa.Table] = {}
        self._too_many = too_many
        self.rows_read = 0
        """How many rows were looked through in files that are on this machine."""

    def answer(
        self,
        queries: Sequence[Node],
        build: Callable[[Sequence[Node], Names], exp.Query],
        schema: pa.Schema | None,
    ) -> pa.Table | None:
        """The rows of what `build` makes of some queries; None where Spark has to compute them."""
        if not schema or not all(map(self._is_plain, queries)):  # nor rows without columns
            return None
        here = _Here()
        try:
            near = [self._brought(query, here) for query in queries]
        except _TooMuch:
            return None
        for node in (n for query in near for n in walk(query)):
            name = _relation(node)
            if name is not None:
                here.rows[name] = self._relations.local[name]
        tree = build(near, here)
        if not all(map(_is_ours, tree.find_all(exp.Anonymous))):
            return None  # a function of the user's own, whatever DuckDB has by that name
        if any(AS_ITS_ENGINE_DOES in node.meta for node in tree.find_all(exp.Neg, exp.Abs)):
            return None
        try:
            return self._run(tree, here.rows).cast(schema)
        except (duckdb.Error, pa.ArrowInvalid):
            return None

    def _run(self, tree: exp.Query, rows: Mapping[str, pa.Table]) -> pa.Table:
        for select in tree.find_all(exp.Select):
            select.set("hint", None)  # what is said to Spark
        return answered(self._con, tree, rows)

    def _is_plain(self, query: Node) -> bool:
        """Whether all that a query reads is small or narrowed, with keys, and of types that mean the same."""
        for node in walk(query):
            name = _relation(node)
            if name is not None and name not in self._relations.local:
                return False
            if is_bag(node) or any(arrow_type(c.type) is None for c in node.columns):
                return False
            if isinstance(node, (BaseDiff, Images)) and is_bag(node.scan):
                return False
        return True

    # --- what is fetched ---

    def _brought(self, node: Node, here: _Here) -> Node:
        """The query with each stored relation, and what narrows it, in the form of rows that are here."""
        leaf, conditions = _narrowed(node)
        if isinstance(leaf, Scan):
            return self._table(leaf, conditions, here)
        if isinstance(leaf, Stored):
            return self._target(leaf, conditions, here)
        return (
            node.with_inputs([self._brought(child, here) for child in node.inputs]) if node.inputs else node
        )

    def _table(self, scan: Scan, conditions: list[Expr], here: _Here) -> Node:
        """A base table. As it was before the change is, by the rows after it and the net changes:

        before = (after without the keys that came or changed) + (what went or changed, as it was)
        """
        after = Scan(scan.table, scan.alias, scan.fields, scan.key)
        asked = [] if self._place.is_small(scan) else conditions
        fetched = self._fetch(scan, asked, self._place.names.table(after), scan.columns, here)
        rows: Node = Stored(fetched, scan.columns, scan.key)
        if scan.state == "pre" and scan.table in self._place.changed:
            if temporary(f"net_{scan.table}") not in self._relations.local:
                raise _TooMuch
            came = Union(tuple(passing(BaseDiff(scan, kind), scan.key) for kind in ("insert", "update")))
            kept = SemiJoin(rows, came, tuple((k, k) for k in scan.key), anti=True)
            gone = passing(BaseDiff(scan, "delete"), scan.names)
            rows = Union((passing(kept, scan.names), gone, _as_it_was(scan)))
        return _selected(rows, conditions)

    def _target(self, stored: Stored, conditions: list[Expr], here: _Here) -> Node:
        """A target of the view: its rows as they are stored, and what waits for them, which is here."""
        place, target = self._place, stored.target
        layout, waits = place.layouts[target], bool(place.state.waits(target).entries)
        set_later = {name for shape in layout.shapes for name in shape.sets} if waits else set()
        fixed = [c for c in conditions if not columns_of(c) & set_later]
        asked = [] if place.is_small(stored) else fixed
        head = (Column(log.BORN, Type("bigint")), Column(log.IDS, Type("string")))
        fetched = self._stored(stored, [log.is_row(), *asked], (*head, *layout.columns), here)
        if waits:
            entries = f"entries of {target}"
            here.rows[entries] = self._waiting.here(place.view, target, place.state)
            query = log.resolved(layout, here.stored(fetched), here.stored(entries))
            fetched = f"{fetched} resolved"
            here.rows[fetched] = self._run(query, here.rows)
        return _selected(replace(stored, target=fetched, locates=False), conditions)

    def _stored(self, stored: Stored, conditions: list[Expr], columns: Sequence[Column], here: _Here) -> str:
        """Rows of a target, fetched from its files where these are known, with what was appended since."""
        place, target = self._place, stored.target
        version = place.state.version(target)
        listed = None if place.is_small(stored) else self._files.of(place.view, target, version)
        if listed is not None:
            try:
                fetched = self._of_files(stored, conditions, listed, columns, here)
            except FAILURES:  # a file was removed: Delta tells, if it needs it
                self._files.forget(place.view)
            else:
                if listed.since is not None:
                    rows = here.rows[fetched]
                    since = listed.since.select(rows.column_names).cast(rows.schema)
                    fetched = f"{fetched} and since"
                    here.rows[fetched] = pa.concat_tables([rows, since])
                return fetched
        return self._fetch(stored, conditions, delta.storage(place.view, target, version), columns, here)

    def _of_files(
        self,
        stored: Stored,
        conditions: list[Expr],
        listed: Listed,
        columns: Sequence[Column],
        here: _Here,
    ) -> str:
        """Rows of a target from its files: looked through here, if they are here, or read by Spark."""
        found, schema = listed.here, schema_of(columns)
        if found is None or schema is None:
            return self._fetch(stored, conditions, listed.table, columns, here)
        values = _values_of(self._place.in_order.get(stored.target), conditions)
        rows = found.rows if values is None else min(found.rows, values * found.group)
        if rows > LOOKED_THROUGH and stored.target != delta.ROWS:  # rows of views are in large pages
            return self._fetch(stored, conditions, listed.table, columns, here)

        def look_through(query: exp.Query) -> pa.Table:
            self.rows_read += rows
            return self._run(query, {}).cast(schema)

        try:
            return self._fetch(stored, conditions, found.table, columns, here, look_through)
        except (duckdb.Error, pa.ArrowInvalid):
            self._files.read_by_spark(self._place.view, stored.target)
            return self._fetch(stored, conditions, listed.table, columns, here)

    def _fetch(
        self,
        leaf: Scan | Stored,
        conditions: list[Expr],
        relation: Expr,
        columns: Sequence[Column],
        here: _Here,
        read: Callable[[exp.Query], pa.Table] | None = None,
    ) -> str:
        """Rows of a relation, fetched once for the whole refresh; what they are called here. `read`: how, if
        not by Spark."""
        lists = [found for c in conditions for found in c.find_all(exp.In)]
        narrow = bool(lists) or any(isinstance(c, exp.Boolean) for c in conditions)
        if not narrow and not self._place.is_small(leaf):
            raise _TooMuch
        if read is None and any(len(one.expressions) > MOST_VALUES for one in lists):
            raise _TooMuch
        base = leaf.base_name if isinstance(leaf, Scan) else {}
        outputs = [exp.alias_(column(base.get(c.name, c.name)), c.name, quoted=True) for c in columns]
        named = {name: column(own) for name, own in base.items()}
        query = exp.select(*outputs).from_(relation.copy())
        for condition in conditions:
            query = query.where(substitute(condition, named))
        sql = to_spark_sql(query) if read is None else to_sql(query)
        own = leaf.table if isinstance(leaf, Scan) else leaf.target
        if sql not in self._fetched:
            if (self._place.view, own) in self._too_many:
                raise _TooMuch
            if read is not None:
                rows = read(query.limit(LOCAL_ROWS + 1))
            else:
                with self._fetching(own, _selected(leaf, conditions)):
                    rows = self._relations.session.sql(sql).limit(LOCAL_ROWS + 1).toArrow()
            if rows.num_rows > LOCAL_ROWS:
                self._too_many.add((self._place.view, own))
                raise _TooMuch
            self._fetched[sql] = rows
        name = f"fetched {list(self._fetched).index(sql)}"
        here.rows[name] = self._fetched[sql]
        return name


class _TooMuch(Exception):
    """A query would need more rows here than are worth bringing."""


@dataclass
class _Here:
    """Where the leaves of a query are that has all its rows here, by name."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    row: str = ""
    full_joins: bool = True

    def table(self, scan: Scan) -> Expr:
        raise AssertionError(f"{scan.table} is not here")

    def stored(self, target: str) -> Expr:
        return exp.table_(target, quoted=True)

    def images(self, table: str) -> None:
        return None

    def net(self, table: str) -> Expr:
        return exp.table_(temporary(f"net_{table}"), quoted=True)

    def ref(self, name: str) -> Expr:
        return exp.table_(temporary(name), quoted=True)


def _is_ours(call: exp.Anonymous) -> bool:
    """Whether a function is one that viewkeep spells for each engine, and that gives the same on all. Of
    EXP(1) and its kin Java has another last digit than C, which CAST(EXP(1) AS STRING) shows."""
    own = call.name.removeprefix(PREFIX)
    return call.name.lower() == QUOTIENT or (call.name.startswith(PREFIX) and own not in APPROXIMATE)


def _relation(node: Node) -> str | None:
    """The relation of a refresh that a node reads, if it reads one."""
    if isinstance(node, Ref):
        return temporary(node.name)
    if isinstance(node, (BaseDiff, Images)):
        return temporary(f"net_{node.scan.table}")
    return None


def _narrowed(node: Node) -> tuple[Node, list[Expr]]:
    """A node without the selections on top of it, and their conditions."""
    conditions: list[Expr] = []
    while isinstance(node, Select):
        conditions += conjuncts(node.predicate)
        node = node.input
    return node, conditions


def _values_of(name: str | None, conditions: Sequence[Expr]) -> int | None:
    """How many values of a column some conditions name; None where they name none."""
    named = (
        c for condition in conditions for c in condition.find_all(exp.In) if c.this == column(name or "")
    )
    return min((len(c.expressions) for c in named), default=None)


def _selected(rows: Node, conditions: Sequence[Expr]) -> Node:
    for condition in conditions:
        rows = Select(rows, condition)
    return rows


def _as_it_was(scan: Scan) -> Project:
    """The rows that a batch updates, as they were before it."""
    diff = BaseDiff(scan, "update")
    items = (Item(c, column(c.name if c.name in scan.key else pre_name(c.name))) for c in scan.columns)
    return Project(diff, tuple(items))


def rendered(queries: Sequence[Node], names: Names) -> exp.Query:
    """One query as it is."""
    (query,) = queries
    return Renderer(names).query(query)
