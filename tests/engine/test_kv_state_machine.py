"""Random walks through the engine's memory against an oracle that only knows token lists."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localpaged.engine.events import FinishReason
from testkit.engine_runs import Outcome, collect, make_core, make_request
from testkit.fake_runner import FakeRunner, expected_answer

SIZE = 4
NUM_BLOCKS = 14


class KVMachine(RuleBasedStateMachine):
    """Submits, steps, cancels and fails steps in a pool too small for what it is asked."""

    def __init__(self):
        super().__init__()
        self.must_fail = False
        runner = FakeRunner(NUM_BLOCKS, block_size=SIZE, before_run=self._before_run)
        self.core = make_core(
            num_blocks=NUM_BLOCKS,
            context_length=40,
            runner=runner,
            block_size=SIZE,
            step_tokens=10,
            stream_stretch=1.5,
            max_running=5,
        )
        self.prompts: dict[str, list[int]] = {}
        self.outcomes: dict[str, Outcome] = {}

    def _before_run(self, plan):
        if self.must_fail:
            self.must_fail = False
            raise RuntimeError("as told")

    def _submit(self, prompt, max_tokens, is_foreground):
        name = str(len(self.prompts))
        self.prompts[name] = prompt
        self.outcomes[name] = Outcome()
        request = make_request(name, prompt, max_tokens=max_tokens, is_foreground=is_foreground)
        collect(self.outcomes, self.core.submit(request))

    @rule(
        prompt=st.lists(st.integers(0, 1), min_size=1, max_size=26),
        max_tokens=st.integers(1, 14),
        is_foreground=st.booleans(),
    )
    def submit(self, prompt, max_tokens, is_foreground):
        self._submit(prompt, max_tokens, is_foreground)

    @precondition(lambda self: self.prompts)
    @rule(data=st.data(), extra=st.lists(st.integers(0, 1), max_size=6), cut=st.integers(0, 30))
    def continue_or_edit_a_chat(self, data, extra, cut):
        name = data.draw(st.sampled_from(sorted(self.prompts)))
        history = [*self.prompts[name], *self.outcomes[name].token_ids][:cut]
        self._submit([*history, *extra][:26] or [0], 6, False)

    @rule(count=st.integers(1, 6))
    def step(self, count):
        for _ in range(count):
            collect(self.outcomes, self.core.step())
            self.core.check()

    @rule()
    def a_step_fails(self):
        self.must_fail = True
        collect(self.outcomes, self.core.step())
        self.must_fail = False

    @precondition(lambda self: self.prompts)
    @rule(data=st.data())
    def cancel(self, data):
        collect(self.outcomes, self.core.cancel(data.draw(st.sampled_from(sorted(self.prompts)))))

    @invariant()
    def books_balance_and_answers_are_right(self):
        self.core.check()
        for name, outcome in self.outcomes.items():
            answer = outcome.token_ids
            assert answer == expected_answer(self.prompts[name], len(answer))
            assert outcome.text == bytes(answer).decode("utf-8", "replace")[: len(outcome.text)]

    def teardown(self):
        for _ in range(2_000):
            if self.core.is_idle:
                break
            collect(self.outcomes, self.core.step())
        assert all(outcome.is_over for outcome in self.outcomes.values())
        for outcome in self.outcomes.values():
            if outcome.finish and outcome.finish.reason is FinishReason.LENGTH:
                assert outcome.finish.usage.completion_tokens == len(outcome.token_ids)
        pool = self.core.scheduler.kv.pool
        assert pool.num_held == 0
        assert pool.num_free + pool.num_cached == NUM_BLOCKS


TestKVMachine = KVMachine.TestCase
TestKVMachine.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
