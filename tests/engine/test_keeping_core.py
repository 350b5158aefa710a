"""KV that outlives a core: written when idle or at the end, restored before it is asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from localpaged.engine.core_set import CoreSet
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.keeping_core import IDLE_S
from localpaged.engine.restores import NO_ROOM, TOO_SLOW
from localpaged.errors import EngineStopped
from localpaged.kv_files.folder import KVFolder
from testkit.engine_runs import Outcome, collect, make_request
from testkit.fake_runner import FakeRunner, expected_answer
from testkit.kv_keeping import ManualKeeper, fake_identity, make_keeping_core

PROMPT = [i % 50 for i in range(300)]


class Run:
    """One life of a core; several may follow each other over the same files."""

    def __init__(self, root: Path, **options) -> None:
        self.runner = FakeRunner(options.get("num_blocks", 64))
        self.core, self.keeper = make_keeping_core(root, runner=self.runner, **options)
        self.outcomes: dict[str, Outcome] = {}

    def submit(self, name: str, prompt, **params) -> None:
        self.outcomes[name] = Outcome()
        collect(self.outcomes, self.core.submit(make_request(name, prompt, **params)))

    def step(self) -> None:
        collect(self.outcomes, self.core.step())
        self.core.check()

    def ask(self, name: str, prompt, **params) -> Outcome:
        self.submit(name, prompt, **params)
        self.settle()
        outcome = self.outcomes[name]
        assert outcome.token_ids == expected_answer(prompt, len(outcome.token_ids))
        return outcome

    def settle(self) -> None:
        for _ in range(1_000):
            if self.core.is_idle:
                return
            self.keeper.work()
            self.step()
        raise AssertionError("never idle")

    def idle(self) -> None:
        """Let so much time go by that files are written."""
        self.keeper.ring()
        self.settle()
        self.keeper.work()

    def files(self) -> list[Path]:
        return sorted(self.keeper._folder.path.glob("*.safetensors"))


def cached(outcome: Outcome) -> int:
    return outcome.prefill[0].cached_tokens


def restored(outcome: Outcome) -> int:
    return outcome.prefill[0].restored_tokens


def test_what_was_computed_is_found_by_the_next_process(tmp_path):
    first = Run(tmp_path)
    answer = first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path)
    told = [*PROMPT, *answer.token_ids, 1, 2, 3]
    outcome = second.ask("chat", told)

    assert cached(outcome) == restored(outcome) == 304
    assert second.runner.num_computed_tokens < 20


def test_the_end_writes_what_idleness_had_no_time_for(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    assert not first.files()
    first.core.park(wait_s=1.0)

    assert cached(Run(tmp_path).ask("chat", PROMPT)) == 288


def test_files_and_folders_are_their_owners_alone(tmp_path):
    old = os.umask(0)
    try:
        run = Run(tmp_path / "kv")
        run.ask("chat", PROMPT)
        run.idle()
    finally:
        os.umask(old)
    for path in (tmp_path / "kv").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert len(run.files()) == 2


def test_what_is_looked_at_is_there_before_it_is_asked_for(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path)
    second.core.bring_back(tuple(PROMPT), "chat")
    second.settle()
    pool = second.core.scheduler.kv.pool
    assert (pool.num_cached, pool.num_held) == (18, 0)

    assert not second.keeper.todo or second.keeper.work() is None
    outcome = second.ask("chat", PROMPT)
    assert restored(outcome) == 288
    assert restored(second.ask("chat", [*PROMPT, 1])) == 0, "it is told once"


def test_a_shared_beginning_is_stored_once(tmp_path):
    run = Run(tmp_path)
    run.ask("a", [*PROMPT[:256], *[1] * 40])
    run.ask("b", [*PROMPT[:256], *[2] * 40])
    run.idle()
    assert len(run.files()) == 3


def test_a_chat_that_grows_replaces_its_end(tmp_path):
    run = Run(tmp_path)
    answer = run.ask("chat", PROMPT)
    run.idle()
    before = run.files()
    run.ask("chat", [*PROMPT, *answer.token_ids, *[3] * 40])
    run.idle()
    assert len(before) == len(run.files()) == 2
    assert len(set(before) & set(run.files())) == 1


def test_where_a_chat_was_edited_its_beginning_is_found(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    edited = [*PROMPT[:150], *[7] * 100]
    second = Run(tmp_path)
    assert cached(second.ask("chat", edited)) == 144


def test_what_only_begins_alike_is_read_once_to_know_it(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    second = Run(tmp_path)
    second.submit("a", [9] * 200)
    assert second.core.is_blocked
    second.settle()
    second.submit("b", [8] * 200)
    assert not second.core.is_blocked
    second.settle()
    assert cached(second.ask("chat", [*PROMPT[:100], *[8] * 100])) == 96


def test_another_computation_finds_nothing(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    keeper = ManualKeeper(KVFolder(fake_identity(kv_dtype="int8"), tmp_path))
    outcome = Run(tmp_path, keeper=keeper).ask("chat", PROMPT)
    assert cached(outcome) == 0


def test_a_damaged_file_is_ignored_deleted_and_told(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    whole = max(first.files(), key=lambda path: path.stat().st_size)
    content = bytearray(whole.read_bytes())
    content[-1] ^= 1
    whole.write_bytes(content)

    outcome = Run(tmp_path).ask("chat", PROMPT)

    assert cached(outcome) == 0
    assert "checksum" in outcome.prefill[0].restore_note
    assert not whole.exists()


def test_a_request_waits_no_longer_than_it_pays(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path)
    second.submit("chat", PROMPT)
    assert second.core.is_blocked and not second.core.is_idle
    (held,) = second.core._held.values()
    held.is_overdue = True
    assert not second.core.is_blocked
    second.step()
    second.settle()

    outcome = second.outcomes["chat"]
    assert outcome.token_ids == expected_answer(PROMPT, 8)
    assert cached(outcome) == 0
    assert outcome.prefill[0].restore_note == TOO_SLOW


def test_a_request_waits_on_while_something_comes(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path)
    second.submit("chat", PROMPT)
    second.keeper.work(1)
    second.step()
    (held,) = second.core._held.values()
    held.is_overdue = True
    second.step()
    assert not held.is_overdue
    second.settle()
    assert restored(second.outcomes["chat"]) == 288


def test_reading_that_costs_more_than_computing_is_not_begun(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    second = Run(tmp_path)
    second.keeper.byte_s = 1.0
    second.submit("chat", PROMPT)
    assert not second.core.is_blocked
    second.settle()
    assert restored(second.outcomes["chat"]) == 0


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_what_is_cached_goes_for_who_waits_and_not_for_who_looks(tmp_path, is_looked_at):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path, num_blocks=24)
    second.ask("other", [9] * 280)
    if is_looked_at:
        second.core.bring_back(tuple(PROMPT), "chat")
        second.settle()
        assert cached(second.ask("other", [9] * 280)) == 272
    else:
        outcome = second.ask("chat", PROMPT)
        assert restored(outcome) == 288
        assert second.core.scheduler.kv.num_evicted > 0


def test_what_others_hold_is_never_taken(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()

    second = Run(tmp_path, num_blocks=24)
    second.submit("other", [9] * 180, max_tokens=100)
    second.step()
    second.submit("chat", PROMPT, max_tokens=2)
    second.settle()

    for name, prompt in (("other", [9] * 180), ("chat", PROMPT)):
        outcome = second.outcomes[name]
        assert outcome.token_ids == expected_answer(prompt, len(outcome.token_ids))
    assert second.outcomes["chat"].prefill[0].restore_note == NO_ROOM


@pytest.mark.parametrize("prompt", [(), (2**40,) * 40, (-1,) * 40, ("x",) * 40, (None,) * 40])
def test_what_is_no_prompt_is_refused_like_anywhere(tmp_path, prompt):
    run = Run(tmp_path)
    run.submit("a", prompt)
    assert run.outcomes["a"].fail is not None
    run.core.check()


def test_a_request_that_waits_can_be_cancelled_and_failed(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    second = Run(tmp_path)
    second.submit("a", PROMPT)
    collect(second.outcomes, second.core.cancel("a"))
    assert second.outcomes["a"].finish.reason is FinishReason.CANCELLED
    second.submit("b", PROMPT)
    collect(second.outcomes, second.core.fail_all(EngineStopped("closed")))
    assert isinstance(second.outcomes["b"].fail.error, EngineStopped)
    second.keeper.work()
    second.core.check()
    assert second.core.scheduler.kv.pool.num_held == 0


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_the_time_without_requests_begins_with_the_end_of_the_last_one(tmp_path, is_cancelled):
    run = Run(tmp_path)
    run.submit("a", PROMPT)
    run.step()
    assert not run.keeper.alarms
    if is_cancelled:
        run.core.cancel("a")
    run.settle()
    assert run.keeper.alarms == [IDLE_S]
    run.idle()
    assert run.files()


def test_a_request_breaks_the_writing_off(tmp_path):
    run = Run(tmp_path)
    run.ask("a", PROMPT)
    run.ask("b", [5] * 300)
    run.keeper.ring()
    run.step()
    assert run.core._departures.is_under_way
    run.ask("c", [6] * 20)
    assert not run.core._departures.is_under_way
    run.idle()
    assert len(run.files()) == 4


def test_pinned_prompts_are_written_before_later_chats(tmp_path):
    options = {"budget_bytes": fake_identity().file_bytes(16, num_tokens=256) * 3}
    run = Run(tmp_path, context_length=400, keeper_options=options)
    run.ask("pinned", PROMPT)
    run.core.pin("system", PROMPT)
    run.ask("later", [5] * 300)
    run.idle()
    second = Run(tmp_path)
    assert cached(second.ask("pinned", PROMPT)) == 288
    assert cached(second.ask("later", [5] * 300)) == 0


def test_a_pin_is_completed_by_what_comes_back(tmp_path):
    first = Run(tmp_path)
    first.ask("chat", PROMPT)
    first.idle()
    second = Run(tmp_path, context_length=400)
    second.core.pin("chat", PROMPT)
    second.core.bring_back(tuple(PROMPT), "chat")
    second.settle()
    assert second.core.scheduler.kv.pins.num_blocks == 18


def test_nothing_new_is_written_twice(tmp_path):
    run = Run(tmp_path)
    run.ask("chat", PROMPT)
    run.idle()
    times = [path.stat().st_ctime_ns for path in run.files()]
    run.keeper._folder.write = None
    run.ask("chat", PROMPT)
    run.idle()
    assert len(times) == len(run.files())


def test_a_model_that_is_unloaded_leaves_its_files(tmp_path):
    run = Run(tmp_path)
    run.ask("chat", PROMPT)
    cores = CoreSet(wake=lambda: None)
    cores.add("model", run.core)
    cores.remove("model")
    cores.park(wait_s=0)
    assert len(run.files()) == 2
    cores.park(wait_s=0)


def test_a_model_whose_files_cannot_be_written_is_unloaded_all_the_same(tmp_path, monkeypatch):
    run = Run(tmp_path)
    run.ask("chat", PROMPT)
    monkeypatch.setattr(ManualKeeper, "close", None)
    cores = CoreSet(wake=lambda: None)
    cores.add("model", run.core)
    cores.remove("model")
    cores.park(wait_s=0)
    assert not cores.names
