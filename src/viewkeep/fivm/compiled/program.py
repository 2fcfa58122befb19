"""From a view tree to what its kernels work on: key spaces, stored payloads, and the stages of each update.

A key space numbers the values of some variables. All views with the same keys share one, so that a value is
looked up once however many of them are joined by it; payloads are rows of arrays by its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from viewkeep.fivm.compiled import layout
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.tree import Indicator, Leaf, Source, Step, View, ViewTree


@dataclass
class Space:
    """The values of some variables, numbered; and its indexes, by some of the variables each."""

    number: int
    variables: tuple[str, ...]
    indexes: list[tuple[str, ...]] = field(default_factory=list)

    def index(self, bound: frozenset[str]) -> int:
        """The number of the index by these variables, which is made if there is none."""
        by = tuple(v for v in self.variables if v in bound)
        if by not in self.indexes:
            self.indexes.append(by)
        return self.indexes.index(by)


@dataclass(frozen=True)
class Stage:
    """A part of an update's way: what comes in is joined along these steps, and what comes out is gathered by
    the keys of the last step's view."""

    steps: tuple[Step, ...]

    @property
    def view(self) -> View:
        return self.steps[-1].view


class Program:
    """What is stored for a view tree over a ring, and how each relation's updates go through it."""

    def __init__(self, tree: ViewTree, ring: Ring) -> None:
        self.tree = tree
        self.ring = ring
        self.spaces: dict[frozenset[str], Space] = {}
        self.stored: dict[Source, int] = {}
        """Views and leaves whose payloads are kept, numbered."""
        self.indicators: dict[tuple[View, Indicator], int] = {}
        """Indicators, numbered, by where they are: each changes when an update comes to its view, and two
        that look alike do so one after the other."""
        for source in tree.stored():
            self._space(source.keys)
            if not isinstance(source, Indicator):
                self.stored[source] = len(self.stored)
        for view in tree.views():
            for indicator in view.indicators:
                self.indicators[view, indicator] = len(self.indicators)
                self._space(indicator.keys)
                self._space(indicator.relation.schema)
        # categories last: kernels take the numbers of a row side by side
        self._categories = ring.categories if isinstance(ring, Cofactor) else {}
        self._lifted = sorted(ring.lifted, key=lambda v: v in self._categories)
        self.layouts: dict[View, layout.Layout] = {}
        self.views: dict[View, int] = {}
        for view in tree.views():
            self.views[view] = len(self.views)
            if isinstance(ring, Cofactor):
                below = [self.layouts[c] for c in view.children if isinstance(c, View)]
                own = [(v, ring.width(v)) for v in self.lifted(view)]
                self.layouts[view] = layout.product(below, own)

    def _space(self, keys: tuple[str, ...]) -> Space:
        return self.spaces.setdefault(frozenset(keys), Space(len(self.spaces), tuple(sorted(keys))))

    def number(self, variable: str) -> int:
        """A variable's number: names of the user's are not written into kernels."""
        return self.tree.query.variables.index(variable)

    def space(self, source: Source | View) -> Space:
        """The key space of a source that has one."""
        return self.spaces[frozenset(source.keys)]

    def is_gathered(self, view: View) -> bool:
        """Whether changes of a view are summed by its keys before they go on: where its keys are numbered
        anyway."""
        return view in self.stored or frozenset(view.keys) in self.spaces

    def lifted(self, view: View) -> tuple[str, ...]:
        """The variables that the ring lifts where this view sums them away."""
        return tuple(v for v in self._lifted if v in view.summed)

    def width(self, source: Source) -> int:
        """How many numbers a payload has."""
        if isinstance(self.ring, Sums):
            return len(self.ring.products)
        return self.layouts[source].width if isinstance(source, View) else 1

    def stages(self, way: tuple[Step, ...]) -> Iterator[Stage]:
        """Cuts an update's way where changes are gathered."""
        steps: list[Step] = []
        for step in way:
            steps.append(step)
            if self.is_gathered(step.view):
                yield Stage(tuple(steps))
                steps = []

    def keys_of(self, relation: str) -> tuple[str, ...]:
        """The variables of a relation that its updates need as keys: not those that the first view lifts or
        drops at once."""
        ways = self.tree.paths(relation)
        first = ways[0][0]
        assert isinstance(first.source, Leaf)
        schema = first.source.relation.schema
        if first.source in self.stored or len(first.view.sources) > 1 or len(ways) > 1:
            return schema  # an indicator counts whole rows
        return tuple(v for v in schema if v in first.view.keys)

    def lifts_of(self, relation: str) -> tuple[str, ...]:
        """The variables of a relation that its first view lifts as numbers, and that are no keys."""
        return tuple(v for v in self._lifted_at_once(relation) if v not in self._categories)

    def columns_of(self, relation: str) -> tuple[str, ...]:
        """The columns of a batch that kernels take as integers: keys, and categories."""
        categories = (v for v in self._lifted_at_once(relation) if v in self._categories)
        return (*self.keys_of(relation), *categories)

    def _lifted_at_once(self, relation: str) -> Iterator[str]:
        keys, first = self.keys_of(relation), self.tree.paths(relation)[0][0].view
        schema = self.tree.query.relation(relation).schema
        return (v for v in self.lifted(first) if v in schema and v not in keys)
