"""Pace: how much prompt a step may read while somebody's answer is streaming."""

from __future__ import annotations

SMOOTHING = 0.2
"""Weight of the newest step in the running averages."""


class Pace:
    """Learns what decoding and reading cost on this machine. Engine thread only.

    A step that only decodes takes `d` seconds; each prompt token added takes `p` seconds more. With
    at most (stretch - 1) · d / p prompt tokens a step stays within `stretch` times its length.
    """

    def __init__(self, *, stretch: float, smallest_tokens: int, largest_tokens: int) -> None:
        self._stretch = stretch
        self._smallest_tokens = smallest_tokens
        self._largest_tokens = largest_tokens
        self._decode_s: float | None = None
        self._token_s: float | None = None

    @property
    def token_s(self) -> float | None:
        """Seconds that one prompt token takes; None before the first was read."""
        return self._token_s

    def prompt_tokens(self) -> int:
        """Return the prompt tokens that fit into a step beside decodes."""
        if self._decode_s is None or self._token_s is None:
            return self._smallest_tokens
        fitting = int((self._stretch - 1) * self._decode_s / max(self._token_s, 1e-9))
        return max(self._smallest_tokens, min(fitting, self._largest_tokens))

    def learn(self, *, num_decodes: int, num_prompt_tokens: int, seconds: float) -> None:
        """Take the measured length of a step into account."""
        if num_prompt_tokens == 0:
            self._decode_s = blend(self._decode_s, seconds)
        elif num_decodes == 0:
            self._token_s = blend(self._token_s, seconds / num_prompt_tokens)
        elif self._decode_s is not None:
            extra_s = max(0.0, seconds - self._decode_s)
            self._token_s = blend(self._token_s, extra_s / num_prompt_tokens)


def blend(old: float | None, new: float) -> float:
    """Return the running average with one more measurement."""
    return new if old is None else (1 - SMOOTHING) * old + SMOOTHING * new
