"""What the engine tells its listeners. Frozen values; they may cross threads."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import RequestId
from localpaged.errors import LocalPagedError


@dataclass(frozen=True, slots=True)
class Usage:
    """The bill of one request. Times are in seconds.

    `prompt_tokens` = `cached_tokens` (found in the prefix tree) + tokens computed by prefill.
    `load_s` runs from submit until the model was loaded, 0 when it was; `ttft_s` from then to the
    first token, `decode_s` from the first to the last one.
    `is_cache_told`: an endpoint may not say what of a prompt it had.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ttft_s: float
    decode_s: float
    is_cache_told: bool = True
    load_s: float = 0.0

    @property
    def new_tokens(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def decode_tokens_per_s(self) -> float:
        """Speed after the first token; 0 when there is only one."""
        return (self.completion_tokens - 1) / self.decode_s if self.decode_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PrefillEvent:
    """How far the prompt is: `cached_tokens` from the tree, `computed_tokens` cached included.

    `restored_tokens` of the cached ones came from files; `restore_note` is a sentence that tells
    why not more of them.
    """

    request_id: RequestId
    cached_tokens: int
    computed_tokens: int
    prompt_tokens: int
    restored_tokens: int = 0
    restore_note: str = ""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's log probability under the model's own distribution, before any sampling parameter.

    `alternatives` are the likeliest token ids with theirs, best first, and this token at the end
    when it is not among them. All numbers are finite.
    """

    token_id: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class PromptLogprobsEvent:
    """Log probabilities of the prompt's tokens from number `start` on, each after all before it.

    The first token (number 0) follows nothing and has none. Chunks come in order, without gaps
    and without overlap, from `Request.prompt_logprobs_from` on.
    """

    request_id: RequestId
    start: int
    logprobs: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """New text. `token_ids` are the sampled ids since the last event; `text` may be empty.

    An endpoint tells no ids. Text is held back while it may be half a character or the start of a
    stop string.
    `branch` counts a request's answers from 0. `logprobs` has one entry a token where they were
    asked for.
    """

    request_id: RequestId
    token_ids: tuple[int, ...]
    text: str
    branch: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """An answer is over; all its text has been sent. `is_last`: and so is its request.

    `usage` is None where an endpoint told none. `score` is a beam's: its log probability over
    length ** length_penalty.
    """

    request_id: RequestId
    reason: FinishReason
    usage: Usage | None
    branch: int = 0
    is_last: bool = True
    score: float | None = None


@dataclass(frozen=True, slots=True)
class FailEvent:
    """The request is over with an error, all its answers; text sent before stays valid."""

    request_id: RequestId
    error: LocalPagedError


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """A stage of loading: `done` of `total` in `unit` ("bytes", "blocks"); total 0 = unknown.

    `model_name` is "" for the engine's first model.
    """

    stage: str
    done: int = 0
    total: int = 0
    unit: str = ""
    model_name: str = ""


@dataclass(frozen=True, slots=True)
class ReadyEvent:
    """The model is loaded and the first request can run at once.

    `is_further`: it is not the one that chats begin with. `is_endpoint`: it is asked over HTTP,
    a context of 0 tokens is not known, and it may be that no answer that was cut can go on.
    """

    model_name: str
    device: str
    dtype: str
    context_length: int
    load_s: float
    is_further: bool = False
    is_endpoint: bool = False
    can_continue: bool = True


@dataclass(frozen=True, slots=True)
class LoadFailedEvent:
    """A further model could not be loaded; the others go on."""

    model_name: str
    error: LocalPagedError


@dataclass(frozen=True, slots=True)
class UnloadedEvent:
    """A model and its memory are gone; its open requests got a FailEvent before this."""

    model_name: str


@dataclass(frozen=True, slots=True)
class EngineFailedEvent:
    """The engine is gone; every open request got a FailEvent before this."""

    error: LocalPagedError


RequestEvent = PrefillEvent | PromptLogprobsEvent | TokenEvent | FinishEvent | FailEvent
EngineEvent = LoadEvent | ReadyEvent | LoadFailedEvent | UnloadedEvent | EngineFailedEvent
Event = RequestEvent | EngineEvent
