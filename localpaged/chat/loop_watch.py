"""Whether an answer repeats itself word for word and says nothing else any more.

Small models run into such loops and go on to the end of their context. What counts is the text
alone, so it is the same for every model: its end must be one stretch over and over, many times and
for long. Lines, lists, tables, data and code of people repeat themselves less than that
(docs/loops.md has the figures); who wants more has the answer continued.
"""

from __future__ import annotations

MIN_REPEATED_CHARS = 4_000
"""About a thousand tokens of nothing new."""
MIN_REPEATS = 8
MAX_PERIOD_CHARS = 2_000
CHECKED_EVERY_CHARS = 200
NEEDLE_CHARS = 64
"""What the end is looked for by; a longer stretch may have it more than once."""
MAX_CANDIDATES = 8
_KEPT_CHARS = max(MIN_REPEATED_CHARS, MIN_REPEATS * MAX_PERIOD_CHARS)


class LoopWatch:
    """Follows one answer. One thread.

    Invariant: `_end` has the last characters that were taken, at most as many as can matter.
    """

    def __init__(self) -> None:
        self._end = ""
        self._unchecked = 0

    def take(self, text: str) -> bool:
        """Take what was added; return whether the answer repeats itself by now.

        Costs microseconds, and those once in `CHECKED_EVERY_CHARS` characters.
        """
        self._end += text
        self._unchecked += len(text)
        if self._unchecked < CHECKED_EVERY_CHARS:
            return False
        self._unchecked = 0
        self._end = self._end[-_KEPT_CHARS:]
        return repeats_itself(self._end)


def repeats_itself(text: str) -> bool:
    """Return whether a text ends with one stretch many times, without a difference."""
    length = len(text)
    needle = text[-NEEDLE_CHARS:]
    at = length - len(needle)
    for _ in range(MAX_CANDIDATES):
        at = text.rfind(needle, 0, at + len(needle) - 1)
        period = length - len(needle) - at
        if at < 0 or period > MAX_PERIOD_CHARS:
            return False
        repeated = max(MIN_REPEATED_CHARS, MIN_REPEATS * period)
        start = length - repeated
        if start >= 0 and text[start : length - period] == text[start + period :]:
            return True
    return False
