"""Memory that was freed goes back to the system, where the C library can do that."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return freed memory to the system; without glibc there is nothing to be done.

    Loading frees weights by the hundred megabytes in pieces that glibc keeps for later.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
