"""Long random use of the engine's memory, and what is left of it afterwards.

    python benchmarks/soak.py [--steps 100000] [--chats 10000]

`--chats` chats of up to four turns run over a fake model whose answers tell what it read: prompts
that begin alike, edits, samples, beams, pins, cancels and failing steps, in a pool and a host
memory too small for them. Every answer is compared with the plain definition. Then the state
machine of the tests walks `--steps` steps. Ends with an error when anything is left behind.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path

import psutil
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from localpaged.engine.events import Event, FailEvent, FinishEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, Request
from localpaged.errors import NoRoom
from testkit.engine_runs import Outcome, collect, make_core, make_request
from testkit.fake_runner import (
    FakeRunner,
    expected_answer,
    expected_beams,
)
from testkit.kv_machine import FlyingKVMachine, KVMachine

NUM_BLOCKS = 30
HOST_BLOCKS = 64
CONTEXT_TOKENS = 256
CHATS_AT_ONCE = 12
CHECK_EVERY_STEPS = 25
STEPS_PER_EXAMPLE = 50
MIB = 2**20


@dataclass
class Chat:
    """A conversation as token lists; `request` is the turn that runs."""

    number: int
    turns_left: int
    history: list[int]
    request: Request | None = None
    outcome: Outcome = field(default_factory=Outcome)
    is_answered: bool = False


class Soak:
    """Keeps a dozen random chats going until all have ended."""

    def __init__(self, num_chats: int) -> None:
        self.random = random.Random(7)
        self.runner = FakeRunner(NUM_BLOCKS, before_run=self._before_run, after_run=self._after_run)
        self.core = make_core(
            num_blocks=NUM_BLOCKS,
            initial_blocks=8,
            slab_blocks=8,
            host_blocks=HOST_BLOCKS,
            host_use="always",
            context_length=CONTEXT_TOKENS,
            runner=self.runner,
            step_tokens=96,
            max_running=8,
            clock=count().__next__,
        )
        self.systems = [
            [self.random.randrange(256) for _ in range(length)] for length in (5, 16, 33, 40, 70)
        ]
        self.num_chats = num_chats
        self.num_begun = 0
        self.open: dict[str, Chat] = {}
        self.counts: Counter[str] = Counter()
        self.rss: list[int] = []

    def run(self) -> None:
        """Serve all chats."""
        num_steps = 0
        while self.open or self.num_begun < self.num_chats:
            while len(self.open) < CHATS_AT_ONCE and self.num_begun < self.num_chats:
                self._begin()
            self._disturb()
            self._take(self.core.step())
            self.runner.plans.clear()
            num_steps += 1
            if num_steps % CHECK_EVERY_STEPS == 0:
                self.core.check()
                self.core.snapshot()
            for chat in [c for c in self.open.values() if c.is_answered]:
                self._end_turn(chat)
        self.counts["steps"] = num_steps

    def _begin(self) -> None:
        self.num_begun += 1
        if self.num_begun % (self.num_chats // 20 or 1) == 0:
            gc.collect()
            self.rss.append(psutil.Process().memory_info().rss)
        chat = Chat(
            self.num_begun, self.random.randint(1, 4), list(self.random.choice(self.systems))
        )
        self._submit(chat)

    def _submit(self, chat: Chat) -> None:
        draw = self.random.random
        if draw() < 0.2:  # an edit: go on from an earlier point
            del chat.history[self.random.randint(1, len(chat.history)) :]
        chat.history += [self.random.randrange(256) for _ in range(self.random.randint(1, 40))]
        del chat.history[200:]
        num_tokens, beam, num_samples = self.random.randint(1, 24), None, 1
        if draw() < 0.05:
            beam, num_samples, num_tokens = BeamParams(2), 2, min(num_tokens, 6)
        elif draw() < 0.15:
            num_samples = self.random.randint(2, 4)
        name = f"{chat.number}.{chat.turns_left}"
        request = make_request(
            name, chat.history, max_tokens=num_tokens, num_samples=num_samples, beam=beam
        )
        chat.request, chat.outcome, chat.is_answered = request, Outcome(), False
        self.open[name] = chat
        self.counts["turns"] += 1
        self._take(self.core.submit(request))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            chat = self.open[getattr(event, "request_id", "")]
            if isinstance(event, FailEvent):  # one for all answers, the ended ones included
                chat.outcome.fail, chat.is_answered = event, True
                continue
            collect({chat.request.id if chat.request else "": chat.outcome}, [event])
            chat.is_answered = isinstance(event, FinishEvent) and event.is_last

    def _disturb(self) -> None:
        draw = self.random.random
        if self.open and draw() < 0.02:
            self._take(self.core.cancel(self.random.choice(sorted(self.open))))
            self.counts["cancelled"] += 1
        if draw() < 0.005:
            tokens = self.random.choice(self.systems) * 3
            try:
                self.core.pin(f"pin {self.random.randrange(4)}", tokens)
                self.counts["pinned"] += 1
            except NoRoom:
                self.counts["pins refused"] += 1
        if draw() < 0.005:
            self.core.unpin(f"pin {self.random.randrange(4)}")

    def _end_turn(self, chat: Chat) -> None:
        request, outcome = chat.request, chat.outcome
        assert request is not None
        del self.open[request.id]
        if outcome.fail is not None:
            # Its row failed a second time, alone: what had come by then must be right all the same.
            assert "as told" in outcome.fail.error.message
            self.counts["answers that failed"] += 1
        self._compare(request, outcome)
        chat.history += outcome.token_ids
        chat.turns_left -= 1
        if chat.turns_left:
            self._submit(chat)

    def _compare(self, request: Request, outcome: Outcome) -> None:
        branches = [outcome.branch(number) for number in range(request.num_samples)]
        if request.beam is None:
            for number, branch in enumerate(branches):
                num_tokens = len(branch.token_ids)
                expected = expected_answer(request.prompt_ids, num_tokens, number)
                assert branch.token_ids == expected, f"{request.id} read what is not its own"
                self.counts["answers compared"] += 1
        elif outcome.finish is not None and outcome.finish.reason is FinishReason.LENGTH:
            width, num_tokens = request.beam.width, request.sampling.max_tokens or 1
            expected_all = expected_beams(request.prompt_ids, width, num_tokens)
            assert [branch.token_ids for branch in branches] == expected_all
            self.counts["beam searches compared"] += 1

    def _before_run(self, plan: object) -> None:
        if self.random.random() < 0.002:
            self.counts["steps that failed"] += 1
            raise RuntimeError("as told")

    def _after_run(self, plan: object) -> None:
        self._before_run(plan)


def walk(num_steps: int) -> None:
    """Let the state machine of the tests take so many steps, and say how many it took."""
    started_s = time.perf_counter()
    examples = settings(
        max_examples=STEPS_PER_EXAMPLE * 4,
        stateful_step_count=STEPS_PER_EXAMPLE,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    machines = cycle((KVMachine, FlyingKVMachine))
    while KVMachine.num_steps_of_all < num_steps:
        run_state_machine_as_test(next(machines), settings=examples)
        print(f"  {KVMachine.num_steps_of_all:,} steps", file=sys.stderr, flush=True)
    print(f"State machine: {KVMachine.num_steps_of_all:,} steps, the books recomputed and every")
    print(
        f"answer compared after each, in {time.perf_counter() - started_s:,.0f} s: no difference."
    )
    print()


def soak(num_chats: int) -> None:
    """Run the chats and print what is left; raises AssertionError when something is."""
    started_s = time.perf_counter()
    run = Soak(num_chats)
    run.run()
    for number in range(4):
        run.core.unpin(f"pin {number}")
    run.core.check()
    snapshot = run.core.snapshot()
    rows = {
        "chats": num_chats,
        **dict(sorted(run.counts.items())),
        "prompt tokens": snapshot.prompt_tokens,
        "prompt tokens found in the cache": snapshot.cached_prompt_tokens,
        "tokens generated": snapshot.generated_tokens,
        "preemptions": snapshot.preemptions,
        "blocks copied on write": snapshot.block_copies,
        "blocks evicted": snapshot.evicted_blocks,
        "blocks fetched from host memory": snapshot.swapped_in_blocks,
    }
    print("| chats over the fake model | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value:,} |")
    held, free, cached = snapshot.held_blocks, snapshot.free_blocks, snapshot.cached_blocks
    print(f"| seconds | {time.perf_counter() - started_s:,.0f} |\n")
    print(f"At the end: {held} blocks held, {free} free + {cached} cached = {free + cached} of")
    print(f"{snapshot.total_blocks}; host memory {snapshot.host_used_blocks} of {HOST_BLOCKS}.")
    early, late = min(run.rss[:5]), run.rss[-1]
    print(f"Memory of the process: {early / MIB:.1f} MiB in the first quarter and {late / MIB:.1f}")
    print(f"at the end; every twentieth: {', '.join(f'{r / MIB:.1f}' for r in run.rss)}.")
    assert held == 0 and free + cached == snapshot.total_blocks
    assert late < early + 2 * MIB, "memory grew"


def main() -> None:
    """Soak, then walk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--chats", type=int, default=10_000)
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)  # failing steps are part of the plan
    if arguments.chats:
        soak(arguments.chats)
    if arguments.steps:
        print()
        walk(arguments.steps)


if __name__ == "__main__":
    main()
