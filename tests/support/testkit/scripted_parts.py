"""What a scripted engine keeps of its requests, and how it shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localpaged.engine.events import Event, PromptLogprobsEvent, TokenLogprob
from localpaged.engine.params import BLOCK_SIZE_TOKENS, Request, SamplingParams
from localpaged.engine.snapshot import SequenceView
from testkit.fake_model import END_ID

if TYPE_CHECKING:
    from testkit.scripted_engine import Answer


@dataclass(slots=True)
class Running:
    """A request on its way."""

    request: Request
    answer: Answer
    submitted_at: float
    cached_tokens: int = 0
    computed_tokens: int = 0
    sent: int = 0
    sent_ids: list[int] = field(default_factory=list)
    first_token_at: float = 0.0
    last_token_at: float = 0.0

    @property
    def num_tokens(self) -> int:
        """Prompt and answer so far."""
        return len(self.request.prompt_ids) + self.sent

    @property
    def is_prefilled(self) -> bool:
        """Whether the prompt is read."""
        return self.computed_tokens >= len(self.request.prompt_ids)


@dataclass(slots=True)
class Totals:
    """Counts since the start, and what was computed for which chat."""

    steps: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generated_tokens: int = 0
    residue_blocks: int = 0
    sequences_by_chat: dict[str, list[tuple[str, tuple[int, ...]]]] = field(default_factory=dict)

    def keep(self, request: Request, ids: tuple[int, ...]) -> None:
        """Remember what was computed for a request."""
        self.sequences_by_chat.setdefault(request.chat_id, []).append((request.model, ids))

    def cached_tokens(self, request: Request) -> int:
        """Return how much of a prompt its chat had computed by the same model, in whole blocks."""
        common = max(
            (
                num_common(request.prompt_ids[:-1], ids)
                for model, ids in self.sequences_by_chat.get(request.chat_id, ())
                if model == request.model
            ),
            default=0,
        )
        return common - common % BLOCK_SIZE_TOKENS


def view(running: Running, *, is_loaded: bool) -> SequenceView:
    """Return how a request is shown."""
    state = "decode" if running.is_prefilled else "prefill" if is_loaded else "waiting"
    shared_blocks = running.cached_tokens // BLOCK_SIZE_TOKENS
    return SequenceView(
        request_id=running.request.id,
        chat_id=running.request.chat_id,
        state=state,
        queue_position=0 if state == "waiting" else None,
        num_tokens=running.num_tokens,
        num_computed=running.computed_tokens + max(0, running.sent - 1),
        shared_blocks=shared_blocks,
        own_blocks=num_blocks(running.num_tokens) - shared_blocks,
    )


def num_blocks(num_tokens: int) -> int:
    """Return how many blocks hold that many tokens."""
    return -(-num_tokens // BLOCK_SIZE_TOKENS)


def num_common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many ids two sequences begin with in common."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def scored_prompt(request: Request) -> list[Event]:
    """Return what is told of a prompt where that is asked for: every fifth token is a surprise."""
    if request.prompt_logprobs is None:
        return []
    start = max(1, request.prompt_logprobs_from)
    told = tuple(
        TokenLogprob(token_id, -4.0, ((ord("x"), -0.1), (ord("y"), -2.5), (token_id, -4.0)))
        if place % 5 == 4
        else TokenLogprob(token_id, -0.1, ((token_id, -0.1), (ord("x"), -2.5), (END_ID, -4.0)))
        for place, token_id in enumerate(request.prompt_ids[start:])
    )
    return [PromptLogprobsEvent(request.id, start, told)]


def told_logprobs(sampling: SamplingParams, token_ids: Sequence[int]) -> tuple[TokenLogprob, ...]:
    """Return log probabilities where they are asked for: the token's own, then worse ones."""
    if sampling.logprobs is None:
        return ()
    return tuple(
        TokenLogprob(
            token_id,
            -0.25,
            tuple((token_id + place, -0.25 - place) for place in range(sampling.logprobs)),
        )
        for token_id in token_ids
    )
