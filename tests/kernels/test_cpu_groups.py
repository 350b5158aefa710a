"""Products with weights in groups of 32: what the numbers say, and no row knows another one."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from testkit.decoders import needs_eight_bit

pytest.importorskip("numba")

from numba import njit

from localpaged_kernels.cpu_step.group_matrix import (
    multiply_groups,
    pack_groups,
    round_groups,
    row_bytes,
    tile_bytes,
)
from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.llvm_code import INSTRUCTIONS, LANES
from localpaged_kernels.cpu_step.matrix import padded_outputs
from localpaged_kernels.cpu_step.team import SYNC_SIZE
from localpaged_kernels.quantised_linear.reference import QuantisedMatrix, dequantise
from tests.kernels.test_cpu_step import other_processor

pytestmark = needs_eight_bit

GROUP, INPUTS = 32, 96
GROUPS = INPUTS // GROUP
ROWS = [*range(1, 10), 12, 13, 40]
BITS = [4, 8]


@njit(nogil=True)
def round_all(x, inputs, panels, rows):
    for row in range(rows):
        round_groups(x + 4 * row * inputs, inputs, panels, rows, row)


def array_of(count, dtype):
    return Room(room_for(count, dtype)).take(count, dtype)


class Projection:
    """Random weights in groups and what they make of rows, by one thread."""

    def __init__(self, bits: int, outputs: int, *, number: int | None = None) -> None:
        random = np.random.default_rng(1)
        self.bits, self.outputs, self.padded = bits, outputs, padded_outputs(outputs)
        shape = (GROUPS, outputs)
        scales = random.uniform(0.01, 0.02, shape).astype(np.float16)
        if bits == 4:
            numbers = random.integers(0, 256, (outputs, INPUTS // 2), dtype=np.uint8)
            minima = random.uniform(-0.2, 0.1, shape).astype(np.float16)
            scales = np.stack((scales, minima), -1)
        else:
            numbers = random.integers(-128, 128, (outputs, INPUTS), dtype=np.int8)
        if number is not None:
            numbers[:] = number
        told = QuantisedMatrix(torch.from_numpy(numbers), torch.from_numpy(scales), INPUTS)
        self.weight = dequantise(told).double().numpy()
        self.packed = array_of(self.padded // LANES * tile_bytes(bits, INPUTS), np.uint8)
        pack_groups(bits, numbers, scales, self.packed)
        self.biases = array_of(self.padded, np.float32)
        self.biases[:outputs] = random.standard_normal(outputs)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        rows = len(x)
        x = np.ascontiguousarray(x, np.float32)
        panels = array_of(rows * row_bytes(INPUTS), np.uint8)
        panels[:] = 99
        round_all(x.ctypes.data, INPUTS, panels.ctypes.data, rows)
        out = array_of(rows * self.padded, np.float32)
        arrays = (self.packed, self.biases, out)
        multiply_groups(
            array_of(SYNC_SIZE, np.int64), 1, panels.ctypes.data, rows, INPUTS, self.bits,
            *(array.ctypes.data for array in arrays), self.padded,
        )  # fmt: skip
        made: np.ndarray = out.reshape(rows, self.padded)[:, : self.outputs].copy()
        return made

    def expected(self, x: np.ndarray) -> np.ndarray:
        groups = x.astype(np.float32).reshape(len(x), GROUPS, GROUP)
        most = np.abs(groups).max(-1, keepdims=True)
        factors = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
        wide = np.rint(groups * factors).astype(float) * (most / np.float32(127))
        made: np.ndarray = wide.reshape(len(x), INPUTS) @ self.weight.T
        made += self.biases[: self.outputs]
        return made


def rows_of(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, INPUTS)).astype(np.float32)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("outputs", [1, 16, 24, 32, 33, 100])
@pytest.mark.parametrize("bits", BITS)
def test_a_projection_is_what_its_numbers_say(bits, outputs, rows):
    project, x = Projection(bits, outputs), rows_of(rows)
    expected = project.expected(x)
    assert np.abs(project(x) - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bits", BITS)
def test_the_largest_numbers_there_are_do_not_overflow(bits, sign):
    project = Projection(bits, 16, number={4: 0xFF, 8: -128}[bits])
    x = np.full((2, INPUTS), 3e4 * sign, np.float32)
    expected = project.expected(x)
    np.testing.assert_allclose(project(x), expected, rtol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_a_row_gets_the_same_numbers_whatever_is_beside_it(bits):
    project = Projection(bits, 100)
    x = rows_of(40) * np.logspace(-6, 6, 40, dtype=np.float32)[:, None]
    together = project(x)
    for rows in (slice(0, 1), slice(7, 9), slice(39, 40), slice(3, 30), slice(0, 7), slice(5, 14)):
        assert np.array_equal(project(x[rows]), together[rows])


@pytest.mark.parametrize("bits", BITS)
def test_what_sticks_out_makes_its_own_group_coarse_alone(bits):
    project, x = Projection(bits, 24), rows_of(5)
    project.weight.reshape(24, GROUPS, GROUP)[:, 1] = 0
    x[2, GROUP] = 1e5
    quiet = x.copy()
    quiet[:, GROUP : 2 * GROUP] = 0
    loud = np.zeros_like(x)
    loud[:, GROUP : 2 * GROUP] = x[:, GROUP : 2 * GROUP]
    both = project(x)[2].astype(float)
    parts = project(quiet)[2].astype(float) + project(loud)[2] - project.biases[:24]
    np.testing.assert_allclose(both, parts, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bits", BITS)
def test_a_row_that_is_not_finite_stays_visible_and_alone(bits, rows, bad):
    project, x = Projection(bits, 24), rows_of(rows)
    good = project(x)
    x[0, 39] = bad
    found = project(x)
    assert not np.isfinite(found[0]).any()
    assert np.array_equal(found[1:], good[1:])


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("bits", BITS)
def test_a_row_of_zeros_is_the_bias(bits, rows):
    project = Projection(bits, 24)
    found = project(np.zeros((rows, INPUTS), np.float32))
    assert np.array_equal(found, np.broadcast_to(project.biases[:24], found.shape))


TELL = """
import sys
from localpaged_kernels.cpu_step.llvm_code import instruction
from tests.kernels.test_cpu_groups import Projection, rows_of
print(instruction())
for bits in 4, 8:
    project = Projection(bits, 100)
    print(*(project(rows_of(int(count))).tobytes().hex() for count in sys.argv[1:]))
"""


@pytest.mark.parametrize("name", INSTRUCTIONS[1:])
def test_every_processor_multiplies_to_the_same_numbers(name):
    done = subprocess.run(
        [sys.executable, "-c", TELL, *map(str, ROWS)],
        env=os.environ | other_processor(name) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    taken, *told = done.stdout.splitlines()
    assert taken == name
    for bits, line in zip(BITS, told, strict=True):
        project = Projection(bits, 100)
        for count, numbers in zip(ROWS, line.split(), strict=True):
            assert bytes.fromhex(numbers) == project(rows_of(count)).tobytes(), count
