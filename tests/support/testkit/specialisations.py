"""What Triton would compile: a key for each launch, the same for those that one build serves.

Beside its constants a kernel is compiled for the types of its arguments, for those that are None,
for whole numbers that are 1, and for numbers and addresses that 16 divides, unless the kernel says
that it is not to be looked at. Triton's own code looks; nothing is compiled, and no card is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from typing import Any

import torch
from triton._C.libtriton import native_specialize_impl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.jit import KernelParam

from localpaged_kernels.launch import Launch
from testkit.fake_device import FakeDevice

BACKEND = CUDABackend(GPUTarget("cuda", 90, 32))


def key_of(launch: Launch) -> Hashable:
    """Return what a launch is compiled for."""
    kernel: Any = launch.kernel
    looks = tuple(
        (p.name, native_specialize_impl(BACKEND, launch.args[p.name], False, *_how(p)))
        for p in _parameters(kernel)
        if p.name in launch.args
    )
    constants = tuple(sorted((name, str(value)) for name, value in launch.constants.items()))
    return kernel.__name__, looks, constants, tuple(launch.options.items())


def _how(parameter: KernelParam) -> tuple[bool, bool]:
    return not parameter.do_not_specialize, not parameter.do_not_specialize_on_alignment


def _parameters(kernel: Any) -> list[KernelParam]:
    """Return a kernel's parameters, compiled or interpreted."""
    if hasattr(kernel, "params"):
        return list(kernel.params)
    blind = kernel.kwargs.get("do_not_specialize") or ()
    unaligned = kernel.kwargs.get("do_not_specialize_on_alignment") or ()
    return [
        KernelParam(i, p, p.name in blind, p.name in unaligned)
        for i, p in enumerate(inspect.signature(kernel.fn).parameters.values())
    ]


class CompilingDevice(FakeDevice):
    """A fake device that notes what would be compiled, and computes none of it.

    Each hidden state is zero, each draw the token 5. `built` are keys in their order; `in_graphs`
    are those that were asked for first while a step was recorded, which a card would not survive.
    """

    compiles = True

    def __init__(self) -> None:
        super().__init__()
        self.built: dict[Hashable, None] = {}
        self.in_graphs: list[Hashable] = []

    def _run(self, launch: Launch) -> None:
        key = key_of(launch)
        if all(launch.grid) and key not in self.built:
            self.built[key] = None
            if self.is_recording:
                self.in_graphs.append(key)
        with torch._C.DisableTorchFunction():
            for name, value in {
                "out_ptr": 0,
                "total_ptr": 0,
                "tokens_ptr": 5,
                "sound_ptr": 1,
            }.items():
                if name in launch.args and launch.args[name] is not None:
                    launch.args[name].fill_(value)
