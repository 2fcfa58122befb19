"""The arrays behind key spaces, and how they grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit

from viewkeep.fivm.compiled.lookups import HASH
from viewkeep.fivm.compiled.program import Space

Array = np.ndarray[Any, Any]
State = dict[str, Array]
SMALL = 64
_ONE, _OTHER = HASH


@njit(cache=True)
def _rehash(table: Array, keys: Array, columns: int, count: int) -> None:
    """Enters keys that are there into an empty table, by the hash that kernels use."""
    mask = table.shape[0] - 1
    for s in range(count):
        h = 0
        for c in range(columns):
            h = (h ^ keys[s, c]) * _ONE
            h = (h ^ (h >> 29)) * _OTHER
        h ^= h >> 32
        i = h & mask
        while table[i] != 0:
            i = (i + 1) & mask
        table[i] = s + 1


@njit(cache=True)
def _added(table: Array, known: Array, count: Array, keys: Array, slots: Array) -> None:
    """Finds keys, or adds them; the number of each goes into `slots`. As kernels do it."""
    mask = table.shape[0] - 1
    columns = keys.shape[1]
    for r in range(keys.shape[0]):
        h = 0
        for c in range(columns):
            h = (h ^ keys[r, c]) * _ONE
            h = (h ^ (h >> 29)) * _OTHER
        h ^= h >> 32
        i = h & mask
        while True:
            s = table[i] - 1
            if s < 0:
                s = count[0]
                for c in range(columns):
                    known[s, c] = keys[r, c]
                table[i] = s + 1
                count[0] += 1
                break
            same = True
            for c in range(columns):
                same = same and known[s, c] == keys[r, c]
            if same:
                break
            i = (i + 1) & mask
        slots[r] = s


@njit(cache=True)
def _linked(groups: Array, slots: Array, first: Array, count: Array, most: Array, follows: Array) -> None:
    """Puts keys into groups of an index, each before the others."""
    for r in range(len(slots)):
        g, s = groups[r], slots[r]
        follows[s] = first[g] if count[g] else -1
        first[g] = s
        count[g] += 1
        most[0] = max(most[0], count[g])


def entered(state: State, space: Space, keys: Array) -> Array:
    """The numbers of keys in a space that has room for them; those that are new are added."""
    slots = np.zeros(len(keys), np.int64)
    if not space.variables:
        return slots
    before = int(state[f"n{space.number}"][0])
    table, known, count = (state[f"{part}{space.number}"] for part in "tkn")
    _added(table, known, count, keys, slots)
    after = int(state[f"n{space.number}"][0])
    fresh = np.arange(before, after)
    for j, by in enumerate(space.indexes):
        x = f"x{space.number}_{j}"
        columns = [space.variables.index(v) for v in by]
        groups = np.zeros(len(fresh), np.int64)
        own = np.ascontiguousarray(state[f"k{space.number}"][before:after][:, columns])
        table, known, count = (state[f"{x}{part}"] for part in "tkn")
        _added(table, known, count, own, groups)
        first, size, most, follows = (state[f"{x}{part}"] for part in "hcmg")
        _linked(groups, fresh, first, size, most, follows)
    return slots


def start(state: State, space: Space) -> None:
    """The arrays of an empty space: `t` the hash table, `k` the keys, `n` how many; of each index also the
    first (`h`) and number (`c`) of a group's keys, the next of each key (`g`), the longest group (`m`)."""
    _start_table(state, str(space.number), "", len(space.variables))
    for j, by in enumerate(space.indexes):
        x = f"x{space.number}_{j}"
        _start_table(state, x, x, len(by))
        state[f"{x}h"] = np.full(SMALL, -1, np.int64)
        state[f"{x}c"] = np.zeros(SMALL, np.int64)
        state[f"{x}g"] = np.full(SMALL, -1, np.int64)
        state[f"{x}m"] = np.zeros(1, np.int64)
    if not space.variables:  # one key, that is always there
        state[f"n{space.number}"][0] = 1
        state[f"t{space.number}"][:] = 0
        _rehash(state[f"t{space.number}"], state[f"k{space.number}"], 0, 1)


def _names(space: Space) -> list[tuple[str, str, str, int]]:
    """The names of table, keys and count of a space and of its indexes, and how many columns each has."""
    n = space.number
    found = [(f"t{n}", f"k{n}", f"n{n}", len(space.variables))]
    found += [(f"x{n}_{j}t", f"x{n}_{j}k", f"x{n}_{j}n", len(by)) for j, by in enumerate(space.indexes)]
    return found


def _start_table(state: State, number: str, prefix: str, columns: int) -> None:
    t, k, n = (f"{prefix}{part}" if prefix else f"{part}{number}" for part in "tkn")
    state[t] = np.zeros(2 * SMALL, np.int32)
    state[k] = np.zeros((SMALL, max(columns, 1)), np.int64)
    state[n] = np.zeros(1, np.int64)


def compact(state: State, space: Space, live: Array, others: Iterable[str]) -> None:
    """Keeps the keys that are `live`, numbered anew, and drops the rest."""
    kept = np.flatnonzero(live)
    for name in others:
        state[name][: len(kept)] = state[name][kept]
        state[name][len(kept) :] = -1 if name[0] in "mf" else 0
    keys = state[f"k{space.number}"]
    keys[: len(kept)] = keys[kept]
    state[f"n{space.number}"][0] = len(kept)
    state[f"t{space.number}"][:] = 0
    _rehash(state[f"t{space.number}"], keys, len(space.variables), len(kept))
    for j, by in enumerate(space.indexes):
        x = f"x{space.number}_{j}"
        columns = [space.variables.index(v) for v in by]
        groups, of, counts = np.unique(
            keys[: len(kept), columns], axis=0, return_inverse=True, return_counts=True
        )
        of = of.reshape(-1)
        order = np.argsort(of, kind="stable")
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        state[f"{x}k"][: len(groups)] = groups
        state[f"{x}n"][0] = len(groups)
        state[f"{x}c"][: len(groups)] = counts
        state[f"{x}m"][0] = counts.max(initial=0)
        state[f"{x}h"][: len(groups)] = order[firsts] if len(groups) else order
        # the next group that comes is empty, whatever there was in its place
        state[f"{x}c"][len(groups) :] = 0
        state[f"{x}h"][len(groups) :] = -1
        follows = state[f"{x}g"]
        follows[order[:-1]] = order[1:]
        follows[order[np.cumsum(counts) - 1]] = -1
        state[f"{x}t"][:] = 0
        _rehash(state[f"{x}t"], state[f"{x}k"], len(by), len(groups))


def reserve(state: State, space: Space, extra: int, others: Iterable[str]) -> None:
    """Makes room for so many more keys, also in the `others`: arrays by the numbers of this space."""
    count = int(state[f"n{space.number}"][0])
    room = state[f"k{space.number}"].shape[0]
    if count + extra <= room:
        return
    while room < count + extra:
        room *= 2
    for name in others:
        state[name] = _grown(state[name], room, -1 if name[0] in "mf" else 0)
    for t, k, n, columns in _names(space):
        state[k] = _grown(state[k], room, 0)
        state[t] = np.zeros(2 * room, np.int32)
        _rehash(state[t], state[k], columns, int(state[n][0]))
    for j in range(len(space.indexes)):
        for part, fill in (("h", -1), ("c", 0), ("g", -1)):
            name = f"x{space.number}_{j}{part}"
            state[name] = _grown(state[name], room, fill)


def _grown(array: Array, room: int, fill: int) -> Array:
    grown = np.empty((room, *array.shape[1:]), array.dtype)
    grown[: array.shape[0]] = array
    grown[array.shape[0] :] = fill
    return grown
