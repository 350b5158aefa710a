"""Two tiny models with one tokenizer in the real engine, put together as the program does it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from localpaged import wiring
from localpaged.chat.cache_report import CacheCause
from localpaged.chat.compare import BranchSpec, make_specs
from localpaged.chat.events import ChatEvent, ModelFailed, TurnCacheReport
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine import engine
from localpaged.engine.params import BLOCK_SIZE_TOKENS, SamplingParams
from localpaged.errors import ModelError
from localpaged.models.registry import add_entry
from localpaged.store.rows import TurnStatus
from testkit.builders import Recorder
from testkit.tiny_model import save_tiny_model

GREEDY = SamplingParams(temperature=0.0, max_tokens=24)
QUESTION = "what is the capital of france? and of italy? one, two, three, four"


@pytest.fixture(scope="module")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    for family in ("llama", "qwen3"):
        save_tiny_model(folder / family, family)
    return folder


@pytest.fixture
def run(home: Path, tiny_models: Path) -> Iterator[tuple[ChatService, Recorder]]:
    for name, family in (("first", "llama"), ("second", "qwen3")):
        add_entry(name, tiny_models / family, origin="test")
    recorder = Recorder()
    settings = Settings(model="first", dtype="float32", kv_memory_bytes=1 << 22)
    service = wiring.open_service(settings, subscriber=recorder)
    yield service, recorder
    service.close()


def ask(run: tuple[ChatService, Recorder], chat_id: str) -> tuple[str, TurnStatus]:
    service, recorder = run
    turn = service.send(chat_id, QUESTION, sampling=GREEDY)
    return recorder.text(turn.id), recorder.wait_ended(turn.id).status


def test_two_models_answer_their_chats_beside_each_other(run: tuple[ChatService, Recorder]):
    service, recorder = run
    chats = [service.configure(service.new_chat().id, model=m) for m in ("", "second", "first")]
    turns = [service.send(chat.id, QUESTION, sampling=GREEDY) for chat in chats]
    assert {recorder.wait_ended(turn.id).status for turn in turns} == {TurnStatus.DONE}
    by_default, by_second, by_first = (recorder.text(turn.id) for turn in turns)
    assert by_default == by_first != by_second
    models = {choice.name: choice for choice in service.models()}
    assert [name for name, choice in models.items() if choice.is_loaded] == ["first", "second"]
    assert models["second"].file_bytes > 10_000
    assert service.snapshot("second").model_name == "second"
    assert service.snapshot("second").cached_blocks > 0


def test_each_model_finds_what_it_computed_and_nothing_of_the_other(
    run: tuple[ChatService, Recorder],
):
    service, recorder = run
    chat = service.new_chat()
    for model in ("", "second", "", "second"):
        service.configure(chat.id, model=model)
        assert ask(run, chat.id)[1] is TurnStatus.DONE
    reports = [event.report for event in recorder.of(TurnCacheReport)]
    assert [report.cause for report in reports] == [
        CacheCause.FIRST_TURN,
        CacheCause.OTHER_NAMESPACE,
        CacheCause.NOTHING,
        CacheCause.NOTHING,
    ]
    assert [report.matched_tokens > 0 for report in reports] == [False, False, True, True]


def test_a_model_may_be_named_by_its_path_but_no_name_means_two_files(
    run: tuple[ChatService, Recorder], tiny_models: Path, tmp_path: Path
):
    service, recorder = run
    by_path = service.configure(service.new_chat().id, model=str(tiny_models / "qwen3"))
    turn = service.send(by_path.id, QUESTION, sampling=GREEDY)
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    for name, other in (("qwen3", "llama"), ("first", "qwen3")):
        (tmp_path / name).symlink_to(tiny_models / other)
        with pytest.raises(ModelError, match=f"{name} is .* in this run, not .*{name}"):
            service.load_model(str(tmp_path / name))


def test_a_model_that_could_not_be_opened_is_opened_again_when_it_is_mended(
    run: tuple[ChatService, Recorder], tiny_models: Path, tmp_path: Path
):
    service, recorder = run
    (tmp_path / "third").mkdir()
    add_entry("third", tmp_path / "third", origin="test")
    chat = service.configure(service.new_chat().id, model="third")
    turn = service.send(chat.id, QUESTION, sampling=GREEDY)
    error = recorder.wait_ended(turn.id).error
    assert isinstance(error, ModelError) and "third" in error.message
    shutil.copytree(tiny_models / "llama", tmp_path / "third", dirs_exist_ok=True)
    assert ask(run, chat.id)[1] is TurnStatus.DONE


def test_a_model_that_does_not_fit_is_refused_with_its_numbers(
    run: tuple[ChatService, Recorder], monkeypatch: pytest.MonkeyPatch
):
    service, recorder = run
    assert ask(run, service.new_chat().id)[1] is TurnStatus.DONE
    little = SimpleNamespace(available=1 << 16, total=1 << 40)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: little)
    chat = service.configure(service.new_chat().id, model="second")
    turn = service.send(chat.id, QUESTION, sampling=GREEDY)
    error = recorder.wait_ended(turn.id).error
    assert error is not None
    assert "second needs 0.0" in error.message and "0.00 GiB are free" in error.message
    assert recorder.wait_for(ModelFailed).model_name == "second"
    assert ask(run, service.new_chat().id)[1] is TurnStatus.DONE


def test_a_compare_reads_its_prompt_once_for_each_model_and_shares_the_blocks(
    run: tuple[ChatService, Recorder], monkeypatch: pytest.MonkeyPatch
):
    service, recorder = run
    monkeypatch.setattr(engine, "SNAPSHOT_INTERVAL_S", 0.0)
    shared: dict[str, int] = {}

    def look(events: tuple[ChatEvent, ...]) -> None:
        for name in ("first", "second"):
            for view in service.snapshot(name).sequences:
                shared[view.chat_id] = max(shared.get(view.chat_id, 0), view.shared_blocks)

    service.subscribe(look)
    prompt = "what is the capital of france? the quick brown fox jumps. " * 4
    specs = make_specs(num_samples=3, models=["first", "second"], temperatures=[1.0], seed=1)
    begun = service.compares.start(prompt, specs)
    turns = [branch.exchanges[-1].turn for branch in begun.branches]
    ends = [recorder.wait_ended(turn.id) for turn in turns if turn is not None]
    assert {ended.status for ended in ends} == {TurnStatus.DONE}
    for name, bills in (("first", ends[:3]), ("second", ends[3:])):
        usages = [ended.usage for ended in bills if ended.usage is not None]
        num_prompt = usages[0].prompt_tokens
        assert num_prompt > 5 * BLOCK_SIZE_TOKENS
        # one reads all of it, the others wait for it and read what fills no block
        tail = (num_prompt - 1) % BLOCK_SIZE_TOKENS + 1
        assert sorted(usage.new_tokens for usage in usages) == [tail, tail, num_prompt]
        snapshot = service.snapshot(name)
        assert snapshot.computed_prompt_tokens == num_prompt + 2 * tail
    assert [shared[branch.chat.id] for branch in begun.branches] == [num_prompt // 16] * 6


def test_a_seed_gives_the_same_answer_alone_and_in_any_compare(run: tuple[ChatService, Recorder]):
    service, recorder = run
    hot = SamplingParams(temperature=1.0, max_tokens=24, seed=42)
    alone = service.send(service.new_chat().id, QUESTION, sampling=hot)
    recorder.wait_ended(alone.id)
    texts = []
    for _ in range(2):
        specs = [
            BranchSpec("first", {"temperature": 1.0, "max_tokens": 24, "seed": seed})
            for seed in (41, 42, 43)
        ]
        begun = service.compares.start(QUESTION, specs)
        turns = [branch.exchanges[-1].turn for branch in begun.branches]
        for turn in turns:
            assert turn is not None
            recorder.wait_ended(turn.id)
        texts.append([recorder.text(turn.id) for turn in turns if turn is not None])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 3
    assert texts[0][1] == recorder.text(alone.id)
