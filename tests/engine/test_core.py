"""EngineCore over a runner whose answers prove that each sequence reads its own history."""

from dataclasses import replace

import pytest

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Grammar
from localpaged.engine.step_plan import RowResult
from localpaged.errors import EngineError, PromptTooLong, StepFailed
from testkit.engine_runs import Outcome, collect, drain, make_core, make_request, run
from testkit.fake_runner import FakeRunner, expected_answer, text_of

ALPHABET = [bytes([i]) for i in range(256)]


def idle_blocks(core):
    pool = core.scheduler.kv.pool
    assert pool.num_free + pool.num_cached == pool.num_blocks
    return pool.num_held


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 33])
@pytest.mark.parametrize("max_tokens", [1, 8])
def test_a_repeated_prompt_is_found_and_still_computes_one_token(length, max_tokens):
    core = make_core()
    prompt = list(range(length))
    outcomes = [
        run(core, [make_request(name, prompt, max_tokens=max_tokens)])[name] for name in "ab"
    ]
    for outcome in outcomes:
        assert outcome.token_ids == expected_answer(prompt, max_tokens)
    usage = outcomes[1].finish.usage
    assert length - 16 <= usage.cached_tokens <= length - 1
    assert idle_blocks(core) == 0


def test_a_prefix_of_a_cached_prompt_is_found():
    core = make_core()
    run(core, [make_request("long", range(100))])
    outcome = run(core, [make_request("short", range(40))])["short"]
    assert outcome.token_ids == expected_answer(range(40), 8)
    assert outcome.finish.usage.cached_tokens == 39


def test_tokens_that_differ_in_high_bits_only_share_nothing():
    core = make_core(token_bytes=[b"x"] * 70_000)
    first = [5, 6, 7, 8] * 10
    run(core, [make_request("a", first)])
    for offset in (256, 65_536):
        second = [token + offset for token in first]
        outcome = run(core, [make_request(f"b{offset}", second)])[f"b{offset}"]
        assert outcome.finish.usage.cached_tokens == 0
        assert outcome.token_ids == expected_answer(second, 8)


def test_an_answer_is_cached_for_the_next_turn():
    core = make_core()
    prompt = list(range(20))
    answer = run(core, [make_request("turn 1", prompt, max_tokens=30)])["turn 1"].token_ids
    follow_up = [*prompt, *answer, 1, 2, 3]
    usage = run(core, [make_request("turn 2", follow_up)])["turn 2"].finish.usage
    assert usage.cached_tokens >= len(prompt) + len(answer) - 16


def test_equal_prompts_that_arrive_together_compute_their_prefix_once():
    runner = FakeRunner(256)
    core = make_core(num_blocks=256, runner=runner)
    system = [i % 251 for i in range(600)]
    prompts = {f"chat {i}": [*system, *(200 + i for _ in range(10))] for i in range(8)}
    outcomes: dict[str, Outcome] = {}
    for name, prompt in prompts.items():
        collect(outcomes, core.submit(make_request(name, prompt, max_tokens=20)))
    most_held = 0
    while not core.is_idle:
        collect(outcomes, core.step())
        core.check()
        most_held = max(most_held, core.scheduler.kv.pool.num_held)
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == expected_answer(prompt, 20)
    decoded = 8 * 19
    assert runner.num_computed_tokens - decoded <= 600 + 8 * 10 + 8 * 16
    assert most_held <= 600 // 16 + 8 * (-(-(600 % 16 + 30) // 16) + 1)


@pytest.mark.parametrize("step_tokens", [16, 33, 64, 512])
def test_chunks_batches_and_hits_do_not_change_an_answer(step_tokens):
    core = make_core(num_blocks=128, step_tokens=step_tokens, stream_stretch=1.5)
    shared = list(range(40))
    prompts = {
        f"r{n}": [*shared[: n % 41], *((n * i) % 256 for i in range(n))] for n in range(3, 60, 7)
    }
    outcomes = run(core, [make_request(n, p, max_tokens=20) for n, p in prompts.items()])
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == expected_answer(prompt, 20), name
    assert idle_blocks(core) == 0


def test_preemption_changes_no_token_and_repeats_no_text():
    core = make_core(num_blocks=26, context_length=160)
    prompts = {f"r{i}": [i] * 25 for i in range(6)}
    outcomes = run(core, [make_request(n, p, max_tokens=120) for n, p in prompts.items()])
    assert core.snapshot().preemptions > 0
    for name, prompt in prompts.items():
        answer = expected_answer(prompt, 120)
        assert outcomes[name].token_ids == answer
        assert outcomes[name].text == text_of(bytes(answer))
        assert outcomes[name].finish.usage.prompt_tokens == 25
        assert outcomes[name].finish.usage.completion_tokens == 120
    assert idle_blocks(core) == 0


def test_a_pool_of_one_sequence_still_serves_everybody():
    core = make_core(num_blocks=5, context_length=80, step_tokens=32)
    prompts = {f"r{i}": [7, 7, 7, i, *range(40)] for i in range(5)}
    outcomes = run(core, [make_request(n, p, max_tokens=30) for n, p in prompts.items()])
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == expected_answer(prompt, 30)
    assert core.snapshot().evicted_blocks > 0


def test_a_partial_match_gives_way_when_its_copy_would_not_fit():
    core = make_core(num_blocks=4, context_length=64)
    run(core, [make_request("a", range(40), max_tokens=20)])
    prompt = [*range(20), *([9] * 40)]
    outcome = run(core, [make_request("b", prompt, max_tokens=4)])["b"]
    assert outcome.token_ids == expected_answer(prompt, 4)


def test_a_stream_keeps_flowing_while_a_long_prompt_is_read():
    core = make_core(num_blocks=256)
    outcomes = {"stream": Outcome(), "long": Outcome()}
    collect(outcomes, core.submit(make_request("stream", range(10), max_tokens=100)))
    collect(outcomes, core.step())
    collect(outcomes, core.submit(make_request("long", [3] * 640)))
    while outcomes["long"].token_ids == []:
        before = len(outcomes["stream"].token_ids)
        collect(outcomes, core.step())
        assert len(outcomes["stream"].token_ids) == before + 1
    progress = [event.computed_tokens for event in outcomes["long"].prefill]
    assert progress == sorted(set(progress))
    assert progress[-1] == 640


def test_prompt_tokens_are_shared_between_chats_not_requests():
    core = make_core(num_blocks=512, step_tokens=64)
    outcomes: dict[str, Outcome] = {}
    for i in range(6):
        request = make_request(f"busy {i}", [i + 1] * 400)
        collect(outcomes, core.submit(replace(request, chat_id="busy")))
    for _ in range(3):
        collect(outcomes, core.step())
    collect(outcomes, core.submit(make_request("short", [99] * 60)))
    for _ in range(4):
        collect(outcomes, core.step())
    assert outcomes["short"].token_ids


def test_the_foreground_chat_is_served_first():
    core = make_core(max_running=1)
    outcomes: dict[str, Outcome] = {}
    for name in ("back 1", "back 2"):
        collect(outcomes, core.submit(make_request(name, [1, 2])))
    collect(outcomes, core.step())
    collect(outcomes, core.submit(make_request("front", [1, 2], is_foreground=True)))
    assert [s.request_id for s in core.snapshot().sequences if s.queue_position] == [
        "front",
        "back 2",
    ]
    while not outcomes["back 1"].is_over:
        collect(outcomes, core.step())
    collect(outcomes, core.step())
    assert outcomes["front"].token_ids
    assert not outcomes.get("back 2", Outcome()).token_ids
    drain(core, outcomes)
    assert all(outcome.finish for outcome in outcomes.values())


def test_focus_moves_to_another_chat_at_any_time():
    core = make_core(max_running=1)
    outcomes = {name: Outcome() for name in ("a", "b", "c")}
    for name in outcomes:
        collect(outcomes, core.submit(make_request(name, [1, 2])))
    core.focus("c")
    while not outcomes["c"].is_over:
        collect(outcomes, core.step())
    assert not outcomes["a"].is_over
    assert not outcomes["b"].is_over
    drain(core, outcomes)


@pytest.mark.parametrize("num_steps", [0, 1, 2, 3, 7])
def test_cancel_at_any_moment_frees_everything_and_keeps_the_text(num_steps):
    core = make_core(step_tokens=16)
    outcomes: dict[str, Outcome] = {}
    prompt = list(range(40))
    collect(outcomes, core.submit(make_request("a", prompt, max_tokens=50)))
    for _ in range(num_steps):
        collect(outcomes, core.step())
    collect(outcomes, core.cancel("a"))
    core.check()
    assert outcomes["a"].finish.reason is FinishReason.CANCELLED
    assert outcomes["a"].token_ids == expected_answer(prompt, len(outcomes["a"].token_ids))
    assert idle_blocks(core) == 0
    assert core.cancel("a") == []


def test_neighbours_of_cancelled_and_early_finished_requests_are_not_disturbed():
    core = make_core(num_blocks=96)
    outcomes: dict[str, Outcome] = {}
    prompts = {f"r{i}": [i, *range(30)] for i in range(12)}
    lengths = {name: 1 + 5 * i for i, name in enumerate(prompts)}
    for name, prompt in prompts.items():
        collect(outcomes, core.submit(make_request(name, prompt, max_tokens=lengths[name])))
    for _ in range(6):
        collect(outcomes, core.step())
    for name in list(prompts)[::3]:
        collect(outcomes, core.cancel(name))
    drain(core, outcomes)
    for name, prompt in prompts.items():
        got = outcomes[name].token_ids
        assert got == expected_answer(prompt, len(got))
        if outcomes[name].finish.reason is FinishReason.LENGTH:
            assert len(got) == lengths[name]


def test_an_empty_prompt_is_refused_alone():
    core = make_core()
    outcomes = run(core, [make_request("ok", [1]), make_request("empty", [])])
    assert isinstance(outcomes["empty"].fail.error, EngineError)
    assert outcomes["ok"].token_ids == expected_answer([1], 8)


def test_a_prompt_beyond_the_context_is_refused_with_its_numbers():
    core = make_core(context_length=64)
    outcomes = run(core, [make_request("long", [1] * 64), make_request("answer", [1] * 60)])
    assert isinstance(outcomes["long"].fail.error, PromptTooLong)
    assert "64" in outcomes["long"].fail.error.message
    assert "60" in outcomes["answer"].fail.error.message
    assert "68" in outcomes["answer"].fail.error.message


def test_an_answer_without_a_limit_ends_at_the_context():
    core = make_core(context_length=64)
    outcome = run(core, [make_request("a", [1] * 60, max_tokens=None)])["a"]
    assert len(outcome.token_ids) == 4
    assert outcome.finish.reason is FinishReason.LENGTH


def test_unknown_prompt_ids_and_ids_in_use_are_refused():
    core = make_core()
    outcomes = run(core, [make_request("unknown", [1, 999])])
    assert "does not know" in outcomes["unknown"].fail.error.message
    core.submit(make_request("twice", [1]))
    assert "running already" in core.submit(make_request("twice", [1]))[0].error.message


@pytest.mark.parametrize(
    "request_",
    [
        make_request("bad", ("a",)),  # type: ignore[arg-type]
        make_request("bad", (None,)),  # type: ignore[arg-type]
        make_request("bad", (1.0,)),  # type: ignore[arg-type]
        make_request("bad", [1], grammar=Grammar("regex", "\ud800")),
    ],
    ids=["text", "none", "float", "surrogate"],
)
def test_a_request_that_cannot_be_read_fails_alone(request_):
    core = make_core()
    outcomes = run(core, [make_request("good", [1, 2]), request_])
    assert outcomes["bad"].fail is not None
    assert len(outcomes["good"].token_ids) == 8


def test_a_full_queue_refuses():
    core = make_core(max_waiting=2)
    for name in "ab":
        assert core.submit(make_request(name, [1])) == []
    assert "waiting already" in core.submit(make_request("c", [1]))[0].error.message


def test_an_end_token_stops_and_is_no_text():
    answer = expected_answer([1, 2, 3], 8)
    core = make_core(eos_ids=frozenset({answer[3]}), token_bytes=ALPHABET)
    outcome = run(core, [make_request("a", [1, 2, 3], ignore_eos=False)])["a"]
    assert outcome.finish.reason is FinishReason.STOP
    assert outcome.token_ids == answer[:4]
    assert outcome.text == text_of(bytes(answer[:3]))


def test_a_stop_string_ends_the_answer_before_it():
    words = [f"w{i} ".encode() for i in range(256)]
    answer = expected_answer([1, 2, 3], 8)
    core = make_core(token_bytes=words)
    stop = f"{words[answer[2]].decode()}w"
    outcome = run(core, [make_request("a", [1, 2, 3], stop=(stop,))])["a"]
    assert outcome.text == f"w{answer[0]} w{answer[1]} "
    assert outcome.finish.reason is FinishReason.STOP


def test_a_stop_string_in_the_prompt_does_not_stop():
    core = make_core(token_bytes=[b"x"] * 256)
    outcome = run(core, [make_request("a", [1], stop=("y",), max_tokens=3)])["a"]
    assert outcome.text == "xxx"


def test_a_step_that_fails_as_a_whole_is_tried_row_by_row():
    def before_run(plan):
        if len(plan.rows) > 1 or plan.rows[0].request_id == "bad":
            raise RuntimeError("out of memory")

    core = make_core(runner=FakeRunner(64, before_run=before_run))
    prompts = {"a": [1] * 20, "bad": [2] * 20, "c": [3] * 20}
    outcomes = run(core, [make_request(n, p) for n, p in prompts.items()])
    assert isinstance(outcomes["bad"].fail.error, StepFailed)
    assert "out of memory" in outcomes["bad"].fail.error.message
    for name in "ac":
        assert outcomes[name].token_ids == expected_answer(prompts[name], 8)
    assert idle_blocks(core) == 0
    assert run(core, [make_request("d", [1] * 20)])["d"].token_ids == expected_answer([1] * 20, 8)


def test_a_row_without_a_result_fails_alone():
    def sample(request_id, history):
        if request_id == "bad" and len(history) == 4:
            return RowResult(error="not finite")
        return RowResult((7,))

    core = make_core(runner=FakeRunner(64, sample=sample))
    outcomes = run(core, [make_request("bad", [1, 2]), make_request("good", [1, 2])])
    assert "not finite" in outcomes["bad"].fail.error.message
    assert outcomes["bad"].token_ids == [7, 7]
    assert outcomes["good"].token_ids == [7] * 8
    assert idle_blocks(core) == 0


def test_counters_tell_cached_from_computed_prompt_tokens():
    core = make_core()
    run(core, [make_request("a", range(40))])
    run(core, [make_request("b", range(40))])
    snapshot = core.snapshot()
    assert snapshot.prompt_tokens == 80
    assert snapshot.cached_prompt_tokens + snapshot.computed_prompt_tokens == 80
    assert snapshot.cached_prompt_tokens == 32
    assert snapshot.generated_tokens == 16
    assert snapshot.held_blocks + snapshot.cached_blocks + snapshot.free_blocks == 64
