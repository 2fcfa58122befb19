"""How the change of one source of a view is joined with its other sources: an order of lookups.

Each lookup takes the rows of a sibling that agree with what is known by then, through an index on those of
its keys. Siblings that are known best come first, so that those that only filter do it before others
multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeep.errors import Unsupported
from viewkeep.fivm.query import Query
from viewkeep.fivm.rings import P, Ring
from viewkeep.fivm.storage import Delta, Key, Stored, collected, picker
from viewkeep.fivm.tree import View


@dataclass(frozen=True)
class Lookup:
    """One sibling: the `bound` keys that its index is on, where their values are in what is known, and what
    of its keys is new. `left`: its payload is multiplied from the left."""

    number: int
    bound: tuple[str, ...]
    known_at: tuple[int, ...]
    new_at: tuple[int, ...]
    left: bool = False


@dataclass(frozen=True)
class Plan:
    """The lookups of a step in their order; `known` are the variables after the last of them."""

    known: tuple[str, ...]
    lookups: tuple[Lookup, ...]
    keys_at: tuple[int, ...]
    summed_at: tuple[tuple[str, int], ...]


def plans(view: View, entering: int, ranks: Sequence[int] | None = None) -> tuple[Plan, ...]:
    """The plans of a step. One, but where the view is a cyclic join: then one for each sibling that may come
    first, and each row takes the one that has the fewest matches. That bounds the cost of a batch by the size
    of the cyclic join (example B.3). `ranks`: the places of the children in a product whose order counts."""
    others = [i for i in range(len(view.sources)) if i != entering]
    known = view.sources[entering].keys
    firsts: list[int | None] = [None]
    if view.indicators and ranks is None:
        shares = {i: len(set(view.sources[i].keys) & set(known)) for i in others}
        if all(shares[i] < len(view.sources[i].keys) for i in others):
            firsts = [i for i in others if shares[i]] or firsts
    return tuple(_plan(view, entering, others, first, ranks) for first in firsts)


def _plan(
    view: View, entering: int, others: Sequence[int], first: int | None, ranks: Sequence[int] | None
) -> Plan:
    known = list(view.sources[entering].keys)
    left, lookups = list(others), []
    # the places that the product has reached, none yet where an indicator, which is one or minus one, enters
    reached = [ranks[entering]] * 2 if ranks and entering < len(view.children) else []

    def next_to(number: int) -> bool:
        """Whether the product so far and this factor have no other between them."""
        if ranks is None or number >= len(view.children) or not reached:
            return True
        return ranks[number] in (reached[0] - 1, reached[1] + 1)

    def worth(number: int) -> tuple[bool, int, int]:
        keys = view.sources[number].keys
        shared = sum(v in known for v in keys)
        return shared == len(keys), shared, -(len(keys) - shared)

    while left:
        best = first if first in left else max((n for n in left if next_to(n)), key=worth)
        assert best is not None
        left.remove(best)
        from_left = False
        if ranks is not None and best < len(view.children):
            reached = reached or [ranks[best]] * 2
            from_left = ranks[best] < reached[0]
            reached[0 if from_left else 1] = ranks[best]
        keys = view.sources[best].keys
        bound = tuple(v for v in keys if v in known)
        new = tuple(v for v in keys if v not in known)
        known_at = tuple(known.index(v) for v in bound)
        lookups.append(Lookup(best, bound, known_at, tuple(keys.index(v) for v in new), from_left))
        known += new
    return Plan(
        tuple(known),
        tuple(lookups),
        tuple(known.index(v) for v in view.keys),
        tuple((v, known.index(v)) for v in view.summed),
    )


def run(
    choices: Sequence[Plan],
    delta: Delta[P],
    sources: Sequence[Stored[P]],
    ring: Ring[P],
    lifts: Mapping[str, Callable[[Any], P]],
    seen: Callable[[P], P],
) -> dict[Key, P]:
    """The change of a view: a change of one source, joined with the others, lifted and summed. `sources` has
    the stored relation of each sibling, at its number; `seen` is what a view above sees of a payload."""
    ready = [_Ready(plan, sources, ring, lifts, seen) for plan in choices]

    def rows() -> Any:
        for key, payload in delta.items():
            best = ready[0] if len(ready) == 1 else min(ready, key=lambda r: r.first_matches(key))
            yield from best.joined(key, seen(payload))

    return collected(ring, rows())


class _Ready:
    """A plan with its relations at hand."""

    def __init__(
        self,
        plan: Plan,
        sources: Sequence[Stored[Any]],
        ring: Ring[Any],
        lifts: Mapping[str, Callable[[Any], Any]],
        seen: Callable[[Any], Any],
    ) -> None:
        self.lookups = [
            (sources[k.number], k.bound, picker(k.known_at), picker(k.new_at), k.left) for k in plan.lookups
        ]
        self.key = picker(plan.keys_at)
        self.lifts = [(lifts[v], at) for v, at in plan.summed_at if v in lifts]
        self.multiply, self.seen = ring.multiply, seen

    def first_matches(self, key: Key) -> int:
        stored, bound, known, _, _ = self.lookups[0]
        return len(stored.matches(bound, known(key)))  # type: ignore[arg-type]

    def joined(self, key: Key, payload: Any) -> Any:
        partial = [(key, payload)]
        for stored, bound, known, new, left in self.lookups:
            longer = []
            for have, product in partial:
                for match in stored.matches(bound, known(have)):
                    factor = self.seen(stored.rows[match])
                    longer.append(
                        (
                            have + new(match),
                            self.multiply(factor, product) if left else self.multiply(product, factor),
                        )
                    )
            partial = longer
        for have, product in partial:
            for lift, at in self.lifts:
                product = self.multiply(product, lift(have[at]))
            yield self.key(have), product


def product_ranks(view: View, query: Query) -> tuple[int, ...]:
    """The places of a view's children in its product where the order of factors counts: as the query names
    the relations. Refused where the tree interleaves them."""
    place = {relation.name: i for i, relation in enumerate(query.relations)}
    spans = [sorted(place[r] for r in child.relations) for child in view.children]
    order = sorted(range(len(spans)), key=lambda i: spans[i])
    flat = [p for i in order for p in spans[i]]
    if flat != sorted(flat):
        names = ", ".join(query.relations[p].name for p in sorted(flat))
        raise Unsupported(
            f"the view {view.name} would change the order of the factors {names}, and the ring's product is "
            "not commutative",
            hint="name the relations in the order in which the variable order joins them",
        )
    return tuple(order.index(i) for i in range(len(spans)))


def needed_indexes(choices: Sequence[Plan]) -> list[tuple[int, tuple[str, ...]]]:
    """The indexes that the lookups of a step need: on which source, on which keys."""
    return [(k.number, k.bound) for plan in choices for k in plan.lookups]
