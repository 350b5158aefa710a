"""Facts of GPUs, of what computes and attends, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.nvidia import Nvidia
from localpaged.doctor.torch_build import TorchBuild
from localpaged_kernels.paged_attention.dispatch import TRITON, implementation_on

CUDA, CPU = "cuda", "cpu"
LEAST_CAPABILITY = (8, 0)
LEAST_TRITON = (3, 6)
LEAST_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""What the CUDA of a build needs on Linux, by its first number (NVIDIA, minor versions)."""

NO_GPU = "none"
_CHOOSE_BUILD = "https://pytorch.org/get-started/locally tells how to get one for an older CUDA."
_GET_CUDA = (
    "Install a build with CUDA: pip install --force-reinstall torch "
    "--index-url https://download.pytorch.org/whl/cu130"
)
_GET_CUDA_DRIVER = LEAST_DRIVERS[13]
_IMPLEMENTATIONS = {
    "triton": "Triton's kernels",
    "torch": "torch's fused attention over gathered blocks",
    "reference": "the reference in plain torch, which is slow",
}


def gpu_facts(nvidia: Nvidia, build: TorchBuild, *, device: str) -> Iterator[Fact]:
    """Tell driver, GPUs and whether torch can use them.

    What is missing is a problem where models are computed on GPUs, and a note elsewhere.
    """
    yield _driver(nvidia, device)
    yield from _gpus(nvidia, build, device)
    yield _build(nvidia, build, device)


def kernel_facts(nvidia: Nvidia, build: TorchBuild, *, device: str) -> Iterator[Fact]:
    """Tell where models are computed, with which attention, and Triton's version."""
    yield _device(nvidia, device)
    yield _attention(device)
    yield _triton(nvidia, build, device)


def _driver(nvidia: Nvidia, device: str) -> Fact:
    if nvidia.driver:
        if nvidia.trouble:
            advice = "Restart the machine: after an update the driver in memory is the old one."
            return _missing(device)("NVIDIA driver", f"{nvidia.driver}; {nvidia.trouble}", advice)
        return Fact("NVIDIA driver", nvidia.driver, numbers={"version": nvidia.driver})
    if nvidia.is_there:
        why = f"; {nvidia.trouble}" if nvidia.trouble else ""
        return _missing(device)(
            "NVIDIA driver",
            f"not loaded, and an NVIDIA GPU is in the machine{why}",
            "Install the driver of your distribution (`nvidia-smi` then answers).",
        )
    return Fact("NVIDIA driver", "none, and no NVIDIA GPU was found")


def _gpus(nvidia: Nvidia, build: TorchBuild, device: str) -> Iterator[Fact]:
    if not nvidia.is_there and not build.gpus:
        yield Fact("GPU", NO_GPU)
        return
    names = [(gpu.name, gpu.capability, gpu.total_bytes) for gpu in nvidia.gpus] or [
        (gpu.name, gpu.capability, gpu.total_bytes) for gpu in build.gpus
    ]
    free = [gpu.free_bytes for gpu in nvidia.gpus] or [None] * len(names)
    if not names:
        count = nvidia.num_cards or 1
        yield note("GPU", f"{count} of NVIDIA's; nothing tells which", "")
    for (name, capability, total), free_bytes in zip(names, free, strict=True):
        yield _gpu(name, capability, total, free_bytes, build=build, device=device)


def _gpu(
    name: str,
    capability: tuple[int, int] | None,
    total: int | None,
    free: int | None,
    *,
    build: TorchBuild,
    device: str,
) -> Fact:
    parts = [name]
    numbers: dict[str, Any] = {"total_bytes": total, "free_bytes": free, "capability": None}
    if capability:
        numbers["capability"] = list(capability)
        parts.append(f"compute capability {capability[0]}.{capability[1]}")
    if total is not None:
        parts.append(f"{total / 2**30:.1f} GiB")
    if free is not None:
        parts.append(f"{free / 2**30:.1f} GiB free")
    text = ", ".join(parts)
    if capability is not None and capability < LEAST_CAPABILITY:
        least = _dotted(LEAST_CAPABILITY)
        advice = f"The kernels are made for {least} and newer; it stays unused."
        return _missing(device)("GPU", text, advice, **numbers)
    if capability and build.architectures and not _is_compiled_for(capability, build):
        advice = f"torch {build.version} has no code for it: install a newer build of torch."
        return _missing(device)("GPU", text, advice, **numbers)
    return Fact("GPU", text, numbers=numbers)


def _is_compiled_for(capability: tuple[int, int], build: TorchBuild) -> bool:
    """Code for 8.0 runs on 8.6; a build may also have what drivers compile for newer cards."""
    for name in build.architectures:
        kind, _, digits = name.partition("_")
        number = "".join(char for char in digits if char.isdecimal())
        if len(number) < 2:
            continue
        major, minor = int(number[:-1]), int(number[-1])
        if kind == "compute" and (major, minor) <= capability:
            return True
        if kind == "sm" and major == capability[0] and minor <= capability[1]:
            return True
    return False


def _build(nvidia: Nvidia, build: TorchBuild, device: str) -> Fact:
    numbers = {"cuda": build.cuda or None, "usable_gpus": len(build.gpus)}
    made = partial(Fact, "torch and GPU", numbers=numbers)
    if build.gpus:
        return made(f"a build for CUDA {build.cuda}, which sees {len(build.gpus)}")
    missing = partial(_missing(device), "torch and GPU", **numbers)
    if not build.cuda:
        if not nvidia.is_there:
            return made("a build without CUDA, which is all that is needed here")
        advice = _GET_CUDA
        if nvidia.driver and _numbers(nvidia.driver)[:2] < _GET_CUDA_DRIVER:
            advice += f" (with driver {_dotted(_GET_CUDA_DRIVER)} or newer). {_CHOOSE_BUILD}"
        return missing("a GPU is here, and this torch is a build without CUDA", advice)
    if not nvidia.is_there:
        return made(f"a build for CUDA {build.cuda}, and no GPU to use it with")
    needed = LEAST_DRIVERS.get(_numbers(build.cuda)[0])
    if needed and nvidia.driver and _numbers(nvidia.driver)[:2] < needed:
        least = _dotted(needed)
        return missing(
            f"CUDA {build.cuda} of torch needs driver {least}; {nvidia.driver} is here",
            f"Update the driver to {least} or newer. {_CHOOSE_BUILD}",
        )
    advice = "See that `nvidia-smi` answers and CUDA_VISIBLE_DEVICES does not hide the GPU."
    return missing(f"a build for CUDA {build.cuda} cannot use it: {build.gpu_trouble}", advice)


def _device(nvidia: Nvidia, device: str) -> Fact:
    numbers = {"device": device}
    if device != CPU:
        return Fact("computes on", "the GPU", numbers=numbers)
    if nvidia.is_there:
        return note(
            "computes on",
            "the processor: this version of localpaged does not use the GPU",
            "No advice on the GPU changes that: without it nothing is slower.",
            **numbers,
        )
    return Fact("computes on", "the processor", numbers=numbers)


def _attention(device: str) -> Fact:
    implementation = implementation_on(device)
    where = "a GPU" if device == CUDA else "the processor"
    text = f"{_IMPLEMENTATIONS[implementation]}, because models are computed on {where}"
    return Fact("attention", text, numbers={"implementation": implementation})


def _triton(nvidia: Nvidia, build: TorchBuild, device: str) -> Fact:
    numbers = {"version": build.triton or None}
    is_needed = implementation_on(device) == TRITON
    if not build.triton:
        if not is_needed and not nvidia.is_there:
            return Fact("Triton", "not installed, and not needed without a GPU", numbers=numbers)
        least = _dotted(LEAST_TRITON)
        advice = f"Install it: pip install 'triton>={least}'. CUDA builds of torch bring it along."
        return _missing(device)("Triton", "not installed", advice, **numbers)
    if tuple(_numbers(build.triton)[:2]) < LEAST_TRITON:
        least = _dotted(LEAST_TRITON)
        advice = f"The kernels are tried with {least} and newer: install a newer torch."
        return _missing(device)("Triton", build.triton, advice, **numbers)
    used = "" if is_needed else ", not used on the processor"
    return Fact("Triton", f"{build.triton}{used}", numbers=numbers)


def _missing(device: str) -> Callable[..., Fact]:
    """Return what makes a fact as bad as models need what is missing."""
    return problem if device == CUDA else note


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal()) or (0,)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
