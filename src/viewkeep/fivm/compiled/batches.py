"""Batches of rows as compiled kernels take them: keys as integers, lifted values as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeep.errors import TypeMismatch, UnknownColumn
from viewkeep.fivm.compiled import spaces
from viewkeep.fivm.compiled.coder import NULL, Coder
from viewkeep.fivm.compiled.program import Program
from viewkeep.fivm.compiled.rings import Cofactor, Ring, Sums
from viewkeep.fivm.compiled.summing import Summed, payloads
from viewkeep.fivm.compiled.triggers import Trigger
from viewkeep.fivm.query import Relation

# rows that go through the kernels at once; what is gathered of them has to stay in the processor's caches
CHUNK = 4096
# values past this are refused, and smaller ones where more than four are multiplied: products of sums of them
# would leave the range of doubles
LARGEST, LARGEST_PRODUCT = 1e70, 280
# so often may a row come: doubles count it exactly
MOST_TIMES = 2**53
Columns = Any
"""A pyarrow Table or RecordBatch, or a mapping from names to arrays."""
Array = np.ndarray[Any, Any]


class Batches:
    """What comes in. A refused batch leaves nothing behind, once `forget` was told what was known before."""

    def __init__(self, program: Program, ring: Ring, state: spaces.State) -> None:
        self._program, self._ring, self._state = program, ring, state
        self._largest = _largest(ring)
        self._number = np.int64 if ring.exact else np.float64
        self.deleted = False
        """Whether a key may have nothing left."""
        categories = ring.categories if isinstance(ring, Cofactor) else {}
        self.coders = {v: Coder(v, numbered=v in categories) for v in program.tree.query.variables}

    def known(self) -> list[tuple[Coder, str, int]]:
        """The values that were met so far."""
        return [(coder, coder.kind, len(coder.values)) for coder in self.coders.values()]

    def forget(self, known: Sequence[tuple[Coder, str, int]]) -> None:
        """What a batch that is refused had for values is forgotten: they may be of another kind than what
        comes next, and categories would take room."""
        for coder, kind, count in known:
            coder.forget(kind, count)
        for v in self._ring.lifted:
            self._look_up(v)

    def prepared(self, trigger: Trigger, columns: Columns, times: Any) -> tuple[spaces.State, int]:
        """The columns of a batch as kernels take them: keys as integers (`C`), lifted values as numbers
        (`L`), and how often each row is there (`w`). Rows with a NULL that joins nothing count nothing."""
        if isinstance(columns, Summed):
            return self._sums(trigger, columns)
        relation, keys, lifts = trigger.relation, trigger.keys, trigger.lifts
        count = _length(columns)
        weights = np.empty(count, self._number)
        weights[:] = _weights(times, count)
        self.deleted = self.deleted or bool(count and weights.min() <= 0)
        drops = bool(self.deleted and not weights.all())
        codes = np.empty((count, len(keys)), np.int64)
        numbers = np.empty((count, len(lifts)), self._number)
        for i, v in enumerate(keys):
            drops |= self._encode(v, _column(columns, relation, v, count), codes[:, i], weights)
        for i, v in enumerate(lifts):
            drops |= self._convert(v, _column(columns, relation, v, count), numbers[:, i], weights)
        if drops:  # kernels see no row that counts nothing: its numbers may be none
            there = weights != 0
            codes, numbers, weights = codes[there], numbers[there], weights[there]
            count = len(weights)
        if not self._ring.exact and numbers.size and not np.abs(numbers).max() <= self._largest:  # nor is NaN
            largest = np.abs(numbers).max(axis=0)
            raise self._no_number(
                next(v for v, x in zip(lifts, largest, strict=True) if not x <= self._largest)
            )
        return {"C": codes, "L": numbers, "w": weights}, count

    def _sums(self, trigger: Trigger, given: Summed) -> tuple[spaces.State, int]:
        """Sums as payloads of the first view (`X`), by its keys."""
        if not self._ring.exact:
            for v, largest in given.largest.items():
                if not largest <= self._largest:  # nor is NaN
                    raise self._no_number(v)
        count = len(given.sums[0])
        codes = np.empty((count, len(trigger.keys)), np.int64)
        for i, v in enumerate(trigger.keys):
            column = _column(given.columns, trigger.relation, v, count)
            if self._encode(v, column, codes[:, i], np.ones(count, self._number)):
                raise TypeMismatch(f"{v} is NULL in sums", hint="leave out rows in which it is")
        self.deleted = self.deleted or bool(count and given.sums[0].min() <= 0)
        view = trigger.ways[0][1][0].view
        of = {v: codes[:, i] for i, v in enumerate(trigger.keys) if v not in view.keys}
        made = [
            payloads(
                self._program, view, given, {v: of[v][at : at + CHUNK] for v in of}, slice(at, at + CHUNK)
            )
            for at in range(0, count, CHUNK)
        ]
        found = np.concatenate(made) if made else np.empty((0, self._program.width(view)))
        return {"C": codes, "X": found.astype(self._number)}, count

    def _encode(self, variable: str, column: Any, codes: Array, weights: Array) -> bool:
        """A key, or a category; whether there are rows that count nothing for it."""
        coder = self.coders[variable]
        if isinstance(column, np.ndarray) and column.dtype.kind in "iub" and coder.kind in ("", "int"):
            coder.kind = "int" if column.size else coder.kind
            codes[:] = _whole(variable, column)
            coder.refuse_least(column)
            return False
        codes[:] = coder.encode(pa.array(column))
        lifted = variable in self._ring.lifted
        is_null = codes == NULL
        drops = lifted or sum(variable in r.schema for r in self._program.tree.query.relations) > 1
        if drops:
            weights[is_null] = 0
        if lifted:
            self.lift_keys(variable)
        return bool(drops and is_null.any())

    def lift_keys(self, variable: str) -> None:
        """Looks at a key that is lifted too: a category for which there must be room, or a number."""
        self._refuse_keys(variable)
        self._look_up(variable)

    def _look_up(self, variable: str) -> None:
        """Has kernels find the number that a key stands for: itself, or that of a coded value."""
        coder, number = self.coders[variable], self._program.number(variable)
        self._state[f"lut{number}"] = coder.numbers()
        self._state[f"coded{number}"] = np.array([int(coder.is_numbered)])

    def _refuse_keys(self, variable: str) -> None:
        coder = self.coders[variable]
        room = self._ring.categories.get(variable) if isinstance(self._ring, Cofactor) else None
        if room is not None:
            if len(coder.values) > room:
                raise TypeMismatch(
                    f"{variable} has more than {room} categories",
                    hint="make room for more when the view is made",
                )
        elif coder.is_numbered:
            if self._ring.exact:
                raise TypeMismatch(
                    f"{variable} is not of integers, and the ring takes integers", hint="cast it"
                )
            if not np.abs(coder.numbers()).max() <= self._largest:
                raise self._no_number(variable)

    def _convert(self, variable: str, column: Any, numbers: Array, weights: Array) -> bool:
        """A lifted column as numbers; whether there are rows that count nothing for it."""
        if isinstance(column, np.ndarray) and column.dtype.kind in ("iub" if self._ring.exact else "iubf"):
            numbers[:] = _whole(variable, column) if self._ring.exact else column
            return False
        column = pa.array(column)
        of = pa.types
        fits = of.is_integer(column.type) or of.is_boolean(column.type) or of.is_null(column.type)
        if not self._ring.exact:
            fits = fits or of.is_floating(column.type) or of.is_decimal(column.type)
        if not fits:
            wanted = "integers" if self._ring.exact else "numbers"
            raise TypeMismatch(f"{variable} is {column.type}, and the ring takes {wanted}", hint="cast it")
        try:
            column = column.cast(pa.int64() if self._ring.exact else pa.float64(), safe=self._ring.exact)
        except pa.ArrowInvalid as problem:
            raise _too_large(variable) from problem
        drops = bool(column.null_count)
        if drops:
            weights[column.is_null().to_numpy(zero_copy_only=False)] = 0
            column = column.fill_null(0)
        numbers[:] = column.to_numpy()
        return drops

    def _no_number(self, variable: str) -> TypeMismatch:
        return TypeMismatch(
            f"{variable} has a value that is not finite, or is past {self._largest:g}; nothing was changed",
            hint="leave such rows out, or scale the column",
        )


def _largest(ring: Ring) -> float:
    """The largest value that a ring takes."""
    most = max((len(product) for product in ring.products), default=0) if isinstance(ring, Sums) else 2
    return LARGEST if most * 70 <= LARGEST_PRODUCT else 10.0 ** (LARGEST_PRODUCT // most)


def _too_large(variable: str) -> TypeMismatch:
    return TypeMismatch(
        f"{variable} has an integer that does not fit into 64 bits; nothing was changed",
        hint="leave such rows out, or cast the column",
    )


def _whole(variable: str, column: Array) -> Array:
    """Integers, which must have room in 64 bits with their sign."""
    if column.dtype == np.uint64 and column.size and column.max() > np.iinfo(np.int64).max:
        raise _too_large(variable)
    return column


def _weights(times: Any, count: int) -> int | Array:
    """How often each of so many rows comes, where that is said for all of them or for each."""
    if type(times) is int and abs(times) <= MOST_TIMES:
        return times
    given = np.asarray(times)
    if given.dtype.kind not in "iubf" or given.shape not in ((), (count,)):
        raise TypeMismatch(
            f"the number of times that {count} rows come is {given.dtype} of shape {given.shape}",
            hint="give one integer, or one for each row",
        )
    is_whole = given.dtype.kind != "f" or bool((given == np.floor(given)).all())  # NaN is not
    if given.size and not (is_whole and max(given.max(), -given.min()) <= MOST_TIMES):
        raise TypeMismatch(
            "a row cannot come a number of times that is no integer, or larger than 2**53",
            hint="give 1 for rows that are inserted, and -1 for those that are deleted",
        )
    return given


def _length(columns: Columns) -> int:
    if isinstance(columns, Mapping):
        return len(next(iter(columns.values()))) if columns else 0
    return int(columns.num_rows)


def _column(columns: Columns, relation: Relation, variable: str, count: int) -> Any:
    """A column of a batch as an array."""
    name = relation.column(variable) if relation.columns else variable
    try:
        column = columns[name] if isinstance(columns, Mapping) else columns.column(name)
    except KeyError as problem:
        raise UnknownColumn(
            f"the batch for {relation.source} has no column {name}",
            hint=f"it needs {', '.join(relation.schema)}",
        ) from problem
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    shape = column.shape if isinstance(column, np.ndarray) else (len(column),)
    if shape != (count,):
        raise TypeMismatch(
            f"column {name} of the batch for {relation.source} has the shape {shape}, not ({count},)",
            hint="give columns of the same length",
        )
    if isinstance(column, pa.Array) or (isinstance(column, np.ndarray) and column.dtype.kind in "iubf"):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowException, OverflowError) as problem:
        raise TypeMismatch(
            f"column {name} of the batch for {relation.source} is not of one type: {problem}",
            hint="give values of one type, 64 bits wide at the most",
        ) from problem
