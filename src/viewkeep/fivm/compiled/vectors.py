"""Operations that kernels are made of and that Numba has no words for, as instructions of LLVM.

`run(o, at, y, a, start, size)` adds to `size` numbers of `o` as many of `a`, times `y`, and `put` sets them
to these. As loops they would go one by one: the compiler does not know that `a` is not `o`, and unrolls short
loops before it vectorizes.
`squares(o, at, y, x, size)` adds the products of each two of `size` numbers `x`, times `y`: runs, each one
shorter. `rows(o, at, step, a, first, count, z, size)` adds `size` numbers of `z` to those at `at`, times the
first number of `a`, `step` further on times the second, and so on. Both could be calls of `run`, and each of
these would take time to compile.
`clear(p, s, size)` sets row `s` of `p`, of `size` numbers, to zeros.
`ahead(p, s, size)` has the processor fetch row `s` of `p`, of `size` numbers, while it does something else.
`pick(which, i, one, other)` is one of two integers.
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


def _is_known(*sizes: Any) -> bool:
    """Whether sizes are constants; if not, type inference comes again with them."""
    return all(isinstance(size, types.IntegerLiteral) for size in sizes)


def _some(builder: Any, into: Any, scale: Any, of: Any, count: int, add: bool) -> None:
    """A vector of numbers, scaled, set at or added to the numbers at `into`."""
    kind = ir.VectorType(ir.DoubleType(), count)
    none, number = ir.Constant(kind, ir.Undefined), ir.IntType(32)
    lanes = ir.Constant(ir.VectorType(number, count), [0] * count)
    scales = builder.shuffle_vector(builder.insert_element(none, scale, number(0)), none, lanes)
    into, of = (builder.bitcast(place, kind.as_pointer()) for place in (into, of))
    found = builder.fmul(builder.load(of, align=8), scales, flags=("contract",))
    if add:
        found = builder.fadd(builder.load(into, align=8), found, flags=("contract",))
    builder.store(found, into, align=8)


def _emit_run(context: Any, builder: Any, into: Any, scale: Any, of: Any, size: int, add: bool) -> None:
    """Numbers side by side, scaled, into others or added to others."""
    whole, rest = divmod(size, WIDE)

    def some(offset: Any, count: int) -> None:
        _some(builder, builder.gep(into, [offset]), scale, builder.gep(of, [offset]), count, add)

    if whole > UNROLLED:
        with cgutils.for_range(builder, context.get_constant(types.intp, whole)) as loop:
            some(builder.mul(loop.index, context.get_constant(types.intp, WIDE)), WIDE)
    else:
        for n in range(whole):
            some(context.get_constant(types.intp, n * WIDE), WIDE)
    if rest:
        some(context.get_constant(types.intp, whole * WIDE), rest)


def _emit_any_run(context: Any, builder: Any, into: Any, scale: Any, of: Any, size: Any, add: bool) -> None:
    """The same for a size that is not known before."""
    wide = context.get_constant(types.intp, WIDE)
    whole = builder.sdiv(size, wide)
    for count, step in ((whole, WIDE), (builder.srem(size, wide), 1)):
        first = context.get_constant(types.intp, 0) if step == WIDE else builder.mul(whole, wide)
        with cgutils.for_range(builder, count) as loop:
            at = builder.add(first, builder.mul(loop.index, context.get_constant(types.intp, step)))
            _some(builder, builder.gep(into, [at]), scale, builder.gep(of, [at]), step, add)


def _data(context: Any, builder: Any, signature: Any, given: Any, *numbers: int) -> list[Any]:
    """Where the numbers of arrays begin."""
    return [context.make_array(signature.args[i])(context, builder, given[i]).data for i in numbers]


def _scaled(o: Any, a: Any, size: Any, add: bool) -> Any:
    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        target, source = _data(context, builder, signature, given, 0, 3)
        _, at, y, _, start, length = given
        into, of = builder.gep(target, [at]), builder.gep(source, [start])
        if _is_known(signature.args[5]):
            _emit_run(context, builder, into, y, of, signature.args[5].literal_value, add)
        else:
            _emit_any_run(context, builder, into, y, of, length, add)
        return context.get_dummy_value()

    kind = size if _is_known(size) else types.intp
    return types.void(o, types.intp, types.float64, a, types.intp, kind), emit


@intrinsic(prefer_literal=True)
def run(typing: Any, o: Any, at: Any, y: Any, a: Any, start: Any, size: Any) -> Any:
    """Adds to numbers side by side."""
    return _scaled(o, a, size, True)


@intrinsic(prefer_literal=True)
def put(typing: Any, o: Any, at: Any, y: Any, a: Any, start: Any, size: Any) -> Any:
    """Sets numbers side by side."""
    return _scaled(o, a, size, False)


@intrinsic
def squares(typing: Any, o: Any, at: Any, y: Any, x: Any, size: Any) -> Any:
    """Adds the products of each two numbers."""
    if not _is_known(size):
        return None
    signature = types.void(o, types.intp, types.float64, x, size)

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        size = signature.args[4].literal_value
        target, source = _data(context, builder, signature, given, 0, 3)
        into = builder.gep(target, [given[1]])
        for i in range(size):
            of = builder.gep(source, [context.get_constant(types.intp, i)])
            scale = builder.fmul(given[2], builder.load(of))
            _emit_run(context, builder, into, scale, of, size - i, True)
            into = builder.gep(into, [context.get_constant(types.intp, size - i)])
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def rows(typing: Any, o: Any, at: Any, step: Any, a: Any, first: Any, count: Any, z: Any, size: Any) -> Any:
    """Adds multiples of the same numbers, in rows."""
    if not _is_known(count, size):
        return None
    whole = types.intp
    signature = types.void(o, whole, whole, a, whole, count, z, size)

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        target, scales, source = _data(context, builder, signature, given, 0, 3, 6)
        into, scales = builder.gep(target, [given[1]]), builder.gep(scales, [given[4]])
        count, size = (signature.args[i].literal_value for i in (5, 7))
        with cgutils.for_range(builder, context.get_constant(types.intp, count)) as loop:
            place = builder.gep(into, [builder.mul(loop.index, given[2])])
            scale = builder.load(builder.gep(scales, [loop.index]))
            _emit_run(context, builder, place, scale, source, size, True)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def ahead(typing: Any, p: Any, s: Any, size: Any) -> Any:
    """Fetches a row of numbers."""
    if not _is_known(size):
        return None
    signature = types.void(p, types.intp, size)

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        size = signature.args[2].literal_value
        (data,) = _data(context, builder, signature, given, 0)
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


@intrinsic
def clear(typing: Any, p: Any, s: Any, size: Any) -> Any:
    """Sets a row of numbers to zeros."""
    if not _is_known(size):
        return None
    signature = types.void(p, types.intp, size)

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        size = signature.args[2].literal_value
        (data,) = _data(context, builder, signature, given, 0)
        first = builder.gep(data, [builder.mul(given[1], context.get_constant(types.intp, size))])
        cgutils.memset(  # type: ignore[no-untyped-call]
            builder, first, context.get_constant(types.intp, size * 8), 0
        )
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def pick(typing: Any, which: Any, i: Any, one: Any, other: Any) -> Any:
    """One of two integers."""
    whole = types.intp

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.select(builder.icmp_signed("==", given[0], given[1]), given[2], given[3])

    return whole(whole, whole, whole, whole), emit
