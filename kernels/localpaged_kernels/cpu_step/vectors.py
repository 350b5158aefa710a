"""Loops over vectors of 16 numbers, written as LLVM's code: what has to stay in registers.

Sums of several rows are registers, so there is code for each number of rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from localpaged_kernels.cpu_step.llvm_code import (
    BFLOAT16,
    FLOAT32,
    INT8,
    LANES,
    SIZES,
    V_F32,
    V_I32,
    Code,
    all_of,
)
from localpaged_kernels.cpu_step.memory import F32, I32, I64


def make_dot(most_rows: int, paired_rows: int) -> Any:
    """Return what multiplies up to `most_rows` rows with two tiles of 16 outputs, in 8 bits.

    All sums are in registers, those of both tiles for up to `paired_rows`.

    dot(rows, weights, tile_bytes, x, x_bytes, quads, x_scales, x_sums, scales, biases, out,
    out_bytes): weights uint8 (number + 128) [2][quads][16][4], x int8 [rows][4 · quads], x_scales
    float32 and x_sums int32 [rows], scales and biases float32 [2 · 16], out float32
    [rows][2 · 16]. All but counts are addresses; `_bytes` are from one row or tile to the next.
    """

    @intrinsic
    def dot(
        typing_context: Any,
        rows: Any,
        weights: Any,
        tile_bytes: Any,
        x: Any,
        x_bytes: Any,
        quads: Any,
        x_scales: Any,
        x_sums: Any,
        scales: Any,
        biases: Any,
        out: Any,
        out_bytes: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            rows, weights, tile_bytes, x, x_bytes, quads = args[:6]
            x_scales, x_sums, scales, biases, out, out_bytes = args[6:]

            def multiply(count: int, tiles: tuple[int, ...]) -> None:
                def body(i: Any, sums: list[Any]) -> list[Any]:
                    places = [code.at(weights, (i, 64), (t, tile_bytes)) for t in tiles]
                    parts = [code.weights(code.load(V_I32, at, align=64)) for at in places]
                    fours = [
                        code.spread(code.load(I32, code.at(x, (i, 4), (r, x_bytes))))
                        for r in range(count)
                    ]
                    pairs = [(part, four) for four in fours for part in parts]
                    return [
                        code.add_products(own, *pair) for own, pair in zip(sums, pairs, strict=True)
                    ]

                zeros = [all_of(V_I32, 0)] * (count * len(tiles))
                sums = iter(code.loop(quads, zeros, body))
                for r in range(count):
                    scale = code.spread(code.load(F32, code.at(x_scales, (r, 4))))
                    total = code.load(I32, code.at(x_sums, (r, 4)))
                    for t in tiles:
                        whole = builder.sitofp(code.without_excess(next(sums), total), V_F32)
                        own = code.load(V_F32, code.at(scales, (t, 64)))
                        bias = code.load(V_F32, code.at(biases, (t, 64)))
                        result = code.fma(whole, builder.fmul(own, scale), bias)
                        code.store(result, code.at(out, (r, out_bytes), (t, 64)))

            def write(count: int) -> None:
                for tiles in [(0, 1)] if count <= paired_rows else [(0,), (1,)]:
                    multiply(count, tiles)

            code.choose(rows, range(1, most_rows + 1), write)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 12), generate

    return dot


@intrinsic
def widen(
    typing_context: Any,
    kind: Any,
    is_key: Any,
    stored: Any,
    stored_bytes: Any,
    vectors: Any,
    scales: Any,
    scale_bytes: Any,
    ahead: Any,
    out: Any,
) -> Any:
    """Write 16 stored keys [16 · vectors][16], or values [16][16 · vectors], as float32.

    Keys are turned so that a number of a query is multiplied with that of all 16 at once. Stored
    ones are of `kind` [16][16 · vectors]; INT8 ones have `scales` float32, one each. What lies
    `ahead` bytes behind is fetched meanwhile.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        kind, is_key, stored, stored_bytes, vectors, scales, scale_bytes, ahead, out = args

        def write_keys(kind: int) -> None:
            if kind == INT8:
                places = [code.at(scales, (key, scale_bytes)) for key in range(LANES)]
                factors = code.gathered([code.load(F32, place) for place in places])

            def body(i: Any, _: list[Any]) -> list[Any]:
                places = [
                    code.at(stored, (key, stored_bytes), (i, LANES * SIZES[kind]))
                    for key in range(LANES)
                ]
                for place in places:
                    code.prefetch(builder.add(place, ahead))
                for n, numbers in enumerate(code.transposed(kind, places)):
                    if kind == INT8:
                        numbers = builder.fmul(numbers, factors)
                    code.store(numbers, code.at(out, (i, LANES * 64), (n, 64)))
                return []

            code.loop(vectors, [], body)

        def write_values(kind: int) -> None:
            def one(key: Any, _: list[Any]) -> list[Any]:
                if kind == INT8:
                    factor = code.spread(code.load(F32, code.at(scales, (key, scale_bytes))))

                def body(i: Any, _: list[Any]) -> list[Any]:
                    place = code.at(stored, (key, stored_bytes), (i, LANES * SIZES[kind]))
                    code.prefetch(builder.add(place, ahead))
                    numbers = code.widened(kind, place)
                    if kind == INT8:
                        numbers = builder.fmul(numbers, factor)
                    code.store(numbers, code.at(out, (builder.mul(key, vectors), 64), (i, 64)))
                    return []

                return code.loop(vectors, [], body)

            code.loop(ir.Constant(I64, LANES), [], one)

        forms = (write_values, write_keys)
        code.choose(
            is_key, (0, 1), lambda form: code.choose(kind, (FLOAT32, BFLOAT16, INT8), forms[form])
        )
        return context.get_dummy_value()

    return types.void(*[types.int64] * 9), generate


def make_scores(most_rows: int) -> Any:
    """Return what multiplies up to `most_rows` queries with 16 keys, all float32 without gaps.

    scores(rows, queries, keys, vectors, out, out_bytes): queries [rows][16 · vectors], keys
    [16 · vectors][16], out [rows][16].
    """

    @intrinsic
    def scores(
        typing_context: Any,
        rows: Any,
        queries: Any,
        keys: Any,
        vectors: Any,
        out: Any,
        out_bytes: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            rows, queries, keys, vectors, out, out_bytes = args
            row_bytes = builder.mul(vectors, ir.Constant(I64, 64))

            def write(count: int) -> None:
                # two sums a row, so that a product need not wait for the one before
                def body(i: Any, sums: list[Any]) -> list[Any]:
                    sums = list(sums)
                    for n in range(LANES):
                        numbers = code.load(V_F32, code.at(keys, (i, LANES * 64), (n, 64)))
                        for r in range(count):
                            place = code.at(queries, (r, row_bytes), (i, 64), (n, 4))
                            query = code.spread(code.load(F32, place))
                            sums[2 * r + n % 2] = code.fma(query, numbers, sums[2 * r + n % 2])
                    return sums

                sums = code.loop(vectors, [all_of(V_F32, 0.0)] * (2 * count), body)
                for r in range(count):
                    total = builder.fadd(sums[2 * r], sums[2 * r + 1])
                    code.store(total, code.at(out, (r, out_bytes)))

            code.choose(rows, range(1, most_rows + 1), write)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return scores


def make_weigh(most_rows: int) -> Any:
    """Return what adds 16 values, weighted, to the sums of up to `most_rows` rows, all float32.

    weigh(rows, weights, weight_bytes, values, vectors, sums): weights [rows][16], values
    [16][16 · vectors] and sums [rows][16 · vectors] without gaps.
    """

    @intrinsic
    def weigh(
        typing_context: Any,
        rows: Any,
        weights: Any,
        weight_bytes: Any,
        values: Any,
        vectors: Any,
        sums: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = Code(builder)
            rows, weights, weight_bytes, values, vectors, sums = args
            row_bytes = builder.mul(vectors, ir.Constant(I64, 64))

            def add(count: int, offset: Any, at_once: int) -> None:
                rows_at = [code.at(builder.add(sums, offset), (r, row_bytes)) for r in range(count)]
                places = [code.at(place, (v, 64)) for place in rows_at for v in range(at_once)]
                totals = [code.load(V_F32, place) for place in places]
                for key in range(LANES):
                    value = code.at(builder.add(values, offset), (key, row_bytes))
                    numbers = [code.load(V_F32, code.at(value, (v, 64))) for v in range(at_once)]
                    for r in range(count):
                        weight = code.load(F32, code.at(weights, (r, weight_bytes), (key, 4)))
                        weight = code.spread(weight)
                        for v in range(at_once):
                            n = r * at_once + v
                            totals[n] = code.fma(weight, numbers[v], totals[n])
                for total, place in zip(totals, places, strict=True):
                    code.store(total, place)

            def write(count: int) -> None:
                def body(i: Any, _: list[Any]) -> list[Any]:
                    add(count, builder.shl(i, ir.Constant(I64, 7)), 2)
                    return []

                pairs = builder.lshr(vectors, ir.Constant(I64, 1))
                with builder.if_then(builder.icmp_signed(">", pairs, ir.Constant(I64, 0))):
                    code.loop(pairs, [], body)
                with builder.if_then(builder.trunc(vectors, ir.IntType(1))):
                    add(count, builder.shl(pairs, ir.Constant(I64, 7)), 1)

            code.choose(rows, range(1, most_rows + 1), write)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return weigh
