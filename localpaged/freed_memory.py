"""Memory that was freed goes back: to the system where the C library can do that, and a card's."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Return freed memory to the system and to the card. The engine's thread only.

    Loading frees weights by the hundred megabytes in pieces that glibc keeps for later; another C
    library is let be. torch keeps what is freed on a card, and the driver would not call it free.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
