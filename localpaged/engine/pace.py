"""Pace: how much prompt a step may read while somebody's answer is streaming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SMOOTHING = 0.2
"""Weight of the newest step in the running averages."""

SHORT_CONTEXT_BITS = 9
"""Below 512 tokens attention costs little beside the rest: they share one measurement."""


@dataclass(slots=True)
class _ReadingCost:
    """Seconds that one prompt token takes where so much is read before it."""

    alone_s: float | None = None
    beside_decodes_s: float | None = None


@dataclass(slots=True)
class Pace:
    """Learns what decoding and reading cost on this machine. Engine thread only.

    A step that decodes takes `d` seconds, by the number of its rows; each prompt token added takes
    `p` seconds more, by the length of what is read before it, to which it attends. With at most
    (stretch - 1) · d / p prompt tokens a step stays within `stretch` times its length. For what is
    soon over it may take `stall_s` seconds, where that is more. Where nothing was measured yet, the
    nearest that was stands for it.
    """

    stretch: float
    stall_s: float
    smallest_tokens: int
    first_tokens: int
    largest_tokens: int
    _decode_s: dict[int, float] = field(default_factory=dict)
    _reading: dict[int, _ReadingCost] = field(default_factory=dict)

    @property
    def token_s(self) -> float | None:
        """Seconds that one token of a short prompt takes; None before the first was read."""
        return self.token_s_behind(0)

    def token_s_behind(self, context: int) -> float | None:
        """Seconds that a prompt token takes behind `context` others; None before one was read."""
        known = _nearest(self._reading, _class_of(context))
        if known is None:
            return None
        cost = self._reading[known]
        # Small pieces beside decodes share less of a step's fixed cost than whole steps do.
        return cost.alone_s if cost.beside_decodes_s is None else cost.beside_decodes_s

    def decode_s(self, num_decodes: int) -> float | None:
        """Seconds of a step that only decodes so many rows; None before one was measured."""
        count = _nearest(self._decode_s, num_decodes)
        # More rows than were measured take longer by an unknown part: better too short a step.
        return None if count is None else self._decode_s[count] * min(1.0, num_decodes / count)

    def longest_reading_s(self, num_decodes: int) -> float | None:
        """Seconds that prompts may add to a step beside decodes; None before one was measured."""
        decode_s = self.decode_s(num_decodes)
        if decode_s is None:
            return None
        return max((self.stretch - 1) * decode_s, self.stall_s - decode_s)

    def prompt_tokens(self, *, num_decodes: int, context: int) -> int:
        """Return the prompt tokens behind `context` others that fit into a step beside decodes."""
        decode_s, token_s = self.decode_s(num_decodes), self.token_s_behind(context)
        if decode_s is None or token_s is None:
            return self.first_tokens
        fitting = int((self.stretch - 1) * decode_s / max(token_s, 1e-9))
        return max(self.smallest_tokens, min(fitting, self.largest_tokens))

    def learn(
        self, *, num_decodes: int, num_prompt_tokens: int, context: int, seconds: float
    ) -> None:
        """Take the measured length of a step into account; `context` as in `prompt_tokens`."""
        if num_prompt_tokens == 0:
            self._decode_s[num_decodes] = blend(self._decode_s.get(num_decodes), seconds)
            return
        cost = self._reading.setdefault(_class_of(context), _ReadingCost())
        if num_decodes == 0:
            cost.alone_s = blend(cost.alone_s, seconds / num_prompt_tokens)
            return
        decode_s = self.decode_s(num_decodes)
        if decode_s is not None:
            extra_s = max(0.0, seconds - decode_s) / num_prompt_tokens
            cost.beside_decodes_s = blend(cost.beside_decodes_s, extra_s)


def blend(old: float | None, new: float) -> float:
    """Return the running average with one more measurement."""
    return new if old is None else (1 - SMOOTHING) * old + SMOOTHING * new


def _class_of(context: int) -> int:
    """Contexts that are less than twice as long as each other may share a measurement."""
    return max(SHORT_CONTEXT_BITS, context.bit_length())


def _nearest(measured: Mapping[int, object], wanted: int) -> int | None:
    return min(measured, key=lambda key: (abs(key - wanted), key), default=None)
