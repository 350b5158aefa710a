"""A chat model without a tokenizer: one token a character, so that prompts can be read in tests.

An answer may come in pieces of several characters, each of them one token. What its text alone
would be encoded as is other ids then, as with real tokenizers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localpaged.prompt import ReasoningMarks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localpaged.prompt import PromptMessage

_CONTROL_BASE = 0x110000  # above every Unicode code point: no text can forge these ids
_PIECE_BASE = 0x200000
HALF_BASE = 0x400000  # plus a byte: a token that is a part of a character
_ROLE_IDS = {"system": _CONTROL_BASE, "user": _CONTROL_BASE + 1, "assistant": _CONTROL_BASE + 2}
_ROLES = {role_id: role for role, role_id in _ROLE_IDS.items()}
END_ID = _CONTROL_BASE + 3
_NAMES = {**{role_id: f"<{role}>" for role_id, role in _ROLES.items()}, END_ID: "<end>"}
_PIECE_IDS: dict[str, int] = {"": 0}  # pieces of several characters get an id when first seen
_PIECES: dict[int, str] = {0: ""}
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def piece_id(piece: str) -> int:
    """Return the one token that stands for a piece of an answer."""
    if len(piece) == 1:
        return ord(piece)
    if piece not in _PIECE_IDS:
        _PIECE_IDS[piece] = _PIECE_BASE + len(_PIECE_IDS)
        _PIECES[_PIECE_IDS[piece]] = piece
    return _PIECE_IDS[piece]


class FakeChatModel:
    """Implements ChatModel. A message is its role's id, its characters and END_ID.

    Answers that know their ids are written with them, as far as they spell the text, unless
    `keeps_ids` is False. `strips_thoughts` cuts `<think>` out of answers; `preamble` comes first.
    `thinks`: its reasoning is marked; `opens_thoughts`: prompts end with the first mark.
    """

    def __init__(
        self,
        *,
        name: str = "fake-model",
        fingerprint: str = "fake",
        context_length: int = 8_192,
        keeps_ids: bool = True,
        strips_thoughts: bool = False,
        preamble: str = "",
        thinks: bool = False,
        opens_thoughts: bool = False,
    ) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self._context_length = context_length
        self.keeps_ids = keeps_ids
        self.strips_thoughts = strips_thoughts
        self.preamble = preamble
        self.thinks = thinks or opens_thoughts
        self.opens_thoughts = opens_thoughts

    @property
    def name(self) -> str:
        """The name the model is listed under."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Tells models apart whose token ids must never be mixed."""
        return self._fingerprint

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        return self._context_length

    @property
    def reasoning(self) -> ReasoningMarks | None:
        """The marks around what the model thinks."""
        return ReasoningMarks("<think>", "</think>") if self.thinks else None

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Return the prompt's ids; `continue_last` leaves the last message open."""
        ids: list[int] = [*map(ord, self.preamble)]
        for message in messages:
            ids += [_ROLE_IDS[message.role], *self._content(message), END_ID]
        if continue_last:
            assert messages[-1].role == "assistant", "only an assistant's message is continued"
            return tuple(ids[:-1])
        opening = map(ord, "<think>\n") if self.opens_thoughts else ()
        return (*ids, _ROLE_IDS["assistant"], *opening)

    def pieces(self, ids: Sequence[int]) -> Sequence[bytes]:
        """Return what each id adds to an answer; nothing for roles and ends."""
        return [b"" if id_ in _NAMES else _piece_bytes(id_) for id_ in ids]

    def spell(self, ids: Sequence[int]) -> str:
        """Return what the ids stand for."""
        return "".join(_spelling(token_id) for token_id in ids)

    def _content(self, message: PromptMessage) -> list[int]:
        text, kept = message.text, 0
        if self.strips_thoughts and message.role == "assistant":
            text = _THOUGHT.sub("", text)
        known = message.token_ids or ()
        if text == message.text and self.keeps_ids:
            while kept < len(known) and text.startswith(self.spell(known[: kept + 1])):
                kept += 1
        return [*known[:kept], *map(ord, text[len(self.spell(known[:kept])) :])]


def read_prompt(prompt_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Turn rendered ids back into (role, text) pairs; the last one is the answer's opening."""
    pairs: list[tuple[str, str]] = []
    for token_id in prompt_ids:
        if token_id in _ROLES:
            pairs.append((_ROLES[token_id], ""))
        elif token_id != END_ID:
            role, text = pairs[-1]
            pairs[-1] = (role, text + _spelling(token_id))
    return pairs


def _piece_bytes(token_id: int) -> bytes:
    if token_id >= HALF_BASE:
        return bytes([token_id - HALF_BASE])
    return _spelling(token_id).encode("utf-8", "surrogatepass")


def _spelling(token_id: int) -> str:
    known = _NAMES.get(token_id) or _PIECES.get(token_id)
    if known is None and token_id >= _PIECE_BASE:
        return "\ufffd"  # half a character, or a piece that another process has seen
    return known if known is not None else chr(token_id)
