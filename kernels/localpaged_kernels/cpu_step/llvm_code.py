"""Writes LLVM's code for vectors of 16 numbers: what numba's language cannot say.

A `Code` stands on one of numba's builders. Addresses are int64 values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, config

from localpaged_kernels.cpu_step.memory import F32, I8, I16, I32, I64

LANES = 16
V_F32, V_I32, V_I16, V_I8 = (ir.VectorType(kind, LANES) for kind in (F32, I32, I16, I8))
V_HALF = ir.VectorType(I32, LANES // 2)

V_BYTES, V_PAIRS = ir.VectorType(I8, 2 * LANES), ir.VectorType(I16, LANES)

AVX512_VNNI, AVX_VNNI, AVX2 = INSTRUCTIONS = ("avx512vnni", "avxvnni", "avx2")
"""Of the first two one instruction adds 64 and 32 products; of the last it takes four for 32."""

FLOAT32, BFLOAT16, INT8 = range(3)
"""What K and V are stored in. INT8 numbers have a float32 scale for each head."""


def instruction() -> str:
    """Return what adds products of 8-bit numbers here, by LLVM's name: the best of INSTRUCTIONS.

    numba compiles for another processor where NUMBA_CPU_FEATURES tells one.
    """
    told = config.CPU_FEATURES
    has = (
        {feature: f"+{feature}" in told.split(",") for feature in INSTRUCTIONS}
        if told is not None
        else llvm.get_host_cpu_features()
    )
    return next((name for name in INSTRUCTIONS if has.get(name)), INSTRUCTIONS[-1])


SIZES = {FLOAT32: 4, BFLOAT16: 2, INT8: 1}
STORED = {FLOAT32: V_F32, BFLOAT16: V_I16, INT8: V_I8}

EXP_TERMS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
"""Of the polynomial for e^x near 0, as in Cephes' expf: coefficients of x^7 down to x^2."""


GELU_TERMS = (-2 * (2 / math.pi) ** 0.5, -2 * (2 / math.pi) ** 0.5 * 0.044715)
"""Of the odd polynomial of that exponent: coefficients of x and x^3."""


def all_of(kind: Any, number: float) -> Any:
    """Return a vector of one number."""
    return ir.Constant(kind, [number] * LANES)


class Code:
    """Writes what the loops above have in common."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def at(self, address: Any, *steps: tuple[Any, Any]) -> Any:
        """Return an address moved by products of two, numbers or values."""
        builder = self._builder
        for count, size in steps:
            a, b = (ir.Constant(I64, n) if isinstance(n, int) else n for n in (count, size))
            address = builder.add(address, builder.mul(a, b))
        return address

    def load(self, kind: Any, address: Any, *, align: int | None = None) -> Any:
        """Return what is at an address that is aligned for one number, or as told."""
        builder = self._builder
        one = getattr(kind, "element", kind)
        size = 4 if one == F32 else one.width // 8
        return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align or size)

    def store(self, value: Any, address: Any) -> None:
        """Write to an address that is aligned for one number."""
        builder = self._builder
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=4)

    def spread(self, number: Any) -> Any:
        """Return a vector of one number."""
        builder = self._builder
        kind = ir.VectorType(number.type, LANES)
        undefined = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(undefined, number, ir.Constant(I32, 0))
        return builder.shuffle_vector(first, undefined, all_of(V_I32, 0))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a · b + c, rounded once."""
        return self.call("fma", a, b, c)

    def prefetch(self, address: Any) -> None:
        """Have a cache line fetched that is read soon."""
        builder = self._builder
        kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        hints = [ir.Constant(I32, n) for n in (0, 3, 1)]  # to read, into all caches, data
        builder.call(function, [builder.inttoptr(address, I8.as_pointer()), *hints])

    def call(self, name: str, *args: Any) -> Any:
        """Return what LLVM's own function of vectors gives."""
        kind = ir.FunctionType(V_F32, [V_F32] * len(args))
        name = f"llvm.{name}.v{LANES}f32"
        function = cgutils.get_or_insert_function(self._builder.module, kind, name)
        return self._builder.call(function, args)

    def larger(self, a: Any, b: Any) -> Any:
        """Return the larger numbers of two; b's where one is not a number. One instruction."""
        builder = self._builder
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    def higher(self, a: Any, b: Any) -> Any:
        """Return the larger integers of two."""
        return self._builder.select(self._builder.icmp_signed(">", a, b), a, b)

    def largest(self, vector: Any) -> Any:
        """Return the largest of a vector's numbers, which are float32 or integers."""
        is_whole = vector.type.element == I32
        return self._folded(vector, self.higher if is_whole else self.larger)

    def total(self, vector: Any) -> Any:
        """Return the sum of a vector's numbers, added pair by pair."""
        is_whole = vector.type.element == I32
        return self._folded(vector, self._builder.add if is_whole else self._builder.fadd)

    def _folded(self, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
        builder, width = self._builder, LANES
        while width > 1:
            width //= 2
            low, high = (
                builder.shuffle_vector(
                    vector,
                    vector,
                    ir.Constant(ir.VectorType(I32, width), list(range(first, first + width))),
                )
                for first in (0, width)
            )
            vector = join(low, high)
        return builder.extract_element(vector, ir.Constant(I32, 0))

    def exp(self, x: Any) -> Any:
        """Return e^x to the last digit or two; 0 below -87, not a number for what is none."""
        builder = self._builder

        above = builder.fcmp_ordered(">", x, all_of(V_F32, 88.0))
        x = builder.select(above, all_of(V_F32, 88.0), x)
        below = builder.fcmp_ordered("<", x, all_of(V_F32, -87.0))
        n = self.call("rint", builder.fmul(x, all_of(V_F32, 1.44269504)))
        rest = self.fma(n, all_of(V_F32, -0.693359375), x)
        rest = self.fma(n, all_of(V_F32, 2.12194440e-4), rest)
        power = all_of(V_F32, EXP_TERMS[0])
        for term in EXP_TERMS[1:]:
            power = self.fma(power, rest, all_of(V_F32, term))
        power = self.fma(builder.fmul(power, rest), rest, builder.fadd(rest, all_of(V_F32, 1.0)))
        exponent = builder.add(builder.fptosi(n, V_I32), all_of(V_I32, 127))
        scale = builder.bitcast(builder.shl(exponent, all_of(V_I32, 23)), V_F32)
        return builder.select(below, all_of(V_F32, 0.0), builder.fmul(power, scale))

    def silu_exponent(self, g: Any) -> Any:
        """Return x with SiLU(g) = g / (1 + e^x)."""
        return self._builder.fneg(g)

    def gelu_exponent(self, g: Any) -> Any:
        """Return x with GELU(g) = g / (1 + e^x), as tanh approximates it."""
        builder = self._builder
        squared = builder.fmul(g, g)
        linear, cubic = (all_of(V_F32, term) for term in GELU_TERMS)
        return builder.fmul(g, self.fma(squared, cubic, linear))

    def weights(self, packed: Any) -> Any:
        """Return 16 outputs' packed weights, four inputs each, as `add_products` takes them."""
        if instruction() == AVX512_VNNI:
            return packed
        halves = self._halves(packed)
        return halves if instruction() == AVX_VNNI else [self._magnitudes(h) for h in halves]

    def add_products(self, sums: Any, weights: Any, fours: Any) -> Any:
        """Add to each of 16 sums four products of weights and numbers of a row, both 8 bits."""
        if instruction() == AVX512_VNNI:
            return self._dot(V_I32, [sums, weights, fours])
        added = [
            self._dot(V_HALF, [own, half, four])
            if instruction() == AVX_VNNI
            else self._add_by_pairs(own, half, four)
            for own, half, four in zip(
                self._halves(sums), weights, self._halves(fours), strict=True
            )
        ]
        places = ir.Constant(V_I32, list(range(LANES)))
        return self._builder.shuffle_vector(*added, places)

    def without_excess(self, sums: Any, row_total: Any) -> Any:
        """Take off what the 128 in each packed weight added, given the sum of the row's numbers."""
        builder = self._builder
        if instruction() == AVX2:
            return sums
        return builder.sub(sums, self.spread(builder.shl(row_total, ir.Constant(I32, 7))))

    def _halves(self, vector: Any) -> list[Any]:
        half = LANES // 2
        starts = (0, half)
        places = [ir.Constant(V_HALF, list(range(start, start + half))) for start in starts]
        return [self._builder.shuffle_vector(vector, vector, at) for at in places]

    def _dot(self, kind: Any, args: list[Any]) -> Any:
        return self._x86(f"avx512.vpdpbusd.{32 * kind.count}", kind, *args)

    def _magnitudes(self, packed: Any) -> tuple[Any, Any]:
        """Return eight outputs' weights without their signs, and with them."""
        builder = self._builder
        signed = builder.xor(builder.bitcast(packed, V_BYTES), ir.Constant(V_BYTES, [128] * 32))
        kind = ir.FunctionType(V_BYTES, [V_BYTES, ir.IntType(1)])
        absolute = cgutils.get_or_insert_function(builder.module, kind, "llvm.abs.v32i8")
        return builder.call(absolute, [signed, ir.Constant(ir.IntType(1), 0)]), signed

    def _add_by_pairs(self, sums: Any, weights: tuple[Any, Any], fours: Any) -> Any:
        # two products of numbers up to 127 fit into 16 bits, of numbers up to 255 they would not:
        # so the weights' signs go to the row's numbers
        magnitudes, signed = weights
        fours = self._builder.bitcast(fours, V_BYTES)
        numbers = self._x86("avx2.psign.b", V_BYTES, fours, signed)
        pairs = self._x86("avx2.pmadd.ub.sw", V_PAIRS, magnitudes, numbers)
        ones = ir.Constant(V_PAIRS, [1] * LANES)
        return self._builder.add(sums, self._x86("avx2.pmadd.wd", V_HALF, pairs, ones))

    def _x86(self, name: str, kind: Any, *args: Any) -> Any:
        module = self._builder.module
        signature = ir.FunctionType(kind, [arg.type for arg in args])
        function = cgutils.get_or_insert_function(module, signature, f"llvm.x86.{name}")
        return self._builder.call(function, args)

    def widened(self, kind: int, address: Any) -> Any:
        """Return 16 stored numbers as float32."""
        builder = self._builder
        if kind == FLOAT32:
            return self.load(V_F32, address)
        if kind == INT8:
            return builder.sitofp(builder.sext(self.load(V_I8, address), V_I32), V_F32)
        bits = builder.zext(self.load(V_I16, address), V_I32)
        return builder.bitcast(builder.shl(bits, all_of(V_I32, 16)), V_F32)

    def gathered(self, numbers: list[Any]) -> Any:
        """Return a vector of 16 numbers."""
        vector = ir.Constant(V_F32, ir.Undefined)
        for lane, number in enumerate(numbers):
            vector = self._builder.insert_element(vector, number, ir.Constant(I32, lane))
        return vector

    def transposed(self, kind: int, places: list[Any]) -> list[Any]:
        """Return 16 vectors of float32: of each of 16 stored numbers what is at 16 places.

        Numbers are moved 32 bits at a time, which are one of them, two or four.
        """
        builder = self._builder
        words = 4 * SIZES[kind]
        word = ir.VectorType(I32, words)
        rows = [builder.bitcast(self.load(STORED[kind], place), word) for place in places]
        # a vector has the words of several places; what tells two of them apart in a vector's
        # number and in a lane's is swapped, bit by bit
        vectors = [self._joined(rows[n::words]) for n in range(words)]
        bit = 1
        while bit < words:
            for n in range(words):
                if not n & bit:
                    pair = vectors[n], vectors[n | bit]
                    vectors[n], vectors[n | bit] = self._swapped(*pair, bit)
            bit *= 2
        return [number for vector in vectors for number in self._unpacked(kind, vector)]

    def _joined(self, vectors: list[Any]) -> Any:
        """Return one vector of all."""
        while len(vectors) > 1:
            count = 2 * vectors[0].type.count
            places = ir.Constant(ir.VectorType(I32, count), list(range(count)))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self._builder.shuffle_vector(a, b, places) for a, b in pairs]
        return vectors[0]

    def _swapped(self, a: Any, b: Any, bit: int) -> tuple[Any, Any]:
        """Exchange the lanes of `a` that have the bit with those of `b` that have it not."""
        low = [LANES + (n ^ bit) if n & bit else n for n in range(LANES)]
        high = [LANES + n if n & bit else n | bit for n in range(LANES)]
        first, second = (
            self._builder.shuffle_vector(a, b, ir.Constant(V_I32, lanes)) for lanes in (low, high)
        )
        return first, second

    def _unpacked(self, kind: int, vector: Any) -> list[Any]:
        """Return the numbers in each 32 bits as float32."""
        builder = self._builder
        if kind == FLOAT32:
            return [builder.bitcast(vector, V_F32)]
        if kind == BFLOAT16:
            low = builder.shl(vector, all_of(V_I32, 16))
            high = builder.and_(vector, all_of(V_I32, -65_536))
            return [builder.bitcast(half, V_F32) for half in (low, high)]
        shifted = [builder.shl(vector, all_of(V_I32, bits)) for bits in (24, 16, 8, 0)]
        return [builder.sitofp(builder.ashr(each, all_of(V_I32, 24)), V_F32) for each in shifted]

    def turned_within(self, vector: Any, step: int) -> Any:
        """Return sums and differences of the numbers `step` apart."""
        builder = self._builder
        other = builder.shuffle_vector(
            vector, vector, ir.Constant(V_I32, [lane ^ step for lane in range(LANES)])
        )
        signs = ir.Constant(V_F32, [-1.0 if lane & step else 1.0 for lane in range(LANES)])
        return self.fma(vector, signs, other)

    def choose(self, number: Any, cases: Sequence[int], write: Callable[[int], None]) -> None:
        """Write code for each case, of which the one runs that `number` is; else the last."""
        builder = self._builder
        blocks = [builder.append_basic_block("case") for _ in cases]
        behind = builder.append_basic_block("behind")
        switch = builder.switch(number, blocks[-1])
        for case, block in zip(cases, blocks, strict=True):
            switch.add_case(ir.Constant(I64, case), block)
            builder.position_at_end(block)
            write(case)
            builder.branch(behind)
        builder.position_at_end(behind)

    def loop(self, count: Any, values: list[Any], body: Any) -> list[Any]:
        """Run `body(i, values)`, which returns the next values, `count` times, at least once."""
        builder = self._builder
        before = builder.block
        repeated = builder.append_basic_block("repeated")
        behind = builder.append_basic_block("behind")
        builder.branch(repeated)
        builder.position_at_end(repeated)
        i = builder.phi(I64)
        i.add_incoming(ir.Constant(I64, 0), before)
        phis = []
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            phis.append(phi)
        following: list[Any] = body(i, phis)
        one_more = builder.add(i, ir.Constant(I64, 1))
        i.add_incoming(one_more, builder.block)
        for phi, value in zip(phis, following, strict=True):
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_signed("<", one_more, count), repeated, behind)
        builder.position_at_end(behind)
        return following
