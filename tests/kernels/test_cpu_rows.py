"""What a processor's step does with the numbers of a row is what torch does with them."""

import numba
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from testkit.decoders import needs_eight_bit

pytest.importorskip("numba")

from localpaged_kernels.cpu_step import row_vectors
from localpaged_kernels.cpu_step.huge_pages import Room, room_for

pytestmark = needs_eight_bit


@numba.njit
def gate_silu(place, width):
    row_vectors.gate_silu(place, width)


@numba.njit
def gate_gelu(place, width):
    row_vectors.gate_gelu(place, width)


@numba.njit
def cap(place, vectors, limit):
    row_vectors.cap(place, vectors, limit)


def row_of(numbers):
    row = Room(room_for(len(numbers), np.float32)).take(len(numbers), np.float32)
    row[:] = numbers
    return row


WIDE = torch.cat((torch.linspace(-60, 60, 2_001), torch.tensor([0.0, -0.0, 1e-30, 1e20, -1e20])))
EVEN = F.pad(WIDE, (0, -len(WIDE) % 16))


@pytest.mark.parametrize(
    ("gate", "torchs"),
    [(gate_silu, F.silu), (gate_gelu, lambda g: F.gelu(g, approximate="tanh"))],
    ids=["silu", "gelu"],
)
def test_a_gate_is_the_one_it_is_called(gate, torchs):
    ups = torch.randn(len(EVEN), generator=torch.Generator().manual_seed(0))
    row = row_of(torch.cat((EVEN, ups)))
    gate(row.ctypes.data, len(EVEN))
    found, wanted = torch.from_numpy(row[: len(EVEN)].copy()), torchs(EVEN) * ups
    # torch has 1 + tanh, in which what is far below zero is lost
    torch.testing.assert_close(found, wanted, atol=2e-6, rtol=2e-6)
    assert np.array_equal(row[len(EVEN) :], ups.numpy())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gate_hides_nothing_that_is_not_finite(bad):
    for gate in (gate_silu, gate_gelu):
        row = row_of([bad] * 16 + [1.0] * 16)
        gate(row.ctypes.data, 16)
        assert not np.isfinite(row[:16]).any()


@pytest.mark.parametrize("limit", [0.5, 30.0, 50.0])
def test_a_cap_is_a_tanh_as_wide_as_its_limit(limit):
    row = row_of(EVEN)
    cap(row.ctypes.data, len(EVEN) // 16, np.float32(limit))
    wanted = limit * torch.tanh(EVEN.double() / limit).float()
    torch.testing.assert_close(torch.from_numpy(row.copy()), wanted, atol=1e-7 * limit, rtol=1e-6)


def test_what_is_not_a_number_has_no_cap():
    row = row_of([float("nan")] * 16)
    cap(row.ctypes.data, 1, np.float32(30))
    assert np.isnan(row).all()
