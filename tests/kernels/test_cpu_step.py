"""Products of a processor's step: what the weights say, and no row knows another one."""

import os
import subprocess
import sys

import numpy as np
import pytest

from testkit.decoders import needs_eight_bit

pytest.importorskip("numba")

from llvmlite.binding import get_host_cpu_features

from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.llvm_code import INSTRUCTIONS
from localpaged_kernels.cpu_step.matrix import multiply, pack, padded_outputs
from localpaged_kernels.cpu_step.rows import round_row
from localpaged_kernels.cpu_step.team import SYNC_SIZE

pytestmark = needs_eight_bit

INPUTS = 64
ROWS = [1, 2, 7, 8, 9, 40]


class Projection:
    """Random int8 weights and what they make of rows, by one thread."""

    def __init__(self, outputs: int) -> None:
        random = np.random.default_rng(1)
        self.outputs, self.padded = outputs, padded_outputs(outputs)
        self.room = Room(
            room_for(self.padded * INPUTS, np.uint8) + 2 * room_for(self.padded, np.float32)
        )
        self.packed = self.room.take(self.padded * INPUTS, np.uint8)
        self.scales = self.room.take(self.padded, np.float32)
        self.biases = self.room.take(self.padded, np.float32)
        numbers = random.integers(-127, 128, (outputs, INPUTS), dtype=np.int8)
        pack(numbers, self.packed)
        self.scales[:outputs] = random.uniform(0.01, 0.02, outputs)
        self.biases[:outputs] = random.standard_normal(outputs)
        self.weight = numbers * self.scales[:outputs, None]
        self.bias = self.biases[:outputs]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        rows = len(x)
        x = np.ascontiguousarray(x, np.float32)
        rounded = np.full((rows, INPUTS), 99, np.int8)
        scales, sums = np.full(rows, 7, np.float32), np.full(rows, 7, np.int32)
        for row in range(rows):
            address = x[row].ctypes.data
            round_row(
                address, INPUTS, rounded[row].ctypes.data, scales.ctypes.data, sums.ctypes.data, row
            )
        out = Room(room_for(rows * self.padded, np.float32)).take(rows * self.padded, np.float32)
        sync = Room(8 * SYNC_SIZE + 64).take(SYNC_SIZE, np.int64)
        told: list[np.ndarray] = [rounded, scales, sums]
        made = [self.packed, self.scales, self.biases, out]
        x_at, scales_at, sums_at = (array.ctypes.data for array in told)
        multiply(
            sync, 1, x_at, scales_at, sums_at, rows, INPUTS,
            *(array.ctypes.data for array in made), self.padded,
        )  # fmt: skip
        return out.reshape(rows, self.padded)[:, : self.outputs].copy()


def rows_of(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, INPUTS)).astype(np.float32)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("outputs", [1, 16, 24, 32, 33, 100])
def test_a_projection_is_what_its_weights_say(rows, outputs):
    project, x = Projection(outputs), rows_of(rows)
    steps = np.abs(x).max(axis=1, keepdims=True) / 127
    expected = np.round(x / steps) * steps @ project.weight.T + project.bias
    # a number at a half may be rounded the other way: one step of one weight
    np.testing.assert_allclose(project(x), expected, atol=float(steps.max()) * 2.6, rtol=0)
    assert np.linalg.norm(project(x) - expected) < 1e-3 * np.linalg.norm(expected)


def test_a_row_gets_the_same_numbers_whatever_is_beside_it():
    project = Projection(100)
    x = rows_of(40) * np.logspace(-6, 6, 40, dtype=np.float32)[:, None]
    together = project(x)
    for rows in (slice(0, 1), slice(7, 9), slice(39, 40), slice(3, 30), slice(0, 7), slice(5, 14)):
        assert np.array_equal(project(x[rows]), together[rows])


def test_a_loud_row_does_not_make_the_others_coarse():
    project, x = Projection(24), rows_of(5)
    x[2] *= 1e6
    expected = x @ project.weight.T + project.bias
    errors = np.linalg.norm(project(x) - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert errors.max() < 0.03


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", ROWS)
def test_a_row_that_is_not_finite_stays_visible_and_alone(bad, rows):
    project, x = Projection(24), rows_of(rows)
    good = project(x)
    x[0, 7] = bad
    found = project(x)
    assert not np.isfinite(found[0]).any()
    assert np.array_equal(found[1:], good[1:])


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_row_of_zeros_is_the_bias(rows):
    project = Projection(24)
    found = project(np.zeros((rows, INPUTS), np.float32))
    assert np.array_equal(found, np.broadcast_to(project.bias, found.shape))


def other_processor(instruction: str) -> dict[str, str]:
    """The variables that have numba compile for one like this without what is better."""
    better = INSTRUCTIONS[: INSTRUCTIONS.index(instruction)]
    host = get_host_cpu_features()
    has = [
        name
        for name, is_there in host.items()
        if is_there and name not in better and not name.startswith(("avx512", "amx", "avx10"))
    ]
    if instruction not in has:
        pytest.skip(f"this processor has no {instruction}")
    features = ",".join(f"+{name}" for name in has)
    return {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}


TELL = """
import sys
from localpaged_kernels.cpu_step.llvm_code import instruction
from tests.kernels.test_cpu_step import Projection, rows_of
told = [Projection(100)(rows_of(rows)).tobytes().hex() for rows in map(int, sys.argv[1:])]
print(instruction(), *told)
"""


@pytest.mark.parametrize("name", INSTRUCTIONS[1:])
def test_every_processor_multiplies_to_the_same_numbers(name):
    rows = [*range(1, 10), 40]
    done = subprocess.run(
        [sys.executable, "-c", TELL, *map(str, rows)],
        env=os.environ | other_processor(name) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    taken, *told = done.stdout.split()
    assert taken == name
    for count, numbers in zip(rows, told, strict=True):
        assert bytes.fromhex(numbers) == Projection(100)(rows_of(count)).tobytes(), count
