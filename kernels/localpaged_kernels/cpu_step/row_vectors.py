"""What is done with each number of a row, 16 at a time, written as LLVM's code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from localpaged_kernels.cpu_step.llvm_code import LANES, V_F32, Code, all_of
from localpaged_kernels.cpu_step.memory import I64


def make_turn(size: int) -> Any:
    """Return what multiplies `size` float32 numbers in place with a Hadamard matrix (16 to 64).

    turn(x): the address. The matrix is `eight_bit.hadamard`, with its norm.
    """

    @intrinsic
    def turn(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            places = [code.at(args[0], (v, 64)) for v in range(size // LANES)]
            vectors = [code.load(V_F32, place) for place in places]
            for step in (1, 2, 4, 8):
                vectors = [code.turned_within(vector, step) for vector in vectors]
            step = 1
            while step < len(vectors):
                for v in range(len(vectors)):
                    if not v & step:
                        a, b = vectors[v], vectors[v + step]
                        vectors[v], vectors[v + step] = builder.fadd(a, b), builder.fsub(a, b)
                step *= 2
            norm = all_of(V_F32, size**-0.5)
            for vector, place in zip(vectors, places, strict=True):
                code.store(builder.fmul(vector, norm), place)
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return turn


@intrinsic
def exponentials(typing_context: Any, x: Any, vectors: Any, result: Any) -> Any:
    """Turn 16 · vectors float32 numbers x into e^(x - most); tell `most` of them and their sum.

    `result` is where the two go. -inf becomes 0; what is not a number makes the sum not a number.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, vectors, result = args
        lowest = all_of(V_F32, float("-inf"))
        (most,) = code.loop(
            vectors,
            [lowest],
            lambda i, most: [code.larger(code.load(V_F32, code.at(x, (i, 64))), most[0])],
        )
        most = code.largest(most)
        spread = code.spread(most)

        def body(i: Any, total: list[Any]) -> list[Any]:
            place = code.at(x, (i, 64))
            power = code.exp(builder.fsub(code.load(V_F32, place), spread))
            code.store(power, place)
            return [builder.fadd(total[0], power)]

        (total,) = code.loop(vectors, [all_of(V_F32, 0.0)], body)
        code.store(most, result)
        code.store(code.total(total), code.at(result, (1, 4)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


def make_divide(count: int) -> Any:
    """Return what divides float32 numbers, and tells the largest of each `count` 16 apart.

    divide(x, groups, divisor, out, largest): x and out [groups][count][16], largest [groups][16].
    """

    @intrinsic
    def divide(
        typing_context: Any, x: Any, groups: Any, divisor: Any, out: Any, largest: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            x, groups, divisor, out, largest = args
            divisor = code.spread(divisor)

            def body(i: Any, _: list[Any]) -> list[Any]:
                most = all_of(V_F32, float("-inf"))
                for n in range(count):
                    place = ((i, 64 * count), (n, 64))
                    number = builder.fdiv(code.load(V_F32, code.at(x, *place)), divisor)
                    code.store(number, code.at(out, *place))
                    most = code.larger(number, most)
                code.store(most, code.at(largest, (i, 64)))
                return []

            code.loop(groups, [], body)
            return context.get_dummy_value()

        kinds = (types.int64, types.int64, types.float32, types.int64, types.int64)
        return types.void(*kinds), generate

    return divide


@intrinsic
def exponential_sum(typing_context: Any, x: Any, vectors: Any, most: Any) -> Any:
    """Return the sum of e^(x - most) of 16 · vectors float32 numbers x, none above `most`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, vectors, most = args
        spread = code.spread(most)

        def body(i: Any, total: list[Any]) -> list[Any]:
            number = code.load(V_F32, code.at(x, (i, 64)))
            return [builder.fadd(total[0], code.exp(builder.fsub(number, spread)))]

        (total,) = code.loop(vectors, [all_of(V_F32, 0.0)], body)
        return code.total(total)

    return types.float32(types.int64, types.int64, types.float32), generate


@intrinsic
def cap(typing_context: Any, x: Any, vectors: Any, limit: Any) -> Any:
    """Turn 16 · vectors float32 numbers x into limit · tanh(x / limit)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, vectors, limit = args
        limit = code.spread(limit)
        steepness = builder.fdiv(all_of(V_F32, 2.0), limit)
        one = all_of(V_F32, 1.0)

        def body(i: Any, _: list[Any]) -> list[Any]:
            place = code.at(x, (i, 64))
            power = code.exp(builder.fmul(code.load(V_F32, place), steepness))
            share = builder.fdiv(builder.fsub(power, one), builder.fadd(power, one))
            code.store(builder.fmul(limit, share), place)
            return []

        code.loop(vectors, [], body)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


def make_gate(exponent: Callable[[Any, Any], Any]) -> Any:
    """Return what writes g / (1 + e^exponent(g)) · u over g; `exponent(code, g)` writes code.

    gate(gate_up, width): float32 g and u [width] at an address, one after the other, width 16 · n.
    """

    @intrinsic
    def gate(typing_context: Any, gate_up: Any, width: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            gate_up, width = args
            one = all_of(V_F32, 1.0)

            def body(i: Any, _: list[Any]) -> list[Any]:
                place = code.at(gate_up, (i, 64))
                g, u = (code.load(V_F32, at) for at in (place, code.at(place, (width, 4))))
                below = builder.fadd(one, code.exp(exponent(code, g)))
                code.store(builder.fmul(builder.fdiv(g, below), u), place)
                return []

            code.loop(builder.lshr(width, ir.Constant(I64, 4)), [], body)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return gate


gate_silu, gate_gelu = make_gate(Code.silu_exponent), make_gate(Code.gelu_exponent)
