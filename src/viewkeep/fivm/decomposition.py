"""The finest product that a relation is: R[A, B] = R1[A] ⊗ R2[B] (F-IVM, example 5.1).

Found by taking one value of one variable: the factors of the rows with it are the only ones that the whole
relation can have besides the one with that variable. The rows with the rarest value are at most half of all,
so that the time is about linear in the rows and in the variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import gcd, prod
from random import Random
from typing import Any

from viewkeep.fivm.factors import Factor, expanded
from viewkeep.fivm.rings import P, Ring
from viewkeep.fivm.storage import Delta, Key, picker

Group = tuple[int, ...]


def pays(factors: Sequence[Factor[Any]], rows: int) -> bool:
    """Whether a product is worth taking: its factors have less than half the rows."""
    return len(factors) > 1 and 2 * sum(len(f.rows) for f in factors) <= rows


def decompose(schema: Sequence[str], delta: Delta[P], ring: Ring[P]) -> tuple[Factor[P], ...]:
    """The factors of a relation, the finest by its keys. Where its payloads are no product of payloads of the
    factors, exactly, it is one factor: itself. Payloads are divided for numbers; those of other rings must be
    the same for all rows."""
    whole = (Factor(tuple(schema), dict(delta)),)
    if len(schema) < 2 or not delta:
        return whole
    groups = _factors(list(delta), tuple(range(len(schema))))
    sizes = [len({part(key) for key in delta}) for part in map(picker, groups)]
    if len(groups) < 2 or prod(sizes) != len(delta):
        return whole
    factors = _payloads(schema, delta, groups, ring)
    if factors is None:
        return whole
    again = expanded(factors, schema, ring)
    return factors if again == dict(delta) else whole


def _factors(rows: Sequence[Key], at: Group) -> list[Group]:
    """The positions of each factor of a set of rows, as far as these positions go."""
    alone = [i for i in at if len({row[i] for row in rows}) == 1]
    rest = tuple(i for i in at if i not in alone)
    found: list[Group] = [(i,) for i in alone]
    if not rest:
        return found
    first, others = rest[0], rest[1:]
    counts = Counter(row[first] for row in rows)
    rarest = min(counts, key=lambda value: counts[value])
    candidates = _factors([row for row in rows if row[first] == rarest], others) if others else []
    mine = [first]
    for group, divides in zip(candidates, _dividing(rows, candidates, first), strict=True):
        if divides:
            found.append(group)
        else:
            mine += group
    return [*found, tuple(sorted(mine))]


def _dividing(rows: Sequence[Key], groups: Sequence[Group], first: int) -> list[bool]:
    """Which of some groups of positions are factors of the rows: as many rows as values of the group times
    values of the rest. Rests are told apart by sums of random numbers, one for each value, so that all groups
    take one pass; the caller verifies the outcome, so that chance never makes it wrong."""
    random = Random(0)
    numbers: list[dict[Key, int]] = []
    sums = [0] * len(rows)
    for group in (*groups, (first,)):
        part, known = picker(group), dict[Key, int]()
        for n, row in enumerate(rows):
            value = part(row)
            if value not in known:
                known[value] = random.getrandbits(128)
            sums[n] += known[value]
        numbers.append(known)
    total = len(set(sums))
    outcome = []
    for group, known in zip(groups, numbers, strict=False):
        part = picker(group)
        rests = {whole - known[part(row)] for whole, row in zip(sums, rows, strict=True)}
        outcome.append(len(rests) * len(known) == total)
    return outcome


def _payloads(
    schema: Sequence[str], delta: Delta[Any], groups: Sequence[Group], ring: Ring[Any]
) -> tuple[Factor[Any], ...] | None:
    """The factors with payloads, whose product may still differ; none where they cannot be divided."""
    pivot, at_pivot = next(iter(delta.items()))
    lines = [_line(delta, pivot, group) for group in groups]
    kinds = {type(payload) for payload in delta.values()}
    rows: list[dict[Key, Any]]
    if all(payload == at_pivot for payload in delta.values()):
        rows = [lines[0], *(dict.fromkeys(line, ring.one) for line in lines[1:])]
    elif kinds <= {int}:
        # by Gauss's lemma: integers that are a product are one of primitive vectors and a number
        divisors = [gcd(*line.values()) for line in lines]
        over = prod(at_pivot // d for d in divisors)
        rows = [{k: p // d for k, p in line.items()} for line, d in zip(lines, divisors, strict=True)]
        rows[0] = {k: p * (at_pivot // over) for k, p in rows[0].items()}
    elif kinds <= {int, Fraction}:
        rows = [lines[0], *({k: Fraction(p) / at_pivot for k, p in line.items()} for line in lines[1:])]
    elif kinds <= {int, float}:
        rows = [lines[0], *({k: p / at_pivot for k, p in line.items()} for line in lines[1:])]
    else:
        return None
    names = [tuple(schema[i] for i in group) for group in groups]
    return tuple(Factor(n, r) for n, r in zip(names, rows, strict=True))


def _line(delta: Delta[P], pivot: Key, group: Group) -> dict[Key, P]:
    """The payloads of the rows that differ from the pivot in one group alone."""
    part, rest = picker(group), picker([i for i in range(len(pivot)) if i not in group])
    return {part(key): payload for key, payload in delta.items() if rest(key) == rest(pivot)}
