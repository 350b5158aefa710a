"""What a request asks for and how an engine is set up. Frozen; checked when made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from localpaged.errors import BadParameter

RequestId = str
BLOCK_SIZE_TOKENS = 16
MAX_STOPS = 16
MAX_STOP_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen and when to stop.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 switch a filter off.
    `seed` None takes a fresh one for every request. `max_tokens` None runs to the context limit.
    Raises BadParameter, naming the field, for values out of range.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 0.95
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

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
            raise BadParameter(f"{len(self.stop)} stop strings; {MAX_STOPS} are possible.")
        if any(not stop or len(stop) > MAX_STOP_CHARS for stop in self.stop):
            raise BadParameter(f"A stop string must have 1 to {MAX_STOP_CHARS:,} characters.")


@dataclass(frozen=True, slots=True)
class Request:
    """One submission: a tokenised prompt and how to continue it.

    `chat_id` groups requests for fairness; `is_foreground` marks the chat the user looks at.
    `is_continuation`: the answer goes on in the middle of a text that ends the prompt.
    """

    id: RequestId
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    chat_id: str = ""
    is_foreground: bool = False
    is_continuation: bool = False


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes of one engine, resolved: no value is "auto" any more.

    `num_blocks` counts usable KV blocks (the two reserved ones come on top).
    `step_tokens` bounds the tokens of one forward; `stream_prefill_tokens` bounds its prefill part
    while another request is streaming, so that typing text never stalls for long.
    """

    num_blocks: int
    context_length: int
    block_size: int = BLOCK_SIZE_TOKENS
    max_running: int = 64
    step_tokens: int = 512
    stream_prefill_tokens: int = 128
    max_waiting: int = 1_024


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
