"""Cores whose runner is the GPU's, on a fake device, and the CPU's for comparison."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import torch

from localpaged.engine.answer import Vocabulary
from localpaged.engine.containment import Runner
from localpaged.engine.core import EngineCore
from localpaged.engine.device_sampler import triton_draws
from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.model import PagedModel
from localpaged.engine.params import EngineConfig
from localpaged.engine.runner import ModelRunner
from testkit.engine_runs import make_request
from testkit.fake_device import FakeDevice
from testkit.history_model import HistoryModel, token_bytes, torch_draws

BLOCK_SIZE = 4
PROMPTS = {"a": [1, 2, 3], "b": [9, 8, 7, 6] * 4, "c": [4, 5] * 9, "d": [4, 5] * 8 + [1]}


def gpu_runner(
    model: PagedModel,
    kv: KVStorage,
    device: FakeDevice,
    *,
    max_rows: int = 8,
    context_blocks: int = 32,
    vocab_size: int,
    **options: Any,
) -> GpuRunner:
    """Return a runner of a few rows."""
    options.setdefault("short_chunk", 6)
    return GpuRunner(
        model,
        kv,
        device,
        context_blocks=context_blocks,
        max_rows=max_rows,
        vocab_size=vocab_size,
        **options,
    )


class Bench:
    """A core over the HistoryModel: the GPU's runner where there is a device, else the CPU's."""

    def __init__(
        self,
        device: FakeDevice | None,
        *,
        num_blocks: int = 64,
        model: HistoryModel | None = None,
        has_graphs: bool = True,
        has_cascade: bool = True,
        **config: Any,
    ) -> None:
        self.device = device
        self.model = model or HistoryModel()
        self.kv = KVStorage(
            self.model.config,
            num_blocks=config.get("initial_blocks") or num_blocks,
            block_size=BLOCK_SIZE,
            dtype=torch.float32,
            host_blocks=config.get("host_blocks", 0),
        )
        self.kv.poison()
        config.setdefault("max_running", 8)
        runner: Runner
        if device is None:
            runner = ModelRunner(self.model, self.kv, padding_ids=(47,))
        else:
            runner = gpu_runner(
                self.model,
                self.kv,
                device,
                vocab_size=self.model.config.vocab_size,
                padding_ids=(47,),
                has_graphs=has_graphs,
                has_cascade=has_cascade,
                max_rows=config["max_running"],
                draw=torch_draws,
            )
        self.runner = runner
        self.core = EngineCore(
            EngineConfig(
                num_blocks=num_blocks,
                context_length=min(128, num_blocks * BLOCK_SIZE),
                block_size=BLOCK_SIZE,
                **config,
            ),
            runner,
            Vocabulary(token_bytes(), frozenset()),
            # what is worth a guess, and how much is read at once, is the same on every machine
            clock=count().__next__,
        )


def triton_runner(
    decoder: Any, device: FakeDevice, *, max_rows: int, num_blocks: int
) -> Callable[[KVStorage], GpuRunner]:
    """Return what makes a runner of a real decoder, whose draws are Triton's, too."""
    return lambda kv: gpu_runner(
        decoder,
        kv,
        device,
        max_rows=max_rows,
        context_blocks=num_blocks,
        vocab_size=decoder.config.vocab_size,
        draw=triton_draws,
    )


def requests(names="abcd", *, max_tokens=10, **options):
    return [make_request(name, PROMPTS[name], max_tokens=max_tokens, **options) for name in names]


def told(outcome):
    """What a request was told, to be compared."""
    own = (outcome.token_ids, outcome.text, outcome.fail and str(outcome.fail.error))
    logprobs = [
        [(p.token_id, round(p.logprob, 4), *(i for i, _ in p.alternatives)) for p in each]
        for each in (outcome.logprobs, outcome.prompt_logprobs)
    ]
    return own, logprobs, {k: told(branch) for k, branch in outcome.branches.items()}
