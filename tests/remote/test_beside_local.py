"""Endpoints and models of this machine beside each other in one program."""

from __future__ import annotations

from pathlib import Path

from localpaged import wiring
from localpaged.chat.compare import make_specs
from localpaged.chat.events import ModelReady, TurnModelMissing
from localpaged.chat.service import ChatService
from localpaged.config import Settings
from localpaged.engine.params import SamplingParams
from localpaged.models.registry import add_entry
from localpaged.remote.endpoint import Endpoint
from localpaged.remote_models.engine import RemoteEngine
from localpaged.remote_models.routed_engine import RoutedEngine
from localpaged.remote_models.shelf import RemoteShelf
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.builders import Recorder, ready_model
from testkit.commands import call
from testkit.endpoint_runs import Run
from testkit.fake_shelf import FakeShelf
from testkit.scripted_endpoint import stream
from testkit.scripted_engine import ScriptedEngine
from testkit.tiny_model import save_tiny_model

SHORT = SamplingParams(temperature=0.0, max_tokens=4)


def test_a_model_here_is_loaded_when_it_is_asked_for_and_the_run_began_with_an_endpoint(
    endpoint, tmp_path: Path
):
    add_entry("tiny", save_tiny_model(tmp_path / "tiny", "llama"), origin="test")
    recorder = Recorder()
    box = Endpoint("box", endpoint.url, "m1")
    settings = Settings(model="box", dtype="float32", kv_memory_bytes=1 << 22, remotes=(box,))
    run = Run(wiring.open_service(settings, subscriber=recorder), recorder)
    try:
        assert recorder.text(run.ask().turn_id) == "Hello, world"
        assert [model.name for model in run.service.models() if model.is_loaded] == ["box"]
        chat = run.service.configure(run.service.new_chat().id, model="tiny")
        ended = run.ask("one two", chat_id=chat.id, sampling=SHORT)
        assert ended.status is TurnStatus.DONE and ended.usage is not None
        assert ended.usage.completion_tokens == 4 and ended.usage.is_cache_told
        assert run.service.snapshot("tiny").total_blocks > 0
        assert run.service.snapshot("").total_blocks == 0
        readies = {event.model_name for event in recorder.of(ModelReady)}
        assert readies == {"", "tiny"}
        # the same chat goes on elsewhere, and comes back to what is in memory here
        run.service.configure(chat.id, model="box")
        assert run.ask("three", chat_id=chat.id).status is TurnStatus.DONE
        assert len(endpoint.posts[-1].body["messages"]) == 3
        specs = make_specs(models=["box", "tiny"])
        begun = run.service.compares.start("Who?", specs)
        turns = [branch.exchanges[-1].turn for branch in begun.branches]
        ends = [recorder.wait_ended(turn.id).status for turn in turns if turn is not None]
        assert ends == [TurnStatus.DONE] * 2
    finally:
        run.service.close()


def beside_a_model_that_loads(endpoint) -> tuple[Run, ScriptedEngine]:
    shelf = RemoteShelf(FakeShelf("fake-model"), [Endpoint("box", endpoint.url, "m1")])
    local = ScriptedEngine()
    engine = RoutedEngine(local, RemoteEngine(shelf.endpoint_of), endpoint_of=shelf.endpoint_of)
    service = ChatService(store=Store.open(), engine=engine, model=ready_model(), shelf=shelf)
    recorder = Recorder()
    service.subscribe(recorder)
    return Run(service, recorder), local


def test_an_endpoint_answers_while_the_default_model_still_loads(endpoint):
    run, local = beside_a_model_that_loads(endpoint)
    chat = run.service.configure(run.service.new_chat().id, model="box")
    assert run.ask(chat_id=chat.id).status is TurnStatus.DONE
    assert [event.model_name for event in run.recorder.of(ModelReady)] == ["box"]
    choices = {model.name: model for model in run.service.models()}
    assert not choices["fake-model"].is_loaded and choices["box"].endpoint
    local.load()
    assert [event.model_name for event in run.recorder.of(ModelReady)] == ["box", ""]
    run.service.close()


def test_a_chat_whose_endpoint_left_the_config_file_is_answered_here_which_is_told(endpoint):
    run, local = beside_a_model_that_loads(endpoint)
    local.start()
    chat = run.service.configure(run.service.new_chat().id, model="gone-box")
    assert run.ask(chat_id=chat.id).status is TurnStatus.DONE
    missing = run.recorder.wait_for(TurnModelMissing)
    assert (missing.chosen, missing.default) == ("gone-box", "fake-model")
    run.service.close()


def test_an_endpoint_that_was_let_go_is_asked_again_when_it_is_needed(endpoint):
    endpoint.replies = [stream("One"), stream("Two")]
    run, local = beside_a_model_that_loads(endpoint)
    local.start()
    chat = run.service.configure(run.service.new_chat().id, model="box")
    run.ask(chat_id=chat.id)
    run.service.unload_model("box")
    ended = run.ask(chat_id=chat.id)
    assert run.recorder.text(ended.turn_id) == "Two"
    run.service.close()


def test_ask_tells_that_a_server_cut_the_answer(endpoint):
    endpoint.replies = [stream("Once upon", reason="length")]
    done = call("ask", "A story", "--model", f"{endpoint.url}#m1")
    assert (done.code, done.out) == (0, "Once upon\n")
    assert "The answer was cut off by its server." in done.err


def test_models_that_were_chosen_by_their_address_are_endpoints_in_the_list_as_well(endpoint):
    address = f"{endpoint.url}#m1"
    recorder = Recorder()
    run = Run(wiring.open_service(Settings(model=address), subscriber=recorder), recorder)
    other = endpoint.url.replace("127.0.0.1", "localhost")
    chat = run.service.configure(run.service.new_chat().id, model=f"{other}#m1")
    assert run.ask(chat_id=chat.id).status is TurnStatus.DONE
    recorder.wait_for(ModelReady, count=2)
    default, further = run.service.models()
    assert (default.name, further.name) == (f"m1@{endpoint.url[7:-3]}", f"m1@{other[7:-3]}")
    assert default.is_default and default.endpoint and further.endpoint
    run.service.close()
