"""localpaged's engine with random weights, put together of the parts that the program loads."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpu_check_parts.bench import Bench
from gpu_check_parts.packed import random_matrix
from gpu_check_parts.rehearsed_device import RehearsedDevice
from gpu_check_parts.shapes import num_parameters
from gpu_check_parts.timed_runner import TimedRunner
from localpaged.decoder_config import DecoderConfig
from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
from localpaged.engine.device import CudaDevice, DeviceLayer
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    PromptLogprobsEvent,
    TokenEvent,
    Usage,
)
from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.native import NativeDecoder
from localpaged.engine.operators import triton_operators
from localpaged.engine.params import EngineConfig, Request, SamplingParams
from localpaged.models.tensor_layout import tensor_layout
from localpaged.models.weight_forms import DENSE, INT4, Asked, form_of

BLOCK_SIZE = 16
SPARE_BLOCKS = 64
REHEARSED_CHUNK = 4
"""Interpreted, a short chunk that is padded to its usual size takes seconds."""

STARTING_STEPS = 24
"""Steps in which the last sequences may begin while the first ones decode already."""

WORKING_BYTES = 3 * 2**29
"""What a step computes with, graphs and the card's own needs, roughly."""


@dataclass(frozen=True)
class Sizes:
    """How much an engine is made for: tokens of KV, of a context, of a step; sequences at once.

    With `host_blocks` what is evicted always comes back from host memory.
    """

    kv_tokens: int
    context_tokens: int
    max_running: int
    step_tokens: int = 2_048
    spare_blocks: int = SPARE_BLOCKS
    host_blocks: int = 0

    @property
    def num_blocks(self) -> int:
        """Blocks of its pool, a few more than the tokens fill."""
        return self.kv_tokens // BLOCK_SIZE + self.max_running + self.spare_blocks


@dataclass(frozen=True)
class Steps:
    """Seconds of decode steps, and those of them in which the host did not wait.

    `num_ahead` of them were launched before the one before them was heard of.
    """

    seconds: tuple[float, ...]
    host_seconds: tuple[float, ...]
    num_ahead: int = 0


def needed_bytes(config: DecoderConfig, sizes: Sizes, *, element_bytes: int = 2) -> int:
    """Return what an engine takes of a card."""
    kv = sizes.num_blocks * BLOCK_SIZE * config.kv_bytes_per_token(element_bytes)
    return num_parameters(config) * element_bytes + kv + WORKING_BYTES


def random_state(
    config: DecoderConfig, device: torch.device, dtype: torch.dtype, *, weights: Asked = DENSE
) -> dict[str, torch.Tensor]:
    """Return random weights made on the device, norms that change nothing."""
    torch.manual_seed(0)
    state = {}
    for fused in tensor_layout(config):
        form = form_of(fused, (), weights, is_tied=config.is_tied)
        if form != DENSE:
            matrix = random_matrix(4 if form == INT4 else 8, *fused.shape, device)
            stem = f"{fused.name.removesuffix('.weight')}.{form}"
            state |= {stem: matrix.numbers, f"{stem}_scales": matrix.scales}
            continue
        tensor = torch.empty(fused.shape, dtype=dtype, device=device)
        if tensor.dim() == 1:
            tensor.fill_(1.0)
        else:
            tensor.normal_(0.0, 0.02)
        state[fused.name] = tensor
    return state


class Ours:
    """An engine's core on a card, or, rehearsed, on the CPU with the same kernels. One thread."""

    name = "localpaged"

    def __init__(
        self,
        bench: Bench,
        config: DecoderConfig,
        sizes: Sizes,
        *,
        state: Mapping[str, torch.Tensor] | None = None,
        dtype: torch.dtype = torch.bfloat16,
        kv_dtype: torch.dtype | None = None,
        has_graphs: bool = True,
        has_cascade: bool = True,
        is_warm: bool = False,
    ) -> None:
        """Make it; with `is_warm` all is compiled at once, as the program does when it loads."""
        # The device has a stream of its own, which does not wait for what was begun on another.
        bench.watch.settle()
        device: DeviceLayer = RehearsedDevice() if bench.is_rehearsal else CudaDevice()
        operators = triton_operators()
        config = replace(config, context_length=sizes.context_tokens)
        weights = state or random_state(config, device.torch_device, dtype)
        kv = KVStorage(
            config,
            num_blocks=sizes.num_blocks,
            block_size=BLOCK_SIZE,
            dtype=kv_dtype or dtype,
            host_blocks=sizes.host_blocks,
            device=device.torch_device,
            operators=operators,
        )
        self.runner = TimedRunner(
            GpuRunner(
                NativeDecoder(config, weights, operators=operators),
                kv,
                device,
                context_blocks=-(-sizes.context_tokens // BLOCK_SIZE),
                max_rows=sizes.max_running,
                vocab_size=config.vocab_size,
                has_graphs=has_graphs,
                has_cascade=has_cascade,
                short_chunk=bench.pick(None, REHEARSED_CHUNK),
                step_tokens=sizes.step_tokens,
            )
        )
        if is_warm:
            self.runner.inner.warm_up()
        elif has_graphs:
            self.runner.inner.record()
        self.core = EngineCore(
            EngineConfig(
                num_blocks=sizes.num_blocks,
                context_length=sizes.context_tokens,
                max_running=sizes.max_running,
                step_tokens=sizes.step_tokens,
                max_waiting=4_096,
                host_blocks=sizes.host_blocks,
                host_use="always" if sizes.host_blocks else "never",
            ),
            self.runner,
            Vocabulary([b"x"] * config.vocab_size, frozenset()),
        )
        self._vocab_size = config.vocab_size
        self._random = random.Random(0)
        self._count = 0

    @property
    def note(self) -> str:
        """Why decode steps are no graphs; empty where they are."""
        return self.runner.inner.note

    def prompt(self, num_tokens: int) -> tuple[int, ...]:
        """Return a prompt that no cache has seen."""
        return tuple(self._random.randrange(3, self._vocab_size) for _ in range(num_tokens))

    def submit(
        self, prompts: Iterable[Sequence[int]], num_tokens: int | Sequence[int]
    ) -> list[str]:
        """Queue requests for answers of exactly so many tokens, each or all; return their ids."""
        made = []
        for place, prompt in enumerate(prompts):
            self._count += 1
            count = num_tokens if isinstance(num_tokens, int) else num_tokens[place]
            sampling = SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
            # Random models repeat themselves, which guessing would make use of.
            request = Request(
                str(self._count),
                tuple(prompt),
                sampling,
                chat_id=str(self._count),
                speculation=False,
            )
            _refuse_failures(self.core.submit(request))
            made.append(request.id)
        return made

    def answer(
        self, prompts: Iterable[Sequence[int]], num_tokens: int | Sequence[int]
    ) -> tuple[list[list[int]], list[Usage]]:
        """Answer all together; return the tokens and the bill of each."""
        ids = self.submit(prompts, num_tokens)
        tokens: dict[str, list[int]] = {request_id: [] for request_id in ids}
        usages: dict[str, Usage] = {}
        while not self.core.is_idle:
            for event in _refuse_failures(self.core.step()):
                if isinstance(event, TokenEvent):
                    tokens[event.request_id] += event.token_ids
                elif isinstance(event, FinishEvent) and event.usage is not None:
                    usages[event.request_id] = event.usage
        return [tokens[request_id] for request_id in ids], [usages[i] for i in ids]

    def branches(self, prompt: Sequence[int], num_tokens: int, **options: Any) -> list[list[int]]:
        """Return all answers to one prompt, as `options` of its request ask for them."""
        self._count += 1
        sampling = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
        request = Request(str(self._count), tuple(prompt), sampling, speculation=False, **options)
        tokens: dict[int, list[int]] = {}
        events = _refuse_failures(self.core.submit(request))
        while not self.core.is_idle:
            events += _refuse_failures(self.core.step())
        for event in events:
            if isinstance(event, TokenEvent):
                tokens.setdefault(event.branch, []).extend(event.token_ids)
        return [tokens[branch] for branch in sorted(tokens)]

    def prompt_logprobs(self, prompt: Sequence[int]) -> list[float]:
        """Return the log probability of each token of a prompt but the first."""
        self._count += 1
        sampling = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
        request = Request(
            str(self._count), tuple(prompt), sampling, speculation=False, prompt_logprobs=0
        )
        events = _refuse_failures(self.core.submit(request))
        while not self.core.is_idle:
            events += _refuse_failures(self.core.step())
        return [
            told.logprob
            for event in events
            if isinstance(event, PromptLogprobsEvent)
            for told in event.logprobs
        ]

    def decode_steps(
        self, sequences: int, *, prompt_tokens: int, steps: int, warm_steps: int, shared: int = 0
    ) -> Steps:
        """Time steps in which so many sequences decode and nothing else happens.

        Their prompts are read before, so that all begin together; the first steps are not counted.
        Their first `shared` tokens are the same.
        """
        beginning = self.prompt(shared)
        prompts = [(*beginning, *self.prompt(prompt_tokens - shared)) for _ in range(sequences)]
        self.answer(prompts[:1], 1)
        self.answer(prompts[1:], 1)
        ids = self.submit(prompts, warm_steps + steps + STARTING_STEPS)
        reading = set(ids)
        while reading:
            for event in _refuse_failures(self.core.step()):
                if isinstance(event, TokenEvent):
                    reading.discard(event.request_id)
        seconds, host_seconds = [], []
        before = self.runner.num_ahead
        for place in range(warm_steps + steps):
            started_s, waited_s = time.perf_counter(), self.runner.waited_s
            _refuse_failures(self.core.step())
            took_s = time.perf_counter() - started_s
            if place >= warm_steps:
                seconds.append(took_s)
                host_seconds.append(took_s - (self.runner.waited_s - waited_s))
        num_ahead = self.runner.num_ahead - before
        for request_id in ids:
            self.core.cancel(request_id)
        while not self.core.is_idle:
            self.core.step()
        return Steps(tuple(seconds), tuple(host_seconds), num_ahead)


def _refuse_failures(events: list[Event]) -> list[Event]:
    for event in events:
        if isinstance(event, FailEvent):
            raise event.error
    return events
