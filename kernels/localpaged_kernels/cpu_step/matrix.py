"""Products with 8-bit matrices: how weights lie in memory, and the loop over their tiles."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.llvm_code import AVX2, AVX512_VNNI, AVX_VNNI, LANES, instruction
from localpaged_kernels.cpu_step.team import claim
from localpaged_kernels.cpu_step.vectors import make_dot

TILES = 2
"""Tiles of 16 outputs that lie side by side and are computed together."""

OUTPUTS = TILES * LANES

ROWS, PAIRED_ROWS = {AVX512_VNNI: (8, 8), AVX_VNNI: (6, 2), AVX2: (4, 2)}[instruction()]
"""Rows of one call, and of one that loads each number of x once for both tiles: as many as leave
all sums in registers, of which half are as long, and as many, without AVX-512."""

FOUR_128 = np.uint32(0x80808080)

_dot = make_dot(ROWS, PAIRED_ROWS)


def padded_outputs(outputs: int) -> int:
    """Return how many outputs are computed for so many."""
    return -(-outputs // OUTPUTS) * OUTPUTS


def pack(numbers: np.ndarray, to: np.ndarray) -> None:
    """Write int8 weights [out, in] as they are multiplied, uint8 [out / 16][in / 4][16][4].

    `to` has room for `padded_outputs`. Numbers are stored with 128 added, as VNNI's instruction
    wants one side without a sign.
    """
    outputs, inputs = numbers.shape
    quads = np.ascontiguousarray(numbers).view(np.uint32)  # four at once are moved together
    tiles = to.view(np.uint32).reshape(-1, inputs // 4, LANES)
    whole = outputs // LANES
    of_tiles = quads[: whole * LANES].reshape(whole, LANES, inputs // 4)
    np.bitwise_xor(of_tiles.transpose(0, 2, 1), FOUR_128, out=tiles[:whole])
    tiles[whole:] = FOUR_128
    if outputs % LANES:
        tiles[whole, :, : outputs % LANES] ^= quads[whole * LANES :].T


@njit(nogil=True)
def multiply(sync, threads, x, scales, sums, rows, inputs, weights, own, biases, out, outputs):
    """Write x Wᵀ + b, float32 [rows, outputs]; this thread's part of it.

    x int8 [rows, inputs] with float32 `scales` and int32 `sums` [rows]; weights as `pack` has them
    with `own` scales and `biases` [outputs]; `outputs` are padded. All addresses.
    """
    count = outputs // OUTPUTS
    at_once = max(1, count // (threads * 8))
    while True:
        first = claim(sync, at_once)
        if first >= count:
            return
        for n in range(first, min(first + at_once, count)):
            place = n * OUTPUTS
            for row in range(0, rows, ROWS):
                _dot(
                    min(ROWS, rows - row),
                    weights + place * inputs,
                    LANES * inputs,
                    x + row * inputs,
                    inputs,
                    inputs // 4,
                    scales + 4 * row,
                    sums + 4 * row,
                    own + 4 * place,
                    biases + 4 * place,
                    out + 4 * (row * outputs + place),
                    4 * outputs,
                )
