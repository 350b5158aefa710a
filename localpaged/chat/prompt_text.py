"""The prompt of an answer as its model reads it: template, control tokens and all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from localpaged.chat.prompting import text_of
from localpaged.prompt import ChatModel


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """A stretch of a prompt: text, or one control token by its name."""

    text: str
    is_control: bool


@dataclass(frozen=True, slots=True)
class PromptText:
    """What stood before an answer. `is_as_read`: these are the very tokens that were read, and not
    those that it would be made of now; `cached_tokens` of them were in memory, None: not known.
    """

    model_name: str
    pieces: tuple[PromptPiece, ...]
    num_tokens: int
    is_as_read: bool
    cached_tokens: int | None


def prompt_pieces(ids: Sequence[int], model: ChatModel) -> tuple[PromptPiece, ...]:
    """Return a prompt in stretches; a control token in a message's text is text, as for a model."""
    found: list[PromptPiece] = []
    spelled = zip(ids, model.pieces(ids), strict=True)
    for is_control, group in groupby(spelled, key=lambda pair: not pair[1]):
        if is_control:
            found += [PromptPiece(model.spell((id_,)), True) for id_, _ in group]
        else:
            found.append(PromptPiece(text_of([piece for _, piece in group]), False))
    return tuple(piece for piece in found if piece.text)
