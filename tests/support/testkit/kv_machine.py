"""Random walks through the engine's memory against an oracle that only knows lists of tokens.

The pool and host memory are too small for what is asked of them, and the pool starts smaller
still. After every rule the books are recomputed and every answer is compared.
"""

from __future__ import annotations

from itertools import count as count_up
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.inspection import BlockState
from localpaged.engine.params import BeamParams
from localpaged.errors import NoRoom
from testkit.engine_runs import Outcome, collect, make_request
from testkit.fake_runner import FakeRunner, FlyingFakeRunner, expected_answer, expected_beams
from testkit.inspections import check_inspection, is_below
from testkit.kv_keeping import make_keeping_core
from testkit.metrics_books import check_metrics

SIZE = 4
NUM_BLOCKS = 14
HOST_BLOCKS = 9
CONTEXT = 40
TOKENS = st.integers(0, 1)
PIN_KEYS = st.sampled_from(("system", "chat"))


class KVMachine(RuleBasedStateMachine):
    """Submits, branches, steps, pins, evicts, preempts, cancels, fails steps, uses KV files."""

    num_steps_of_all: ClassVar[int] = 0
    runner_type: ClassVar[type[FakeRunner]] = FakeRunner

    def __init__(self) -> None:
        super().__init__()
        self.failures_before = self.failures_after = 0
        runner = self.runner_type(
            NUM_BLOCKS, block_size=SIZE, before_run=self._before_run, after_run=self._after_run
        )
        self.folder = TemporaryDirectory()
        self.core, self.keeper = make_keeping_core(
            Path(self.folder.name),
            segment_blocks=3,
            min_blocks=1,
            num_blocks=NUM_BLOCKS,
            initial_blocks=3,
            slab_blocks=4,
            host_blocks=HOST_BLOCKS,
            host_use="always",
            context_length=CONTEXT,
            runner=runner,
            block_size=SIZE,
            step_tokens=10,
            stream_stretch=1.5,
            max_running=5,
            clock=count_up().__next__,
        )
        self.prompts: dict[str, list[int]] = {}
        self.beams: dict[str, tuple[int, int]] = {}
        self.outcomes: dict[str, Outcome] = {}

    @rule(
        prompt=st.lists(TOKENS, min_size=1, max_size=26),
        max_tokens=st.integers(1, 14),
        is_foreground=st.booleans(),
        num_samples=st.sampled_from((1, 1, 2, 4)),
    )
    def submit(
        self, prompt: list[int], max_tokens: int, is_foreground: bool, num_samples: int
    ) -> None:
        self._submit(
            prompt, max_tokens=max_tokens, is_foreground=is_foreground, num_samples=num_samples
        )

    @rule(
        prompt=st.lists(TOKENS, min_size=1, max_size=20),
        max_tokens=st.integers(1, 7),
        width=st.integers(2, 3),
    )
    def search_beams(self, prompt: list[int], max_tokens: int, width: int) -> None:
        self.beams[str(len(self.prompts))] = (width, max_tokens)
        self._submit(prompt, max_tokens=max_tokens, num_samples=width, beam=BeamParams(width))

    @precondition(lambda self: self.prompts)
    @rule(data=st.data(), extra=st.lists(TOKENS, max_size=6), cut=st.integers(0, 30))
    def continue_or_edit_a_chat(self, data: st.DataObject, extra: list[int], cut: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.prompts)))
        history = [*self.prompts[name], *self.outcomes[name].token_ids][:cut]
        self._submit([*history, *extra][:26] or [0], max_tokens=6)

    @rule(count=st.integers(1, 6))
    def step(self, count: int) -> None:
        for _ in range(count):
            self._step()
            self.core.check()

    @rule(is_before=st.booleans(), count=st.sampled_from((1, 1, 1, 2)))
    def a_step_fails(self, is_before: bool, count: int) -> None:
        """Once, and its rows are run alone; twice, and the first of them fails for good."""
        self.failures_before = count if is_before else 0
        self.failures_after = 0 if is_before else count
        self._step()
        self.failures_before = self.failures_after = 0

    @precondition(lambda self: self.prompts)
    @rule(data=st.data(), branch=st.sampled_from((None, None, 0, 1)))
    def cancel(self, data: st.DataObject, branch: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.prompts)))
        if name in self.beams or not self.outcomes[name].token_ids:
            branch = None
        collect(self.outcomes, self.core.cancel(name, branch=branch))

    @rule(key=PIN_KEYS, prompt=st.lists(TOKENS, max_size=26))
    def pin(self, key: str, prompt: list[int]) -> None:
        before = self.core.scheduler.kv.pins.keys
        try:
            self.core.pin(key, prompt)
        except NoRoom:
            assert self.core.scheduler.kv.pins.keys == before

    @rule(key=PIN_KEYS)
    def unpin(self, key: str) -> None:
        self.core.unpin(key)

    @rule(count=st.integers(1, NUM_BLOCKS))
    def evict(self, count: int) -> None:
        kv = self.core.scheduler.kv
        kv._make_room(min(count, kv.num_available))

    @rule(data=st.data(), offset=st.integers(0, 3))
    def evict_a_branch(self, data: st.DataObject, offset: int) -> None:
        before = self.core.inspect()
        if not before.nodes:
            assert self.core.evict(0) == 0
            return
        node = data.draw(st.sampled_from(before.nodes))
        count = self.core.evict(node.id, offset)
        below = [n for n in before.nodes if n is node or is_below(n, node, before)]
        cached = [b for n in below for b in n.blocks[len(n.blocks) - n.num_cached :]]
        kept = [b for b in node.blocks[:offset] if b in cached]
        after = self.core.inspect()
        assert count == len(cached) - len(kept)
        assert after.count(BlockState.FREE) == before.count(BlockState.FREE) + count
        assert self.core.evict(node.id, offset) == 0

    @precondition(lambda self: self.core.inspect().nodes)
    @rule(key=PIN_KEYS, data=st.data())
    def pin_a_branch(self, key: str, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.core.inspect().nodes))
        try:
            view = self.core.pin_branch(key, node.id)
        except NoRoom:
            return
        assert view.num_held == view.num_blocks == node.start_blocks + len(node.blocks)
        shown = self.core.inspect().node(node.id)
        assert shown is not None and key in shown.pins

    @precondition(lambda self: self.core.scheduler.running)
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        running = self.core.scheduler.running
        self.core.scheduler._preempt(running[data.draw(st.integers(0, len(running) - 1))])

    @rule(is_looked_at=st.booleans(), prompt=st.lists(TOKENS, max_size=26))
    def bring_back(self, is_looked_at: bool, prompt: list[int]) -> None:
        self.core.bring_back(tuple(prompt), "chat" if is_looked_at else "")

    @rule(count=st.integers(1, 5))
    def the_keeper_works(self, count: int) -> None:
        self.keeper.work(count)

    @rule(num_steps=st.integers(1, 20), is_all_evicted=st.booleans())
    def nobody_asks_anything_for_a_while(self, num_steps: int, is_all_evicted: bool) -> None:
        self._run_until_idle()
        self.keeper.ring()
        for _ in range(num_steps):
            self._step()
            self.core.check()
        self.keeper.work()
        if is_all_evicted:
            self.core.scheduler.kv._make_room(NUM_BLOCKS)

    @precondition(lambda self: self.core._held)
    @rule(data=st.data())
    def a_request_waited_long_enough(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(list(self.core._held.values())))
        held.is_overdue = True

    @rule(data=st.data(), is_deleted=st.booleans(), place=st.floats(0, 0.999))
    def a_file_is_damaged_or_deleted(
        self, data: st.DataObject, is_deleted: bool, place: float
    ) -> None:
        files = sorted(self.keeper._folder.path.glob("*"))
        if not files:
            return
        file = data.draw(st.sampled_from(files))
        content = bytearray(file.read_bytes())
        content[int(place * len(content))] ^= 1
        file.unlink() if is_deleted else file.write_bytes(content)

    @invariant()
    def books_balance_and_answers_are_right(self) -> None:
        KVMachine.num_steps_of_all += 1
        self.core.check()
        check_inspection(self.core)
        check_metrics(self.core, self._prompts_in_the_engine())
        for name, outcome in self.outcomes.items():
            if name in self.beams:
                self._check_beams(name, outcome)
                continue
            for branch, answer in {0: outcome, **outcome.branches}.items():
                expected = expected_answer(self.prompts[name], len(answer.token_ids), branch)
                assert answer.token_ids == expected
                text = bytes(answer.token_ids).decode("utf-8", "replace")
                assert answer.text == text[: len(answer.text)]

    def teardown(self) -> None:
        self._run_until_idle()
        assert all(outcome.is_over for outcome in self.outcomes.values())
        self.books_balance_and_answers_are_right()
        self.core.unpin("system")
        self.core.unpin("chat")
        self.core.check()
        pool = self.core.scheduler.kv.pool
        assert pool.num_held == 0
        assert pool.num_free + pool.num_cached == pool.num_blocks <= NUM_BLOCKS
        self.folder.cleanup()

    def _submit(self, prompt: list[int], **options: Any) -> None:
        name = str(len(self.prompts))
        self.prompts[name] = prompt
        self.outcomes[name] = Outcome()
        collect(self.outcomes, self.core.submit(make_request(name, prompt, **options)))

    def _prompts_in_the_engine(self) -> dict[str, list[int]]:
        """Return the prompts that do not wait for files any more."""
        return {name: p for name, p in self.prompts.items() if name not in self.core._held}

    def _run_until_idle(self) -> None:
        for _ in range(2_000):
            if self.core.is_idle:
                return
            self.keeper.work()
            self._step()

    def _step(self) -> None:
        collect(self.outcomes, self.core.step())

    def _before_run(self, plan: object) -> None:
        if self.failures_before:
            self.failures_before -= 1
            raise RuntimeError("as told")

    def _after_run(self, plan: object) -> None:
        if self.failures_after:
            self.failures_after -= 1
            raise RuntimeError("as told")

    def _check_beams(self, name: str, outcome: Outcome) -> None:
        if outcome.finish is None or outcome.finish.reason is not FinishReason.LENGTH:
            return
        width, num_tokens = self.beams[name]
        answers = [outcome.branch(number).token_ids for number in range(width)]
        assert answers == expected_beams(self.prompts[name], width, num_tokens)
        del self.beams[name]
        self.outcomes[name] = Outcome(finish=outcome.finish)


class FlyingKVMachine(KVMachine):
    """The same with steps that are launched before the one before them is heard of."""

    runner_type = FlyingFakeRunner
