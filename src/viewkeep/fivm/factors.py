"""Changes that are products: propagated factor by factor (F-IVM, section 5).

A change of R[A, B] by u[A] ⊗ v[B] has |u| · |v| rows, but takes |u| + |v| of space; on its way up a sum over
A concerns u alone. Siblings are joined with the factors that they share variables with, and what is
independent stays a product until a stored view needs it as rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import Any, Generic

from viewkeep.errors import TypeMismatch
from viewkeep.fivm.incoming import as_payload
from viewkeep.fivm.query import Relation
from viewkeep.fivm.rings import P, Ring
from viewkeep.fivm.storage import Delta, Key, Stored, collected, picker
from viewkeep.fivm.tree import View


@dataclass(frozen=True)
class Factor(Generic[P]):
    """A relation that is one factor of a product."""

    schema: tuple[str, ...]
    rows: Delta[P]


Lifts = Mapping[str, Callable[[Any], P]]


@dataclass(frozen=True)
class Product(Generic[P]):
    """A change of a relation: a product of factors that together have its variables, each once."""

    factors: tuple[Factor[P], ...]

    def check(self, relation: Relation) -> None:
        """Refuses a product that is none of this relation."""
        names = [v for factor in self.factors for v in factor.schema]
        if sorted(names) != sorted(relation.schema):
            raise TypeMismatch(
                f"a product over {', '.join(names)} is no change of {relation}",
                hint="let each variable of the relation be in one factor",
            )
        for factor in self.factors:
            for key in factor.rows:
                if not isinstance(key, tuple) or len(key) != len(factor.schema):
                    raise TypeMismatch(
                        f"{key!r} is no row of a factor over {', '.join(factor.schema)}",
                        hint=f"give tuples of {len(factor.schema)} values",
                    )

    def renamed(self, names: Mapping[str, str]) -> Product[P]:
        """The same over other variables."""
        return Product(tuple(Factor(tuple(names[v] for v in f.schema), f.rows) for f in self.factors))

    def of(self, ring: Ring[P]) -> Product[P]:
        """The same with numbers of rows as payloads of the ring."""
        return Product(
            tuple(
                Factor(f.schema, collected(ring, ((k, as_payload(ring, p)) for k, p in f.rows.items())))
                for f in self.factors
            )
        )


def advanced(
    factors: Sequence[Factor[P]],
    view: View,
    siblings: Sequence[Stored[P]],
    ring: Ring[P],
    lifts: Lifts[P],
    seen: Callable[[P], P],
) -> tuple[Factor[P], ...]:
    """The change of a view as a product, from that of one of its sources."""
    now = [Factor(f.schema, {key: seen(p) for key, p in f.rows.items()}) for f in factors]
    left = list(siblings)
    while True:
        # a variable that no sibling left has is summed at once, in its own factor
        waiting = {v for sibling in left for v in sibling.keys}
        gone = [v for v in view.summed if v not in waiting]
        now = [_summed(f, [v for v in f.schema if v in gone], ring, lifts) for f in now]
        if not left or not all(f.rows for f in now):
            return _scalars_last(now, ring)
        known = {v for f in now for v in f.schema}
        best = max(left, key=lambda s: (len(known & set(s.keys)), -len(s.keys), -len(s.rows)))
        left.remove(best)
        touching = [f for f in now if set(f.schema) & set(best.keys)]
        apart = [f for f in now if not set(f.schema) & set(best.keys)]
        now = [*apart, _joined(touching, best, ring, seen)]


def _joined(
    touching: Sequence[Factor[P]], sibling: Stored[P], ring: Ring[P], seen: Callable[[P], P]
) -> Factor[P]:
    """The factors that share variables with a sibling, joined with it, from the smaller side."""
    own = [v for f in touching for v in f.schema]
    shared = tuple(v for v in sibling.keys if v in own)
    new = tuple(v for v in sibling.keys if v not in own)
    schema = (*own, *new)
    rest = picker([sibling.keys.index(v) for v in new])
    rows: dict[Key, P] = {}
    if touching and prod(len(f.rows) for f in touching) <= len(sibling.rows):
        sibling.index(shared)
        part = picker([own.index(v) for v in shared])
        for key, payload in expanded(touching, own, ring).items():
            for match in sibling.matches(shared, part(key)):
                rows[key + rest(match)] = ring.multiply(payload, seen(sibling.rows[match]))
        return Factor(schema, rows)
    sides = [_side(f, sibling.keys, ring) for f in touching]
    for match, payload in sibling.rows.items():
        found = [[*side.matches(bound, part(match))] for side, bound, part in sides]
        for keys in combinations(*found):
            total = seen(payload)
            for (side, _, _), key in zip(sides, keys, strict=True):
                total = ring.multiply(total, side.rows[key])
            rows[tuple(x for key in keys for x in key) + rest(match)] = total
    return Factor(schema, rows)


def _side(
    factor: Factor[P], keys: tuple[str, ...], ring: Ring[P]
) -> tuple[Stored[P], tuple[str, ...], Callable[[Key], Key]]:
    """A factor to be looked up by what it shares with some keys."""
    side = Stored(factor.schema, ring)
    side.rows = dict(factor.rows)
    bound = tuple(v for v in factor.schema if v in keys)
    side.index(bound)
    return side, bound, picker([keys.index(v) for v in bound])


def _summed(factor: Factor[P], gone: Sequence[str], ring: Ring[P], lifts: Lifts[P]) -> Factor[P]:
    if not gone:
        return factor
    kept = [i for i, v in enumerate(factor.schema) if v not in gone]
    lifted = [(i, lifts[v]) for i, v in enumerate(factor.schema) if v in gone and v in lifts]
    part = picker(kept)

    def rows() -> Any:
        for key, payload in factor.rows.items():
            for i, lift in lifted:
                payload = ring.multiply(payload, lift(key[i]))
            yield part(key), payload

    return Factor(part(factor.schema), collected(ring, rows()))  # type: ignore[arg-type]


def _scalars_last(factors: Sequence[Factor[P]], ring: Ring[P]) -> tuple[Factor[P], ...]:
    """All factors without variables as one, the last."""
    scalars = [f for f in factors if not f.schema]
    if not scalars:
        return tuple(factors)
    return (*(f for f in factors if f.schema), Factor((), expanded(scalars, (), ring)))


def expanded(factors: Sequence[Factor[P]], keys: Sequence[str], ring: Ring[P]) -> dict[Key, P]:
    """The rows of a product."""
    names = [v for f in factors for v in f.schema]
    order = picker([names.index(v) for v in keys])

    def rows() -> Any:
        for chosen in combinations(*(f.rows.items() for f in factors)):
            payload = ring.one
            for _, factor in chosen:
                payload = ring.multiply(payload, factor)
            yield order(tuple(x for key, _ in chosen for x in key)), payload

    return collected(ring, rows())
