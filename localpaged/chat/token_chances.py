"""Log probabilities of an answer's tokens as people and scripts read them: with the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localpaged.engine.events import TokenLogprob
from localpaged.prompt import ChatModel


@dataclass(frozen=True, slots=True)
class TokenChance:
    """A token that was chosen, its log probability, and the likeliest at its place with theirs.

    `text` is what a person reads in it, a replacement mark for a part of a character.
    """

    token_id: int
    text: str
    logprob: float
    alternatives: tuple[TokenChance, ...] = ()


def chances(logprobs: Sequence[TokenLogprob], model: ChatModel) -> tuple[TokenChance, ...]:
    """Return what the engine told of an answer's tokens, in the model's words."""
    return tuple(
        TokenChance(
            told.token_id,
            model.spell((told.token_id,)),
            told.logprob,
            tuple(
                TokenChance(token_id, model.spell((token_id,)), logprob)
                for token_id, logprob in told.alternatives
            ),
        )
        for told in logprobs
    )
