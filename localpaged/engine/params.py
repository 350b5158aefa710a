"""What a request asks for and how an engine is set up. Frozen; checked when made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from localpaged.errors import BadParameter

if TYPE_CHECKING:
    from localpaged.prompt import PromptMessage

RequestId = str
HostUse = Literal["auto", "always", "never"]
BLOCK_SIZE_TOKENS = 16
# What the authors of the default model recommend; small models wander when it is hotter.
DEFAULT_TEMPERATURE = 0.2
DEFAULT_TOP_P = 0.9
CLIENT_PREFIX = "http "
"""So begins the `chat_id` of who asks over HTTP: no chat of the history does."""
MAX_STOPS = 16
MAX_STOP_CHARS = 1_000
MAX_BRANCHES = 64
MAX_TOKEN_LIST = 1_024
MAX_LOGPROBS = 20
MAX_GRAMMAR_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class DryParams:
    """DRY ("don't repeat yourself"): a token that would prolong a repetition loses likelihood.

    Where the last n ≥ `allowed_length` tokens occurred before, followed by a token, that token's
    logit loses multiplier · base ** (n - allowed_length). No repetition reaches over a token of
    `breaker_ids`. Raises BadParameter.
    """

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    breaker_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _in_range("DRY multiplier", self.multiplier, 0.0, 100.0)
        _in_range("DRY base", self.base, 1.0, 10.0)
        _whole("DRY allowed_length", self.allowed_length, low=1)
        _token_ids("DRY breaker_ids", self.breaker_ids)


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer must look like: a JSON schema, a regular expression or a Lark grammar.

    The whole answer matches it, unless it is cut by `max_tokens` or a stop. Raises BadParameter.
    """

    kind: Literal["json_schema", "regex", "lark"]
    text: str

    def __post_init__(self) -> None:
        if self.kind not in ("json_schema", "regex", "lark"):
            raise BadParameter(f"A grammar is json_schema, regex or lark, not {self.kind!r}.")
        if not 0 < len(self.text) <= MAX_GRAMMAR_CHARS:
            raise BadParameter(
                f"A grammar has 1 to {MAX_GRAMMAR_CHARS:,} characters, not {len(self.text):,}."
            )


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen and when to stop.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch a filter off.
    `seed` None takes a fresh one for every request. `max_tokens` None runs to the context limit.
    `repetition_penalty` divides the logits of tokens seen in prompt or answer (transformers);
    `presence_penalty` and `frequency_penalty` are taken off for tokens of the answer, once and for
    every time (OpenAI). `dry`: see DryParams. `logit_bias` pairs token ids with what is added.
    Before `min_tokens` no end token and none of `stop_token_ids`, which end an answer as well, can
    be chosen. `logprobs` tells each token's log probability and that many alternatives.
    `ignore_eos`: the model's end tokens are tokens like others, possible at any time.
    `grammar` bounds what the answer may be. `stop_loops` asks whoever reads the answer to end it
    when it only repeats itself; the engine does not look at its text.
    Raises BadParameter, naming the field, for values out of range.
    """

    temperature: float = DEFAULT_TEMPERATURE
    top_k: int = 0
    top_p: float = DEFAULT_TOP_P
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry: DryParams | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    grammar: Grammar | None = None
    stop_loops: bool = True

    def __post_init__(self) -> None:
        _in_range("temperature", self.temperature, 0.0, 100.0)
        _in_range("top_p", self.top_p, 0.0, 1.0, excluded_low=True)
        _in_range("min_p", self.min_p, 0.0, 1.0)
        _whole("top_k", self.top_k, low=0)
        if self.seed is not None:
            _whole("seed", self.seed, low=0, high=2**63 - 1)
        if self.max_tokens is not None:
            _whole("max_tokens", self.max_tokens, low=1)
        if len(self.stop) > MAX_STOPS:
            raise BadParameter(f"{len(self.stop)} stop strings; at most {MAX_STOPS} are allowed.")
        if any(not stop or len(stop) > MAX_STOP_CHARS for stop in self.stop):
            raise BadParameter(f"A stop string must have 1 to {MAX_STOP_CHARS:,} characters.")
        self._check_adjustments()

    @property
    def needs_history(self) -> bool:
        """Whether the tokens before a draw change its logits."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.dry is not None
        )

    def _check_adjustments(self) -> None:
        _in_range("repetition_penalty", self.repetition_penalty, 0.0, 10.0, excluded_low=True)
        _in_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _in_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _token_ids("logit_bias", [token_id for token_id, _ in self.logit_bias])
        for token_id, bias in self.logit_bias:
            _in_range(f"logit_bias of token {token_id}", bias, -100.0, 100.0)
        _whole("min_tokens", self.min_tokens, low=0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise BadParameter(
                f"min_tokens {self.min_tokens:,} is more than max_tokens {self.max_tokens:,}."
            )
        _token_ids("stop_token_ids", self.stop_token_ids)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, low=0, high=MAX_LOGPROBS)


@dataclass(frozen=True, slots=True)
class BeamParams:
    """Beam search, with the meanings of transformers' `generate`.

    `width` beams live on; `length_penalty` divides a finished beam's score by length ** penalty;
    `early_stopping` True ends when `width` beams are finished, False when none is likely to get
    better, "never" when none can. Raises BadParameter.
    """

    width: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        _whole("beam width", self.width, low=2, high=MAX_BRANCHES)
        _in_range("length_penalty", self.length_penalty, -10.0, 10.0)
        if self.early_stopping not in (True, False, "never"):
            raise BadParameter(
                f"early_stopping is True, False or never, not {self.early_stopping!r}."
            )


@dataclass(frozen=True, slots=True)
class Request:
    """One submission: a tokenised prompt and how to continue it.

    `chat_id` groups requests for fairness; `is_foreground` marks the chat the user looks at.
    `model` names a loaded model; "" is the default one.
    `is_continuation`: the answer goes on in the middle of a text that ends the prompt; a grammar
    bounds the whole of it, its beginning `begun_ids` included.
    `num_samples` answers are drawn from one reading of the prompt; with `beam` its best beams,
    as many as `num_samples`, are the answers. `prompt_logprobs` tells the log probability of every
    prompt token and that many alternatives; such a prompt is computed even where it is cached.
    With `prompt_logprobs_from` only tokens from that number on are told, counted from 0, and all
    that their likelihoods do not follow from may be found in memory. With `speculation` tokens may
    be guessed from what was said before and checked together; it changes none. `messages` are for
    an endpoint, which reads texts instead of ids. Raises BadParameter.
    """

    id: RequestId
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    chat_id: str = ""
    is_foreground: bool = False
    model: str = ""
    is_continuation: bool = False
    begun_ids: tuple[int, ...] = ()
    num_samples: int = 1
    beam: BeamParams | None = None
    prompt_logprobs: int | None = None
    prompt_logprobs_from: int = 0
    speculation: bool = True
    messages: tuple[PromptMessage, ...] = ()

    def __post_init__(self) -> None:
        _whole("num_samples", self.num_samples, low=1, high=MAX_BRANCHES)
        if self.beam is not None and self.num_samples > self.beam.width:
            raise BadParameter(
                f"{self.num_samples} answers out of {self.beam.width} beams are not possible."
            )
        if self.beam is not None and self.sampling.logprobs is not None:
            raise BadParameter("logprobs of a beam search are not possible; its score is told.")
        if self.beam is not None and self.sampling.grammar is not None:
            raise BadParameter("A beam search with a grammar is not possible.")
        if self.prompt_logprobs is not None:
            _whole("prompt_logprobs", self.prompt_logprobs, low=0, high=MAX_LOGPROBS)
        _whole("prompt_logprobs_from", self.prompt_logprobs_from, low=0)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes of one engine, resolved: no value is "auto" any more.

    `num_blocks` counts usable KV blocks (the two reserved ones come on top). The pool begins with
    `initial_blocks` of them and grows by `slab_blocks`; None is all at once. Evicted blocks go to
    `host_blocks` of host memory and come back, where that is cheaper than computing them again, or
    `host_use` says always or never. Raises BadParameter.
    `step_tokens` bounds the tokens of one forward. While answers stream, a step that also reads a
    prompt may take `stream_stretch` times as long as one that does not, or `stream_stall_s`
    seconds where that is more and short prompts are read to their end.
    A sequence may guess up to `max_drafts` tokens a step.
    """

    num_blocks: int
    context_length: int
    block_size: int = BLOCK_SIZE_TOKENS
    max_running: int = 64
    step_tokens: int = 512
    stream_stretch: float = 2.0
    stream_stall_s: float = 0.1
    max_waiting: int = 1_024
    max_drafts: int = 0
    initial_blocks: int | None = None
    slab_blocks: int | None = None
    host_blocks: int = 0
    host_use: HostUse = "auto"

    def __post_init__(self) -> None:
        for name in ("initial_blocks", "slab_blocks"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), low=1)
        _whole("host_blocks", self.host_blocks, low=0)
        if self.host_use not in get_args(HostUse):
            raise BadParameter(f"host_use is auto, always or never, not {self.host_use!r}.")


def _in_range(
    name: str, value: float, low: float, high: float, *, excluded_low: bool = False
) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if (
        not is_number
        or not math.isfinite(value)
        or not low <= value <= high
        or (excluded_low and value == low)
    ):
        bound = "above" if excluded_low else "from"
        raise BadParameter(f"{name} must be {bound} {low:g} to {high:g}, not {value!r}.")


def _whole(name: str, value: int, *, low: int, high: int = 2**31 - 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadParameter(f"{name} must be a whole number from {low} to {high}, not {value!r}.")


def _token_ids(name: str, ids: Sequence[int]) -> None:
    if len(ids) > MAX_TOKEN_LIST:
        raise BadParameter(f"{name} has {len(ids):,} tokens; {MAX_TOKEN_LIST:,} are possible.")
    for token_id in ids:
        _whole(f"A token id of {name}", token_id, low=0)
    if len(set(ids)) < len(ids):
        raise BadParameter(f"{name} names a token twice.")
