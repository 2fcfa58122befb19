"""Operations that kernels are made of and that Numba has no words for, as instructions of LLVM.

`run(o, at, y, a, start, size)` adds to `size` numbers of `o` as many of `a`, times `y`, and `put` sets them
to these. As loops they would go one by one: the compiler does not know that `a` is not `o`, and unrolls short
loops before it vectorizes.
`ahead(p, s, size)` has the processor fetch row `s` of `p`, of `size` numbers, while it does something else.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# doubles in a vector, and bytes in a line of the processor's caches
WIDE, LINE = 8, 64
# so many vectors are written out one after the other; more are a loop
UNROLLED = 16


def _scaled(o: Any, a: Any, size: Any, add: bool) -> Any:
    """Numbers side by side, scaled, into others or added to others."""
    if not isinstance(size, types.IntegerLiteral):
        return None  # type inference comes again, with the constant

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        target, source = (
            context.make_array(signature.args[i])(context, builder, given[i]).data for i in (0, 3)
        )
        _, at, y, _, start, _ = given
        whole, rest = divmod(signature.args[5].literal_value, WIDE)

        def some(offset: Any, count: int) -> None:
            kind = ir.VectorType(ir.DoubleType(), count)
            into, of = (
                builder.bitcast(builder.gep(data, [builder.add(first, offset)]), kind.as_pointer())
                for data, first in ((target, at), (source, start))
            )
            none, number = ir.Constant(kind, ir.Undefined), ir.IntType(32)
            lanes = ir.Constant(ir.VectorType(number, count), [0] * count)
            scale = builder.shuffle_vector(builder.insert_element(none, y, number(0)), none, lanes)
            found = builder.fmul(builder.load(of, align=8), scale, flags=("contract",))
            if add:
                found = builder.fadd(builder.load(into, align=8), found, flags=("contract",))
            builder.store(found, into, align=8)

        if whole > UNROLLED:
            with cgutils.for_range(builder, context.get_constant(types.intp, whole)) as loop:
                some(builder.mul(loop.index, context.get_constant(types.intp, WIDE)), WIDE)
        else:
            for n in range(whole):
                some(context.get_constant(types.intp, n * WIDE), WIDE)
        if rest:
            some(context.get_constant(types.intp, whole * WIDE), rest)
        return context.get_dummy_value()

    return types.void(o, types.intp, types.float64, a, types.intp, size), emit


@intrinsic
def run(typing: Any, o: Any, at: Any, y: Any, a: Any, start: Any, size: Any) -> Any:
    """Adds to numbers side by side."""
    return _scaled(o, a, size, True)


@intrinsic
def put(typing: Any, o: Any, at: Any, y: Any, a: Any, start: Any, size: Any) -> Any:
    """Sets numbers side by side."""
    return _scaled(o, a, size, False)


@intrinsic
def ahead(typing: Any, p: Any, s: Any, size: Any) -> Any:
    """Fetches a row of numbers."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    signature = types.void(p, types.intp, size)

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        size = signature.args[2].literal_value
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        first = builder.gep(data, [builder.mul(given[1], context.get_constant(types.intp, size))])
        byte, number = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        prefetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch.p0"
        )
        row = builder.bitcast(first, byte.as_pointer())
        for at in range(0, size * 8, LINE):
            place = builder.gep(row, [context.get_constant(types.intp, at)])
            # to be read, into the nearest cache, as data
            builder.call(prefetch, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, emit
