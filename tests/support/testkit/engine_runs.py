"""Build cores over the fake runner or a real decoder, run requests, collect what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    PrefillEvent,
    PromptLogprobsEvent,
    TokenEvent,
    TokenLogprob,
)
from localpaged.engine.params import BeamParams, EngineConfig, Request, SamplingParams
from testkit.fake_runner import VOCAB_SIZE, FakeRunner


@dataclass
class Outcome:
    """Everything the engine said about one request; `branches` has the other answers."""

    token_ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    prefill: list[PrefillEvent] = field(default_factory=list)
    finish: FinishEvent | None = None
    fail: FailEvent | None = None
    branches: dict[int, Outcome] = field(default_factory=dict)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs_from: int = 1

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_over(self) -> bool:
        return self.finish is not None or self.fail is not None

    def branch(self, number: int) -> Outcome:
        return self if number == 0 else self.branches.setdefault(number, Outcome())


def make_request(
    name: str,
    prompt: Iterable[int],
    *,
    is_foreground: bool = False,
    num_samples: int = 1,
    beam: BeamParams | None = None,
    prompt_logprobs: int | None = None,
    prompt_logprobs_from: int = 0,
    speculation: bool = True,
    **sampling: Any,
) -> Request:
    """Return a greedy request that runs to its length unless told otherwise."""
    params = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True, **sampling}
    return Request(
        name,
        tuple(prompt),
        SamplingParams(**params),
        chat_id=name,
        is_foreground=is_foreground,
        num_samples=num_samples,
        beam=beam,
        prompt_logprobs=prompt_logprobs,
        prompt_logprobs_from=prompt_logprobs_from,
        speculation=speculation,
    )


def make_core(
    *,
    num_blocks: int = 64,
    context_length: int | None = None,
    runner: FakeRunner | None = None,
    token_bytes: Sequence[bytes] | None = None,
    eos_ids: frozenset[int] = frozenset(),
    clock: Callable[[], float] = time.perf_counter,
    **config: Any,
) -> EngineCore:
    """Return a core over a fake runner; what it plans depends on the clock."""
    block_size = config.get("block_size", 16)
    limit = num_blocks * block_size
    return EngineCore(
        EngineConfig(
            num_blocks=num_blocks,
            context_length=limit if context_length is None else context_length,
            **config,
        ),
        runner or FakeRunner(num_blocks, block_size=block_size),
        Vocabulary(token_bytes or [bytes([i]) for i in range(VOCAB_SIZE)], eos_ids),
        clock=clock,
    )


def collect(outcomes: dict[str, Outcome], events: Iterable[Event]) -> None:
    """Add events to the outcomes of their requests."""
    for event in events:
        outcome = outcomes.setdefault(getattr(event, "request_id", ""), Outcome())
        outcome = outcome.branch(getattr(event, "branch", 0))
        match event:
            case TokenEvent():
                assert not outcome.is_over, "text after the end"
                outcome.token_ids += event.token_ids
                outcome.pieces.append(event.text)
                outcome.logprobs += event.logprobs
            case PromptLogprobsEvent():
                if not outcome.prompt_logprobs:
                    outcome.prompt_logprobs_from = event.start
                first = outcome.prompt_logprobs_from
                assert event.start == first + len(outcome.prompt_logprobs), "a gap or an overlap"
                outcome.prompt_logprobs += event.logprobs
            case PrefillEvent():
                outcome.prefill.append(event)
            case FinishEvent():
                assert not outcome.is_over, "two ends"
                outcome.finish = event
            case FailEvent():  # one for all answers, those that have ended included
                assert outcome.fail is None, "two ends"
                assert outcome.finish is None or not outcome.finish.is_last, "two ends"
                outcome.fail = event


def run(core: EngineCore, requests: Iterable[Request]) -> dict[str, Outcome]:
    """Submit all requests at once and step until idle, checking the books after each step."""
    outcomes: dict[str, Outcome] = {}
    for request in requests:
        collect(outcomes, core.submit(request))
    drain(core, outcomes)
    return outcomes


def drain(core: EngineCore, outcomes: dict[str, Outcome], *, max_steps: int = 20_000) -> None:
    """Step until idle."""
    for _ in range(max_steps):
        if core.is_idle:
            return
        collect(outcomes, core.step())
        core.check()
    raise AssertionError(f"not idle after {max_steps} steps")
