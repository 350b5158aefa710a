"""What the engine costs a step besides computing: planning, committing, block books; no model.

    python benchmarks/policy.py [--sequences 32] [--tokens 2000] [--out FILE.json]

A runner that computes nothing answers at once, so all that is measured is Python: the thread's
processor time from one plan to its events. Once that is the policy alone, and once the GPU's runner
as well, on a device that does nothing: it packs a step's numbers, begins the copies, replays and
reads what came back, one step ahead. What CUDA's own calls take comes on top.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.answer import Vocabulary
from localpaged.engine.batch import Batch
from localpaged.engine.containment import Runner
from localpaged.engine.core import EngineCore
from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.params import EngineConfig, Request, SamplingParams
from localpaged.engine.step_plan import RowResult, StepPlan, StepResult

STEPS = 200
VOCAB_SIZE = 1_000


class InstantRunner:
    """Answers every draw with the same token."""

    def run(self, plan: StepPlan) -> StepResult:
        """Return a result without computing anything."""
        return StepResult(
            tuple(RowResult((7,) * len(row.draws)) if row.draws else None for row in plan.rows)
        )


class IdleDevice:
    """A DeviceLayer of which nothing is computed: a replay does nothing."""

    torch_device = torch.device("cpu")
    compiles = False

    def host_buffer(self, num_bytes: int) -> torch.Tensor:
        """See DeviceLayer."""
        return torch.zeros(num_bytes, dtype=torch.uint8)

    def upload(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """See DeviceLayer."""
        target.copy_(source)

    def download(self, source: torch.Tensor, target: torch.Tensor) -> IdleDevice:
        """See DeviceLayer; the ticket is the device."""
        self._arrived = target.copy_(source)
        return self

    def wait(self) -> torch.Tensor:
        """See Ticket."""
        return self._arrived

    def capture(self, work: Callable[[], None]) -> IdleDevice:
        """See DeviceLayer; what is recorded is the device, too."""
        work()
        return self

    def replay(self) -> None:
        """See Replayable."""

    def step(self) -> AbstractContextManager[None]:
        """See DeviceLayer."""
        return nullcontext()

    def free_bytes(self) -> int:
        """See DeviceLayer."""
        return 0


class IdleModel:
    """A PagedModel without layers."""

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """See PagedModel."""
        return torch.zeros(len(batch.token_ids), 1)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See PagedModel."""
        return torch.zeros(len(hidden), VOCAB_SIZE)


def draw_sevens(
    tokens: torch.Tensor,
    sound: torch.Tensor,
    logits: torch.Tensor,
    draws: Mapping[str, torch.Tensor],
) -> None:
    """A DrawKernel that looks at nothing."""
    tokens.fill_(7)
    sound.fill_(1)


def gpu_runner(config: EngineConfig) -> GpuRunner:
    """Return the GPU's runner on a device that does nothing."""
    shape = DecoderConfig("idle", VOCAB_SIZE, 1, 1, 1, 1, 1, 1, config.context_length, 1e-6, 1e4)
    return GpuRunner(
        IdleModel(),
        KVStorage(
            shape,
            num_blocks=config.num_blocks,
            block_size=config.block_size,
            dtype=torch.float32,
        ),
        IdleDevice(),
        context_blocks=-(-config.context_length // config.block_size),
        max_rows=config.max_running,
        vocab_size=VOCAB_SIZE,
        draw=draw_sevens,
    )


def measure(
    num_sequences: int, num_tokens: int, make_runner: Callable[[EngineConfig], Runner]
) -> list[float]:
    """Return the milliseconds of each decode step at that many sequences of that many tokens."""
    num_blocks = num_sequences * (num_tokens + STEPS + 32) // 16 + num_sequences
    config = EngineConfig(
        num_blocks=num_blocks, context_length=num_tokens + STEPS + 32, max_running=num_sequences
    )
    core = EngineCore(config, make_runner(config), Vocabulary([b"x"] * VOCAB_SIZE, frozenset()))
    sampling = SamplingParams(temperature=0.7, seed=1, max_tokens=STEPS + 16, ignore_eos=True)
    for i in range(num_sequences):
        prompt = tuple((i * 31 + position) % VOCAB_SIZE for position in range(num_tokens))
        core.submit(Request(f"{i}", prompt, sampling, chat_id=f"{i}"))
    while any(sequence.num_generated == 0 for sequence in core.scheduler.sequences):
        core.step()
    steps_ms = []
    for _ in range(STEPS):
        # Processor time: what other programs do on the machine is not the policy's cost.
        started_s = time.thread_time()
        core.step()
        steps_ms.append(1e3 * (time.thread_time() - started_s))
    return steps_ms


def summary(steps_ms: list[float]) -> dict[str, float]:
    """Return the middle, the 95th percentile and the longest of steps."""
    ordered = sorted(steps_ms)
    return {
        "p50_ms": round(statistics.median(ordered), 3),
        "p95_ms": round(ordered[int(0.95 * len(ordered))], 3),
        "max_ms": round(ordered[-1], 3),
    }


def main() -> None:
    """Print the figures, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/policy.json"))
    arguments = parser.parse_args()
    figures: dict[str, object] = {
        "sequences": arguments.sequences,
        "tokens": arguments.tokens,
    }
    for name, prefix, make_runner in (
        ("policy", "", lambda config: InstantRunner()),
        ("policy and the GPU's runner", "gpu_runner_", gpu_runner),
    ):
        told = summary(measure(arguments.sequences, arguments.tokens, make_runner))
        figures |= {prefix + key: value for key, value in told.items()}
        print(
            f"{name} a step, {arguments.sequences} sequences of {arguments.tokens:,} tokens: "
            "p50 {p50_ms} ms, p95 {p95_ms} ms, max {max_ms} ms".format(**told)
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
