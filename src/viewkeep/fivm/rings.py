"""Rings: what payloads are, and how they are added and multiplied (F-IVM, section 2 and appendix A).

A view tree joins and sums keys; what it computes is up to the ring of its payloads. Numbers give COUNT and
SUM, tuples of rings several aggregates in one pass, other rings regression (regression.py) and whole
relations (relational.py). A ring is any object with `zero`, `one`, `add`, `multiply` and `negate`; it says by
`commutative` whether factors may change places, which `checked` (laws.py) finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from fractions import Fraction
from math import isfinite
from typing import Any, Protocol, TypeVar

from viewkeep.errors import Unsupported, ViewkeepError

P = TypeVar("P")
Lift = Callable[[Any], P]


class Ring(Protocol[P]):
    """What payloads need. Optional: `is_zero(a)` (by default: equals zero), `has(a)` (whether something is a
    value of the ring), `lifts` or `lift_<variable>` (what the values of variables are in the ring)."""

    @property
    def zero(self) -> P: ...
    @property
    def one(self) -> P: ...
    def add(self, a: P, b: P, /) -> P: ...
    def multiply(self, a: P, b: P, /) -> P: ...
    def negate(self, a: P, /) -> P: ...


class RingProblem(ViewkeepError):
    """A value that a ring does not have, or arithmetic that leaves it."""

    code = "ring"


class BadLift(RingProblem):
    """A lift fails for a value, or gives what the ring does not have."""

    code = "bad_lift"


def zero_test(ring: Ring[P]) -> Callable[[P], bool]:
    """How to tell whether a payload is zero."""
    own: Callable[[P], bool] | None = getattr(ring, "is_zero", None)
    if own is not None:
        return own
    zero = ring.zero
    return lambda a: bool(a == zero)


def is_commutative(ring: Ring[Any]) -> bool:
    """Whether a * b = b * a, as the ring says. Refused where it does not say: a view tree changes the order
    of factors, and a wrong guess would be a wrong view."""
    said: bool | None = getattr(ring, "commutative", None)
    if said is None:
        raise Unsupported(
            f"the ring {named(ring)} does not say whether its product is commutative",
            hint="use checked(ring, samples), which finds out, or give the ring an attribute `commutative`",
        )
    return said


def named(ring: Ring[Any]) -> str:
    """A ring in messages."""
    return getattr(ring, "name", None) or type(ring).__name__


def multiple(ring: Ring[P], number: int) -> P:
    """`number` times one: the payload of so many equal rows, by doubling."""
    if number < 0:
        return ring.negate(multiple(ring, -number))
    total, power = ring.zero, ring.one
    while number:
        if number % 2:
            total = ring.add(total, power)
        number //= 2
        if number:
            power = ring.add(power, power)
    return total


def own_lifts(ring: Ring[P]) -> dict[str, Lift[P]]:
    """The lifts that a ring itself has: in `lifts`, or as methods `lift_<variable>`."""
    mark = "lift_"
    methods = {name.removeprefix(mark): getattr(ring, name) for name in dir(ring) if name.startswith(mark)}
    return {**methods, **getattr(ring, "lifts", {})}


class _Numbers:
    """Numbers with the arithmetic of Python."""

    zero: Any = 0
    one: Any = 1
    commutative = True

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def multiply(self, a: Any, b: Any) -> Any:
        return a * b

    def negate(self, a: Any) -> Any:
        return -a

    def quotient(self, value: Fraction) -> Any:
        """An exact fraction in the form in which averages of these numbers are given."""
        return float(value)


class Integers(_Numbers):
    """Whole numbers of any size: COUNT, and sums of integers."""

    def has(self, a: object) -> bool:
        return isinstance(a, int)


class Rationals(_Numbers):
    """Fractions: sums of doubles and decimals without any rounding."""

    zero, one = Fraction(0), Fraction(1)

    def has(self, a: object) -> bool:
        return isinstance(a, (int, Fraction))

    def quotient(self, value: Fraction) -> Fraction:
        return value


class Reals(_Numbers):
    """Doubles. What is not finite is refused: it could never be taken out again. Sums are rounded, so that a
    sum of what was inserted and deleted may be a little off zero; `Rationals` and `Decimals` are exact."""

    zero, one = 0.0, 1.0

    def has(self, a: object) -> bool:
        return isinstance(a, (int, float)) and isfinite(a)

    def add(self, a: float, b: float) -> float:
        return _finite(a + b, a, "+", b)

    def multiply(self, a: float, b: float) -> float:
        return _finite(a * b, a, "*", b)


def _finite(result: float, a: float, sign: str, b: float) -> float:
    if not isfinite(result):
        raise RingProblem(f"{a} {sign} {b} is not finite", hint="scale the values, or use Rationals()")
    return result


class Decimals(_Numbers):
    """Decimal numbers, exact: what does not fit `digits` is an error, never rounded."""

    zero, one = Decimal(0), Decimal(1)

    def __init__(self, digits: int = 1000) -> None:
        self._exact = Context(prec=digits, traps=[Inexact, Overflow, InvalidOperation, DivisionByZero])

    def has(self, a: object) -> bool:
        return isinstance(a, Decimal) and a.is_finite()

    def add(self, a: Decimal, b: Decimal) -> Decimal:
        return self._computed(self._exact.add, a, b)

    def multiply(self, a: Decimal, b: Decimal) -> Decimal:
        return self._computed(self._exact.multiply, a, b)

    def negate(self, a: Decimal) -> Decimal:
        return a.copy_negate() if a else a

    def quotient(self, value: Fraction) -> Decimal:
        return Decimal(value.numerator) / Decimal(value.denominator)

    def _computed(self, operation: Callable[[Decimal, Decimal], Decimal], a: Decimal, b: Decimal) -> Decimal:
        try:
            return operation(a, b)
        except Inexact as problem:
            raise RingProblem(
                f"a decimal result needs more than {self._exact.prec} digits",
                hint="use Decimals(digits=...) with more of them",
            ) from problem


class Tuple:
    """Several rings side by side, each component for itself."""

    def __init__(self, *rings: Ring[Any]) -> None:
        self.rings = rings
        self.zero = tuple(ring.zero for ring in rings)
        self.one = tuple(ring.one for ring in rings)
        self.commutative = all(is_commutative(ring) for ring in rings)
        self._tests = tuple(zero_test(ring) for ring in rings)

    def add(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(ring.add(x, y) for ring, x, y in zip(self.rings, a, b, strict=True))

    def multiply(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(ring.multiply(x, y) for ring, x, y in zip(self.rings, a, b, strict=True))

    def negate(self, a: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(ring.negate(x) for ring, x in zip(self.rings, a, strict=True))

    def is_zero(self, a: tuple[Any, ...]) -> bool:
        return all(test(x) for test, x in zip(self._tests, a, strict=True))

    def has(self, a: object) -> bool:
        if not isinstance(a, tuple) or len(a) != len(self.rings):
            return False
        return all(has(ring, x) for ring, x in zip(self.rings, a, strict=True))


def Pair(first: Ring[Any], second: Ring[Any]) -> Tuple:
    """Two rings side by side."""
    return Tuple(first, second)


def has(ring: Ring[Any], value: object) -> bool:
    """Whether a value is one of the ring, as far as the ring can tell."""
    test: Callable[[object], bool] | None = getattr(ring, "has", None)
    return test is None or test(value)


@dataclass(frozen=True)
class Aggregate:
    """A SQL aggregate as a ring, what values are in it, and what a payload says in the end."""

    name: str
    ring: Any
    lifts: Mapping[str, Lift[Any]]
    final: Callable[[Any], Any]
    rows: Callable[[Any], int] = field(default=lambda payload: int(payload[0]))

    def results(self, payloads: Mapping[tuple[Hashable, ...], Any]) -> dict[tuple[Hashable, ...], Any]:
        """The aggregate of each group that has rows. Of doubles, a group without any may be left with a sum a
        little off zero."""
        return {key: self.final(payload) for key, payload in payloads.items() if self.rows(payload)}


def count() -> Aggregate:
    """COUNT(*)."""
    return Aggregate("COUNT", Integers(), {}, lambda n: n, rows=lambda n: int(n))


def total(*variables: str, numbers: Any = None) -> Aggregate:
    """SUM of a product of variables, with the number of rows, so that groups without rows go."""
    numbers = numbers or Reals()
    lifts = {v: (lambda x: (1, x)) for v in variables}
    return Aggregate("SUM", Tuple(Integers(), numbers), lifts, lambda p: p[1])


def average(variable: str, numbers: Any = None) -> Aggregate:
    """AVG of a variable."""
    numbers = numbers or Reals()
    ring = Tuple(Integers(), numbers)
    return Aggregate(
        "AVG", ring, {variable: lambda x: (1, x)}, lambda p: numbers.quotient(Fraction(p[1]) / p[0])
    )


def covariance(first: str, second: str, numbers: Any = None, *, sample: bool = True) -> Aggregate:
    """COVAR_SAMP or COVAR_POP of two variables; of one with itself its variance. None for too few rows."""
    numbers = numbers or Reals()

    def final(payload: tuple[Any, ...]) -> Any:
        n, x, y, xy = payload[0], *map(Fraction, payload[1:])
        if n <= int(sample):
            return None
        return numbers.quotient((xy - x * y / n) / (n - int(sample)))

    one = numbers.one
    lifts: dict[str, Lift[Any]]
    if first == second:
        lifts = {first: lambda x: (1, x, x, numbers.multiply(x, x))}
    else:
        lifts = {first: lambda x: (1, x, one, x), second: lambda y: (1, one, y, y)}
    return Aggregate("COVAR", Tuple(Integers(), numbers, numbers, numbers), lifts, final)


def variance(variable: str, numbers: Any = None, *, sample: bool = True) -> Aggregate:
    """VAR_SAMP or VAR_POP of a variable."""
    return covariance(variable, variable, numbers, sample=sample)
