"""An answer as the tokens it was made of, each with how likely it was, and what else was."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass

from localpaged.engine.events import TokenLogprob
from localpaged.prompt import ChatModel

# less likely than this, a token is a surprise that is worth looking at
SURPRISING_PROBABILITY = 0.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that may stand at a place. `label` is what a person reads in it alone."""

    token_id: int
    label: str
    logprob: float

    @property
    def probability(self) -> float:
        """From 0 to 1, under the model's own distribution."""
        return math.exp(self.logprob)


@dataclass(frozen=True, slots=True)
class ViewedToken:
    """One token of an answer: `text` has the characters that are complete with it.

    `candidates` are the likeliest tokens at its place, best first, itself among them. Without
    any nobody could tell how likely it was.
    """

    token_id: int
    label: str
    text: str
    logprob: float = 0.0
    candidates: tuple[Candidate, ...] = ()

    @property
    def is_scored(self) -> bool:
        """Whether its likelihood is known."""
        return bool(self.candidates)

    @property
    def probability(self) -> float:
        """From 0 to 1; 1 where it is not known."""
        return math.exp(self.logprob) if self.is_scored else 1.0

    @property
    def is_surprising(self) -> bool:
        """Whether the model itself would seldom have written it."""
        return self.is_scored and self.probability < SURPRISING_PROBABILITY

    @property
    def bits(self) -> float:
        """How surprising it is: 0 for what is certain."""
        return -self.logprob / math.log(2) if self.is_scored else 0.0


@dataclass(frozen=True, slots=True)
class TokenView:
    """A whole answer. Not `is_exact`: its tokens were not kept, the text was cut into some anew.

    `cached_tokens` of the measured prompt were found in memory, `new_tokens` had to be computed.
    """

    chat_id: str
    turn_id: str
    model: str
    tokens: tuple[ViewedToken, ...]
    is_exact: bool
    cached_tokens: int
    new_tokens: int


def viewed(
    ids: Sequence[int], logprobs: Sequence[TokenLogprob], model: ChatModel
) -> tuple[ViewedToken, ...]:
    """Return an answer's tokens; those behind the last of `logprobs` have no likelihoods."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    tokens: list[ViewedToken] = []
    for place, (token_id, piece) in enumerate(zip(ids, model.pieces(ids), strict=True)):
        text = decoder.decode(piece)
        label = label_of(token_id, model)
        if place < len(logprobs):
            told = logprobs[place]
            candidates = tuple(
                Candidate(other, label_of(other, model), logprob)
                for other, logprob in sorted(told.alternatives, key=lambda pair: -pair[1])
            )
            tokens.append(ViewedToken(token_id, label, text, told.logprob, candidates))
        else:
            tokens.append(ViewedToken(token_id, label, text))
    return tuple(tokens)


def label_of(token_id: int, model: ChatModel) -> str:
    """Return what a person reads in one token; bytes that are no text by their numbers."""
    (piece,) = model.pieces((token_id,))
    try:
        piece.decode()
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in piece)
    return model.spell((token_id,))
