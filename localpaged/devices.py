"""Where models are computed: the processor or a CUDA card, chosen once with the reason.

The choice is plain Python over what `cards.py` read, so it is tried for machines that are not
there.
"""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.cards import LEAST_TRITON, Card, Cards, dotted, read_cards, version_numbers
from localpaged.config import DEVICE, Settings
from localpaged.errors import ConfigError

AUTO, CPU, CUDA = "auto", "cpu", "cuda"

CHOSEN = "the settings say so"
INSTALL_HINT = "`localpaged doctor` tells what is missing; docs/devices.md tells how to get it."


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
        return _on(best, _why(asked, cards))
    if not trouble and asked not in (AUTO, CUDA) and not wanted:
        count = len(cards.cards)
        trouble = f"torch sees {count} card{'s' * (count != 1)}, numbered from 0"
    trouble = trouble or "; ".join(f"{card.name} {card.trouble}" for card in wanted)
    if asked == AUTO:
        return Device(why=trouble)
    raise ConfigError(
        f"Models cannot be computed on {asked}: {trouble}.", hint=_hint(settings, cards)
    )


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
        return f"Triton {cards.triton} is older than {dotted(LEAST_TRITON)}"
    return ""


def _why(asked: str, cards: Cards) -> str:
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
