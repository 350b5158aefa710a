"""Facts of GPUs, of what computes and attends, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from localpaged.cards import (
    LEAST_TRITON,
    Card,
    Cards,
    card_trouble,
    dotted,
    version_numbers,
)
from localpaged.config import Settings
from localpaged.devices import CHOSEN, CUDA, Device, choose_device
from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.nvidia import Nvidia
from localpaged.doctor.torch_build import TorchBuild
from localpaged.errors import ConfigError
from localpaged_kernels.paged_attention.dispatch import TRITON, implementation_on

LEAST_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""What the CUDA of a build needs on Linux, by its first number (NVIDIA, minor versions)."""

NO_GPU = "none"
_CHOOSE_BUILD = "https://pytorch.org/get-started/locally tells how to get one for an older CUDA."
_GET_CUDA = (
    "Install a build with CUDA: `make cuda`, or pip install --force-reinstall torch "
    "--index-url https://download.pytorch.org/whl/cu130"
)
_GET_CUDA_DRIVER = LEAST_DRIVERS[13]
_IMPLEMENTATIONS = {
    "triton": "Triton's kernels",
    "torch": "torch's fused attention over gathered blocks",
    "reference": "the reference in plain torch, which is slow",
}


def gpu_facts(nvidia: Nvidia, build: TorchBuild, settings: Settings) -> Iterator[Fact]:
    """Tell driver, GPUs and whether torch can use them.

    What is missing is a problem where the settings ask for a card, and a note elsewhere.
    """
    missing = _missing(settings)
    yield _driver(nvidia, missing)
    yield from _gpus(nvidia, build, missing)
    yield _build(nvidia, build, missing)
    yield from _cards(build.cards, missing)


def kernel_facts(nvidia: Nvidia, build: TorchBuild, settings: Settings) -> Iterator[Fact]:
    """Tell where models are computed and why, with which attention, and Triton's version."""
    device = Device()
    try:
        device = choose_device(settings, build.cards)
    except ConfigError as error:
        yield problem("computes on", error.message, error.hint)
    else:
        yield _device(nvidia, build, device)
        yield _attention(device)
    yield _triton(nvidia, build.cards, device, _missing(settings))


def _missing(settings: Settings) -> Callable[..., Fact]:
    """Return what makes a fact as bad as the settings need what is missing."""
    return problem if settings.device.startswith(CUDA) else note


def _driver(nvidia: Nvidia, missing: Callable[..., Fact]) -> Fact:
    if nvidia.driver:
        if nvidia.trouble:
            advice = "Restart the machine: after an update the driver in memory is the old one."
            return missing("NVIDIA driver", f"{nvidia.driver}; {nvidia.trouble}", advice)
        return Fact("NVIDIA driver", nvidia.driver, numbers={"version": nvidia.driver})
    if nvidia.is_there:
        why = f"; {nvidia.trouble}" if nvidia.trouble else ""
        return missing(
            "NVIDIA driver",
            f"not loaded, and an NVIDIA GPU is in the machine{why}",
            "Install the driver of your distribution (`nvidia-smi` then answers).",
        )
    return Fact("NVIDIA driver", "none, and no NVIDIA GPU was found")


def _gpus(nvidia: Nvidia, build: TorchBuild, missing: Callable[..., Fact]) -> Iterator[Fact]:
    cards = build.cards.cards
    if not nvidia.is_there and not cards:
        yield Fact("GPU", NO_GPU)
        return
    names = [(gpu.name, gpu.capability, gpu.total_bytes) for gpu in nvidia.gpus] or [
        (card.name, card.capability, card.total_bytes) for card in cards
    ]
    free = [gpu.free_bytes for gpu in nvidia.gpus] or [None] * len(names)
    if not names:
        count = nvidia.num_cards or 1
        yield note("GPU", f"{count} of NVIDIA's; nothing tells which", "")
    for (name, capability, total), free_bytes in zip(names, free, strict=True):
        yield _gpu(name, capability, total, free_bytes, build=build, missing=missing)


def _gpu(
    name: str,
    capability: tuple[int, int] | None,
    total: int | None,
    free: int | None,
    *,
    build: TorchBuild,
    missing: Callable[..., Fact],
) -> Fact:
    parts = [name]
    numbers: dict[str, Any] = {"total_bytes": total, "free_bytes": free, "capability": None}
    if capability:
        numbers["capability"] = list(capability)
        parts.append(f"compute capability {capability[0]}.{capability[1]}")
    if total is not None:
        parts.append(f"{_gib(total)}")
    if free is not None:
        parts.append(f"{_gib(free)} free")
    text = ", ".join(parts)
    trouble = card_trouble(capability, build.architectures) if capability else ""
    if trouble:
        advice = f"It {trouble}: it stays unused."
        return missing("GPU", text, advice, **numbers)
    return Fact("GPU", text, numbers=numbers)


def _cards(cards: Cards, missing: Callable[..., Fact]) -> Iterator[Fact]:
    """Tell the cards by the numbers that `--device` takes."""
    for card in cards.cards:
        name = f"cuda:{card.index}"
        numbers = {"card": card.name, "free_bytes": card.free_bytes, "usable": not card.trouble}
        if card.trouble:
            advice = "End other programs that compute on it, if it is full."
            yield missing(name, f"{card.name} {card.trouble}", advice, **numbers)
        else:
            text = f"{card.name}, {_gib(card.free_bytes)} of {_gib(card.total_bytes)} free"
            yield Fact(name, text, numbers=numbers)


def _build(nvidia: Nvidia, build: TorchBuild, missing: Callable[..., Fact]) -> Fact:
    cards = build.cards
    numbers = {"cuda": cards.cuda or None, "usable_gpus": len(_usable(cards))}
    made = partial(Fact, "torch and GPU", numbers=numbers)
    if cards.cards:
        return made(f"a build for CUDA {cards.cuda}, which sees {len(cards.cards)}")
    missing = partial(missing, "torch and GPU", **numbers)
    if not cards.cuda:
        if not nvidia.is_there:
            return made("a build without CUDA, which is all that is needed here")
        advice = _GET_CUDA
        if nvidia.driver and version_numbers(nvidia.driver)[:2] < _GET_CUDA_DRIVER:
            advice += f" (with driver {dotted(_GET_CUDA_DRIVER)} or newer). {_CHOOSE_BUILD}"
        return missing("a GPU is here, and this torch is a build without CUDA", advice)
    if not nvidia.is_there:
        return made(f"a build for CUDA {cards.cuda}, and no GPU to use it with")
    needed = LEAST_DRIVERS.get(version_numbers(cards.cuda)[0])
    if needed and nvidia.driver and version_numbers(nvidia.driver)[:2] < needed:
        least = dotted(needed)
        return missing(
            f"CUDA {cards.cuda} of torch needs driver {least}; {nvidia.driver} is here",
            f"Update the driver to {least} or newer. {_CHOOSE_BUILD}",
        )
    advice = "See that `nvidia-smi` answers and CUDA_VISIBLE_DEVICES does not hide the GPU."
    return missing(f"a build for CUDA {cards.cuda} cannot use it: {cards.trouble}", advice)


def _device(nvidia: Nvidia, build: TorchBuild, device: Device) -> Fact:
    numbers = {"device": device.label, "why": device.why}
    text = f"{device.title}: {device.why}"
    is_surprise = not device.is_cuda and (nvidia.is_there or build.cards.cards)
    if is_surprise and device.why != CHOSEN:
        advice = "See the facts of this group; docs/devices.md tells what a card needs."
        return note("computes on", text, advice, **numbers)
    return Fact("computes on", text, numbers=numbers)


def _attention(device: Device) -> Fact:
    implementation = implementation_on(device.name)
    where = "a card" if device.is_cuda else "the processor"
    text = f"{_IMPLEMENTATIONS[implementation]}, because models are computed on {where}"
    if not device.is_cuda:
        text += "; compiled steps have their own"
    return Fact("attention", text, numbers={"implementation": implementation})


def _triton(nvidia: Nvidia, cards: Cards, device: Device, missing: Callable[..., Fact]) -> Fact:
    numbers = {"version": cards.triton or None}
    is_used = implementation_on(device.name) == TRITON
    least = dotted(LEAST_TRITON)
    if not cards.triton:
        if not nvidia.is_there and not cards.cards:
            return Fact("Triton", "not installed, and not needed without a GPU", numbers=numbers)
        advice = f"Install it: pip install 'triton>={least}'. CUDA builds of torch bring it along."
        return missing("Triton", "not installed", advice, **numbers)
    if version_numbers(cards.triton)[:2] < LEAST_TRITON:
        advice = f"The kernels are tried with {least} and newer: install a newer torch."
        return missing("Triton", cards.triton, advice, **numbers)
    used = "" if is_used else ", not used on the processor"
    return Fact("Triton", f"{cards.triton}{used}", numbers=numbers)


def _usable(cards: Cards) -> list[Card]:
    return [card for card in cards.cards if not card.trouble]


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
