"""Encodes plain text and spells token ids as bytes; control tokens do not exist here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer, models

from localpaged.models.tokenizer_data import TokenizerData

MAX_CHARS_IN_PLACE = 4_096
"""About a millisecond of work."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE_PIECE = "\u2581"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TextTokenizer:
    """The text part of a tokenizer. Immutable; thread-safe."""

    def __init__(self, data: TokenizerData) -> None:
        self._data = data
        self._first = Tokenizer.from_str(data.text_tokenizer)
        self._later = _without_space(self._first, data.text_tokenizer, in_schemes=("first",))

    def encode(self, text: str, *, is_first: bool = True, is_inside: bool = False) -> list[int]:
        """Return the ids of `text`; only a conversation's first text may gain a leading space.

        Tokenizers that put a space before every text between control tokens put none before one
        that `is_inside` such a text. Half characters (lone surrogates), which no model can read,
        become replacement marks.
        """
        if not text:
            return []
        if _SURROGATE.search(text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        tokenizer = self._inner if is_inside else self._first if is_first else self._later
        if len(text) > MAX_CHARS_IN_PLACE:
            # for a batch the library lets other Python threads run: a book must not stop the screen
            (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        else:
            encoding = tokenizer.encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids

    @cached_property
    def _inner(self) -> Tokenizer:
        return _without_space(
            self._later,
            self._data.text_tokenizer,
            in_schemes=("first", "always"),
            without_prepend=True,
        )

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The bytes each id stands for; b"" for control, unused and unknown ids."""
        pieces = self._text_pieces()
        added = self._first.get_added_tokens_decoder()
        controls = {control.id: control for control in self._data.controls}
        words = [
            "" if id_ in added else pieces.get(id_, "")
            for id_ in range(1 + max((*pieces, *controls), default=-1))
        ]
        spell = _byte_level_spelling if self._data.is_byte_level else _sentencepiece_spelling
        spelled = spell(words)
        has_spaces = _writes_spaces(self._first)
        for id_ in added.keys() & pieces.keys():
            piece = pieces[id_]
            spelled[id_] = (piece.replace(_SPACE_PIECE, " ") if has_spaces else piece).encode()
        for id_, control in controls.items():
            spelled[id_] = b"" if control.is_hidden else control.text.encode()
        return tuple(spelled)

    @cached_property
    def known_ids(self) -> frozenset[int]:
        """Every id that stands for something: text or control."""
        return frozenset((*self._text_pieces(), *(control.id for control in self._data.controls)))

    def _text_pieces(self) -> dict[int, str]:
        """Return the pieces that text is made of, by id."""
        silent = {*self._data.unused_ids, *(control.id for control in self._data.controls)}
        vocab = self._first.get_vocab(with_added_tokens=True)
        return {id_: piece for piece, id_ in vocab.items() if id_ not in silent}


def _without_space(
    tokenizer: Tokenizer,
    serialised: str,
    *,
    in_schemes: Sequence[str],
    without_prepend: bool = False,
) -> Tokenizer:
    """Return a tokenizer over the same model that adds no space before its text.

    `tokenizer` itself if it has neither one of the schemes nor, asked for, a step that prepends.
    The scheme `first` would take every piece after a control token for the beginning of the text.
    """
    signs = [f'"prepend_scheme":"{scheme}"' for scheme in in_schemes]
    if without_prepend:
        signs += ['"type":"Prepend"', '"add_prefix_space":true']
    compact = serialised.replace(" ", "")
    if not any(sign in compact for sign in signs):
        return tokenizer
    frame = json.loads(serialised)
    frame["added_tokens"] = []
    frame["model"] = json.loads(models.BPE().__getstate__())
    frame = _never_prepend(frame, in_schemes, without_prepend=without_prepend)
    later = Tokenizer.from_str(json.dumps(frame))
    later.model = tokenizer.model
    for added in tokenizer.get_added_tokens_decoder().values():
        later.add_tokens([added])
    return later


def _never_prepend(part: Any, schemes: Sequence[str], *, without_prepend: bool) -> Any:
    def go_on(part: Any) -> Any:
        return _never_prepend(part, schemes, without_prepend=without_prepend)

    if isinstance(part, list):
        return [kept for item in part if (kept := go_on(item)) is not None or item is None]
    if not isinstance(part, dict):
        return part
    if without_prepend and part.get("type") == "Prepend":
        return None
    part = {key: go_on(value) for key, value in part.items()}
    if part.get("prepend_scheme") in schemes:
        part["prepend_scheme"] = "never"
    if without_prepend and part.get("add_prefix_space") is True:
        part["add_prefix_space"] = False
    return part


def _writes_spaces(tokenizer: Tokenizer) -> bool:
    """Return whether added tokens, too, have their `▁` written as spaces, as Gemma's runs have."""
    decoder = json.loads(tokenizer.decoder.__getstate__()) if tokenizer.decoder else {}
    steps = decoder.get("decoders", [decoder])
    replaces = {"type": "Replace", "pattern": {"String": _SPACE_PIECE}, "content": " "}
    return replaces in steps or any(step.get("type") == "Metaspace" for step in steps)


def _byte_level_spelling(pieces: Sequence[str]) -> list[bytes]:
    """Spell all pieces at once: one character of the byte alphabet is one byte."""
    spelled = "".join(pieces).translate(_byte_alphabet())
    result, position = [], 0
    for piece in pieces:
        spelling = spelled[position : position + len(piece)]
        position += len(piece)
        try:
            result.append(spelling.encode("latin-1"))
        except UnicodeEncodeError:  # not in the byte alphabet: such a piece is its own text
            result.append(piece.encode())
    return result


def _byte_alphabet() -> dict[int, int]:
    """Map the characters that stand for bytes to these: printable ones stand for themselves,
    the others follow from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: byte for byte in printable}
    alphabet.update({0x100 + index: byte for index, byte in enumerate(others)})
    return alphabet


def _sentencepiece_spelling(pieces: Sequence[str]) -> list[bytes]:
    spelled = []
    for piece in pieces:
        if piece.startswith("<0x") and (byte := _BYTE_PIECE.fullmatch(piece)):
            spelled.append(bytes((int(byte[1], 16),)))
        else:
            spelled.append(piece.replace(_SPACE_PIECE, " ").encode())
    return spelled
