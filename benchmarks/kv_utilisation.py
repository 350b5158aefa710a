"""How well KV memory is used, and what that buys, on traffic with the paper's lengths.

    python benchmarks/kv_utilisation.py [--requests 2000] [--throughput] [--out FOLDER]

PagedAttention (vLLM, SOSP 2023, section 6) draws prompts and answers with the lengths of ShareGPT
(mean 161 and 338 tokens) and Alpaca (19 and 58). Part 1 sends such traffic through the engine's
real scheduler and memory books, without a model, and counts after every step which share of the
held token slots is filled; beside it, what reserving the longest possible sequence for everybody
would fill. Part 2 (--throughput) answers the same requests with the default model, here and with
transformers' `generate` in static batches, in one run.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localpaged.engine.answer import Vocabulary
from localpaged.engine.core import EngineCore
from localpaged.engine.events import FinishEvent
from localpaged.engine.params import EngineConfig, Request, SamplingParams
from policy import VOCAB_SIZE, InstantRunner

BLOCK_SIZE = 16
CONTEXT_TOKENS = 2_048
POOL_TOKENS = 32_768
SIGMA = 0.8
"""Spread of the lognormal lengths; the paper's histograms have long tails."""


@dataclass(frozen=True)
class Traffic:
    """Mean lengths of prompts and answers, in tokens."""

    name: str
    prompt_tokens: int
    answer_tokens: int

    def draw(self, count: int, *, seed: int) -> list[tuple[int, int]]:
        """Return (prompt, answer) lengths that fit the context together."""
        random_numbers = random.Random(seed)
        pairs = []
        for _ in range(count):
            prompt = _lognormal(random_numbers, self.prompt_tokens)
            answer = _lognormal(random_numbers, self.answer_tokens)
            pairs.append((min(prompt, CONTEXT_TOKENS // 2), min(answer, CONTEXT_TOKENS // 2)))
        return pairs


TRAFFICS = (Traffic("ShareGPT", 161, 338), Traffic("Alpaca", 19, 58))


@dataclass(frozen=True)
class Utilisation:
    """Shares of held slots that are filled, and how many chats ran at once, on average."""

    traffic: str
    mean_prompt_tokens: float
    mean_answer_tokens: float
    paged_filled: float
    reserved_filled: float
    paged_chats: float
    reserved_chats: int


def measure_utilisation(traffic: Traffic, num_requests: int) -> Utilisation:
    """Run the traffic through the engine's own books, the pool kept full by waiting requests."""
    lengths = traffic.draw(num_requests, seed=1)
    core = EngineCore(
        EngineConfig(
            num_blocks=POOL_TOKENS // BLOCK_SIZE,
            context_length=CONTEXT_TOKENS,
            max_running=4_096,
            max_waiting=num_requests,
            step_tokens=4_096,
        ),
        InstantRunner(),
        Vocabulary([b"x"] * VOCAB_SIZE, frozenset()),
    )
    random_numbers = random.Random(2)
    for i, (prompt, answer) in enumerate(lengths):
        ids = tuple(random_numbers.randrange(VOCAB_SIZE) for _ in range(prompt))
        sampling = SamplingParams(temperature=0, max_tokens=answer, ignore_eos=True)
        core.submit(Request(f"{i}", ids, sampling, chat_id=f"{i}"))
    filled, running, reserved = [], [], []
    num_finished = 0
    while not core.is_idle:
        num_finished += sum(isinstance(event, FinishEvent) for event in core.step())
        sequences = core.scheduler.running
        # Full load only: not while the first requests fill the pool or the last ones leave it.
        if sequences and core.scheduler.waiting and num_finished > num_requests // 10:
            tokens = sum(sequence.num_computed for sequence in sequences)
            blocks = sum(len(sequence.block_table) for sequence in sequences)
            filled.append(tokens / (blocks * BLOCK_SIZE))
            running.append(len(sequences))
            reserved.append(tokens / (len(sequences) * CONTEXT_TOKENS))
    if not filled:
        raise SystemExit(
            f"{num_requests} requests never fill the pool; take more, 1000 for a start."
        )
    return Utilisation(
        traffic=traffic.name,
        mean_prompt_tokens=round(statistics.mean(p for p, _ in lengths), 1),
        mean_answer_tokens=round(statistics.mean(a for _, a in lengths), 1),
        paged_filled=round(statistics.mean(filled), 4),
        reserved_filled=round(statistics.mean(reserved), 4),
        paged_chats=round(statistics.mean(running), 1),
        reserved_chats=POOL_TOKENS // CONTEXT_TOKENS,
    )


def measure_throughput(num_requests: int, batch: int) -> dict[str, Any]:
    """Answer ShareGPT-like requests with the default model, paged and in static batches."""
    from engine import Ours
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.models.open_model import open_model
    from peers import Transformers

    lengths = TRAFFICS[0].draw(num_requests, seed=3)
    ours = Ours(DEFAULT_MODEL, "auto")
    peer = Transformers(open_model(DEFAULT_MODEL).source, 1)
    started_s = time.perf_counter()
    for i, (prompt, answer) in enumerate(lengths):
        sampling = SamplingParams(temperature=0, max_tokens=answer, ignore_eos=True)
        ours.core.submit(Request(f"t{i}", ours.prompt(prompt), sampling, chat_id=f"t{i}"))
    num_finished = 0
    while not ours.core.is_idle:
        num_finished += sum(isinstance(event, FinishEvent) for event in ours.core.step())
    ours_s = time.perf_counter() - started_s
    assert num_finished == num_requests
    started_s = time.perf_counter()
    for start in range(0, num_requests, batch):
        peer.static_batch(lengths[start : start + batch])
    peer_s = time.perf_counter() - started_s
    answer_tokens = sum(answer for _, answer in lengths)
    return {
        "requests": num_requests,
        "static_batch": batch,
        "localpaged_tokens_per_s": round(answer_tokens / ours_s, 1),
        "transformers_tokens_per_s": round(answer_tokens / peer_s, 1),
        "ratio": round(peer_s / ours_s, 2),
    }


def print_table(rows: list[Utilisation]) -> None:
    """Print a line for each traffic."""
    print(
        "| traffic | mean tokens | slots filled, paged | slots filled, reserved | chats at once |"
    )
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.traffic} | {row.mean_prompt_tokens:.0f} + {row.mean_answer_tokens:.0f} "
            f"| {row.paged_filled:.1%} | {row.reserved_filled:.1%} "
            f"| {row.paged_chats:.0f} paged, {row.reserved_chats} reserved |"
        )


def plot(rows: list[Utilisation], path: Path) -> None:
    """Draw the filled shares as bars."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "localpaged"  # the same figures give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2))
    places = range(len(rows))
    for offset, label, values in (
        (-0.2, "paged, 16 tokens a block", [row.paged_filled for row in rows]),
        (0.2, f"reserved, {CONTEXT_TOKENS:,} tokens a chat", [row.reserved_filled for row in rows]),
    ):
        bars = axes.bar([place + offset for place in places], values, 0.4, label=label)
        axes.bar_label(bars, labels=[f"{value:.1%}" for value in values])
    axes.set_xticks(list(places), [row.traffic for row in rows])
    axes.set_ylim(0, 1.15)
    axes.set_ylabel("held KV slots that are filled")
    axes.legend(loc="upper right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, write JSON and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--throughput-requests", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kv-utilisation.json"))
    parser.add_argument("--plot", type=Path, default=Path("docs/images/kv-utilisation.svg"))
    arguments = parser.parse_args()
    rows = [measure_utilisation(traffic, arguments.requests) for traffic in TRAFFICS]
    print_table(rows)
    report: dict[str, Any] = {"utilisation": [asdict(row) for row in rows]}
    if arguments.throughput:
        report["throughput"] = measure_throughput(arguments.throughput_requests, arguments.batch)
        print("\n" + json.dumps(report["throughput"], indent=2))
    plot(rows, arguments.plot)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")


def _lognormal(random_numbers: random.Random, mean: float) -> int:
    mu = math.log(mean) - SIGMA**2 / 2
    return max(1, round(random_numbers.lognormvariate(mu, SIGMA)))


if __name__ == "__main__":
    main()
