"""A chat on its way between a file and the history."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from localpaged.store.rows import Chat, Message, Turn
from localpaged.store.tree import make_message

# Crockford's base 32, as ids are written
_ID_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
ID_CHARS = 26


class TextSink(Protocol):
    """Where texts are written: a file, or what stands for one."""

    def write(self, text: str, /) -> object:
        """Take a text. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A chat out of a file: its rows as the history has them, `messages` with parents first.

    The names of messages are made from their texts, never taken from the file.
    """

    chat: Chat
    messages: Sequence[Message]
    turns: Sequence[Turn]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Tree:
    """Messages as they are put together, each once; not for several threads."""

    messages: dict[str, Message] = field(default_factory=dict)

    def add(self, parent_hash: str | None, role: str, text: str) -> Message:
        """Return the message below `parent_hash`, which must be in the tree."""
        message = make_message(parent_hash, role, text)
        return self.messages.setdefault(message.hash, message)


def is_id(text: object) -> bool:
    """Whether that is an id as the history makes them."""
    return isinstance(text, str) and len(text) == ID_CHARS and set(text) <= set(_ID_DIGITS)


def id_from(*words: str) -> str:
    """Return the id that always stands for these words: importing twice makes nothing twice."""
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=16).digest()
    number = int.from_bytes(digest, "big")
    digits = []
    for _ in range(ID_CHARS):
        number, digit = divmod(number, len(_ID_DIGITS))
        digits.append(_ID_DIGITS[digit])
    return "".join(reversed(digits))
