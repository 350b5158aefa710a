"""Loops over groups of 32 numbers that share a scale, written as LLVM's code.

A group's sum is exact, in integers; groups are added up as float32, one after the other, so that a
sum has one order whatever is beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from localpaged_kernels.cpu_step.llvm_code import (
    AVX2,
    AVX512_VNNI,
    LANES,
    V_BYTES,
    V_F32,
    V_HALF,
    V_I16,
    V_I32,
    V_PAIRS,
    Code,
    all_of,
    instruction,
)
from localpaged_kernels.cpu_step.memory import F32, I32

GROUP = 32
QUADS = GROUP // 4
FOUR_BITS, EIGHT_BITS = 4, 8

SCALE_BYTES = 2 * LANES
GROUP_BYTES = {FOUR_BITS: LANES * GROUP // 2 + 2 * SCALE_BYTES, EIGHT_BITS: LANES * GROUP}
"""From one group of 16 outputs to the next. In 4 bits scales and minima lie behind the numbers; in
8 bits all scales lie behind all numbers, as half of the lines of a cache would be cut otherwise."""

NOTES = 3
"""Numbers of 32 bits that are noted of a group of a row: its scale, the sum of its numbers
(float32), and what a sum of products in 8 bits begins with (int32)."""

WORDS = QUADS + NOTES
"""Numbers of 32 bits that a group of a row takes."""

MAGIC = 0x4B400000
MAGIC_NUMBER = 1.5 * 2**23
"""MAGIC plus a small integer has the bits of the float32 MAGIC_NUMBER plus the same."""

EXCESS = 0 if instruction() == AVX2 else 128
"""What is added to each packed number of 8 bits and has to be taken off again."""

AHEAD_BYTES = 5_120
"""How far ahead weights are fetched. Without it few rows are read at five sixths of the speed, as
the processor by itself follows no line of memory beyond a page."""

V_FLOAT16 = ir.VectorType(ir.HalfType(), LANES)


class GroupCode(Code):
    """Writes what products of groups have in common."""

    def fetch_ahead(self, place: Any, num_bytes: int) -> None:
        """Have so many bytes of weights fetched that are read some groups later."""
        for line in range(num_bytes // 64):
            self.prefetch(self.at(place, (AHEAD_BYTES + 64 * line, 1)))

    def float16(self, address: Any) -> Any:
        """Return 16 numbers of 16 bits as float32."""
        halves = self._builder.bitcast(self.load(V_I16, address), V_FLOAT16)
        return self._builder.fpext(halves, V_F32)

    def unpacked(self, packed: Any) -> list[Any]:
        """Return two quads of 16 outputs' weights: those in low halves of bytes, and in high."""
        builder, low = self._builder, all_of(V_I32, 0x0F0F0F0F)
        above = builder.lshr(packed, all_of(V_I32, 4))
        quads = [builder.and_(packed, low), builder.and_(above, low)]
        return quads if instruction() == AVX512_VNNI else [self._halves(quad) for quad in quads]

    def begin_few(self) -> Any:
        """Return the sums of 16 outputs before the first product of 4-bit numbers."""
        if instruction() == AVX2:
            return [ir.Constant(V_PAIRS, [0] * LANES)] * 2
        return all_of(V_I32, MAGIC)

    def add_few(self, sums: Any, weights: Any, fours: Any) -> Any:
        """Add to each of 16 sums four products of 4-bit weights and numbers of a row."""
        if instruction() != AVX2:
            return self.add_products(sums, weights, fours)
        # 16 of 32 products of up to 15 · 127 are 30,480: they fit into 16 bits
        builder = self._builder
        added = []
        for own, half, four in zip(sums, weights, self._halves(fours), strict=True):
            half, four = (builder.bitcast(each, V_BYTES) for each in (half, four))
            pairs = self._x86("avx2.pmadd.ub.sw", V_PAIRS, half, four)
            added.append(builder.add(own, pairs))
        return added

    def end_few(self, sums: Any) -> Any:
        """Return 16 sums as float32, with MAGIC_NUMBER added."""
        if instruction() == AVX2:
            ones = ir.Constant(V_PAIRS, [1] * LANES)
            halves = [self._x86("avx2.pmadd.wd", V_HALF, half, ones) for half in sums]
            joined = self._builder.shuffle_vector(*halves, ir.Constant(V_I32, [*range(LANES)]))
            sums = self._builder.add(joined, all_of(V_I32, MAGIC))
        return self.as_float(sums)

    def as_float(self, sums: Any) -> Any:
        """Return sums that began with MAGIC as float32, with MAGIC_NUMBER added."""
        return self._builder.bitcast(sums, V_F32)

    def scaled(self, sums: Any, scales: Any) -> Any:
        """Return the products of scales and sums, from which MAGIC_NUMBER is taken off.

        Its product with a scale has few bits, so that the result is rounded once.
        """
        taken = self._builder.fmul(scales, all_of(V_F32, -MAGIC_NUMBER))
        return self.fma(sums, scales, taken)


def make_group_dot(bits: int, sizes: Sequence[int]) -> Any:
    """Return what multiplies a panel of rows with 16 outputs, in 4 or 8 bits.

    dot(rows, weights, panel, groups, biases, out, out_bytes): so many rows as are in `sizes`, in a
    panel [groups][WORDS][rows] of 32 bits each, as `round_groups` fills it; weights of a tile as
    `group_matrix` packs them; biases float32 [16], out float32 [rows][16], `out_bytes` from one row
    to the next. All but counts are addresses.
    """
    write_group = {FOUR_BITS: _four_bits, EIGHT_BITS: _eight_bits}[bits]

    @intrinsic
    def dot(
        typing_context: Any,
        rows: Any,
        weights: Any,
        panel: Any,
        groups: Any,
        biases: Any,
        out: Any,
        out_bytes: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code = GroupCode(builder)
            rows, weights, panel, groups, biases, out, out_bytes = args

            def write(count: int) -> None:
                def body(i: Any, totals: list[Any]) -> list[Any]:
                    rows = Rows(code, code.at(panel, (i, 4 * WORDS * count)), count)
                    return write_group(code, i, groups, weights, rows, totals)

                totals = code.loop(groups, [code.load(V_F32, biases)] * count, body)
                for r, total in enumerate(totals):
                    code.store(total, code.at(out, (r, out_bytes)))

            code.choose(rows, sizes, write)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return dot


class Rows:
    """A group of all rows of a panel."""

    def __init__(self, code: GroupCode, place: Any, count: int) -> None:
        self._code = code
        self._place = place
        self.count = count

    def quads(self, quad: int) -> list[Any]:
        """Return four numbers of each row, spread."""
        return [self._spread(I32, quad, row) for row in range(self.count)]

    def scale(self, row: int) -> Any:
        """Return a row's scale, spread."""
        return self._spread(F32, QUADS, row)

    def total(self, row: int) -> Any:
        """Return the sum of a row's numbers, spread."""
        return self._spread(F32, QUADS + 1, row)

    def start(self, row: int) -> Any:
        """Return what a sum of a row's products in 8 bits begins with, spread."""
        return self._spread(I32, QUADS + 2, row)

    def _spread(self, kind: Any, word: int, row: int) -> Any:
        place = self._code.at(self._place, (word * self.count + row, 4))
        return self._code.spread(self._code.load(kind, place))


def _four_bits(
    code: GroupCode, i: Any, groups: Any, tile: Any, rows: Rows, totals: list[Any]
) -> list[Any]:
    """Write what adds group `i`, in 4 bits, to the totals of all rows."""
    place = code.at(tile, (i, GROUP_BYTES[FOUR_BITS]))
    code.fetch_ahead(place, GROUP_BYTES[FOUR_BITS])
    sums = [code.begin_few() for _ in totals]
    for line in range(QUADS // 2):
        packed = code.load(V_I32, code.at(place, (line, 64)), align=64)
        for part, weights in enumerate(code.unpacked(packed)):
            fours = rows.quads(line + part * (QUADS // 2))
            sums = [code.add_few(own, weights, four) for own, four in zip(sums, fours, strict=True)]
    behind = code.at(place, (QUADS // 2, 64))
    scale = code.float16(behind)
    minimum = code.float16(code.at(behind, (1, SCALE_BYTES)))
    results = []
    for row, (own, total) in enumerate(zip(sums, totals, strict=True)):
        part = code.fma(rows.total(row), minimum, code.scaled(code.end_few(own), scale))
        results.append(code.fma(part, rows.scale(row), total))
    return results


def _eight_bits(
    code: GroupCode, i: Any, groups: Any, tile: Any, rows: Rows, totals: list[Any]
) -> list[Any]:
    """Write what adds group `i`, in 8 bits, to the totals of all rows."""
    place = code.at(tile, (i, GROUP_BYTES[EIGHT_BITS]))
    code.fetch_ahead(place, GROUP_BYTES[EIGHT_BITS])
    sums = [rows.start(row) for row in range(rows.count)]
    for quad in range(QUADS):
        weights = code.weights(code.load(V_I32, code.at(place, (quad, 64)), align=64))
        sums = [
            code.add_products(own, weights, four)
            for own, four in zip(sums, rows.quads(quad), strict=True)
        ]
    scale = code.float16(code.at(tile, (groups, GROUP_BYTES[EIGHT_BITS]), (i, SCALE_BYTES)))
    results = []
    for row, (own, total) in enumerate(zip(sums, totals, strict=True)):
        part = code.scaled(code.as_float(own), scale)
        results.append(code.fma(part, rows.scale(row), total))
    return results
