"""Every run leaves a row for each model, whatever ends it."""

import os
import signal
import sqlite3

import pytest

from localpaged import paths
from localpaged.stats.collector import Collector
from localpaged.stats.run_keeper import SAVE_INTERVAL_S, RunKeeper
from localpaged.stats.schema import Program
from localpaged.store.facts import read_facts, read_runs
from localpaged.store.run_summaries import KEPT_SUMMARIES, RunSummary, SaveRunSummaries
from localpaged.store.store import Store
from testkit.builders import make_chat
from testkit.commands import call, start
from testkit.engine_runs import make_request, run
from testkit.stats_source import CoreSource, ask_without_end, eventually

HOSTILE = "'; DROP TABLE chats; --\x1b[2J"


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def kept():
    """A keeper, its collector, its source, its clock and what it saved."""
    source, saved, clock = CoreSource(), [], Clock()
    program = Program("0.1.0", 7, "chat", started_at=900.0)
    keeper = RunKeeper("run", program, saved.append, clock=clock)
    return keeper, Collector(source, program), source, clock, saved


def summary(number, **counts):
    return RunSummary(f"run {number}", "m", "chat", "0", 1, float(number), number + 9.0, **counts)


def pass_by(kept, seconds, *, is_busy):
    keeper, collector, source, clock, _ = kept
    if is_busy:
        run(source.core, [make_request(f"{clock.now}", range(20))])
    clock.now += seconds
    collector.sample()
    keeper.note(collector)


def test_a_run_is_saved_with_its_first_request_then_each_minute_of_work(kept):
    saved = kept[-1]
    pass_by(kept, 1, is_busy=False)
    assert saved == []
    pass_by(kept, 1, is_busy=True)
    ((first,),) = saved
    assert (first.requests, first.generated_tokens, first.is_ended) == (1, 8, False)
    for _ in range(2):
        pass_by(kept, SAVE_INTERVAL_S / 2, is_busy=True)
    assert [row.generated_tokens for (row,) in saved] == [8, 24]


def test_a_run_is_saved_once_when_the_engine_comes_to_rest(kept):
    saved = kept[-1]
    for is_busy in (True, True, False, False, False):
        pass_by(kept, 1, is_busy=is_busy)
    assert [row.generated_tokens for (row,) in saved] == [8, 16]


def test_the_last_row_tells_that_the_run_ended(kept):
    keeper, collector, source, clock, saved = kept
    run(source.core, [make_request("a", range(20))])
    collector.sample()
    keeper.note(collector)
    source.names = ()  # the model went away before
    clock.now = 2_000.0
    keeper.note(collector)
    keeper.end()
    (row,) = saved[-1]
    assert (row.is_ended, row.last_at, row.generated_tokens) == (True, 2_000.0, 8)
    assert row.cached_prompt_tokens == 0 and row.prompt_tokens == 20
    assert row.peak_held_blocks == 2


def test_without_a_model_there_is_nothing_to_tell(kept):
    keeper, collector, source, _, saved = kept
    source.names = ()
    keeper.note(collector)
    keeper.end()
    assert saved == []


def test_rows_are_replaced_and_hostile_names_are_names(home):
    store = Store.open()
    store.submit(SaveRunSummaries((summary(1),)))
    store.submit(SaveRunSummaries((summary(1, generated_tokens=5),)))
    other = RunSummary("run 2", HOSTILE, "ask", "0", 2, 2.0, 3.0, is_ended=True, ttft_p50_ms=1.5)
    store.submit(SaveRunSummaries((other,)))
    store.close()
    assert read_runs(paths.database_file(), limit=9) == [summary(1, generated_tokens=5), other]
    assert read_runs(paths.database_file(), limit=1) == [other]


def test_only_so_many_runs_are_kept(home, monkeypatch):
    monkeypatch.setattr("localpaged.store.run_summaries.KEPT_SUMMARIES", 3)
    assert KEPT_SUMMARIES > 3
    store = Store.open()
    for number in range(6):
        store.submit(SaveRunSummaries((summary(number),)))
    store.close()
    assert [row.run_id for row in read_runs(paths.database_file(), limit=9)] == [
        *("run 3", "run 4", "run 5"),
    ]


def test_facts_make_nothing_and_count_what_is_there(home):
    facts = read_facts(paths.database_file())
    assert (facts.database_bytes, facts.chats, facts.last_run) == (0, 0, None)
    assert list(home.iterdir()) == []
    store = Store.open()
    make_chat(store, texts=["question", "answer"])
    store.submit(SaveRunSummaries((summary(1),)))
    store.close()
    facts = read_facts(paths.database_file())
    assert (facts.chats, facts.messages, facts.last_run) == (1, 2, summary(1))
    assert facts.database_bytes >= paths.database_file().stat().st_size > 0


def test_a_history_of_an_older_version_has_no_runs(home):
    store = Store.open()
    store.submit(DropSummaries())
    store.close()
    assert read_facts(paths.database_file()).last_run is None
    assert read_runs(paths.database_file(), limit=3) == []


class DropSummaries:
    def apply(self, db, *, run_id):
        db.execute("DROP TABLE run_summaries")


def test_a_whole_program_leaves_its_row(listed_home):
    with start("ask", "Hi", script=["word "], times=30) as process:
        process.communicate(timeout=60)
    (row,) = read_runs(paths.database_file(), limit=9)
    assert (row.command, row.is_ended, row.generated_tokens) == ("ask", True, 30)
    assert row.pid == process.pid
    assert "ask" in call("stats", "--history").out


def test_a_killed_program_leaves_its_row_and_its_socket_is_removed(listed_home):
    with ask_without_end() as process:
        eventually(lambda: read_runs(paths.database_file(), limit=9))
        (path,) = paths.runtime_dir().glob("*.sock")
        os.kill(process.pid, signal.SIGKILL)
    (row,) = read_runs(paths.database_file(), limit=9)
    assert (row.is_ended, row.requests) == (False, 1)
    done = call("stats", "--once")
    assert done.code == 3 and "ended without a word" in done.out
    assert not path.exists()


def test_while_the_history_is_locked_one_summary_waits_and_none_is_lost(home):
    source = CoreSource()
    store = Store.open()
    program = Program("0.1.0", 7, "chat", started_at=900.0)
    keeper = RunKeeper(
        store.run_id,
        program,
        lambda rows: store.writer.submit_soon("run summary", SaveRunSummaries(rows)),
    )
    collector = Collector(source, program)
    other = sqlite3.connect(paths.database_file(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in range(5):
        run(source.core, [make_request(f"{number}", range(20))])
        collector.sample()
        keeper.note(collector)
        keeper.end()
    assert len(store.writer.unsaved().operations) <= 2
    assert read_runs(paths.database_file(), limit=9) == []
    other.execute("COMMIT")
    other.close()
    store.close()
    (row,) = read_runs(paths.database_file(), limit=9)
    assert (row.requests, row.is_ended) == (5, True)
