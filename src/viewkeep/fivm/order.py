"""Variable orders: in which order the variables of a join are solved (F-IVM, definition 3.1).

A variable order is a forest with one node a variable. The variables of each relation lie on one path from a
root, and a relation hangs below its lowest variable. Variables in different branches are independent of each
other given those above, which is what makes factorized computation cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from viewkeep.errors import Unsupported
from viewkeep.fivm.query import Query, Relation

# where nothing is known of sizes, every relation has so many rows
UNKNOWN_ROWS = 1_000_000


@dataclass(frozen=True)
class Variable:
    """A node: a variable, what is solved below it, and the relations whose lowest variable it is."""

    name: str
    children: tuple[Variable, ...] = ()
    relations: tuple[str, ...] = ()

    def walk(self) -> Iterator[Variable]:
        """The node and all below it, the node first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class VariableOrder:
    """A forest of variables for a query."""

    query: Query
    roots: tuple[Variable, ...]

    def depends_on(self, node: Variable, above: Sequence[str]) -> tuple[str, ...]:
        """dep(X): of the variables above a node those that occur in a relation with one of its subtree."""
        below = {v.name for v in node.walk()}
        met = {v for r in self.query.relations if below & set(r.schema) for v in r.schema}
        return tuple(v for v in above if v in met)

    def text(self) -> str:
        """The order as `given` reads it."""
        return ", ".join(map(_text, self.roots))

    def __str__(self) -> str:
        return "\n".join(line for root in self.roots for line in _drawn(self, root, (), "", ""))


def _text(node: Variable) -> str:
    below = ", ".join(map(_text, node.children))
    if not below:
        return node.name
    return f"{node.name} - {{{below}}}" if len(node.children) > 1 else f"{node.name} - {below}"


def _drawn(
    order: VariableOrder, node: Variable, above: tuple[str, ...], first: str, rest: str
) -> Iterator[str]:
    dep = order.depends_on(node, above)
    free = " (free)" if node.name in order.query.free else ""
    yield f"{first}{node.name}{free}" + (f"  depends on {', '.join(dep)}" if dep else "")
    below: list[Variable | Relation] = [*node.children]
    below += [order.query.relation(name) for name in node.relations]
    for child in below:
        last = child is below[-1]
        mark, more = ("└─ ", "   ") if last else ("├─ ", "│  ")
        if isinstance(child, Relation):
            yield f"{rest}{mark}{child}"
        else:
            yield from _drawn(order, child, (*above, node.name), rest + mark, rest + more)


def given(query: Query, text: str) -> VariableOrder:
    """A variable order as a user writes it: `A - {B, C - {D, E}}`, a variable, then what is below it.

    Refused where it is none: a variable that lacks or comes twice, or a relation whose variables are not on
    one path.
    """
    tokens = _tokens(text)
    roots = _forest(tokens, text)
    if tokens:
        raise Unsupported(f"the variable order ends before {tokens[0]!r}", hint="write A - {B, C - {D}}")
    names = [node.name for root in roots for node in root.walk()]
    for name in query.variables:
        if names.count(name) != 1:
            times = "is missing" if name not in names else "comes twice"
            raise Unsupported(f"{name} {times} in the variable order {text}", hint="name each variable once")
    for name in names:
        if name not in query.variables:
            raise Unsupported(
                f"{name} is no variable of the query", hint=f"there are: {', '.join(query.variables)}"
            )
    return VariableOrder(query, _with_relations(query, roots))


def _tokens(text: str) -> list[str]:
    for mark in "-{},":
        text = text.replace(mark, f" {mark} ")
    return text.split()


def _forest(tokens: list[str], text: str) -> tuple[Variable, ...]:
    roots = [_branch(tokens, text)]
    while tokens and tokens[0] == ",":
        tokens.pop(0)
        roots.append(_branch(tokens, text))
    return tuple(roots)


def _branch(tokens: list[str], text: str) -> Variable:
    if not tokens or tokens[0] in "-{},":
        raise Unsupported(f"a variable is missing in the variable order {text!r}", hint="write A - {B, C}")
    name = tokens.pop(0)
    if not tokens or tokens[0] != "-":
        return Variable(name)
    tokens.pop(0)
    if not tokens or tokens[0] != "{":
        return Variable(name, (_branch(tokens, text),))
    tokens.pop(0)
    below = _forest(tokens, text)
    if not tokens or tokens.pop(0) != "}":
        raise Unsupported(f"a brace is not closed in the variable order {text!r}", hint="write A - {B, C}")
    return Variable(name, below)


def _with_relations(query: Query, roots: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Hangs each relation below its lowest variable."""
    paths: dict[str, tuple[str, ...]] = {}

    def visit(node: Variable, above: tuple[str, ...]) -> None:
        paths[node.name] = (*above, node.name)
        for child in node.children:
            visit(child, paths[node.name])

    for root in roots:
        visit(root, ())
    lowest: dict[str, list[str]] = {name: [] for name in paths}
    for relation in query.relations:
        if not relation.schema:
            raise Unsupported(f"{relation.name} has no variable", hint="leave it out, or give it a column")
        low = max(relation.schema, key=lambda v: len(paths[v]))
        off = [v for v in relation.schema if v not in paths[low]]
        if off:
            raise Unsupported(
                f"{off[0]} and {low}, both of {relation}, are in different branches of the variable order",
                hint="put the variables of a relation on one path from the root",
            )
        lowest[low].append(relation.name)

    def placed(node: Variable) -> Variable:
        return Variable(node.name, tuple(map(placed, node.children)), tuple(lowest[node.name]))

    return tuple(map(placed, roots))


def chosen(
    query: Query, rows: Mapping[str, int] | None = None, values: Mapping[str, int] | None = None
) -> VariableOrder:
    """A variable order by cost: `rows` of relations and distinct `values` of variables, as far as known.

    Variables are eliminated one by one, bound ones before free ones, each time one whose view has the fewest
    keys; a variable goes below the first that is eliminated of those its view depends on. For acyclic
    queries that follows a join tree from its leaves. Free variables come out on top.
    """
    rows, values = rows or {}, values or {}
    size = {r.name: rows.get(r.name, rows.get(r.source, UNKNOWN_ROWS)) for r in query.relations}
    domain = {
        v: values.get(v, min(size[r.name] for r in query.relations if v in r.schema)) for v in query.variables
    }
    factors: list[tuple[frozenset[str], float]] = [
        (frozenset(r.schema), float(size[r.name])) for r in query.relations
    ]
    keys: dict[str, frozenset[str]] = {}
    left = list(query.variables)
    while left:
        candidates = [v for v in left if v not in query.free] or left
        best = min(candidates, key=lambda v: _eliminated(v, factors, domain))
        schema, rows_left = _view_over(best, factors, domain)
        factors = [f for f in factors if best not in f[0]] + [(schema, rows_left)]
        keys[best] = schema
        left.remove(best)
    order = list(keys)
    parents = {v: next((u for u in order[order.index(v) + 1 :] if u in keys[v]), None) for v in order}

    def node(v: str) -> Variable:
        return Variable(v, tuple(node(u) for u in query.variables if parents[u] == v))

    roots = tuple(node(v) for v in query.variables if parents[v] is None)
    return VariableOrder(query, _with_relations(query, roots))


def _view_over(
    variable: str, factors: Sequence[tuple[frozenset[str], float]], domain: Mapping[str, int]
) -> tuple[frozenset[str], float]:
    """The keys of the view that joins all factors with a variable and sums it away, and about how many there
    are: no more than the values of its variables, and no more than a join of factors that have them all."""
    met = [f for f in factors if variable in f[0]]
    schema = frozenset[str]().union(*(f[0] for f in met)) - {variable}
    return schema, min(float(prod(domain[v] for v in schema)), _cover(schema, factors))


def _cover(schema: frozenset[str], factors: Sequence[tuple[frozenset[str], float]]) -> float:
    """The size of a join of few factors that have all these variables, cheapest for what they add first."""
    size, missing = 1.0, set(schema)
    while missing:
        usable = [f for f in factors if f[0] & missing]
        best = min(usable, key=lambda f: max(f[1], 1.0) ** (1 / len(f[0] & missing)))
        size *= best[1]
        missing -= best[0]
    return size


def _eliminated(
    variable: str, factors: Sequence[tuple[frozenset[str], float]], domain: Mapping[str, int]
) -> tuple[bool, float, int]:
    """What it costs to eliminate a variable next: those of one factor alone first, then by size."""
    schema, size = _view_over(variable, factors, domain)
    return sum(variable in f[0] for f in factors) > 1, size, len(schema)
