"""What is done with one row of numbers between two products. All memory is told by address."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.llvm_code import BFLOAT16, FLOAT32
from localpaged_kernels.cpu_step.memory import bits_of, f32, i8, i32, i64, number_of, u16
from localpaged_kernels.cpu_step.row_vectors import make_turn

FAST = {"reassoc", "contract", "arcp", "nsz"}
"""What rounding may depend on. Numbers that are not finite keep their meaning."""

LIMIT = 127
INFINITE_BITS = 0x7F800000
SIGN = 0x7FFFFFFF

_turn_16, _turn_32, _turn_64 = (make_turn(size) for size in (16, 32, 64))


@njit(nogil=True, fastmath=FAST)
def largest(x, width):
    """Return the largest magnitude of a row; what is not finite makes it not a number."""
    row = f32(x, width)
    most = np.int32(0)
    for i in range(width):
        most = max(most, bits_of(row[i]) & np.int32(SIGN))
    return number_of(most) if most < INFINITE_BITS else np.float32(np.nan)


@njit(nogil=True, fastmath=FAST)
def round_row(x, width, rounded, scales, sums, index):
    """Round row `index` to int8 with one scale, and keep the scale and the sum of what it became.

    A row that is not finite has a scale that is not a number, and so has all that follows from it.
    """
    row, to = f32(x, width), i8(rounded, width)
    most = largest(x, width)
    is_finite = most == most
    inverse = np.float32(LIMIT) / most if is_finite and most > np.float32(1e-30) else np.float32(0)
    total = np.int32(0)
    if is_finite:
        for i in range(width):
            number = _nearest(row[i] * inverse)
            to[i] = np.int8(number)
            total += number
    else:
        to[:] = 0
    f32(scales, index + 1)[index] = most / np.float32(LIMIT)
    i32(sums, index + 1)[index] = total


@njit(nogil=True, fastmath=FAST)
def add_rows(x, added, width):
    """Add a row to another in place."""
    row, other = f32(x, width), f32(added, width)
    for i in range(width):
        row[i] += other[i]


@njit(nogil=True, fastmath=FAST)
def normalise(x, width, weight, eps, out):
    """Write the RMS norm of a row; `weight` is an address, or 0 for none."""
    row, to = f32(x, width), f32(out, width)
    total = np.float32(0)
    for i in range(width):
        total += row[i] * row[i]
    factor = np.float32(1) / np.sqrt(total / np.float32(width) + eps)
    if weight == 0:
        for i in range(width):
            to[i] = row[i] * factor
    else:
        weights = f32(weight, width)
        for i in range(width):
            to[i] = row[i] * factor * weights[i]


@njit(nogil=True)
def turn_row(x, width, block):
    """Multiply every `block` numbers of a row by a Hadamard matrix; 16, 32 or 64 of them."""
    for first in range(x, x + 4 * width, 4 * block):
        if block == 64:
            _turn_64(first)
        elif block == 32:
            _turn_32(first)
        else:
            _turn_16(first)


@njit(nogil=True, fastmath=FAST)
def rotate(head, half, cos, sin):
    """Rotate a head [2 · half] by an angle; cos and signed sin [2 · half]."""
    row, cosines, sines = f32(head, 2 * half), f32(cos, 2 * half), f32(sin, 2 * half)
    for i in range(half):
        a, b = row[i], row[half + i]
        row[i] = a * cosines[i] + b * sines[i]
        row[half + i] = b * cosines[half + i] + a * sines[half + i]


@njit(nogil=True, fastmath=FAST)
def scale_row(x, width, factor):
    """Multiply a row in place."""
    row = f32(x, width)
    for i in range(width):
        row[i] *= factor


@njit(nogil=True, fastmath=FAST)
def store_head(x, width, kind, to, scale):
    """Write a head as K and V are stored; `scale` is where an INT8 head's goes."""
    row = f32(x, width)
    if kind == FLOAT32:
        copy_row(x, width, to)
    elif kind == BFLOAT16:
        halves = u16(to, width)
        for i in range(width):
            bits = bits_of(row[i])
            rounded = (bits + np.int32(0x7FFF) + ((bits >> np.int32(16)) & 1)) >> np.int32(16)
            is_number = (bits & np.int32(SIGN)) <= INFINITE_BITS
            halves[i] = np.uint16(rounded if is_number else 0x7FC0)
    else:
        most = largest(x, width)
        f32(scale, 1)[0] = most / np.float32(LIMIT)
        steps = i8(to, width)
        if not most > np.float32(1e-30):  # nor where it is not a number
            steps[:] = 0
        else:
            for i in range(width):
                steps[i] = np.int8(_nearest(row[i] * (np.float32(LIMIT) / most)))


@njit(nogil=True, fastmath=FAST, inline="always")
def _nearest(x):
    """Return the nearest whole number, away from zero at a half: the cast cuts."""
    return np.int32(x + (np.float32(0.5) if x >= 0 else np.float32(-0.5)))


@njit(nogil=True)
def copy_row(x, width, to):
    """Copy a row."""
    row, target = f32(x, width), f32(to, width)
    for i in range(width):
        target[i] = row[i]


@njit(nogil=True)
def number_at(address, index):
    """Return one of int64 numbers."""
    return i64(address, index + 1)[index]
