"""SwapPace: whether KV is better fetched from host memory or computed once more."""

from __future__ import annotations

from localpaged.engine.pace import Pace, blend
from localpaged.engine.params import HostUse

FORGETTING = 0.99
"""What every refusal leaves of the measured cost: one slow copy must not refuse for ever."""


class SwapPace:
    """Learns what copying a block costs on this machine. Engine thread only.

    A block is `block_size` tokens to compute, or one copy to fetch; to keep it costs a copy now as
    well. What was not measured yet is tried. `use` decides instead of the measurements.
    """

    def __init__(self, use: HostUse, pace: Pace, *, block_size: int) -> None:
        self._use = use
        self._pace = pace
        self._block_size = block_size
        self._block_s: float | None = None

    def should_keep(self) -> bool:
        """Return whether an evicted block should go to host memory, to be fetched again later."""
        return self._decide(num_copies=2)

    def should_fetch(self) -> bool:
        """Return whether a block in host memory should be fetched instead of computed."""
        return self._decide(num_copies=1)

    def learn(self, *, num_blocks: int, seconds: float) -> None:
        """Take the measured time of copies into account."""
        if num_blocks:
            self._block_s = blend(self._block_s, seconds / num_blocks)

    def _decide(self, *, num_copies: int) -> bool:
        if self._use != "auto":
            return self._use == "always"
        token_s = self._pace.token_s
        if self._block_s is None or token_s is None:
            return True
        if num_copies * self._block_s <= self._block_size * token_s:
            return True
        self._block_s *= FORGETTING
        return False
