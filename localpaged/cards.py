"""CUDA cards as torch and its driver tell them; read on the engine's thread alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

LEAST_CAPABILITY = (8, 0)
LEAST_TRITON = (3, 6)


@dataclass(frozen=True, slots=True)
class Card:
    """A CUDA card as torch sees it; `trouble` is why it cannot be used, empty if it can."""

    index: int
    name: str
    capability: tuple[int, int]
    total_bytes: int
    free_bytes: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Cards:
    """What the installed torch offers beside the processor.

    `cuda` is the CUDA it was built for, empty in a build for processors; `trouble` why it can use
    no card, and `triton` the version of Triton, empty without it.
    """

    cuda: str = ""
    cards: tuple[Card, ...] = ()
    trouble: str = ""
    triton: str = ""


def read_cards() -> Cards:
    """Import torch and look at the cards it can use. Raises ImportError and OSError as torch does.

    A build for processors is told by its version alone, so nothing is loaded for it.
    """
    import torch

    cuda = str(torch.version.cuda or "")
    if not cuda:
        return Cards(triton=_triton_version())
    cards: tuple[Card, ...] = ()
    trouble = ""
    with warnings.catch_warnings(record=True) as said:
        # why there is none, such as a driver that is too old, is told by a warning alone
        warnings.simplefilter("always")
        try:
            if torch.cuda.is_available():
                cards = tuple(_read(torch.cuda.device_count()))
        except Exception as error:
            # a driver in a bad state raises what it likes
            trouble = _first_line(error)
    if not cards and not trouble:
        trouble = _first_line(said[-1].message) if said else "torch finds no card"
    return Cards(cuda, cards, trouble, _triton_version())


def is_compiled_for(capability: tuple[int, int], architectures: Sequence[str]) -> bool:
    """Whether a torch with code for these architectures, such as sm_90, runs on a card.

    Code for 8.0 runs on 8.6; a build may also have what drivers compile for newer cards.
    """
    for name in architectures:
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


def card_trouble(capability: tuple[int, int], architectures: Sequence[str]) -> str:
    """Return why a card of this compute capability cannot be used, empty if it can."""
    told = dotted(capability)
    if capability < LEAST_CAPABILITY:
        least = dotted(LEAST_CAPABILITY)
        return f"has compute capability {told}, and the kernels need {least} or newer"
    if architectures and not is_compiled_for(capability, architectures):
        return f"has compute capability {told}, for which this torch has no code"
    return ""


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, (0,) when there are none."""
    parts = version.split("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal()) or (0,)


def _read(count: int) -> Iterator[Card]:
    import torch

    architectures = torch.cuda.get_arch_list()
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        capability = (int(properties.major), int(properties.minor))
        card = Card(
            index,
            str(properties.name),
            capability,
            int(properties.total_memory),
            0,
            card_trouble(capability, architectures),
        )
        yield card if card.trouble else _with_free_bytes(card, is_one_of_many=count > 1)


def _with_free_bytes(card: Card, *, is_one_of_many: bool) -> Card:
    """Looking at a card makes a context on it, which takes some of its memory until we end.

    So among several cards the driver's own library is asked, where its package is installed.
    """
    import torch

    try:
        if is_one_of_many:
            try:
                used = int(torch.cuda.device_memory_used(card.index))
                return replace(card, free_bytes=max(0, card.total_bytes - used))
            except ModuleNotFoundError:
                pass  # nvidia-ml-py is not there: then the context is the price
        free, _ = torch.cuda.mem_get_info(card.index)
    except RuntimeError as error:
        # not even a context has room on it, or another program has it for itself
        return replace(card, trouble=f"cannot be opened: {_first_line(error)}")
    return replace(card, free_bytes=int(free))


def dotted(numbers: tuple[int, ...]) -> str:
    """Return a version as people write it."""
    return ".".join(map(str, numbers))


def _first_line(what: Any) -> str:
    lines = str(what).strip().splitlines()
    return lines[0] if lines else type(what).__name__


def _triton_version() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""
