"""Whether what a user gives as a ring is one: its laws, tried on samples (F-IVM, appendix A)."""

from __future__ import annotations

from cmath import isclose
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from numbers import Number
from typing import Any, Generic

from viewkeep.fivm.rings import BadLift, Lift, P, Ring, RingProblem, has, named, own_lifts, zero_test

Equal = Callable[[Any, Any], bool]
Law = tuple[str, Callable[..., Any], Callable[..., Any], int]


class RingLaw(RingProblem):
    """A law that a ring breaks, and values that show it."""

    code = "ring_law"

    def __init__(self, ring: str, law: str, values: Sequence[Any], left: Any, right: Any) -> None:
        shown = ", ".join(f"{name} = {value!r}" for name, value in zip("abc", values, strict=False))
        super().__init__(
            f"{ring} is no ring: {law} does not hold for {shown}: {left!r} is not {right!r}",
            hint="views are maintained by these laws; mend add, multiply, negate, zero or one",
        )
        self.law = law
        self.values = tuple(values)


class Checked(Generic[P]):
    """A ring whose laws hold on samples, and which knows whether its product is commutative."""

    def __init__(self, ring: Ring[P], lifts: Mapping[str, Lift[P]], commutative: bool) -> None:
        self.name = named(ring)
        self.ring = ring
        self.zero, self.one = ring.zero, ring.one
        self.add, self.multiply, self.negate = ring.add, ring.multiply, ring.negate
        self.is_zero = zero_test(ring)
        self.lifts = dict(lifts)
        self.commutative = commutative

    def has(self, a: object) -> bool:
        return has(self.ring, a)


def checked(
    ring: Ring[P] | type[Ring[P]],
    samples: Sequence[P] = (),
    *,
    lifts: Mapping[str, Lift[P]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float = 1e-9,
    equal: Equal | None = None,
) -> Checked[P]:
    """The ring, if its laws hold for all triples of zero, one, the `samples` and the lifted `values` of
    variables; otherwise `RingLaw` names the law and the values. Doubles are compared with a tolerance.

    `lifts` go before those that the ring itself has. More samples find more: that a law holds for some values
    does not prove it.
    """
    made: Ring[P] = ring() if isinstance(ring, type) else ring
    for part in ("zero", "one", "add", "multiply", "negate"):
        if not hasattr(made, part):
            raise RingProblem(f"{named(made)} is no ring: it has no {part}", hint=f"give it a {part}")
    values = values or {}
    known = {**own_lifts(made), **(lifts or {})}
    lifted = [_lifted(made, known, v, x) for v, xs in values.items() for x in xs]
    same: Equal = equal or (lambda a, b: close(a, b, tolerance))
    elements = _distinct([made.zero, made.one, *samples, *lifted], same)
    for law, left, right, arity in _laws(made):
        for chosen in product(elements, repeat=arity):
            one, other = left(*chosen), right(*chosen)
            if not same(one, other):
                raise RingLaw(named(made), law, chosen, one, other)
    times = made.multiply
    commutative = all(same(times(a, b), times(b, a)) for a, b in product(elements, repeat=2))
    said: bool | None = getattr(made, "commutative", None)
    if said and not commutative:
        a, b = next((a, b) for a, b in product(elements, repeat=2) if not same(times(a, b), times(b, a)))
        raise RingLaw(named(made), "a * b = b * a, which the ring says,", (a, b), times(a, b), times(b, a))
    return Checked(made, known, commutative if said is None else said)


def _laws(ring: Ring[Any]) -> Iterator[Law]:
    plus, times, minus, zero, one = ring.add, ring.multiply, ring.negate, ring.zero, ring.one
    yield "a + b = b + a", lambda a, b: plus(a, b), lambda a, b: plus(b, a), 2
    yield (
        "(a + b) + c = a + (b + c)",
        lambda a, b, c: plus(plus(a, b), c),
        lambda a, b, c: plus(a, plus(b, c)),
        3,
    )
    yield "0 + a = a", lambda a: plus(zero, a), lambda a: a, 1
    yield "a + 0 = a", lambda a: plus(a, zero), lambda a: a, 1
    yield "a + (-a) = 0", lambda a: plus(a, minus(a)), lambda a: zero, 1
    yield (
        "(a * b) * c = a * (b * c)",
        lambda a, b, c: times(times(a, b), c),
        lambda a, b, c: times(a, times(b, c)),
        3,
    )
    yield "a * 1 = a", lambda a: times(a, one), lambda a: a, 1
    yield "1 * a = a", lambda a: times(one, a), lambda a: a, 1
    yield (
        "a * (b + c) = a * b + a * c",
        lambda a, b, c: times(a, plus(b, c)),
        lambda a, b, c: plus(times(a, b), times(a, c)),
        3,
    )
    yield (
        "(a + b) * c = a * c + b * c",
        lambda a, b, c: times(plus(a, b), c),
        lambda a, b, c: plus(times(a, c), times(b, c)),
        3,
    )
    yield "0 * a = 0", lambda a: times(zero, a), lambda a: zero, 1
    yield "a * 0 = 0", lambda a: times(a, zero), lambda a: zero, 1


def _lifted(ring: Ring[P], lifts: Mapping[str, Lift[P]], variable: str, value: Any) -> P:
    if variable not in lifts:
        raise BadLift(f"{variable} has no lift", hint=f"give lifts={{{variable!r}: ...}}")
    return lifted(ring, variable, lifts[variable], value)


def lifted(ring: Ring[P], variable: str, lift: Lift[P], value: Any) -> P:
    """A value in the ring; that the lift fails for it, or leaves the ring, is an error that names it."""
    try:
        payload = lift(value)
    except Exception as problem:
        raise BadLift(
            f"the lift of {variable} fails for {value!r}: {problem}",
            hint="let it take every value of the column",
        ) from problem
    if not has(ring, payload):
        raise BadLift(
            f"the lift of {variable} gives {payload!r} for {value!r}, which {named(ring)} does not have",
            hint="let it give a value of the ring for every value of the column",
        )
    return payload


def _distinct(elements: Sequence[Any], same: Equal) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if not any(same(element, other) for other in found):
            found.append(element)
    return found


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Whether two payloads are equal, doubles in them up to a tolerance."""
    if isinstance(a, (float, complex)) or isinstance(b, (float, complex)):
        if not (isinstance(a, Number) and isinstance(b, Number)):
            return False
        return isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)  # type: ignore[arg-type]
    if hasattr(a, "shape"):  # an array
        from numpy import allclose, shape

        return shape(a) == shape(b) and bool(allclose(a, b, rtol=tolerance, atol=tolerance))
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return all(close(a.get(k, 0.0), b.get(k, 0.0), tolerance) for k in {*a, *b})
    if is_dataclass(a) and type(a) is type(b):
        return all(close(getattr(a, f.name), getattr(b, f.name), tolerance) for f in fields(a))
    return bool(a == b)
