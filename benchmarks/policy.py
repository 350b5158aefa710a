"""What the engine's policy costs a step: planning, committing, block books; no model.

    python benchmarks/policy.py [--sequences 32] [--tokens 2000] [--out FILE.json]

A runner that computes nothing answers at once, so all that is measured is Python: the thread's
processor time from one plan to its events.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
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


def measure(num_sequences: int, num_tokens: int) -> list[float]:
    """Return the milliseconds of each decode step at that many sequences of that many tokens."""
    num_blocks = num_sequences * (num_tokens + STEPS + 32) // 16 + num_sequences
    core = EngineCore(
        EngineConfig(
            num_blocks=num_blocks, context_length=num_tokens + STEPS + 32, max_running=num_sequences
        ),
        InstantRunner(),
        Vocabulary([b"x"] * VOCAB_SIZE, frozenset()),
    )
    sampling = SamplingParams(temperature=0, max_tokens=STEPS + 16, ignore_eos=True)
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


def main() -> None:
    """Print the figures, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=2_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/policy.json"))
    arguments = parser.parse_args()
    steps_ms = sorted(measure(arguments.sequences, arguments.tokens))
    figures = {
        "sequences": arguments.sequences,
        "tokens": arguments.tokens,
        "p50_ms": round(statistics.median(steps_ms), 3),
        "p95_ms": round(steps_ms[int(0.95 * len(steps_ms))], 3),
        "max_ms": round(steps_ms[-1], 3),
    }
    print(
        "policy a step, {sequences} sequences of {tokens:,} tokens: "
        "p50 {p50_ms} ms, p95 {p95_ms} ms, max {max_ms} ms".format(**figures)
    )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
