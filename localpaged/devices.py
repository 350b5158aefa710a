"""Where models are computed: the processor or a CUDA card, chosen once with the reason.

What torch and its driver say is read by `read_cards`, on the engine's thread alone; the choice
itself is plain Python, so it can be tried for machines that are not there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

from localpaged.config import DEVICE, Settings
from localpaged.errors import ConfigError

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
LEAST_CAPABILITY = (8, 0)
LEAST_TRITON = (3, 6)

CHOSEN = "the settings say so"
INSTALL_HINT = "`localpaged doctor` tells what is missing; docs/devices.md tells how to get it."


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


@dataclass(frozen=True, slots=True)
class Device:
    """Where a model is computed, and `why` there. Bytes are a card's when it was looked at.

    `name` is cpu or cuda. Of the processor nothing else is told: its memory is the machine's.
    """

    name: str = CPU
    index: int = 0
    card: str = ""
    capability: tuple[int, int] | None = None
    total_bytes: int = 0
    free_bytes: int = 0
    why: str = ""

    @property
    def is_cuda(self) -> bool:
        """Whether it is a card."""
        return self.name == CUDA

    @property
    def label(self) -> str:
        """How it is told in pictures of the engine: cpu, cuda:0."""
        return f"{CUDA}:{self.index}" if self.is_cuda else CPU

    @property
    def title(self) -> str:
        """How it is told in sentences."""
        return f"{self.label} ({self.card})" if self.is_cuda else "the processor"


def choose_device(settings: Settings, cards: Cards | None = None) -> Device:
    """Return where to compute. Imports torch, unless `cards` says what it offers.

    Without a wish it is the usable card with most free memory, else the processor, with the reason.
    Raises ConfigError when a card is asked for that is not there or cannot be used.
    """
    asked = settings.device
    if asked == CPU:
        return Device(why=CHOSEN)
    if cards is None:
        cards = read_cards()
    trouble = _trouble(cards)
    wanted = _wanted(asked, cards)
    usable = [card for card in wanted if not card.trouble] if not trouble else []
    if usable:
        best = max(usable, key=lambda card: (card.free_bytes, -card.index))
        return _on(best, _why(asked, best, cards))
    if not trouble and asked not in (AUTO, CUDA) and not wanted:
        count = len(cards.cards)
        trouble = f"torch sees {count} card{'s' * (count != 1)}, numbered from 0"
    trouble = trouble or "; ".join(f"{card.name} {card.trouble}" for card in wanted)
    if asked == AUTO:
        return Device(why=trouble)
    raise ConfigError(
        f"Models cannot be computed on {asked}: {trouble}.", hint=_hint(settings, cards)
    )


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
    told = _dotted(capability)
    if capability < LEAST_CAPABILITY:
        least = _dotted(LEAST_CAPABILITY)
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


def _wanted(asked: str, cards: Cards) -> tuple[Card, ...]:
    found = DEVICE.fullmatch(asked)
    assert found is not None, "settings are checked when they are made"
    if found[1] is None:
        return cards.cards
    return tuple(card for card in cards.cards if card.index == int(found[1]))


def _trouble(cards: Cards) -> str:
    """Return why no card at all can be used, empty if nothing stands against it."""
    if not cards.cuda:
        return "this torch is a build without CUDA"
    if not cards.cards:
        return f"torch, built for CUDA {cards.cuda}, finds no card: {cards.trouble.rstrip('.')}"
    if not cards.triton:
        return "Triton is not installed"
    if version_numbers(cards.triton)[:2] < LEAST_TRITON:
        return f"Triton {cards.triton} is older than {_dotted(LEAST_TRITON)}"
    return ""


def _why(asked: str, best: Card, cards: Cards) -> str:
    if asked not in (AUTO, CUDA):
        return CHOSEN
    if len(cards.cards) == 1:
        return "it is the machine's card"
    return f"of {len(cards.cards)} cards it has the most free memory that can be used"


def _hint(settings: Settings, cards: Cards) -> str:
    origin = settings.origin("device")
    others = [f"{CUDA}:{card.index}" for card in cards.cards if not card.trouble]
    if others and not _trouble(cards):
        return f"There is {', '.join(others)}; without {origin} one is chosen."
    return f"Leave out {origin} to compute on the processor. {INSTALL_HINT}"


def _on(card: Card, why: str) -> Device:
    return Device(
        CUDA, card.index, card.name, card.capability, card.total_bytes, card.free_bytes, why
    )


def _first_line(what: Any) -> str:
    lines = str(what).strip().splitlines()
    return lines[0] if lines else type(what).__name__


def _triton_version() -> str:
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return ""


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
