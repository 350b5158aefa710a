"""Short messages in a corner: each once, however often the key that brings it is pressed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Notices:
    """Knows which messages are still on the screen. UI thread only."""

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._until_s: dict[str, float] = {}

    def is_new(self, text: str, *, for_s: float) -> bool:
        """Whether a message is to be shown, for that long; not while it is shown already."""
        now_s = self._clock_s()
        self._until_s = {known: end for known, end in self._until_s.items() if end > now_s}
        is_new = text not in self._until_s
        if is_new:
            self._until_s[text] = now_s + for_s
        return is_new
