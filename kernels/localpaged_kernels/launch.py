"""Launch: one start of a Triton kernel as a value, to be run here or compiled for another card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from localpaged_kernels.starting import Starter

REGISTERS = 65536
"""Registers of a processor, of every architecture that is compiled for."""

MOST_REGISTERS = 255
"""More than these a thread cannot name."""

THREADS_A_WARP = 32


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with everything it is started with.

    `args` are its run-time arguments by name (tensors, numbers, None), `constants` those it is
    compiled for. What is compiled ahead of time is therefore exactly what runs. `is_unspilled`
    gives a thread all registers that it may have: by itself the compiler spills a few of them to
    memory where one more program would fit on a processor then. One that `is_chained` begins while
    the launch in front of it ends, and waits for that itself (compute capability 9.0 and newer).
    """

    kernel: Any
    grid: tuple[int, ...]
    args: Mapping[str, Any]
    constants: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 2
    is_unspilled: bool = False
    is_chained: bool = False

    @property
    def options(self) -> Mapping[str, Any]:
        """What the compiler is told; the same on every version of Triton."""
        return {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "enable_fp_fusion": True,
            "maxnreg": most_registers(self.num_warps) if self.is_unspilled else None,
            **({"launch_pdl": True} if self.is_chained else {}),
        }

    def chained(self) -> Launch:
        """Return the launch of a kernel that has IS_CHAINED, chained to the one in front of it."""
        assert "IS_CHAINED" in self.constants
        return replace(self, constants={**self.constants, "IS_CHAINED": True}, is_chained=True)

    def run(self) -> None:
        """Start the kernel on the current stream; an empty grid starts nothing."""
        if not all(self.grid):
            return
        if not hasattr(self.kernel, "device_caches"):  # the interpreter's
            self.kernel[self.grid](**self.args, **self.constants, **self.options)
            return
        starter = _starters.get(id(self.kernel))
        if starter is None:
            starter = _starters[id(self.kernel)] = Starter(self.kernel)
        starter.start(self)


_starters: dict[int, Starter] = {}
"""By the kernel, all of which are there as long as the process."""


def most_registers(num_warps: int) -> int:
    """Return how many registers each thread of a program may have."""
    return min(MOST_REGISTERS, REGISTERS // (num_warps * THREADS_A_WARP))


def power_of_two(number: int) -> int:
    """Return the least power of two that is not less: Triton's ranges are of no other length."""
    return 1 << max(number - 1, 0).bit_length()
