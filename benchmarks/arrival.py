"""What a long prompt costs those who read along: eight chats stream while it arrives.

    python benchmarks/arrival.py [--model NAME] [--dtype auto] [--out FILE.json]

The time between two tokens of a chat is the time between two steps. It is measured for all chats
before the prompt arrives and until its first token, in the same process; only their ratio is worth
quoting, because machines differ and are shared.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

from localpaged.config import Settings
from localpaged.engine.core import EngineCore
from localpaged.engine.events import FailEvent, TokenEvent
from localpaged.engine.params import Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model

CHATS = 8
CHAT_TOKENS = 256
PROMPT_TOKENS = 6_000
QUIET_STEPS = 120
LIMIT = 3.0
"""How much longer p95 may get, says the engine's promise."""


@dataclass(frozen=True)
class Gaps:
    """Milliseconds between two tokens of a chat."""

    p50_ms: float
    p95_ms: float
    max_ms: float
    tokens: int

    @classmethod
    def of(cls, seconds: list[float]) -> Gaps:
        """Sort and round."""
        ordered = [1e3 * value for value in sorted(seconds)]
        at = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 1)]
        return cls(*(round(value, 2) for value in at), tokens=len(ordered))


class Streams:
    """Chats that answer without end, and when each of their tokens came."""

    def __init__(self, core: EngineCore) -> None:
        self.core = core
        self.gaps_s: list[float] = []
        self._last_s: dict[str, float] = {}
        self._random = random.Random(0)

    def submit(self, name: str, *, prompt_tokens: int, answer_tokens: int | None) -> None:
        """Ask something that no cache has seen."""
        prompt = tuple(self._random.randrange(100, 40_000) for _ in range(prompt_tokens))
        sampling = SamplingParams(temperature=0, max_tokens=answer_tokens, ignore_eos=True)
        # Random prompts make a small model repeat itself, which guessing would exploit.
        request = Request(name, prompt, sampling, chat_id=name, speculation=False)
        assert not self.core.submit(request)

    def step(self) -> set[str]:
        """Run one step; return who got a token."""
        events = self.core.step()
        now_s = time.perf_counter()
        assert not any(isinstance(event, FailEvent) for event in events)
        served = {event.request_id for event in events if isinstance(event, TokenEvent)}
        for name in served:
            if name in self._last_s:
                self.gaps_s.append(now_s - self._last_s[name])
            self._last_s[name] = now_s
        return served

    def take_gaps(self) -> Gaps:
        """Return the gaps since the last call."""
        gaps, self.gaps_s = self.gaps_s, []
        return Gaps.of(gaps)


def measure(core: EngineCore) -> tuple[Gaps, Gaps, float, float]:
    """Return the gaps before and during the prompt, and seconds to its first token: shared, alone.

    The prompt that is read alone comes last, so that nothing of it is known.
    """
    streams = Streams(core)
    for number in range(CHATS):
        streams.submit(f"chat {number}", prompt_tokens=CHAT_TOKENS, answer_tokens=None)
    waiting = {f"chat {number}" for number in range(CHATS)}
    while waiting:
        waiting -= streams.step()
    for _ in range(QUIET_STEPS // 4):
        streams.step()
    streams.take_gaps()
    for _ in range(QUIET_STEPS):
        streams.step()
    before = streams.take_gaps()
    started_s = time.perf_counter()
    streams.submit("long", prompt_tokens=PROMPT_TOKENS, answer_tokens=1)
    while "long" not in streams.step():
        pass
    ttft_s = time.perf_counter() - started_s
    during = streams.take_gaps()
    for number in range(CHATS):
        core.cancel(f"chat {number}")
    started_s = time.perf_counter()
    streams.submit("alone", prompt_tokens=PROMPT_TOKENS, answer_tokens=1)
    while "alone" not in streams.step():
        pass
    return before, during, ttft_s, time.perf_counter() - started_s


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/arrival.json"))
    arguments = parser.parse_args()
    opened = open_model(arguments.model)
    settings = Settings(model=arguments.model, dtype=arguments.dtype)
    core, _ = load_core(lambda: opened, settings, lambda event: None)
    before, during, ttft_s, alone_s = measure(core)
    core.check()
    print(f"{CHATS} chats stream; a prompt of {PROMPT_TOKENS:,} tokens arrives\n")
    print("| time between tokens | p50, ms | p95, ms | max, ms |")
    print("|---|---|---|---|")
    for name, gaps in (("before", before), ("while it is read", during)):
        print(f"| {name} | {gaps.p50_ms:.1f} | {gaps.p95_ms:.1f} | {gaps.max_ms:.1f} |")
    p50, p95 = during.p50_ms / before.p50_ms, during.p95_ms / before.p95_ms
    print(f"| ratio | ×{p50:.2f} | ×{p95:.2f} (at most ×{LIMIT:.0f}) | |")
    print(f"\nits first token: {ttft_s:.1f} s, with the machine to itself {alone_s:.1f} s")
    report = {
        "model": arguments.model,
        "chats": CHATS,
        "prompt_tokens": PROMPT_TOKENS,
        "before": vars(before),
        "during": vars(during),
        "p50_ratio": round(p50, 3),
        "p95_ratio": round(p95, 3),
        "ttft_s": round(ttft_s, 2),
        "ttft_alone_s": round(alone_s, 2),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
