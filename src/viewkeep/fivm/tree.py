"""View trees: one view a variable of an order, each a sum over a join of its children (F-IVM, figures 3-5).

A view tree is the plan of a ring view. Which of its views are stored depends on which relations change; an
update of a relation walks from its leaf to the root, and joins what changed with the siblings on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from viewkeep.fivm.order import Variable, VariableOrder, chosen
from viewkeep.fivm.query import Query, Relation


@dataclass(frozen=True)
class Leaf:
    """An input relation."""

    relation: Relation

    @property
    def name(self) -> str:
        return self.relation.name

    @property
    def keys(self) -> tuple[str, ...]:
        return self.relation.schema

    @property
    def relations(self) -> tuple[str, ...]:
        return (self.relation.name,)


@dataclass(frozen=True)
class Indicator:
    """Which values of some variables a relation has: 1 for each, whatever its payload (appendix B)."""

    relation: Relation
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"∃{self.relation.name}"

    @property
    def relations(self) -> tuple[str, ...]:
        return (self.relation.name,)


@dataclass(frozen=True)
class View:
    """The join of its sources, with `summed` variables lifted and summed away; `keys` are left."""

    name: str
    keys: tuple[str, ...]
    summed: tuple[str, ...]
    children: tuple[View | Leaf, ...]
    indicators: tuple[Indicator, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """What it joins."""
        return (*self.children, *self.indicators)

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations whose payloads are in it. An indicator has none of its relation's."""
        return tuple(dict.fromkeys(r for child in self.children for r in child.relations))

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables of the join."""
        return (*self.keys, *self.summed)

    def walk(self) -> Iterator[View]:
        """The view and all below it, those below first."""
        for child in self.children:
            if isinstance(child, View):
                yield from child.walk()
        yield self


Source = View | Leaf | Indicator


@dataclass(frozen=True)
class Step:
    """One step of an update: the change of the source at `entering` becomes a change of the view."""

    view: View
    entering: int

    @property
    def source(self) -> Source:
        return self.view.sources[self.entering]

    @property
    def siblings(self) -> tuple[Source, ...]:
        """What the change is joined with."""
        return tuple(s for i, s in enumerate(self.view.sources) if i != self.entering)


@dataclass(frozen=True)
class ViewTree:
    """The views of a query along a variable order, and the relations that may change."""

    query: Query
    order: VariableOrder
    root: View
    updatable: frozenset[str]
    keeps_changing: bool = False
    """Whether a view that changes is stored even where no other change is joined with it."""

    def views(self) -> tuple[View, ...]:
        """All views, children first."""
        return tuple(self.root.walk())

    def stored(self) -> tuple[Source, ...]:
        """What is materialized (figure 5): the root, and each source of a view that the change of another
        source is joined with."""
        found: list[Source] = []
        for view in self.views():
            for number, source in enumerate(view.sources):
                needing = {r for s in Step(view, number).siblings for r in affecting(s)}
                if self.keeps_changing and needing:
                    needing |= affecting(source)
                if needing & self.updatable and source not in found:
                    found.append(source)
        return (*found, self.root)

    def paths(self, relation: str) -> tuple[tuple[Step, ...], ...]:
        """The ways of an update from a relation to the root: first through its payloads, then one for each
        indicator that may change with it. They are walked one after the other (appendix B), since the later
        join with what the earlier have changed."""
        return tuple(sorted(_ways(self.root, relation), key=lambda way: isinstance(way[0].source, Indicator)))

    def __str__(self) -> str:
        stored = self.stored()
        return "\n".join(_drawn(self.root, stored, "", ""))


def affecting(source: Source) -> set[str]:
    """The relations of which an update may change a source."""
    if isinstance(source, View):
        return {r for s in source.sources for r in affecting(s)}
    return set(source.relations)


def _ways(view: View, relation: str) -> Iterator[tuple[Step, ...]]:
    for number, source in enumerate(view.sources):
        step = Step(view, number)
        if isinstance(source, View):
            yield from ((*way, step) for way in _ways(source, relation))
        elif source.relation.name == relation:
            yield (step,)


def _drawn(source: Source, stored: Sequence[Source], first: str, rest: str) -> Iterator[str]:
    kept = "  stored" if source in stored else ""
    if not isinstance(source, View):
        yield f"{first}{source.name}[{', '.join(source.keys)}]{kept}"
        return
    summed = f" = ⊕ {', '.join(source.summed)}" if source.summed else " = ⊗"
    yield f"{first}{source.name}[{', '.join(source.keys)}]{summed}{kept}"
    for child in source.sources:
        last = child is source.sources[-1]
        mark, more = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _drawn(child, stored, rest + mark, rest + more)


def view_tree(
    order: VariableOrder, updatable: Collection[str] | None = None, *, indicators: bool = True
) -> ViewTree:
    """The view tree of an order (figure 3), with chains of views composed to one, and indicator projections
    where they bound a cyclic join (figure 10). `updatable`: the relations that may change, all by default."""
    query = order.query
    tops = [_at(order, root, ()) for root in order.roots]
    root = tops[0]
    if len(tops) > 1:  # a Cartesian product, joined by no variable
        free = tuple(v for v in query.free if any(v in top.keys for top in tops))
        root = View(_named(tops, ""), free, (), tuple(tops))
    root = _composed(root)
    if indicators:
        root = _with_indicators(root, query)
    if set(root.keys) == set(query.free):
        root = replace(root, keys=query.free)  # in the order that the user gave
    names = frozenset(r.name for r in query.relations) if updatable is None else frozenset(updatable)
    for name in names:
        query.relation(name)
    return ViewTree(query, order, root, names)


def first_order_tree(query: Query) -> ViewTree:
    """The tree of classical, first-order maintenance: no views but the result, over the relations as they
    are. An update is joined with all of them. For comparison."""
    children = tuple(Leaf(relation) for relation in query.relations)
    root = View(_named(children, "".join(query.bound[-1:])), query.free, query.bound, children)
    return ViewTree(query, chosen(query), root, frozenset(r.name for r in query.relations))


def _at(order: VariableOrder, node: Variable, above: tuple[str, ...]) -> View:
    """The view at a variable: a bound one is summed away, a free one stays."""
    path = (*above, node.name)
    children: list[View | Leaf] = [_at(order, child, path) for child in node.children]
    children += [Leaf(order.query.relation(name)) for name in node.relations]
    free = tuple(v for c in children for v in c.keys if v in order.query.free and v not in path)
    is_free = node.name in order.query.free
    keys = (*order.depends_on(node, above), *((node.name,) if is_free else ()), *dict.fromkeys(free))
    return View(_named(children, node.name), keys, () if is_free else (node.name,), tuple(children))


def _named(children: Sequence[View | Leaf], variable: str) -> str:
    relations = dict.fromkeys(r for child in children for r in child.relations)
    return f"V_{'_'.join(relations)}@{variable}"


def _composed(view: View) -> View:
    """Composes a chain: a view over one other view alone sums away the variables of both at a time. With free
    variables the two may be the same; then one is left."""
    children = tuple(_composed(c) if isinstance(c, View) else c for c in view.children)
    only = children[0]
    if len(children) == 1 and isinstance(only, View):
        return replace(view, summed=(*only.summed, *view.summed), children=only.children)
    return replace(view, children=children)


def _with_indicators(view: View, query: Query) -> View:
    """Joins a view with the indicators of those other relations that form a cycle with its sources: then it
    has no more keys than they have. For triangles R[A, B], S[B, C], T[C, A] the join of S and T alone may
    have N² of them; with ∃R it has at most N."""
    children = tuple(_with_indicators(c, query) if isinstance(c, View) else c for c in view.children)
    view = replace(view, children=children)
    candidates = []
    for relation in query.relations:
        shared = tuple(v for v in relation.schema if v in view.variables)
        if relation.name not in view.relations and len(shared) > 1:
            candidates.append(Indicator(relation, shared))
    edges = [frozenset(s.keys) for s in (*children, *candidates)]
    core = cyclic_core(edges)
    used = tuple(c for i, c in enumerate(candidates, start=len(children)) if i in core)
    return replace(view, indicators=used)


def cyclic_core(edges: Sequence[frozenset[str]]) -> set[int]:
    """The edges that GYO reduction leaves: none where the hypergraph is acyclic. Vertices of one edge alone
    go, then edges that lie within another, until nothing changes."""
    left = {i: set(edge) for i, edge in enumerate(edges)}
    changed = True
    while changed:
        changed = False
        for i, edge in list(left.items()):
            others = [other for j, other in left.items() if j != i]
            alone = {v for v in edge if not any(v in other for other in others)}
            if alone:
                edge -= alone
                changed = True
            if not edge or any(edge <= other for other in others):
                del left[i]
                changed = True
    return set(left)
