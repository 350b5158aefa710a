"""Products with matrices in groups of 32: how weights lie in memory, and the loop over tiles."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.group_rows import round_into
from localpaged_kernels.cpu_step.group_vectors import (
    EIGHT_BITS,
    FOUR_BITS,
    GROUP,
    GROUP_BYTES,
    SCALE_BYTES,
    WORDS,
    make_group_dot,
)
from localpaged_kernels.cpu_step.llvm_code import AVX2, AVX512_VNNI, AVX_VNNI, LANES, instruction
from localpaged_kernels.cpu_step.matrix import FOUR_128
from localpaged_kernels.cpu_step.team import claim

SIZES = {AVX512_VNNI: (12, 8, 4, 2, 1), AVX_VNNI: (4, 2, 1), AVX2: (4, 2, 1)}[instruction()]
"""Rows of a panel, which are computed together, all sums in registers. Without AVX-512 registers
are half as long, and half as many. More sizes would take longer to compile, and bring little."""

FOUR_BIT_GROUP, EIGHT_BIT_GROUP = GROUP_BYTES[FOUR_BITS], GROUP_BYTES[EIGHT_BITS]

_dot_four, _dot_eight = (make_group_dot(bits, SIZES) for bits in (FOUR_BITS, EIGHT_BITS))


def tile_bytes(bits: int, inputs: int) -> int:
    """Return what 16 outputs take, scales and all: whole lines of a cache."""
    groups = inputs // GROUP
    if bits == FOUR_BITS:
        return groups * FOUR_BIT_GROUP
    return groups * EIGHT_BIT_GROUP + (groups + 1) // 2 * 2 * SCALE_BYTES


_tile_bytes = njit(tile_bytes)


def row_bytes(inputs: int) -> int:
    """Return what a row takes when it is rounded."""
    return 4 * WORDS * (inputs // GROUP)


def pack_groups(bits: int, numbers: np.ndarray, scales: np.ndarray, to: np.ndarray) -> None:
    """Write weights in groups as they are multiplied.

    They are `quantised_linear`'s: in 4 bits `numbers` uint8 [out, in / 2] and `scales` float16
    [groups, out, 2], scale and minimum; in 8 bits int8 [out, in] and float16 [groups, out]. `to` is
    uint8 and zero, of `tile_bytes` for every 16 outputs or part.
    """
    outputs, groups = len(numbers), len(scales)
    quads = np.ascontiguousarray(numbers).view(np.uint32)  # four at once are moved together
    tiles = to.reshape(-1, tile_bytes(bits, groups * GROUP))
    whole = outputs // LANES
    if whole:
        some = whole * LANES
        _pack(bits, quads[:some], scales[:, :some], tiles[:whole], LANES)
    if outputs % LANES:
        some = whole * LANES
        _pack(bits, quads[some:], scales[:, some:], tiles[whole : whole + 1], outputs % LANES)


def _pack(bits: int, quads: np.ndarray, scales: np.ndarray, tiles: np.ndarray, lanes: int) -> None:
    count, groups = len(tiles), len(scales)
    words, halves = tiles.view(np.uint32), tiles.view(np.float16)
    moved = quads.reshape(count, lanes, groups, -1).transpose(0, 2, 3, 1)
    if bits == FOUR_BITS:
        words = words.reshape(count, groups, -1)[..., : moved.shape[2] * LANES]
        words.reshape(count, groups, -1, LANES)[..., :lanes] = moved
        pairs = halves.reshape(count, groups, -1)[..., -2 * LANES :]
        both = scales.reshape(groups, count, lanes, 2).transpose(1, 0, 3, 2)
        pairs.reshape(count, groups, 2, LANES)[..., :lanes] = both
        return
    numbers = words[:, : groups * moved.shape[2] * LANES].reshape(count, groups, -1, LANES)
    np.bitwise_xor(moved, FOUR_128, out=numbers[..., :lanes])
    first = groups * EIGHT_BIT_GROUP // 2
    behind = halves[:, first : first + groups * LANES].reshape(count, groups, LANES)
    behind[..., :lanes] = scales.reshape(groups, count, lanes).transpose(1, 0, 2)


@njit(nogil=True)
def multiply_groups(sync, threads, panels, rows, inputs, bits, weights, biases, out, outputs):
    """Write x Wᵀ + b, float32 [rows, outputs]; this thread's part of it.

    Rows are in panels, as `round_groups` fills them; weights in `bits` as `pack_groups` has them,
    with `biases` [outputs]; `outputs` are padded. All addresses.
    """
    groups = inputs // GROUP
    a_tile = _tile_bytes(bits, inputs)
    count = outputs // LANES
    at_once = max(1, count // (threads * 8))
    while True:
        first = claim(sync, at_once)
        if first >= count:
            return
        for n in range(first, min(first + at_once, count)):
            place, added = weights + n * a_tile, biases + 4 * n * LANES
            row = 0
            while row < rows:
                some = _panel_rows(rows - row)
                panel = panels + 4 * WORDS * groups * row
                to = out + 4 * (row * outputs + n * LANES)
                if bits == FOUR_BITS:
                    _dot_four(some, place, panel, groups, added, to, 4 * outputs)
                else:
                    _dot_eight(some, place, panel, groups, added, to, 4 * outputs)
                row += some


@njit(nogil=True)
def round_groups(x, inputs, panels, rows, index):
    """Round float32 row `index` of `rows` to int8, where `multiply_groups` looks for it."""
    first = min(index, rows - rows % SIZES[0]) // SIZES[0] * SIZES[0]
    some = _panel_rows(rows - first)
    while index >= first + some:
        first += some
        some = _panel_rows(rows - first)
    groups = inputs // GROUP
    round_into(x, groups, panels + 4 * WORDS * groups * first, index - first, some)


@njit(nogil=True)
def _panel_rows(left):
    """Return the rows of the next panel, where so many are left."""
    for size in SIZES:
        if size <= left:
            return size
    return 0
