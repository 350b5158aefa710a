"""The border for text: what comes in is made storable once, and stays as it is from then on."""

from __future__ import annotations

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def storable(text: str) -> str:
    """Return `text` as SQLite and UTF-8 can keep it.

    Surrogate pairs become the character they mean; stray surrogates and NULs, which would make
    this and every later save fail or cut the text, become U+FFFD.
    """
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
