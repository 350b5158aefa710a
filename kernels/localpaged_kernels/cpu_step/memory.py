"""Memory by its address, bits of numbers, atomic counters: what numba's language lacks.

Addresses are int64. A view is an array over memory that somebody else keeps alive.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32 = ir.FloatType()


def _pointer_to(kind: Any) -> Any:
    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), generate

    return pointer


_as_f32, _as_i8, _as_u16, _as_i32, _as_i64 = (
    _pointer_to(kind)
    for kind in (types.float32, types.int8, types.uint16, types.int32, types.int64)
)


@njit(inline="always")
def f32(address: int, count: int) -> Any:
    """Return a view of `count` float32 numbers."""
    return carray(_as_f32(address), (count,))


@njit(inline="always")
def i8(address: int, count: int) -> Any:
    """Return a view of `count` int8 numbers."""
    return carray(_as_i8(address), (count,))


@njit(inline="always")
def u16(address: int, count: int) -> Any:
    """Return a view of `count` uint16 numbers: bfloat16, for one who knows."""
    return carray(_as_u16(address), (count,))


@njit(inline="always")
def i32(address: int, count: int) -> Any:
    """Return a view of `count` int32 numbers."""
    return carray(_as_i32(address), (count,))


@njit(inline="always")
def i64(address: int, count: int) -> Any:
    """Return a view of `count` int64 numbers."""
    return carray(_as_i64(address), (count,))


@intrinsic
def bits_of(typing_context: Any, number: Any) -> Any:
    """Return a float32 number's bits as int32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], I32)

    return types.int32(types.float32), generate


@intrinsic
def number_of(typing_context: Any, bits: Any) -> Any:
    """Return the float32 number with these bits (int32)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], F32)

    return types.float32(types.int32), generate


def _cell(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, I64.as_pointer())


@intrinsic
def atomic_add(typing_context: Any, address: Any, amount: Any) -> Any:
    """Add to an int64 in memory and return what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _cell(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_swap(typing_context: Any, address: Any, value: Any) -> Any:
    """Store an int64 and return what was there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", _cell(builder, args[0]), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_load(typing_context: Any, address: Any) -> Any:
    """Return an int64 that other threads write."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_cell(builder, args[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def atomic_store(typing_context: Any, address: Any, value: Any) -> Any:
    """Store an int64 that other threads read."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _cell(builder, args[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def rest_a_moment(typing_context: Any) -> Any:
    """Tell the processor that this thread only looks whether something has changed."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(
            cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), []
        )
        return context.get_dummy_value()

    return types.void(), generate
