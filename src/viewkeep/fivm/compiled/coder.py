"""Values of a variable as 64-bit integers, which is what kernels compare and hash."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewkeep.errors import TypeMismatch

NULL = np.iinfo(np.int64).min
NAN = float("nan")
Ints = npt.NDArray[np.int64]


class Coder:
    """The values of one variable. Integers stand for themselves; of others each gets the next number."""

    def __init__(self, variable: str, *, numbered: bool = False) -> None:
        self.variable = variable
        self.kind = "numbered" if numbered else ""
        self.values: list[Any] = []
        self._codes: dict[Any, int] = {}

    @property
    def is_numbered(self) -> bool:
        return self.kind == "numbered"

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Ints:
        """The column as integers, NULL as the least of all."""
        if pa.types.is_null(column.type):  # which may be of any kind
            return np.full(len(column), NULL, dtype=np.int64)
        kind = "int" if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) else "numbered"
        if not self.kind:
            self.kind = kind
        if self.kind == "int":
            if kind != "int":
                raise TypeMismatch(
                    f"{self.variable} has integers in one table and {column.type} in another",
                    hint="cast one of the columns",
                )
            try:
                column = column.cast(pa.int64())
            except pa.ArrowInvalid as problem:
                raise TypeMismatch(
                    f"{self.variable} has an integer that does not fit into 64 bits; nothing was changed",
                    hint="cast the column in all tables",
                ) from problem
            self.refuse_least(column.drop_null().to_numpy())
            if column.null_count:
                column = column.fill_null(int(NULL))
            return np.ascontiguousarray(column.to_numpy(), dtype=np.int64)
        encoded = pa.chunked_array([column] if isinstance(column, pa.Array) else column.chunks, column.type)
        encoded = encoded.combine_chunks().dictionary_encode()
        values = encoded.dictionary.to_pylist()
        self._refuse_other(values, column.type)
        codes = np.array([self._code(v) for v in values], dtype=np.int64)
        found: Ints = np.full(len(encoded), NULL, dtype=np.int64)
        valid = encoded.indices.is_valid().to_numpy(zero_copy_only=False)
        found[valid] = codes[encoded.indices.drop_null().to_numpy()]
        return found

    def refuse_least(self, codes: Ints) -> None:
        """One integer has no room, since NULL takes it."""
        if codes.size and codes.min() == NULL:
            raise TypeMismatch(
                f"{self.variable} has the value {NULL}, which is taken for NULL; nothing was changed",
                hint="leave such rows out, or cast the column to a decimal in all tables",
            )

    def _refuse_other(self, values: list[Any], kind: pa.DataType) -> None:
        """Strings are equal to no number, and dates to no moment: a join by both would be empty."""
        known, new = ([v for v in some if v is not None][:1] for some in (self.values, values))
        if known and new and _family(known[0]) != _family(new[0]):
            raise TypeMismatch(
                f"{self.variable} has values like {known[0]!r} in one table and {kind} in another",
                hint="cast one of the columns",
            )

    def _code(self, value: Any) -> int:
        if value != value:  # as a key NaN is one value, and no two objects of it are equal
            value = NAN
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def forget(self, kind: str, known: int) -> None:
        """Takes back the values that came after the first so many."""
        for value in self.values[known:]:
            del self._codes[value]
        del self.values[known:]
        self.kind = kind

    def decode(self, codes: Ints) -> list[Any]:
        """The values again."""
        if self.kind == "int":
            return [None if code == NULL else int(code) for code in codes]
        return [None if code == NULL else self.values[code] for code in codes]

    def numbers(self) -> npt.NDArray[np.float64]:
        """The numbered values as doubles, by number; NaN where one is no number."""
        found = [
            float(v) if isinstance(v, (int, float)) or hasattr(v, "as_tuple") else np.nan for v in self.values
        ]
        return np.array(found or [0.0], dtype=np.float64)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "values": pa.array(self.values) if self.values else None}

    def restore(self, kind: str, values: list[Any]) -> None:
        self.kind = kind
        for value in values:
            self._code(value)


def _family(value: Any) -> type:
    """Values of different families are never equal."""
    return Number if isinstance(value, Number) else type(value)
