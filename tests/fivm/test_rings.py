"""Rings, their laws, and aggregates made of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random
from statistics import covariance, fmean, pvariance, variance
from typing import Any

import pytest

from viewkeep.errors import Unsupported
from viewkeep.fivm import rings
from viewkeep.fivm.generic import GenericRuntime
from viewkeep.fivm.laws import RingLaw, checked, close
from viewkeep.fivm.order import given
from viewkeep.fivm.query import Query, Relation
from viewkeep.fivm.rings import (
    BadLift,
    Decimals,
    Integers,
    Pair,
    Rationals,
    Reals,
    RingProblem,
    Tuple,
    multiple,
)
from viewkeep.fivm.tree import view_tree

from .test_generic import Clock, Matrices


@pytest.mark.parametrize(
    ("ring", "samples"),
    [
        (Integers(), [-3, 5, 10**30]),
        (Rationals(), [Fraction(1, 3), Fraction(-7, 2)]),
        (Reals(), [0.1, 0.2, 0.3, -1e6]),
        (Decimals(), [Decimal("0.1"), Decimal("-3.14159")]),
        (Pair(Integers(), Reals()), [(2, 0.1), (0, -5.5)]),
        (Tuple(Integers(), Decimals(), Clock()), [(2, Decimal("0.1"), 3), (1, Decimal(0), 4)]),
        (Clock(), [2, 3, 5]),
    ],
)
def test_built_in_rings_keep_the_laws(ring: Any, samples: Any) -> None:
    assert checked(ring, samples).commutative


def test_that_a_product_is_not_commutative_is_found_out() -> None:
    class Unsaid(Matrices):
        commutative = None  # type: ignore[assignment]

    samples = [(1, 2, 3, 4), (0, 1, 0, 0), (0, 0, 1, 0)]
    assert checked(Unsaid(), samples).commutative is False
    assert checked(Unsaid(), [(2, 0, 0, 2)]).commutative is True  # as far as these samples tell


class Broken(Integers):
    """Integers but for one operation."""

    commutative = None  # type: ignore[assignment]

    def __init__(self, **changed: Any) -> None:
        for name, value in changed.items():
            setattr(self, name, value)


class Maps:
    """Maps of {0, 1, 2} to itself, first one and then the other: a * (b + c) = a * b + a * c, but not the
    other way round."""

    zero, one = (0, 0, 0), (0, 1, 2)

    def add(self, a: Any, b: Any) -> Any:
        return tuple((x + y) % 3 for x, y in zip(a, b, strict=True))

    def multiply(self, a: Any, b: Any) -> Any:
        return tuple(b[x] for x in a)

    def negate(self, a: Any) -> Any:
        return tuple(-x % 3 for x in a)


@pytest.mark.parametrize(
    ("law", "ring", "samples"),
    [
        ("a + b = b + a", Broken(add=lambda a, b: a + 2 * b if a and b else a + b), [2, 3]),
        ("(a + b) + c = a + (b + c)", Broken(add=lambda a, b: a + b + (a == b == 2)), [2, 3]),
        ("0 + a = a", Broken(zero=5), [2, 3]),
        ("a + (-a) = 0", Broken(negate=lambda a: a), [2, 3]),
        ("(a * b) * c = a * (b * c)", Broken(multiply=lambda a, b: a * b + 1), [2, 3]),
        ("a * 1 = a", Broken(one=2), [2, 3]),
        ("1 * a = a", Broken(multiply=lambda a, b: a), [2, 3]),
        ("a * (b + c) = a * b + a * c", Broken(multiply=lambda a, b: a + b, one=0), [2, 3]),
        ("(a + b) * c = a * c + b * c", Maps(), [(0, 2, 2), (0, 0, 1)]),
    ],
)
def test_the_law_that_breaks_is_named(law: str, ring: Any, samples: Any) -> None:
    with pytest.raises(RingLaw) as refused:
        checked(ring, samples)
    assert refused.value.law == law
    assert refused.value.code == "ring_law"
    assert refused.value.hint
    assert f"{law} does not hold for a = {refused.value.values[0]!r}" in refused.value.message


def test_a_ring_that_claims_to_be_commutative_and_is_not() -> None:
    class Claims(Matrices):
        commutative = True

    with pytest.raises(RingLaw, match=r"a \* b = b \* a, which the ring says"):
        checked(Claims(), [(1, 2, 3, 4), (0, 1, 0, 0)])


def test_lifted_samples_take_part() -> None:
    class Halves(Integers):
        def add(self, a: int, b: int) -> int:
            return a + b if abs(a) < 100 and abs(b) < 100 else a

        def lift_X(self, x: int) -> int:
            return x * 1000

    assert set(checked(Halves(), [1, 2]).lifts) == {"X"}
    with pytest.raises(RingLaw, match="1000"):
        checked(Halves(), [1, 2], values={"X": [1]})
    with pytest.raises(BadLift, match="Y has no lift"):
        checked(Halves(), values={"Y": [1]})
    with pytest.raises(BadLift, match="lift of X fails for None"):
        checked(Halves(), values={"X": [None]})
    assert set(checked(Integers(), lifts={"A": int}, values={"A": ["7"]}).lifts) == {"A"}


def test_what_is_missing_is_named() -> None:
    class Half:
        zero, one = 0, 1

    with pytest.raises(RingProblem, match="it has no add"):
        checked(Half())  # type: ignore[arg-type]


def test_doubles_are_compared_with_a_tolerance() -> None:
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    checked(Reals(), [0.1, 0.2, 0.3])
    with pytest.raises(RingLaw):
        checked(Reals(), [0.1, 0.2, 0.3], equal=lambda a, b: a == b)
    assert close((1, 0.1 + 0.2), (1, 0.3))
    assert not close((1, 0.31), (1, 0.3))
    assert not close((1,), (1, 2))
    assert close({"a": 1e-12}, {})
    assert not close({"a": 1.0}, {})
    assert not close(None, 1.0)
    assert not close(1.0, "1.0")
    assert close(Fraction(1, 2), 0.5)
    assert close(1j, 1j + 1e-12)
    assert not close(1j, 1.0 + 1j)


def test_arrays_as_payloads_are_compared_by_their_numbers() -> None:
    numpy = pytest.importorskip("numpy")

    class Square:
        zero, one = numpy.zeros((2, 2)), numpy.eye(2)

        def add(self, a: Any, b: Any) -> Any:
            return a + b

        def multiply(self, a: Any, b: Any) -> Any:
            return a @ b

        def negate(self, a: Any) -> Any:
            return -a

        def is_zero(self, a: Any) -> bool:
            return not a.any()

    samples = [numpy.array([[1.0, 2.0], [3.0, 4.0]]), numpy.array([[0.0, 1.0], [0.0, 0.0]])]
    assert checked(Square, samples).commutative is False


def test_decimals_are_exact_or_an_error() -> None:
    ring = Decimals(digits=5)
    assert ring.add(Decimal("0.1"), Decimal("0.2")) == Decimal("0.3")
    with pytest.raises(RingProblem, match="more than 5 digits") as refused:
        ring.multiply(Decimal("1.2345"), Decimal("9.8765"))
    assert "digits=" in refused.value.hint
    assert not ring.has(Decimal("NaN"))
    assert not ring.has(1.5)


def test_multiples_by_doubling() -> None:
    assert [multiple(Integers(), n) for n in (-5, -1, 0, 1, 6, 1000)] == [-5, -1, 0, 1, 6, 1000]
    assert multiple(Clock(), 20) == 2
    assert multiple(Matrices(), -3) == (-3, 0, 0, -3)


def test_a_tuple_of_rings_is_commutative_only_if_all_are() -> None:
    assert Tuple(Integers(), Reals()).commutative
    assert not Tuple(Integers(), Matrices()).commutative
    assert not Pair(Integers(), Reals()).has((1, float("nan")))
    assert not Pair(Integers(), Reals()).has((1,))
    with pytest.raises(Unsupported):
        Tuple(Broken())


@pytest.mark.parametrize("numbers", [Reals(), Integers(), Rationals(), Decimals()])
def test_sql_aggregates_over_a_join(numbers: Any) -> None:
    random = Random(7)
    query = Query((Relation("R", ("A", "X")), Relation("S", ("A", "Y"))), ("A",))
    tree = view_tree(given(query, "A - {X, Y}"))
    kind = {"Reals": float, "Rationals": Fraction, "Decimals": Decimal}.get(type(numbers).__name__, int)
    made = {
        "n": rings.count(),
        "xy": rings.total("X", "Y", numbers=numbers),
        "avg": rings.average("X", numbers),
        "var": rings.variance("X", numbers),
        "pop": rings.variance("Y", numbers, sample=False),
        "cov": rings.covariance("X", "Y", numbers),
    }
    runtimes = {name: GenericRuntime(tree, a.ring, a.lifts) for name, a in made.items()}
    rows: dict[str, list[tuple[Any, Any]]] = {"R": [], "S": []}
    for _ in range(60):
        table = random.choice("RS")
        if rows[table] and random.random() < 0.4:
            row = rows[table].pop(random.randrange(len(rows[table])))
            change = [(row, -1)]
        else:
            row = (random.randrange(2), kind(random.randrange(-3, 9)))
            rows[table].append(row)
            change = [(row, 1)]
        for runtime in runtimes.values():
            runtime.update(table, change)
        joined: dict[Any, list[tuple[float, float]]] = {}
        for a, x in rows["R"]:
            for b, y in rows["S"]:
                if a == b:
                    joined.setdefault((a,), []).append((float(x), float(y)))
        found = {name: made[name].results(runtimes[name].result()) for name in made}
        assert all(set(groups) == set(joined) for groups in found.values())
        for key, pairs in joined.items():
            xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
            assert found["n"][key] == len(pairs)
            assert found["xy"][key] == sum(x * y for x, y in pairs)
            assert float(found["avg"][key]) == pytest.approx(fmean(xs))
            assert float(found["pop"][key]) == pytest.approx(pvariance(ys))
            if len(pairs) > 1:
                assert float(found["var"][key]) == pytest.approx(variance(xs))
                assert float(found["cov"][key]) == pytest.approx(covariance(xs, ys), abs=1e-9)
            else:
                assert found["var"][key] is None


def test_groups_without_rows_go_though_doubles_leave_a_rest() -> None:
    tree = view_tree(given(Query((Relation("R", ("A", "X")),), ("A",)), "A - X"))
    aggregate = rings.total("X")
    runtime = GenericRuntime(tree, aggregate.ring, aggregate.lifts)
    for x in (0.1, 0.2, 0.3):
        runtime.update("R", [((0, x), 1)])
    for x in (0.1, 0.2, 0.3):
        runtime.update("R", [((0, x), -1)])
    assert set(runtime.result()) == {(0,)}  # a rest of about 1e-17, and no row
    assert aggregate.results(runtime.result()) == {}
