"""What torch tells of itself, of the processor and of cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localpaged.cards import Cards, read_cards


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """The installed torch, and the cards it can use.

    `cpu` are the processor's abilities by torch's names; `capability` is what its operators are
    built for. `architectures` are those that its own kernels were compiled for, such as sm_90.
    """

    version: str = ""
    cpu: Mapping[str, Any] = field(default_factory=dict)
    capability: str = ""
    num_threads: int = 0
    cards: Cards = field(default_factory=Cards)
    architectures: tuple[str, ...] = ()


def read_torch() -> TorchBuild:
    """Import torch and look at it. Raises ImportError, OSError for a library that is missing."""
    import torch

    cards = read_cards()
    return TorchBuild(
        version=str(torch.__version__),
        cpu=torch.cpu.get_capabilities(),
        capability=str(torch.backends.cpu.get_cpu_capability()),
        num_threads=torch.get_num_threads(),
        cards=cards,
        architectures=tuple(torch.cuda.get_arch_list()) if cards.cards else (),
    )
