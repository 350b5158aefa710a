"""What a tokenizer is, as plain data: made once from a model's files, then kept in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONTROL_PREFIX = "\0"  # hides a control token's text in the vocabulary: no text leads there


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A token that text can never produce: it marks turns, beginnings and ends.

    `is_hidden` tokens have no text in an answer; the others (as `<think>`) are shown.
    `strips_left` and `strips_right` swallow the white space around the token in a template.
    """

    id: int
    text: str
    is_hidden: bool = True
    strips_left: bool = False
    strips_right: bool = False


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """Everything that is needed to encode, decode and render.

    `text_tokenizer` is a `tokenizers` JSON that knows no control token. `is_byte_level` tells
    how its pieces spell bytes: the byte alphabet of GPT-2, else SentencePiece's `▁` and `<0x0A>`.
    `adds_bos` is for raw text; chat templates write their own.
    `special_texts` are the template's variables bos_token, eos_token and so on.
    """

    text_tokenizer: str
    is_byte_level: bool
    controls: tuple[ControlToken, ...]
    unused_ids: tuple[int, ...]
    bos_id: int | None
    adds_bos: bool
    adds_space: bool
    eos_ids: tuple[int, ...]
    chat_template: str | None
    special_texts: Mapping[str, str]
