"""How keys are found: the functions of a key space and of its indexes, as source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewkeep.fivm.compiled.program import Space
from viewkeep.fivm.compiled.writer import Function

# splitmix64's, as signed integers
HASH = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
# of an index: its hash table, keys, first and number of each group's keys, the longest group, how many groups
# there are, and the next of each key
INDEX_ARRAYS = "tkhcmng"


def index_arrays(space: Space) -> list[str]:
    """The arrays of a space's indexes, which whoever adds a key needs."""
    return [f"x{space.number}_{j}{part}" for j in range(len(space.indexes)) for part in INDEX_ARRAYS]


def _hashed(names: Sequence[str]) -> list[str]:
    """Mixes values to a hash: multiplications that wrap around, by the constants of splitmix64. Signed
    integers throughout: each change of a type would cost the compiler a call to resolve."""
    lines = ["h = 0"]
    for name in names:
        lines += [
            f"h = (h ^ {name}) * {HASH[0]}",
            f"h = (h ^ (h >> 29)) * {HASH[1]}",
        ]
    return [*lines, "h ^= h >> 32"]


def _probe(names: Sequence[str], found: str, missing: Sequence[str]) -> list[str]:
    """Looks a value up in an open hash table of numbers plus one, by linear probing."""
    equal = " and ".join(f"k[s, {i}] == {name}" for i, name in enumerate(names)) or "True"
    return [
        *_hashed(names),
        "mask = t.shape[0] - 1",
        "i = h & mask",
        "while True:",
        "    s = t[i] - 1",
        "    if s < 0:",
        *(f"        {line}" for line in missing),
        f"    if {equal}:",
        f"        return {found}",
        "    i = (i + 1) & mask",
    ]


def space_functions(space: Space) -> Iterator[Function]:
    """find and add of a space, and of its indexes."""
    number, names = space.number, [f"a{i}" for i in range(len(space.variables))]
    for j, by in enumerate(space.indexes):
        some = names[: len(by)]
        yield _find(f"findx{number}_{j}", some)
        yield _add(f"addx{number}_{j}", some, [], [])
    yield _find(f"find{number}", names)
    entered = []
    for j, by in enumerate(space.indexes):
        x = f"x{number}_{j}"
        key = "".join(f", {names[space.variables.index(v)]}" for v in by)
        entered += [
            f"g = addx{number}_{j}({x}t, {x}k, {x}n{key})",
            f"{x}g[s] = {x}h[g]",
            f"{x}h[g] = s",
            f"{x}c[g] += 1",
            f"if {x}c[g] > {x}m[0]:",
            f"    {x}m[0] = {x}c[g]",
        ]
    yield _add(f"add{number}", names, index_arrays(space), entered)


def _find(name: str, keys: Sequence[str]) -> Function:
    """The number of a key, or -1."""
    lines = [f"    {line}" for line in _probe(keys, "s", ["return -1"])]
    return Function("helper", name, ("t", "k", *keys), tuple(lines))


def _add(name: str, keys: Sequence[str], arrays: Sequence[str], entered: Sequence[str]) -> Function:
    """The number of a key, the next one where it has none: then it is entered in the indexes."""
    missing = ["s = n[0]", "n[0] = s + 1", "t[i] = s + 1"]
    missing += [f"k[s, {i}] = {key}" for i, key in enumerate(keys)]
    lines = [f"    {line}" for line in _probe(keys, "s", [*missing, *entered, "return s"])]
    return Function("helper", name, ("t", "k", "n", *keys, *arrays), tuple(lines))
