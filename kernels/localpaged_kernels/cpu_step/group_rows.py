"""Rounds rows of numbers to 8 bits, in groups of 32 that share a scale, as LLVM's code."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from localpaged_kernels.cpu_step.group_vectors import EXCESS, GROUP, MAGIC, QUADS, WORDS
from localpaged_kernels.cpu_step.llvm_code import LANES, V_F32, V_I8, V_I32, Code, all_of
from localpaged_kernels.cpu_step.memory import F32, I32

LIMIT = 127
SMALLEST = 1e-30
"""A group whose numbers are all smaller is zero."""

V_QUADS, V_TURNS = (ir.VectorType(I32, count) for count in (QUADS, GROUP))


@intrinsic
def round_into(typing_context: Any, x: Any, groups: Any, panel: Any, row: Any, rows: Any) -> Any:
    """Round float32 numbers [groups][32] to int8, each group with one scale, into a panel's row.

    A panel is [groups][WORDS][rows], see `group_vectors`. A group that is not finite has a scale
    that is not a number, and so has all that follows from it.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code = Code(builder)
        x, groups, panel, row, rows = args
        first = code.at(panel, (row, 4))
        word_bytes = builder.shl(rows, ir.Constant(rows.type, 2))
        group_bytes = builder.mul(word_bytes, ir.Constant(rows.type, WORDS))

        def body(i: Any, _: list[Any]) -> list[Any]:
            vectors = [code.load(V_F32, code.at(x, (i, 4 * GROUP), (half, 64))) for half in (0, 1)]
            steps, scale = _rounded(code, builder, vectors)
            # weights have words of 16 bits with a number of each half, so numbers take turns
            turns = [half * LANES + n for n in range(LANES) for half in (0, 1)]
            halves = [builder.trunc(numbers, V_I8) for numbers in steps]
            numbers = builder.shuffle_vector(*halves, ir.Constant(V_TURNS, turns))
            quads = builder.bitcast(numbers, V_QUADS)
            lanes = [ir.Constant(I32, n) for n in range(QUADS)]
            words = [builder.extract_element(quads, lane) for lane in lanes]
            total = code.total(builder.add(*steps))
            excess = builder.mul(total, ir.Constant(I32, EXCESS))
            start = builder.sub(ir.Constant(I32, MAGIC), excess)
            for n, word in enumerate([*words, scale, builder.sitofp(total, F32), start]):
                code.store(word, code.at(first, (i, group_bytes), (n, word_bytes)))
            return []

        code.loop(groups, [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


def _rounded(code: Code, builder: Any, vectors: list[Any]) -> tuple[list[Any], Any]:
    """Return a group's numbers as integers, and their scale."""
    sign, infinite = all_of(V_I32, 0x7FFFFFFF), ir.Constant(I32, 0x7F800000)
    bits = [builder.bitcast(vector, V_I32) for vector in vectors]
    # bits of magnitudes are ordered as they are, and those of what is not finite are above
    most = code.largest(code.higher(*[builder.and_(each, sign) for each in bits]))
    is_finite = builder.icmp_signed("<", most, infinite)
    largest = builder.bitcast(most, F32)
    is_some = builder.fcmp_ordered(">", largest, ir.Constant(F32, SMALLEST))
    limit, zero = (ir.Constant(F32, float(number)) for number in (LIMIT, 0))
    factor = builder.select(builder.and_(is_some, is_finite), builder.fdiv(limit, largest), zero)
    # what is not finite has no whole number
    kept = builder.select(is_finite, ir.Constant(I32, -1), ir.Constant(I32, 0))
    clean = [builder.bitcast(builder.and_(each, code.spread(kept)), V_F32) for each in bits]
    whole = [code.call("rint", builder.fmul(each, code.spread(factor))) for each in clean]
    nothing = ir.Constant(F32, float("nan"))
    scale = builder.select(is_finite, builder.fdiv(largest, limit), nothing)
    return [builder.fptosi(each, V_I32) for each in whole], scale
