"""A ring view as SQL says it: which tables are joined by which columns, which are kept, what is summed.

    SELECT shop, SUM(amount * price), COUNT(*) FROM orders NATURAL JOIN prices GROUP BY shop
    SELECT shop FROM orders NATURAL JOIN prices GROUP BY shop      where a ring says what is summed

The tables of FROM become relations, and columns that equal each other one variable. Relations have the
columns that are joined by, kept or lifted, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from viewkeep.algebra.expressions import Expr, conjuncts, text
from viewkeep.algebra.nodes import Join, Node, Scan, Select, merge_classes
from viewkeep.catalog.models import Table
from viewkeep.errors import Unsupported, ViewkeepError
from viewkeep.fivm.query import Relation
from viewkeep.frontend.binder import bind
from viewkeep.frontend.cofactor import is_cofactor
from viewkeep.frontend.functions import CATEGORY
from viewkeep.frontend.statements import parse_sql, place_of

_CLAUSES = {
    "with_": "WITH",
    "having": "HAVING",
    "distinct": "DISTINCT",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
}


@dataclass(frozen=True)
class RingQuery:
    """The join, its free variables, and the sums or cofactors that are asked for, if any."""

    relations: tuple[Relation, ...]
    free: tuple[str, ...]
    products: tuple[tuple[str, ...], ...] = ()
    cofactors: tuple[str, ...] = ()
    integers: bool = False
    """Whether all that is summed are products of integers."""
    lifted: Mapping[str, str] = field(default_factory=dict)
    """The variable of each column that a ring takes."""

    def ring(self) -> Any:
        """The ring of what is asked for."""
        from viewkeep.fivm import Cofactor, Sums

        return Cofactor(self.cofactors) if self.cofactors else Sums(self.products, exact=self.integers)


def is_query(relations: object) -> bool:
    """Whether relations are given as SQL, and not by the name of one table."""
    return isinstance(relations, str) and len(relations.split()) > 1


def ring_query(
    query: str,
    find_table: Callable[[str], Table | None],
    has_ring: bool,
    lifts: Collection[str] = (),
    others: Collection[str] = (),
) -> RingQuery:
    """Reads a query. `lifts` are the columns that a ring takes, and `others` those that it could."""
    reading = _Reading(query, find_table)
    listed = reading.listed()
    if has_ring and listed.summed:
        raise reading.problem(
            listed.summed[0], "the ring says what is summed",
            "select the columns of groups only, or leave out the ring",
        )  # fmt: skip
    if not has_ring and not listed.summed:
        raise reading.problem(
            reading.tree, "neither the query nor a ring says what is summed",
            "select SUM(x * y), COUNT(*) or COFACTOR(x, y), or give a ring",
        )  # fmt: skip
    return reading.query(listed, {name: exp.column(*reversed(name.split("."))) for name in lifts}, others)


@dataclass(frozen=True)
class _Listed:
    """A SELECT list: columns, and aggregates."""

    free: tuple[exp.Column, ...]
    summed: tuple[Expr, ...]


class _Reading:
    """A query while it is read."""

    def __init__(self, query: str, find_table: Callable[[str], Table | None]) -> None:
        self._query = query
        self._find_table = find_table
        tree = parse_sql(query)
        if not isinstance(tree, exp.Select) or not tree.args.get("from_"):
            raise self.problem(tree, "this is no SELECT from tables", "SELECT a, b FROM r NATURAL JOIN s")
        for clause, name in _CLAUSES.items():
            if tree.args.get(clause):
                raise self.problem(tree, f"a ring view has no {name}", "leave it out")
        self.tree = tree

    def problem(self, node: Expr, message: str, hint: str) -> ViewkeepError:
        place = next((p for n in node.walk() if (p := place_of(n, self._query)) is not None), None)
        return Unsupported(message, hint=hint, place=place)

    def listed(self) -> _Listed:
        """The SELECT list, with what is grouped by."""
        free: list[exp.Column] = []
        summed: list[Expr] = []
        for entry in self.tree.expressions:
            bare = entry.unalias().unnest()
            if isinstance(bare, exp.Star):
                continue  # of a FROM alone: no groups
            if isinstance(bare, exp.Column) and not isinstance(bare.this, exp.Star):
                free.append(bare)
            elif isinstance(bare, (exp.Sum, exp.Count)) or is_cofactor(entry):
                summed.append(bare)
            else:
                raise self.problem(
                    entry, f"{text(entry)} is no column, no sum of a product of columns, and no COFACTOR",
                    "select columns, SUM(x * y), COUNT(*) or COFACTOR(x, y)",
                )  # fmt: skip
        group = self.tree.args.get("group")
        grouped = [entry.unnest() for entry in group.expressions] if group is not None else free
        if {c.sql().lower() for c in grouped} != {c.sql().lower() for c in free}:
            at = group or self.tree
            raise self.problem(at, "what is grouped by is not what is selected", "select all groups, once")
        if any(map(is_cofactor, summed)) and len(summed) > 1:
            raise self.problem(summed[1], "beside COFACTOR nothing else is summed", "make a view of each")
        return _Listed(tuple(free), tuple(summed))

    def query(self, listed: _Listed, lifted: Mapping[str, exp.Column], others: Collection[str]) -> RingQuery:
        sums = [_columns_in(entry) for entry in listed.summed]
        columns = [*listed.free, *(c for entry in sums for c in entry), *lifted.values()]
        asked = self.tree.copy()
        wanted: Sequence[Expr] = columns or [exp.Literal.number(1)]
        asked.set("expressions", [exp.alias_(c.copy(), f"c{i}") for i, c in enumerate(wanted)])
        asked.set("group", None)
        bound = bind(asked, self._find_table, self._query).plan
        scans, pairs = self._joined(bound.input)
        shown = _Variables(scans, merge_classes((), pairs))
        items = {id(c): item for c, item in zip(columns, bound.items, strict=False)}
        of = {at: shown.variable(item.expression.unnest().name) for at, item in items.items()}
        for name in others:
            shown.also(name)
        if not any(map(is_cofactor, listed.summed)):
            known = {at for at, item in items.items() if shown.is_known(item.expression.unnest().name)}
            self._refuse_nulls(listed, [{of[id(c)] for c in entry if id(c) not in known} for entry in sums])
        kinds = [items[id(c)].column.type for entry in sums for c in entry]
        counts = [isinstance(entry, exp.Count) for entry in listed.summed]
        products = tuple(
            () if is_count else tuple(of[id(c)] for c in entry)
            for is_count, entry in zip(counts, sums, strict=True)
        )
        cofactors = products[0] if any(map(is_cofactor, listed.summed)) else ()
        return RingQuery(
            shown.relations(),
            tuple(dict.fromkeys(of[id(c)] for c in listed.free)),
            products,
            cofactors,
            all(kind.is_integer for kind in kinds),
            {name: of[id(c)] for name, c in lifted.items()},
        )

    def _refuse_nulls(self, listed: _Listed, nullable: Sequence[set[str]]) -> None:
        """A row counts in all sums of a ring view, or in none: in SQL each sum leaves out its own NULLs."""
        lifted: set[str] = set()
        for entry, names in zip(listed.summed, nullable, strict=True):
            lifted |= set() if isinstance(entry, exp.Count) else names
        for entry, names in zip(listed.summed, nullable, strict=True):
            if names - lifted:
                raise self.problem(
                    entry, f"{text(entry)} is kept beside a sum of {min(names - lifted)} only",
                    f"select SUM({min(names - lifted)}), too",
                )  # fmt: skip
            missing = lifted - names
            if missing:
                raise self.problem(
                    entry, f"{text(entry)} counts rows in which {min(missing)} is NULL, another sum does not",
                    f"make a view of each, declare {min(missing)} NOT NULL, or write COUNT({min(missing)})",
                )  # fmt: skip

    def _joined(self, node: Node) -> tuple[list[Scan], list[tuple[str, str]]]:
        """The tables of a join, and the columns that are equal in it."""
        if isinstance(node, Scan):
            return [node], []
        if isinstance(node, Select):
            scans, pairs = self._joined(node.input)
            return scans, pairs + list(self._equal(node, node.predicate))
        if isinstance(node, Join):
            left, right = self._joined(node.left), self._joined(node.right)
            return left[0] + right[0], left[1] + right[1] + list(self._equal(node, node.condition))
        raise self.problem(
            self.tree, "a ring view joins tables by inner joins",
            "leave out outer joins, subqueries and derived tables, or make a materialized view",
        )  # fmt: skip

    def _equal(self, node: Node, condition: Expr | None) -> Iterator[tuple[str, str]]:
        for term in conjuncts(condition):
            sides = [term.this.unnest(), term.expression.unnest()] if isinstance(term, exp.EQ) else []
            names = [side.name for side in sides if isinstance(side, exp.Column)]
            kinds = [node.by_name[name].type for name in names]
            if len(names) != 2:
                raise Unsupported(
                    f"{text(term)} is no equality of two columns, and a ring view has no other conditions",
                    hint="let lifts count rows as nothing, or make a materialized view",
                )
            if kinds[0] != kinds[1] and not all(kind.is_integer for kind in kinds):
                raise Unsupported(
                    f"{text(term)} compares {kinds[0]} with {kinds[1]}", hint="join columns of the same type"
                )
            yield names[0], names[1]


class _Variables:
    """The variables of a join: those that tables are joined by, and those that are asked for."""

    def __init__(self, scans: Sequence[Scan], classes: Sequence[frozenset[str]]) -> None:
        self._scans = scans
        self._classes = list(classes)
        self._called: dict[frozenset[str], str] = {}
        for group in classes:
            self._call(group)

    def variable(self, column: str) -> str:
        """The variable that a column of the plan is."""
        group = next((g for g in self._classes if column in g), frozenset({column}))
        return self._called.get(group) or self._call(group)

    def is_known(self, column: str) -> bool:
        """Whether a column is never NULL in the join."""
        own = next(c for scan in self._scans for c, _ in scan.fields if c.name == column)
        return not own.nullable or any(column in group for group in self._classes)

    def also(self, name: str) -> None:
        """Has the variable of a column that tables may have."""
        found = [c.name for scan in self._scans for c, base in scan.fields if base.lower() == name.lower()]
        if found:
            self.variable(found[0])

    def _call(self, group: frozenset[str]) -> str:
        """Its name: that of its first column, with the table's alias where another has it."""
        scan, base = next((s, b) for s in self._scans for c, b in s.fields if c.name in group)
        self._called[group] = f"{scan.alias}.{base}" if base in self._called.values() else base
        return self._called[group]

    def relations(self) -> tuple[Relation, ...]:
        found = []
        aliases = [scan.alias for scan in self._scans]
        for number, scan in enumerate(self._scans):
            own = [(self._of(c.name), base) for c, base in scan.fields if self._of(c.name) is not None]
            name = scan.alias if aliases.count(scan.alias) == 1 else f"{scan.alias}_{number + 1}"
            schema = tuple(str(variable) for variable, _ in own)
            found.append(Relation(name, schema, scan.table, tuple(base for _, base in own)))
        return tuple(found)

    def _of(self, column: str) -> str | None:
        return next((name for group, name in self._called.items() if column in group), None)


def _columns_in(entry: Expr) -> list[exp.Column]:
    """The columns of a product that is summed, or of COFACTOR."""
    bare = entry.unnest()
    if isinstance(bare, exp.Mul):
        return [*_columns_in(bare.this), *_columns_in(bare.expression)]
    if isinstance(bare, exp.Column):
        return [bare]
    if isinstance(bare, exp.Sum) and not isinstance(bare.this, exp.Distinct):
        return _columns_in(bare.this)
    if isinstance(bare, exp.Count) and not isinstance(bare.this, exp.Distinct):
        return [] if isinstance(bare.this, exp.Star) else _columns_in(bare.this)
    if isinstance(bare, exp.Anonymous) and bare.name.lower() != CATEGORY:
        return [c for argument in bare.expressions for c in _columns_in(argument)]
    raise Unsupported(
        f"{text(bare)} is no product of columns",
        hint="sum products of columns; categories are said by ring=Cofactor(columns, {column: room})",
    )
