"""Plans -> SQL syntax trees, which every engine writes in its own dialect. Neighbouring operators share
one SELECT, so that a person can read the result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlglot import exp

from viewkeep.algebra.bags import is_bag, numbered
from viewkeep.algebra.expressions import (
    Expr,
    column,
    columns_of,
    conjunction,
    conjuncts,
    differs,
    disjunction,
    pre_name,
    substitute,
)
from viewkeep.algebra.nodes import (
    Aggregate,
    Column,
    Constant,
    Item,
    Join,
    Limit,
    MarkJoin,
    Measure,
    Node,
    Order,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
    walk,
)
from viewkeep.algebra.script_nodes import (
    ROW,
    SIGN,
    BaseDiff,
    Empty,
    Images,
    LeftJoin,
    Ref,
    SemiJoin,
    Stored,
    Union,
)
from viewkeep.algebra.types import BOOLEAN
from viewkeep.idiff.net import NET_KIND

Sought = Collection[tuple[Scan, str]]


class Names(Protocol):
    """Where an engine keeps what leaves of a plan stand for. Each answer can stand in FROM."""

    row: str
    """What the engine calls the column that tells where a stored row is; "" where it has none."""
    full_joins: bool
    """Whether FULL JOIN takes any condition."""

    def table(self, scan: Scan) -> Expr:
        """A base table in the state that the scan asks for."""

    def net(self, table: str) -> Expr:
        """The net changes of a base table in this batch."""

    def images(self, table: str) -> Expr | None:
        """The rows of these net changes as they were and as they are, with SIGN, where there is a relation of
        them; a script that reads it is planned sooner than one that makes it from the net changes."""

    def ref(self, name: str) -> Expr:
        """A relation that the script computed."""

    def stored(self, target: str) -> Expr:
        """A target as it was before this refresh."""


@dataclass
class _Source:
    relation: Expr
    on: Expr | None = None
    left: bool = False
    full: bool = False


@dataclass
class _Block:
    """One SELECT under construction: FROM, WHERE, and what each plan column is in its terms."""

    sources: list[_Source]
    columns: dict[str, Expr]
    where: list[Expr] = field(default_factory=list)
    is_restricted: bool = False
    """Whether a semijoin restricts it: engines do not move that below a join, so it is a subquery there."""


class Renderer:
    """Renders one statement; table aliases count up from t1.

    `sought`: scans of which rows are looked up by an index, and by which column, the best first. An engine
    may use the index only where nothing is asked of the scan beside it, so their other conditions are
    written such that they are no matter of the scan.
    """

    def __init__(self, names: Names, sought: Sought = ()) -> None:
        self._names = names
        self._sought: dict[int, list[str]] = {}
        for scan, name in sought:
            self._sought.setdefault(id(scan), []).append(name)
        self._aliases = 0
        self._columns: set[str] | None = None

    def query(self, node: Node) -> exp.Query:
        """The plan as a query whose columns are the plan's columns, in order."""
        if self._columns is None:
            self._columns = {name.lower() for n in walk(node) for name in _own_names(n)}
        if isinstance(node, Union):
            parts = [self.query(part) for part in node.parts]
            joined = parts[0]
            for part in parts[1:]:
                joined = exp.Union(this=joined, expression=part, distinct=node.distinct)
            if len(parts) == 1 and node.distinct:
                source = self._wrapped(parts[0], node.columns)
                return _select(source, node.columns).distinct(copy=False)
            return joined
        if isinstance(node, Aggregate):
            return self._grouped(node)
        if isinstance(node, UnionAll):
            return self.query(_lined_up(node))
        if isinstance(node, Constant):
            return _numbers(node)
        return _select(self._block(node), node.columns)

    def _alias(self) -> str:
        # not what a column is called: in a subquery t1.x would be taken for a field of its column t1
        while True:
            self._aliases += 1
            if f"t{self._aliases}" not in (self._columns or ()):
                return f"t{self._aliases}"

    def _block(self, node: Node) -> _Block:
        if is_bag(node):
            return self._block(numbered(node))
        if isinstance(node, Scan):
            names = [(c.name, base) for c, base in node.fields]
            return self._leaf(self._names.table(node), names)
        if isinstance(node, Ref):
            return self._leaf(self._names.ref(node.name), [(n, n) for n in node.names])
        if isinstance(node, Stored):
            own = [(n, self._names.row if n == ROW else n) for n in node.names]
            return self._leaf(self._names.stored(node.target), own)
        if isinstance(node, BaseDiff):
            return self._base_diff(node)
        if isinstance(node, Images):
            return self._images(node)
        if isinstance(node, Select):
            block = self._block(node.input)
            block.where.append(substitute(self._kept_out(node), block.columns))
            return block
        if isinstance(node, Project):
            block = self._block(node.input)
            block.columns = {i.name: substitute(i.expression, block.columns) for i in node.items}
            return self._wrapped(_select(block, node.columns), node.columns) if node.apart else block
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, LeftJoin):
            return self._left_join(node)
        if isinstance(node, OuterJoin):
            return self._outer_join(node)
        if isinstance(node, MarkJoin):
            return self._mark_join(node)
        if isinstance(node, Window):
            return self._window(node)
        if isinstance(node, Limit):
            return self._limit(node)
        if isinstance(node, SemiJoin):
            return self._semijoin(node)
        if isinstance(node, Empty):
            nulls = {c.name: exp.Cast(this=exp.Null(), to=c.type.sql()) for c in node.columns}
            one = self._leaf(exp.Subquery(this=exp.select(exp.alias_(exp.Literal.number(1), "x"))), [])
            return _Block(one.sources, dict(nulls), [exp.false()])
        return self._wrapped(self.query(node), node.columns)

    def _kept_out(self, node: Select) -> Expr:
        """The condition, for sought scans as CASE WHEN key IS NOT NULL THEN term END: a term over two columns
        is not pushed into the scan. Not for rows that an outer join pads: their key is null, and for them
        c IS NULL, say, may be true."""
        scans = self._sought_below(node.input)
        if not scans:
            return node.predicate
        terms: list[Expr] = []
        for term in conjuncts(node.predicate):
            looked_at = columns_of(term)
            own = next((scan for scan in scans if looked_at <= set(scan.names)), None)
            keys = own.key if own is not None and len(looked_at) == 1 else ()
            other = next((k for k in keys if _is_there(k, node.input) and k not in looked_at), None)
            terms.append(_if_there(column(other), term.copy()) if other is not None else term)
        return conjunction(terms) or exp.true()

    def _sought_below(self, node: Node) -> list[Scan]:
        return (
            [n for n in walk(node) if isinstance(n, Scan) and id(n) in self._sought] if self._sought else []
        )

    def _by_one_column(self, condition: Expr, node: Join) -> Expr:
        """A join's condition: of several columns that a sought scan is joined by, the one that has the index
        finds the rows, and the others are compared then."""
        terms = conjuncts(condition)
        for scan in self._sought_below(node):
            found = [t for name in self._sought[id(scan)] for t in terms if _equated(t, scan) == name]
            key = next((k for k in scan.key if _is_there(k, node)), None)
            if found and key is not None:
                others = [t for t in terms if t is not found[0] and _equated(t, scan)]
                terms = [_if_there(column(key), t.copy()) if t in others else t for t in terms]
        return conjunction(terms) or condition

    def _leaf(self, relation: Expr, names: list[tuple[str, str]]) -> _Block:
        return self._aliased(relation.copy(), names)

    def _aliased(self, relation: Expr, names: list[tuple[str, str]]) -> _Block:
        """A source of its own; the relation stands nowhere else."""
        alias = self._alias()
        relation.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return _Block([_Source(relation)], {n: _of(alias, base) for n, base in names})

    def _without_literals(self, block: _Block, node: Node, names: Sequence[str]) -> _Block:
        """GROUP BY 2 and ORDER BY 2 would mean the second output: such columns get a name first."""
        if not any(isinstance(block.columns[n].unnest(), exp.Literal) for n in names):
            return block
        return self._wrapped(_select(block, node.columns), node.columns)

    def _wrapped(self, query: exp.Query, columns: tuple[Column, ...]) -> _Block:
        return self._aliased(exp.Subquery(this=query), [(c.name, c.name) for c in columns])

    def _base_diff(self, node: BaseDiff) -> _Block:
        """The rows of the table's net changes that are this diff's; see idiff/net.py for their form."""
        scan = node.scan
        names = []
        for c, base in scan.fields:
            key = c.name in scan.key
            names.append((c.name, pre_name(base) if node.kind == "delete" and not key else base))
            if node.kind == "update" and not key:
                names.append((pre_name(c.name), pre_name(base)))
        block = self._leaf(self._names.net(scan.table), names)
        alias = block.sources[0].relation.alias
        kind = exp.EQ(this=_of(alias, NET_KIND), expression=exp.Literal.string(node.kind))
        block.where.append(kind)
        if node.changed:
            moved = (differs(_of(alias, b), _of(alias, pre_name(b))) for b in node.changed)
            block.where.append(disjunction(moved))
        return block

    def _images(self, node: Images) -> _Block:
        """Both states of the rows of the table's net changes."""
        scan = node.scan
        made = self._names.images(scan.table)
        if made is not None:
            return self._leaf(made, [*((c.name, base) for c, base in scan.fields), (SIGN.name, SIGN.name)])
        states: list[exp.Query] = []
        for state, absent, sign in (("pre", "insert", -1), ("post", "delete", 1)):
            names = [
                (c.name, pre_name(base) if state == "pre" and c.name not in scan.key else base)
                for c, base in scan.fields
            ]
            block = self._leaf(self._names.net(scan.table), names)
            alias = block.sources[0].relation.alias
            there = exp.NEQ(this=_of(alias, NET_KIND), expression=exp.Literal.string(absent))
            block.where.append(there)
            one: Expr = exp.Literal.number(1)
            value = exp.Cast(this=one if sign > 0 else exp.Neg(this=one), to=SIGN.type.sql())
            block.columns = {**block.columns, SIGN.name: value}
            states.append(_select(block, node.columns))
        return self._wrapped(exp.Union(this=states[0], expression=states[1], distinct=False), node.columns)

    def _join(self, node: Join) -> _Block:
        left = self._block(node.left)
        right = self._block(node.right)
        if left.is_restricted:
            left = self._wrapped(_select(left, node.left.columns), node.left.columns)
        if len(right.sources) > 1 or right.is_restricted:
            right = self._wrapped(_select(right, node.right.columns), node.right.columns)
        columns = {**left.columns, **right.columns}
        condition = node.condition
        if condition is not None:
            condition = self._by_one_column(_plain_where_not_null(condition, node), node)
        on = substitute(condition, columns) if condition is not None else None
        source = _Source(right.sources[0].relation, on if on is not None else exp.true())
        return _Block([*left.sources, source], columns, left.where + right.where)

    def _left_join(self, node: LeftJoin) -> _Block:
        left = self._block(node.left)
        right = self._block(node.right)
        if len(right.sources) > 1 or right.where or _computes(right):
            right = self._wrapped(_select(right, node.right.columns), node.right.columns)
        terms = _matches(node, left.columns, right.columns)
        on = conjunction(terms)
        source = _Source(right.sources[0].relation, on if on is not None else exp.true(), left=True)
        return _Block([*left.sources, source], {**left.columns, **right.columns}, left.where)

    def _outer_join(self, node: OuterJoin) -> _Block:
        if node.full and not self._names.full_joins:
            return self._wrapped(self.query(_in_two_parts(node)), node.columns)
        left, right = self._block(node.left), self._block(node.right)
        if node.full and (left.where or _computes(left)):
            left = self._wrapped(_select(left, node.left.columns), node.left.columns)
        # a value computed from nothing must be null where there is no partner: 1 AS x is not, if inlined
        if len(right.sources) > 1 or right.where or _computes(right):
            right = self._wrapped(_select(right, node.right.columns), node.right.columns)
        columns = {**left.columns, **right.columns}
        on = substitute(node.condition, columns) if node.condition is not None else exp.true()
        source = _Source(right.sources[0].relation, on, left=True, full=node.full)
        return _Block([*left.sources, source], columns, left.where)

    def _mark_join(self, node: MarkJoin) -> _Block:
        block, inner = self._block(node.left), self._block(node.right)
        if (
            block.is_restricted
        ):  # in one SELECT, DuckDB asks for the mark of rows that the restriction leaves out
            block = self._wrapped(_select(block, node.left.columns), node.left.columns)
            block.is_restricted = True
        if node.condition is not None:
            inner.where.append(substitute(node.condition, {**block.columns, **inner.columns}))
        found = exp.Exists(this=_from(exp.Select(expressions=[exp.Literal.number(1)]), inner))
        block.columns = {**block.columns, node.mark.name: found}
        return block

    def _window(self, node: Window) -> _Block:
        sorts = [o.column for o in node.order]
        block = self._without_literals(self._block(node.input), node.input, [*node.partition, *sorts])
        order = _with_ties(node.order, node.input.ids) if node.ties else node.order
        over = {
            "partition_by": [block.columns[p].copy() for p in node.partition],
            "order": exp.Order(expressions=_ordered(order, block.columns)) if order else None,
            "spec": node.frame.copy() if node.frame is not None else None,
        }
        made: dict[str, Expr] = {}
        for item in node.items:
            call = exp.Window(this=substitute(item.expression, block.columns), over="OVER", **_copied(over))
            made[item.name] = exp.Cast(this=call, to=item.column.type.sql())
        block.columns = {**block.columns, **made}
        return self._wrapped(_select(block, node.columns), node.columns)

    def _limit(self, node: Limit) -> _Block:
        sorts = [o.column for o in node.order]
        block = self._without_literals(self._block(node.input), node.input, sorts)
        query = _select(block, node.columns)
        query = query.order_by(*_ordered(_with_ties(node.order, node.ids), block.columns), copy=False)
        if node.limit is not None:
            query = query.limit(node.limit, copy=False)
        if node.offset:
            query = query.offset(node.offset, copy=False)
        return self._wrapped(query, node.columns)

    def _semijoin(self, node: SemiJoin) -> _Block:
        block = self._block(node.left)
        inner = self._block(node.right)
        inner.where += _matches(node, block.columns, inner.columns)
        found: Expr = exp.Exists(this=_from(exp.Select(expressions=[exp.Literal.number(1)]), inner))
        block.where.append(exp.Not(this=found) if node.anti else found)
        block.is_restricted = block.is_restricted or not node.anti
        return block

    def _grouped(self, node: Aggregate) -> exp.Select:
        block = self._without_literals(self._block(node.input), node.input, node.keys)
        outputs = [_named(block.columns[k].copy(), k) for k in node.keys]
        outputs += [_named(measured(m, block.columns), m.name) for m in node.measures]
        query = _from(exp.Select(expressions=outputs), block)
        keys = [block.columns[k].copy() for k in node.keys]
        return query.group_by(*keys, copy=False) if keys else query


def _is_there(key: str, node: Node) -> bool:
    """Whether a relation has a column, and no nulls in it."""
    return key in node.by_name and not node.by_name[key].nullable


def _if_there(key: Expr, term: Expr) -> Expr:
    """CASE WHEN key IS NOT NULL THEN term END."""
    there = exp.Not(this=exp.Is(this=key, expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=there, true=term)])


def _equated(term: Expr, scan: Scan) -> str:
    """The column of a scan that a term equates with a column of another relation, else ""."""
    sides = [term.left.unnest(), term.right.unnest()] if isinstance(term, exp.EQ) else []
    names = [side.name for side in sides if isinstance(side, exp.Column)]
    own = [name for name in names if name in scan.names]
    return own[0] if len(names) == 2 and len(own) == 1 else ""


def _own_names(node: Node) -> Iterable[str]:
    yield from node.names
    if isinstance(node, Scan):
        yield from (base for _, base in node.fields)
    elif isinstance(node, (BaseDiff, Images)):
        yield from (base for _, base in node.scan.fields)


def _lined_up(node: UnionAll) -> Union:
    """The parts under the union's names."""
    parts = []
    for number, part in enumerate(node.parts):
        items = (Item(node.by_name[new], column(old)) for old, new in node.calls(number).items())
        parts.append(Project(part, tuple(items)))
    return Union(tuple(parts))


def _in_two_parts(node: OuterJoin) -> Union:
    """A full join as a left join, and the right rows that have no partner."""
    found = Column(":found", BOOLEAN)
    alone = Select(MarkJoin(node.right, node.left, node.condition, found), exp.Not(this=column(found.name)))
    left = (Item(node.by_name[c.name], exp.Cast(this=exp.Null(), to=c.type.sql())) for c in node.left.columns)
    right = (Item(node.by_name[c.name], column(c.name)) for c in node.right.columns)
    return Union((OuterJoin(node.left, node.right, node.condition), Project(alone, (*left, *right))))


def _numbers(node: Constant) -> exp.Query:
    rows: list[exp.Query] = [
        exp.select(
            exp.alias_(
                exp.Cast(this=exp.Literal.number(n), to=node.column.type.sql()), node.column.name, quoted=True
            )
        )
        for n in node.numbers
    ]
    joined = rows[0]
    for row in rows[1:]:
        joined = exp.Union(this=joined, expression=row, distinct=False)
    return joined


def _computes(block: _Block) -> bool:
    return any(not isinstance(e, exp.Column) for e in block.columns.values())


def _ordered(order: Sequence[Order], columns: Mapping[str, Expr]) -> list[Expr]:
    # where nulls go is always written: engines disagree on what goes without saying
    return [
        exp.Ordered(this=columns[o.column].copy(), desc=o.descending, nulls_first=o.nulls_first)
        for o in order
    ]


def _with_ties(order: Sequence[Order], ids: Sequence[str]) -> tuple[Order, ...]:
    named = {o.column for o in order}
    return (*order, *(Order(i) for i in ids if i not in named))


def _copied(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: [e.copy() for e in v] if isinstance(v, list) else (v.copy() if v is not None else None)
        for k, v in parts.items()
    }


def measured(measure: Measure, columns: dict[str, Expr]) -> Expr:
    """The aggregate function that computes a measure from its rows."""
    if measure.call is not None:
        return substitute(measure.call, columns)
    if measure.function == "rows" or measure.argument is None:
        return exp.Count(this=exp.Star())
    value: Expr = columns[measure.argument].copy()
    if measure.function == "count":
        return exp.Count(this=value)
    if measure.function in ("min", "max") and measure.column.type == BOOLEAN:  # not every engine orders them
        return exp.LogicalAnd(this=value) if measure.function == "min" else exp.LogicalOr(this=value)
    if measure.function in ("min", "max"):
        return exp.Min(this=value) if measure.function == "min" else exp.Max(this=value)
    if measure.function in ("mass", "magnitude"):
        value = exp.Abs(this=exp.Cast(this=value, to=measure.column.type.sql()))
    total = exp.Coalesce(this=exp.Sum(this=value), expressions=[exp.Literal.number(0)])
    return exp.Cast(this=total, to=measure.column.type.sql())


def _of(alias: str, name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias))


def _named(value: Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _select(block: _Block, columns: tuple[Column, ...]) -> exp.Select:
    outputs = [_named(block.columns[c.name].copy(), c.name) for c in columns]
    if not outputs:  # a diff over a node without IDs: that it has a row is all it says
        outputs = [_named(exp.Literal.number(1), "one")]
    return _from(exp.Select(expressions=outputs), block)


def _from(query: exp.Select, block: _Block) -> exp.Select:
    query.set("from_", exp.From(this=block.sources[0].relation))
    for source in block.sources[1:]:
        always = isinstance(source.on, exp.Boolean)
        join = exp.Join(this=source.relation)
        if source.left:
            join.set("side", "FULL" if source.full else "LEFT")
        elif always:
            join.set("kind", "CROSS")
        if source.left or not always:
            join.set("on", source.on)
        query.append("joins", join)
    if block.where:
        query.set("where", exp.Where(this=_all_of(block.where)))
    return query


def _all_of(terms: Sequence[Expr]) -> Expr:
    """All terms joined by AND; the terms stand nowhere else, so they need no copy."""
    wrapped = [exp.Paren(this=term) if isinstance(term, exp.Or) else term for term in terms]
    joined = wrapped[0]
    for term in wrapped[1:]:
        joined = exp.And(this=joined, expression=term)
    return joined


def _matches(node: SemiJoin | LeftJoin, left: dict[str, Expr], right: dict[str, Expr]) -> list[Expr]:
    """Equality of the paired columns, null-safe where both may be null: engines hash `=` best."""
    terms: list[Expr] = []
    for a, b in node.on:
        nullable = node.left.by_name[a].nullable and node.right.by_name[b].nullable
        kind = exp.NullSafeEQ if nullable else exp.EQ
        terms.append(kind(this=left[a].copy(), expression=right[b].copy()))
    return terms


def _plain_where_not_null(condition: Expr, node: Join) -> Expr:
    """Null-safe equalities of columns of which one is never null, as plain ones."""

    def relax(part: Expr) -> Expr:
        if isinstance(part, exp.NullSafeEQ):
            sides = [part.this, part.expression]
            if all(isinstance(s, exp.Column) for s in sides) and not all(
                node.by_name[s.name].nullable for s in sides
            ):
                return exp.EQ(this=part.this, expression=part.expression)
        return part

    return condition.transform(relax)  # of a copy
