"""Relations over a ring in memory: keys to payloads, hash indexes on some of the keys, and a way back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from sys import getsizeof
from typing import Any, Generic

from viewkeep.fivm.rings import P, Ring, zero_test

Key = tuple[Hashable, ...]
Delta = Mapping[Key, P]

# a change that may have to be taken back: where, which key, and its payload before, if it had one
Undo = list[tuple["Stored[Any]", Key, Any]]
ABSENT = object()


def picker(positions: Sequence[int]) -> Callable[[Key], Key]:
    """Takes the values at some positions of a key."""
    chosen = tuple(positions)
    return lambda key: tuple([key[i] for i in chosen])


class Stored(Generic[P]):
    """A relation: payloads by key, none of them zero."""

    def __init__(self, keys: Sequence[str], ring: Ring[P]) -> None:
        self.keys = tuple(keys)
        self.rows: dict[Key, P] = {}
        self._add = ring.add
        self._is_zero = zero_test(ring)
        self._indexes: dict[tuple[str, ...], tuple[Callable[[Key], Key], dict[Key, dict[Key, None]]]] = {}

    def fill(self, rows: Iterable[tuple[Key, P]]) -> None:
        """Adds rows without a way back: for relations that nobody has seen yet."""
        for key, payload in rows:
            self._put(key, self._sum(key, payload))

    def add(self, delta: Delta[P], undo: Undo) -> None:
        """Adds a change; what was there before is noted."""
        for key, payload in delta.items():
            after = self._sum(key, payload)
            undo.append((self, key, self.rows.get(key, ABSENT)))
            self._put(key, after)

    def _sum(self, key: Key, payload: P) -> P | object:
        before = self.rows.get(key, ABSENT)
        after = payload if before is ABSENT else self._add(before, payload)  # type: ignore[arg-type]
        return ABSENT if self._is_zero(after) else after

    def _put(self, key: Key, payload: Any) -> None:
        if payload is ABSENT:
            if self.rows.pop(key, ABSENT) is not ABSENT:
                for part, index in self._indexes.values():
                    bucket = index[part(key)]
                    del bucket[key]
                    if not bucket:
                        del index[part(key)]
        else:
            if key not in self.rows:
                for part, index in self._indexes.values():
                    index.setdefault(part(key), {})[key] = None
            self.rows[key] = payload

    def index(self, variables: tuple[str, ...]) -> None:
        """Makes an index on some of the keys, if there is none."""
        if variables in self._indexes or variables in ((), self.keys):
            return
        part = picker([self.keys.index(v) for v in variables])
        index: dict[Key, dict[Key, None]] = {}
        for key in self.rows:
            index.setdefault(part(key), {})[key] = None
        self._indexes[variables] = part, index

    def matches(self, variables: tuple[str, ...], values: Key) -> Iterable[Key]:
        """The keys with some values of some variables, on which there is an index."""
        if variables == self.keys:
            return (values,) if values in self.rows else ()
        if not variables:
            return self.rows
        return self._indexes[variables][1].get(values, ())

    @property
    def indexed(self) -> tuple[tuple[str, ...], ...]:
        """The variables of each index."""
        return tuple(self._indexes)

    def memory(self) -> int:
        """About how many bytes it takes: its tables, keys and payloads, not what those refer to."""
        rows = getsizeof(self.rows) + sum(getsizeof(k) + getsizeof(p) for k, p in self.rows.items())
        for _, index in self._indexes.values():
            rows += getsizeof(index) + sum(getsizeof(k) + getsizeof(b) for k, b in index.items())
        return rows


def take_back(undo: Undo) -> None:
    """Takes changes back, the last one first."""
    while undo:
        stored, key, before = undo.pop()
        stored._put(key, before)


def collected(ring: Ring[P], rows: Iterable[tuple[Key, P]]) -> dict[Key, P]:
    """The sum of rows by key, without zeros."""
    found: dict[Key, P] = {}
    for key, payload in rows:
        found[key] = ring.add(found[key], payload) if key in found else payload
    is_zero = zero_test(ring)
    return {key: payload for key, payload in found.items() if not is_zero(payload)}
