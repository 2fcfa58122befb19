"""Plans -> SQL syntax trees, which every engine writes in its own dialect. Neighbouring operators share
one SELECT, so that a person can read the result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

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
    same,
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
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    UnionAll,
    Window,
    passing,
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
from viewkeep.script.blocks import (
    Block,
    Source,
    computes,
    copied,
    matches,
    measured,
    named,
    numbers,
    of,
    ordered,
    plain_where_not_null,
    reading,
    selected,
    with_ties,
)

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
                return selected(source, node.columns).distinct(copy=False)
            return joined
        if isinstance(node, Aggregate):
            return self._grouped(node)
        if isinstance(node, UnionAll):
            return self.query(_lined_up(node))
        if isinstance(node, Constant):
            return numbers(node)
        return selected(self._block(node), node.columns)

    def _alias(self) -> str:
        # not what a column is called: in a subquery t1.x would be taken for a field of its column t1
        while True:
            self._aliases += 1
            if f"t{self._aliases}" not in (self._columns or ()):
                return f"t{self._aliases}"

    def _block(self, node: Node) -> Block:
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
            return self._wrapped(selected(block, node.columns), node.columns) if node.apart else block
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
            return Block(one.sources, dict(nulls), [exp.false()])
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

    def _leaf(self, relation: Expr, names: list[tuple[str, str]]) -> Block:
        return self._aliased(relation.copy(), names)

    def _aliased(self, relation: Expr, names: list[tuple[str, str]]) -> Block:
        """A source of its own; the relation stands nowhere else."""
        alias = self._alias()
        relation.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return Block([Source(relation)], {n: of(alias, base) for n, base in names})

    def _without_literals(self, block: Block, node: Node, names: Sequence[str]) -> Block:
        """GROUP BY 2 and ORDER BY 2 would mean the second output: such columns get a name first."""
        if not any(isinstance(block.columns[n].unnest(), exp.Literal) for n in names):
            return block
        return self._wrapped(selected(block, node.columns), node.columns)

    def _wrapped(self, query: exp.Query, columns: tuple[Column, ...]) -> Block:
        return self._aliased(exp.Subquery(this=query), [(c.name, c.name) for c in columns])

    def _base_diff(self, node: BaseDiff) -> Block:
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
        kind = exp.EQ(this=of(alias, NET_KIND), expression=exp.Literal.string(node.kind))
        block.where.append(kind)
        if node.changed:
            moved = (differs(of(alias, b), of(alias, pre_name(b))) for b in node.changed)
            block.where.append(disjunction(moved))
        return block

    def _images(self, node: Images) -> Block:
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
            there = exp.NEQ(this=of(alias, NET_KIND), expression=exp.Literal.string(absent))
            block.where.append(there)
            one: Expr = exp.Literal.number(1)
            value = exp.Cast(this=one if sign > 0 else exp.Neg(this=one), to=SIGN.type.sql())
            block.columns = {**block.columns, SIGN.name: value}
            states.append(selected(block, node.columns))
        return self._wrapped(exp.Union(this=states[0], expression=states[1], distinct=False), node.columns)

    def _join(self, node: Join) -> Block:
        left = self._block(node.left)
        right = self._block(node.right)
        if left.is_restricted:
            left = self._wrapped(selected(left, node.left.columns), node.left.columns)
        if len(right.sources) > 1 or right.is_restricted:
            right = self._wrapped(selected(right, node.right.columns), node.right.columns)
        columns = {**left.columns, **right.columns}
        condition = node.condition
        if condition is not None:
            condition = self._by_one_column(plain_where_not_null(condition, node), node)
        on = substitute(condition, columns) if condition is not None else None
        source = Source(right.sources[0].relation, on if on is not None else exp.true())
        return Block([*left.sources, source], columns, left.where + right.where)

    def _left_join(self, node: LeftJoin) -> Block:
        left = self._block(node.left)
        right = self._block(node.right)
        if len(right.sources) > 1 or right.where or computes(right):
            right = self._wrapped(selected(right, node.right.columns), node.right.columns)
        terms = matches(node, left.columns, right.columns)
        on = conjunction(terms)
        source = Source(right.sources[0].relation, on if on is not None else exp.true(), left=True)
        return Block([*left.sources, source], {**left.columns, **right.columns}, left.where)

    def _outer_join(self, node: OuterJoin) -> Block:
        if node.full and not self._names.full_joins:
            return self._wrapped(self.query(_in_two_parts(node)), node.columns)
        left, right = self._block(node.left), self._block(node.right)
        if node.full and (left.where or computes(left)):
            left = self._wrapped(selected(left, node.left.columns), node.left.columns)
        # a value computed from nothing must be null where there is no partner: 1 AS x is not, if inlined
        if len(right.sources) > 1 or right.where or computes(right):
            right = self._wrapped(selected(right, node.right.columns), node.right.columns)
        columns = {**left.columns, **right.columns}
        on = substitute(node.condition, columns) if node.condition is not None else exp.true()
        source = Source(right.sources[0].relation, on, left=True, full=node.full)
        return Block([*left.sources, source], columns, left.where)

    def _mark_join(self, node: MarkJoin) -> Block:
        block, inner = self._block(node.left), self._block(node.right)
        if (
            block.is_restricted
        ):  # in one SELECT, DuckDB asks for the mark of rows that the restriction leaves out
            block = self._wrapped(selected(block, node.left.columns), node.left.columns)
            block.is_restricted = True
        if node.condition is not None:
            inner.where.append(substitute(node.condition, {**block.columns, **inner.columns}))
        found = exp.Exists(this=reading(exp.Select(expressions=[exp.Literal.number(1)]), inner))
        block.columns = {**block.columns, node.mark.name: found}
        return block

    def _window(self, node: Window) -> Block:
        sorts = [o.column for o in node.order]
        block = self._without_literals(self._block(node.input), node.input, [*node.partition, *sorts])
        order = with_ties(node.order, node.input.ids) if node.ties else node.order
        over = {
            "partition_by": [block.columns[p].copy() for p in node.partition],
            "order": exp.Order(expressions=ordered(order, block.columns)) if order else None,
            "spec": node.frame.copy() if node.frame is not None else None,
        }
        made: dict[str, Expr] = {}
        for item in node.items:
            call = exp.Window(this=substitute(item.expression, block.columns), over="OVER", **copied(over))
            made[item.name] = exp.Cast(this=call, to=item.column.type.sql())
        block.columns = {**block.columns, **made}
        return self._wrapped(selected(block, node.columns), node.columns)

    def _limit(self, node: Limit) -> Block:
        sorts = [o.column for o in node.order]
        block = self._without_literals(self._block(node.input), node.input, sorts)
        query = selected(block, node.columns)
        query = query.order_by(*ordered(with_ties(node.order, node.ids), block.columns), copy=False)
        if node.limit is not None:
            query = query.limit(node.limit, copy=False)
        if node.offset:
            query = query.offset(node.offset, copy=False)
        return self._wrapped(query, node.columns)

    def _semijoin(self, node: SemiJoin) -> Block:
        if self._seeks_by_several(node):
            return self._block(_as_join(node))
        block = self._block(node.left)
        inner = self._block(node.right)
        inner.where += matches(node, block.columns, inner.columns)
        found: Expr = exp.Exists(this=reading(exp.Select(expressions=[exp.Literal.number(1)]), inner))
        block.where.append(exp.Not(this=found) if node.anti else found)
        block.is_restricted = block.is_restricted or not node.anti
        return block

    def _seeks_by_several(self, node: SemiJoin) -> bool:
        """Whether a sought scan is restricted by columns beside the one that has the index. An engine may
        filter the scan by all columns that EXISTS equates, and then read it whole: 28 milliseconds on DuckDB
        for 300 of 6 million rows. A join can keep some out of the scan (`_by_one_column`): 4 milliseconds."""
        scan = node.left
        while isinstance(scan, Select):
            scan = scan.input
        named = {a for a, _ in node.on}
        return not node.anti and len(named) > 1 and not named.isdisjoint(self._sought.get(id(scan), ()))

    def _grouped(self, node: Aggregate) -> exp.Select:
        block = self._without_literals(self._block(node.input), node.input, node.keys)
        outputs = [named(block.columns[k].copy(), k) for k in node.keys]
        outputs += [named(measured(m, block.columns), m.name) for m in node.measures]
        query = reading(exp.Select(expressions=outputs), block)
        keys = [block.columns[k].copy() for k in node.keys]
        return query.group_by(*keys, copy=False) if keys else query


def _as_join(node: SemiJoin) -> Project:
    """A semijoin as a join with what it names, each once."""
    found = {
        b: Column(f"named:{b}", node.right.by_name[b].type, node.right.by_name[b].nullable)
        for _, b in node.on
    }
    names = Union((Project(node.right, tuple(Item(c, column(b)) for b, c in found.items())),), distinct=True)
    condition = conjunction(same(column(a), column(found[b].name)) for a, b in node.on)
    return passing(Join(names, node.left, condition), node.left.names)


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
