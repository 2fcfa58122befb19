"""Ring views that follow tables: kept in memory by the runtimes of F-IVM, fed by the changes that the engine
has captured.

A table is read whole once, and by its changes from then on. The engine keeps its log for an *anchor*: a view
of each table that has no rows, and whose watermark is the point up to which changes may be forgotten. Where
somebody else has moved it, changes may be missing: then tables are read whole again, and the refresh says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeep.catalog.models import Table
from viewkeep.engines.contract import Engine
from viewkeep.engines.following import (
    MOVED,
    Followed,
    Following,
    Summing,
    is_followed,
    largest_name,
    sum_name,
)
from viewkeep.errors import TypeMismatch, UnknownColumn, UnknownTable, Unsupported, ViewkeepError
from viewkeep.fivm.generic import GenericRuntime
from viewkeep.fivm.laws import checked
from viewkeep.fivm.order import chosen, given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.rings import own_lifts
from viewkeep.fivm.tree import ViewTree, view_tree
from viewkeep.idiff.bags import TIMES
from viewkeep.results import Refresh
from viewkeep.ring_queries import is_query, ring_query

if TYPE_CHECKING:
    from viewkeep.fivm.compiled.runtime import Cofactors, CompiledRuntime

Lifts = Mapping[str, Callable[[Any], Any]]
NOTHING = Following({}, {})
# so many values of the tables are lifted to try the laws of a ring, each with each
TRIED = 6
Anchors = Callable[[str, Sequence[Table]], Mapping[str, str]]
"""Sees to it that there are anchors for tables; their names."""


class RingView:
    """A sum of products over a join of tables, in any ring. `refresh` brings it up to date."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        relations: Sequence[Relation],
        runtime: Callable[[Following], Any],
        tables: Mapping[str, Table],
        anchors: Mapping[str, str],
        summing: Mapping[str, Summing],
    ) -> None:
        self.name = name
        self._engine = engine
        self._relations = tuple(relations)
        self._made = runtime
        self._runtime: Any = None
        self._followed = {}
        for n, table in tables.items():
            sums = {r.name: summing[r.name] for r in self._relations if r.source == n}
            self._followed[n] = Followed(table, anchors.get(n, ""), sums=sums)
        self._is_saved = False
        self._is_torn = False

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it follows."""
        return tuple(self._followed)

    @property
    def tree(self) -> ViewTree:
        """Its view tree, with what is stored."""
        tree: ViewTree = self._runtime.tree
        return tree

    def refresh(self) -> Refresh:
        """Takes in what has changed in the tables, or changes nothing. Its strategy is `changes`, or `full`
        where tables were read whole, or `none`."""
        started = time.perf_counter()
        if self._is_torn:  # by who interrupted a refresh
            self._followed = {n: replace(f, point=None) for n, f in self._followed.items()}
        found = self._engine.follow(list(self._followed.values()))
        if found.whole:
            if self._is_torn:
                found = replace(found, whole="the last refresh was interrupted")
            runtime = self._made(found)
            self._feed(runtime, found)
            self._runtime, self._is_torn = runtime, False
        else:
            with self._all_or_none():
                self._feed(self._runtime, found)
        self._read_upto(found)
        count = sum(rows.num_rows for rows in found.rows.values())
        for one in self._followed.values():
            if one.table.name not in found.rows:
                count += pc.sum(found.sums[next(iter(one.sums))].column(MOVED)).as_py() or 0
        strategy = "full" if found.whole else "changes" if count else "none"
        reason = found.whole or ("changes of the tables" if count else "no base table changed")
        return Refresh(self.name, strategy, reason, time.perf_counter() - started, changes_in=count)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """A change that is refused has changed nothing; what one leaves that was interrupted is not known."""
        self._is_torn = True
        try:
            yield
        except ViewkeepError:
            self._is_torn = False
            raise
        self._is_torn = False

    def _read_upto(self, found: Following) -> None:
        """What is fed cannot be fed again. The log is let go up to there, unless a snapshot may need it."""
        self._followed = {n: replace(f, point=found.points[n]) for n, f in self._followed.items()}
        if found.whole or not self._is_saved:
            self._is_saved = False
            self._hold()

    def _hold(self) -> None:
        if self._engine.logs_for_views:
            self._engine.hold({f.anchor: f.point for f in self._followed.values()})
            self._followed = {n: replace(f, held=f.point) for n, f in self._followed.items()}

    def _feed(self, runtime: Any, found: Following) -> None:
        changes: dict[str, Any] = {}
        for relation in self._relations:
            if relation.source in found.rows:
                rows = _of_relation(relation, found.rows[relation.source])
                changes[relation.name] = rows.drop_columns([TIMES]), rows.column(TIMES).to_numpy()
            else:
                changes[relation.name] = self._of_sums(runtime, relation, found.sums[relation.name])
        changes = {n: (batch, times) for n, (batch, times) in changes.items() if len(times)}
        if isinstance(runtime, GenericRuntime):
            needed = _needed(self._relations, runtime)
            changes = {n: _rows(batch, times, needed) for n, (batch, times) in changes.items()}
        runtime.apply(changes)

    def _of_sums(self, runtime: Any, relation: Relation, sums: pa.Table) -> tuple[Any, Any]:
        """What an engine has summed up, as a runtime takes it: payloads, or rows and how many there are."""
        wanted = self._followed[relation.source].sums[relation.name]
        names = [v for v in relation.schema if relation.column(v) in wanted.keys]
        keys = {v: sums.column(relation.column(v)).combine_chunks() for v in names}
        totals = [sums.column(sum_name(i)).combine_chunks() for i in range(len(wanted.products))]
        if any(total.null_count for total in totals):
            raise TypeMismatch(
                f"a sum over {relation.source} does not fit into 64 bits; nothing was changed",
                hint="sum doubles, or smaller numbers",
            )
        times = totals[0].to_numpy()
        if not wanted.summed:
            return pa.table(list(keys.values()), names=list(keys)) if keys else {}, times
        from viewkeep.fivm.compiled.summing import Summed

        plan = runtime.summing(relation.name)
        largest = {}
        if not wanted.exact:
            for v in plan.lifted:
                found = sums.column(largest_name(relation.column(v))).to_numpy()
                largest[v] = float(found.max()) if len(found) else 0.0
        return Summed(plan, keys, [total.to_numpy() for total in totals], largest), times

    def result(self) -> dict[tuple[Any, ...], Any]:
        """The payload of each group, by the values of the free variables; () where there are none."""
        found: dict[tuple[Any, ...], Any] = self._runtime.result()
        return found

    def cofactors(self, key: tuple[Any, ...] = ()) -> Cofactors:
        """Count, sums and sums of products, for one group, of a view in the ring `Cofactor`."""
        found: Cofactors = self._runtime.cofactors(key)
        return found

    def save(self, path: str | Path) -> None:
        """Writes a snapshot, from which `restore_ring_view` goes on. The log is kept from there on until the
        next one, where the engine keeps a log."""
        from viewkeep.fivm.compiled.snapshot import save

        self._refuse_generic()
        self._hold()
        watermark = {
            "name": self.name,
            "relations": [
                {"name": r.name, "schema": r.schema, "table": r.source, "columns": r.columns or r.schema}
                for r in self._relations
            ],
            "points": {n: f.point for n, f in self._followed.items()},
            "held": {n: f.held for n, f in self._followed.items()},
            "anchors": {n: f.anchor for n, f in self._followed.items()},
        }
        save(self._runtime, path, watermark)
        self._is_saved = True

    def _refuse_generic(self) -> None:
        if isinstance(self._runtime, GenericRuntime):
            raise Unsupported(
                "payloads of a ring of one's own have no form on disk",
                hint="make the view again with ring_view, which reads the tables",
            )

    def resume(self, runtime: CompiledRuntime, watermark: Mapping[str, Any]) -> None:
        """Goes on from a snapshot. Of a table whose anchor is another by now, changes may be missing: what
        the snapshot has of it is shown until the next refresh, which reads it whole."""
        self._runtime, self._is_saved = runtime, True
        for n, f in self._followed.items():
            if watermark["anchors"].get(n) == f.anchor:
                f = replace(f, point=watermark["points"][n], held=watermark["held"][n])
            self._followed[n] = f


def ring_view(
    name: str,
    engine: Engine,
    relations: Sequence[Relation | str] | str,
    ring: Any,
    lifts: Lifts | None,
    free: Sequence[str],
    order: str | None,
    samples: Sequence[Any],
    anchors: Anchors,
) -> RingView:
    """A ring view over tables as they are now."""
    ring = ring() if isinstance(ring, type) else ring
    if isinstance(relations, str) and is_query(relations):
        relations, ring, lifts, free = _of_query(engine, relations, ring, lifts, free)
    elif isinstance(relations, str):
        relations = [relations]
    if ring is None:
        raise Unsupported("there is no ring", hint="give one, or a query that says what is summed")
    known = _resolved(engine, relations)
    tables = _tables(engine, known)
    # relations are what the runtime sees: a table that is joined with itself feeds each of them
    query = Query(tuple(Relation(r.name, r.schema) for r in known), tuple(free))
    tree = view_tree(chosen(query) if order is None else given(query, order))
    runtime = _runtime(tree, ring, lifts, samples, known)
    summing = _summing(known, runtime(NOTHING))  # what is wrong with it is told before anything is made
    made = RingView(name, engine, known, runtime, tables, anchors(name, list(tables.values())), summing)
    made.refresh()
    return made


def restored(path: str | Path, engine: Engine, anchors: Anchors) -> RingView:
    """The ring view of a snapshot."""
    from viewkeep.fivm.compiled.runtime import CompiledRuntime
    from viewkeep.fivm.compiled.snapshot import restore

    runtime, watermark = restore(path)
    if "points" not in watermark:
        raise Unsupported(
            f"{path} is a snapshot of a runtime, not of a ring view",
            hint="read it with viewkeep.fivm.restore",
        )
    relations = [
        Relation(r["name"], tuple(r["schema"]), r["table"], tuple(r["columns"]))
        for r in watermark["relations"]
    ]
    tables = _tables(engine, relations)
    made = RingView(
        watermark["name"],
        engine,
        relations,
        lambda _: CompiledRuntime(runtime.tree, runtime.ring),
        tables,
        anchors(watermark["name"], list(tables.values())),
        _summing(relations, runtime),
    )
    made.resume(runtime, watermark)
    return made


def _of_query(
    engine: Engine, query: str, ring: Any, lifts: Lifts | None, free: Sequence[str]
) -> tuple[Sequence[Relation], Any, Lifts | None, tuple[str, ...]]:
    """The relations, ring, lifts and free variables of a query, with a ring of one's own or without."""
    from viewkeep.fivm import Cofactor, Sums

    if free:
        raise Unsupported("the query says which columns are kept", hint="leave out free, and select them")
    is_compiled = isinstance(ring, (Sums, Cofactor))
    taken = ring.lifted if is_compiled else tuple(lifts or ())
    others = () if ring is None or is_compiled else own_lifts(ring)
    found = ring_query(query, lambda n: engine.find_table(engine.qualify(n)), ring is not None, taken, others)
    of = found.lifted
    if ring is None:
        ring = found.ring()
    elif isinstance(ring, Sums):
        ring = replace(ring, products=tuple(tuple(of[v] for v in product) for product in ring.products))
    elif isinstance(ring, Cofactor):
        rooms = {of[v]: room for v, room in ring.categories.items()}
        ring = Cofactor(tuple(of[v] for v in ring.columns), rooms)
    return found.relations, ring, {of[v]: lift for v, lift in (lifts or {}).items()}, found.free


def _runtime(
    tree: ViewTree, ring: Any, lifts: Lifts | None, samples: Sequence[Any], relations: Sequence[Relation]
) -> Callable[[Following], Any]:
    from viewkeep.fivm import Cofactor, CompiledRuntime, Sums

    if isinstance(ring, (Sums, Cofactor)):
        if lifts:
            raise Unsupported(
                f"{type(ring).__name__} lifts its columns itself", hint="leave out lifts, or use another ring"
            )
        return lambda _: CompiledRuntime(tree, ring)
    lifted = [v for v in {**own_lifts(ring), **(lifts or {})} if v in tree.query.bound]
    is_ours = type(ring).__module__.startswith("viewkeep.")

    def made(found: Following) -> Any:
        """Without samples the laws are tried on a few values of the tables, as they are lifted."""
        values = {} if samples or is_ours else _some_values(relations, lifted, found)
        return GenericRuntime(tree, checked(ring, samples, lifts=lifts, values=values), lifts)

    return made


def _some_values(
    relations: Sequence[Relation], lifted: Sequence[str], found: Following
) -> dict[str, list[Any]]:
    values = {}
    for variable in lifted[:TRIED]:
        relation = next(r for r in relations if variable in r.schema)
        rows = found.rows.get(relation.source, found.sums.get(relation.name))
        if rows is not None:
            column = rows.column(relation.column(variable)).drop_null()
            values[variable] = column.slice(0, 100).unique().to_pylist()[: max(2, TRIED // len(lifted))]
    return values


def _resolved(engine: Engine, relations: Sequence[Relation | str]) -> list[Relation]:
    """Relations with the names of tables and columns as the engine has them."""
    found = []
    for relation in relations:
        source = relation if isinstance(relation, str) else relation.source
        table = engine.find_table(engine.qualify(source))
        if table is None:
            raise UnknownTable(f"there is no table {source}", hint="create it first, or check the spelling")
        if isinstance(relation, str):
            names = tuple(c.name for c in table.columns)
            found.append(Relation(source, names, table.name, names))
            continue
        columns = []
        for variable in relation.schema:
            column = table.column(relation.column(variable))
            if column is None:
                raise UnknownColumn(
                    f"{table.name} has no column {relation.column(variable)}",
                    hint=f"there are: {', '.join(c.name for c in table.columns)}",
                )
            columns.append(column.name)
        found.append(Relation(relation.name, relation.schema, table.name, tuple(columns)))
    return found


def _tables(engine: Engine, relations: Sequence[Relation]) -> dict[str, Table]:
    """The tables of relations, by the columns that these show."""
    used: dict[str, list[str]] = {}
    for r in relations:
        used.setdefault(r.source, []).extend(r.columns or r.schema)
    found = {}
    for name, columns in used.items():
        table = engine.find_table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}", hint="was it dropped?")
        if table.unseen:
            raise Unsupported(
                f"changes of {name} would not be seen: it {table.unseen}",
                hint="read another table, into which you copy its rows",
            )
        gone = [c for c in columns if table.column(c) is None]
        if gone:
            raise UnknownColumn(f"{name} has no column {gone[0]}", hint="was it dropped?")
        found[name] = table.read_by(columns)
        for column in found[name].columns:
            if not is_followed(column.type):
                raise Unsupported(
                    f"{name}.{column.name} is {column.type}, which ring views do not take",
                    hint="give a Relation that leaves the column out",
                )
    return found


def _of_relation(relation: Relation, rows: pa.Table) -> pa.Table:
    """Rows of a table by the variables of a relation."""
    columns = relation.columns or relation.schema
    return pa.table(
        [*(rows.column(c).combine_chunks() for c in columns), rows.column(TIMES).combine_chunks()],
        names=[*relation.schema, TIMES],
    )


def _needed(relations: Sequence[Relation], runtime: Any) -> set[str]:
    """The variables that are joined by, or lifted: a row with a NULL in one counts nothing, as in SQL."""
    schemas = [v for r in relations for v in r.schema]
    lifted = runtime.lifts if isinstance(runtime, GenericRuntime) else runtime.ring.lifted
    return {v for v in schemas if schemas.count(v) > 1} | set(lifted)


def _summing(relations: Sequence[Relation], runtime: Any) -> dict[str, Summing]:
    """The sums that serve a runtime in the place of rows, by the columns of each relation's table."""
    needed = _needed(relations, runtime)
    found = {}
    for r in relations:
        keys, products, exact = r.schema, ((),), False
        if not isinstance(runtime, GenericRuntime):
            plan = runtime.summing(r.name)
            keys, products, exact = plan.keys, plan.products, runtime.ring.exact
        if not keys and products == ((),):
            keys = r.schema[:1]  # a batch has a column at least
        found[r.name] = Summing(
            tuple(map(r.column, keys)),
            tuple(r.column(v) for v in r.schema if v in needed),
            tuple(tuple(map(r.column, product)) for product in products),
            exact,
        )
    return found


def _rows(batch: pa.Table, times: Any, needed: set[str]) -> list[tuple[tuple[Any, ...], int]]:
    """Rows as tuples, without those that count nothing."""
    batch = batch.append_column(TIMES, pa.array(times))
    names = [n for n in batch.column_names if n != TIMES]
    for name in names:
        if name in needed and batch.column(name).null_count:
            batch = batch.filter(pc.is_valid(batch.column(name)))
    values = [_one_nan(batch.column(n).to_pylist()) for n in names]
    times = batch.column(TIMES).to_pylist()
    return list(zip(zip(*values, strict=True) if values else ((),) * len(times), times, strict=True))


def _one_nan(values: list[Any]) -> list[Any]:
    """As a key NaN is one value, and only the same object is found again."""
    return [math.nan if value != value else value for value in values]
