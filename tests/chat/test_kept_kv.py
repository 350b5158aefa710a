"""KV that survives a restart, as a user of chats sees it: a real engine, real files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from localpaged.chat.cache_report import CacheCause, CacheReport, report_of, to_json
from localpaged.chat.events import TurnCacheReport, TurnEnded
from localpaged.cli.main import main
from localpaged.config import Settings
from localpaged.engine import keeping_core
from localpaged.engine.params import SamplingParams
from localpaged.kv_files.folder import kv_root
from localpaged.store.rows import Chat, TurnStatus
from localpaged.wiring import open_service
from testkit.builders import Recorder

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
QUESTION = "Tell me of the house, the sea and the long way between them. " * 3


class Program:
    """One run of the program after another over the same home."""

    def __init__(self, model: Path) -> None:
        self._model = str(model)
        self.start()

    def start(self, *, kv_disk_bytes: int = 1 << 30) -> None:
        self.recorder = Recorder()
        settings = Settings(
            self._model, dtype="float32", context_tokens=512, kv_disk_bytes=kv_disk_bytes
        )
        self.service = open_service(settings, subscriber=self.recorder)

    def restart(self, **options: int) -> None:
        self.service.close()
        self.start(**options)

    def ask(self, chat: Chat, text: str = QUESTION) -> CacheReport:
        number = len(self.recorder.of(TurnEnded)) + 1
        turn = self.service.send(chat.id, text, sampling=GREEDY)
        assert self.recorder.wait_ended(turn.id).status is TurnStatus.DONE
        self.recorder.wait_for(TurnCacheReport, count=number)
        self.answer = self.recorder.text(turn.id)
        return self.recorder.of(TurnCacheReport)[-1].report


@pytest.fixture
def program(tiny: Path, home: Path) -> Iterator[Program]:
    program = Program(tiny)
    yield program
    program.service.close()


def files() -> list[Path]:
    return sorted(kv_root().glob("*/*.safetensors"))


def test_a_chat_goes_on_where_another_run_left_it(program: Program):
    chat = program.service.new_chat()
    program.ask(chat)
    program.restart()
    report = program.ask(chat, "And then?")
    assert report.cause is CacheCause.NOTHING
    assert report.restored_tokens == report.matched_tokens > 60

    again = program.ask(chat, "And then?")
    assert (again.cause, again.restored_tokens) == (CacheCause.NOTHING, 0)


def test_the_answer_is_the_one_without_files(program: Program):
    one, other = program.service.new_chat(), program.service.new_chat()
    program.ask(one)
    program.restart()
    assert program.ask(one, "And then?").restored_tokens
    answer = program.answer
    program.restart(kv_disk_bytes=0)
    program.ask(other)
    report = program.ask(other, "And then?")
    assert report.restored_tokens == 0
    assert program.answer == answer


def test_a_chat_that_is_looked_at_is_brought_back_before_it_is_asked(program: Program):
    chat = program.service.new_chat()
    program.ask(chat)
    program.restart()
    program.service.focus(chat.id)
    program.recorder.wait(lambda: program.service.snapshot().total_blocks > 0)
    for _ in range(500):
        if program.service.memory.inspect().result(10).nodes:
            break
    else:
        raise AssertionError("nothing came back")
    assert program.ask(chat, "And then?").restored_tokens > 60


@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_was_lost_is_told(program: Program, is_deleted: bool):
    chat = program.service.new_chat()
    program.ask(chat)
    program.service.close()
    for file in files():
        file.unlink() if is_deleted else file.write_bytes(file.read_bytes()[:-1])
    program.start()
    report = program.ask(chat, "And then?")
    assert report.cause is CacheCause.RESTARTED
    assert report.restored_tokens == 0
    assert bool(report.restore_note) is not is_deleted
    assert report_of_json(report) == report


def report_of_json(report: CacheReport) -> CacheReport | None:
    class Row:
        cache_report = to_json(report)

    return report_of(Row)  # type: ignore[arg-type]


def test_without_a_budget_there_is_no_file(program: Program):
    program.restart(kv_disk_bytes=0)
    program.ask(program.service.new_chat())
    program.service.close()
    assert not kv_root().exists()


def test_files_are_written_while_nobody_asks(program: Program, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping_core, "IDLE_S", 0.01)
    program.ask(program.service.new_chat())
    for _ in range(1_000):
        if files():
            break
        program.service.memory.inspect().result(10)
    assert files()


def test_a_deleted_chat_takes_its_files_along(program: Program):
    chat, other = program.service.new_chat(), program.service.new_chat()
    program.ask(chat)
    program.ask(other, "Something else, and rather more of it than one might think. " * 3)
    program.restart()
    before = files()
    program.service.delete(chat.id)
    program.service.close()
    left = files()
    assert left and len(left) < len(before)

    result = CliRunner().invoke(main, ["history", "rm", "--yes", other.id])
    assert result.exit_code == 0, result.output
    assert files() == []


def test_a_folder_that_cannot_be_written_costs_nothing_else(
    program: Program, caplog: pytest.LogCaptureFixture
):
    program.service.close()
    kv_root().parent.parent.mkdir(parents=True, exist_ok=True)
    kv_root().parent.write_text("in the way")
    program.start()
    with caplog.at_level(logging.WARNING):
        chat = program.service.new_chat()
        program.ask(chat)
        program.restart()
    assert program.ask(chat, "And then?").cause is CacheCause.RESTARTED
    assert "KV" in caplog.text


def test_another_number_format_does_not_believe_the_files(program: Program, tiny: Path):
    chat = program.service.new_chat()
    program.ask(chat)
    program.service.close()
    settings = Settings(
        str(tiny), dtype="float32", kv_dtype="int8", context_tokens=512, kv_disk_bytes=1 << 30
    )
    program.recorder = Recorder()
    program.service = open_service(settings, subscriber=program.recorder)
    assert program.ask(chat, "And then?").restored_tokens == 0
