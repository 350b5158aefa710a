"""What prompt lookup brings: decoded tokens a second with and without it, in one run.

    python benchmarks/speculation.py [--model NAME] [--dtype auto] [--repeats 3]

A copy-heavy prompt asks for its own text again, greedily; a plain one has nothing to copy and is
drawn at temperature 1, because greedy answers of a small model repeat themselves. Each is answered
with and without speculation in turn and the best run counts; only the ratios are worth quoting,
because machines differ and are shared.
"""

from __future__ import annotations

import argparse

from localpaged.config import Settings
from localpaged.engine.core import EngineCore
from localpaged.engine.events import FailEvent, FinishEvent
from localpaged.engine.params import Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model

LIST = "\n".join(
    f"{number}. {name} lives in {town} and sells {goods}."
    for number, (name, town, goods) in enumerate(
        [
            ("Anna", "Oslo", "bread"),
            ("Boris", "Lima", "shoes"),
            ("Clara", "Cairo", "paper boats"),
            ("David", "Perth", "old maps"),
            ("Elena", "Quito", "green tea"),
            ("Farid", "Bonn", "violins"),
        ],
        start=1,
    )
)
COPY = f"Here is a list:\n{LIST}\n\nHere is the same list again:\n1. Anna"
PLAIN = "The sea was calm that morning, and when the old fisherman looked up he saw"
NUM_TOKENS = 96


def tokens_per_s(core: EngineCore, request: Request) -> float:
    """Return decoded tokens a second of one answer, its prompt not counted."""
    events = core.submit(request)
    while not core.is_idle:
        events += core.step()
    assert not any(isinstance(event, FailEvent) for event in events)
    (usage,) = (event.usage for event in events if isinstance(event, FinishEvent))
    return usage.decode_tokens_per_s


def main() -> None:
    """Measure both prompts both ways in turn; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    opened = open_model(arguments.model)
    settings = Settings(model=arguments.model, dtype=arguments.dtype)
    core, _ = load_core(lambda: opened, settings, lambda event: None)
    print("| prompt | off, tok/s | on, tok/s | on / off | guesses right |")
    print("|---|---|---|---|---|")
    for name, text, temperature in (("copy-heavy", COPY, 0.0), ("plain", PLAIN, 1.0)):
        prompt = tuple(opened.chat.encode(text))
        sampling = SamplingParams(
            temperature=temperature, seed=1, max_tokens=NUM_TOKENS, ignore_eos=True
        )
        speeds: dict[bool, list[float]] = {False: [], True: []}
        tokens_per_s(core, Request("warm-up", prompt, sampling))
        before = core.scheduler.num_drafted, core.scheduler.num_drafts_right
        for repeat in range(arguments.repeats):
            for is_on in (False, True):
                request = Request(f"{repeat} {is_on}", prompt, sampling, speculation=is_on)
                speeds[is_on].append(tokens_per_s(core, request))
        off, on = max(speeds[False]), max(speeds[True])
        drafted = core.scheduler.num_drafted - before[0]
        right = core.scheduler.num_drafts_right - before[1]
        print(f"| {name} | {off:,.0f} | {on:,.0f} | ×{on / off:.2f} | {right} of {drafted} |")


if __name__ == "__main__":
    main()
