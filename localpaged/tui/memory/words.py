"""What states and ages of blocks are called."""

from __future__ import annotations

from localpaged.engine.inspection import AGE_BOUNDS_S, BlockState

UNLISTED = "a chat that is not listed"
STATE_WORDS = {
    BlockState.FREE: "free",
    BlockState.HELD: "in use",
    BlockState.CACHED: "cached, can be evicted",
    BlockState.PINNED: "pinned",
}
_AGE_WORDS = ("1 s", "5 s", "15 s", "1 min", "5 min", "15 min", "1 h", "4 h")
assert len(_AGE_WORDS) == len(AGE_BOUNDS_S)


def age_words(bucket: int) -> str:
    """Return how long ago byte `bucket` of an age map was: less than 5 s ago."""
    if bucket == 0:
        return "now"
    if bucket >= len(_AGE_WORDS):
        return f"more than {_AGE_WORDS[-1]} ago"
    return f"less than {_AGE_WORDS[bucket]} ago"
