"""Arithmetic on keys that every engine computes alike: rows are chosen by it, not by chance."""

from __future__ import annotations


def mixed(number: str, salt: int) -> str:
    """A whole number below 2^31 that looks random: a hash."""
    prime = 2_147_483_647
    first = f"(({number}) * 48271 + {salt}) % {prime}"
    return f"((({first}) ^ shiftright({first}, 15)) * 69621 % {prime})"


def shuffled(number: str, count: int) -> str:
    """The numbers below `count` in another order: neighbours come far apart."""
    return f"{number} * {_factor(count)} % {count}"


def scattered(number: str, count: int, start: int, size: int) -> str:
    """A condition that holds for `size` of the numbers below `count`, spread over all of them. Each start
    has others: `start` and `start + size` have none in common, as long as `count` is not used up."""
    shift = (count - start) % count
    return f"(({number}) * {_factor(count)} + {shift}) % {count} < {size}"


def _factor(count: int) -> int:
    # a prime that does not divide the count makes every number come up once
    return next(p for p in (6_180_339_923, 618_034_003) if count % p) % count
