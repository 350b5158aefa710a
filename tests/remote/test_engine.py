"""The remote thread: every request ends once, whatever happens to it."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from localpaged.abilities import Ability
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    LoadFailedEvent,
    ReadyEvent,
    TokenEvent,
    UnloadedEvent,
)
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import BeamParams, Request, SamplingParams
from localpaged.errors import BadParameter, ChatError, EngineStopped, ModelNotFound
from localpaged.prompt import PromptMessage
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.patience import Patience
from localpaged.remote_models.engine import RemoteEngine
from localpaged.remote_models.model import EndpointModel
from localpaged.remote_models.routed_engine import RoutedEngine
from testkit.scripted_endpoint import (
    STREAM_HEAD,
    ScriptedEndpoint,
    delta,
    hold,
    json_reply,
    reset,
    stream,
)
from testkit.scripted_engine import ScriptedEngine

SAMPLING = SamplingParams(max_tokens=8)


class Heard:
    """A listener that keeps events and lets a test wait."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.batches = 0
        self._came = threading.Condition()

    def __call__(self, events: tuple[Event, ...]) -> None:
        with self._came:
            self.events += events
            self.batches += 1
            self._came.notify_all()

    def ends(self) -> Counter[str]:
        ends = [e for e in self.events if isinstance(e, FinishEvent | FailEvent)]
        return Counter(end.request_id for end in ends)

    def wait(self, is_there) -> None:
        with self._came:
            assert self._came.wait_for(is_there, 10), self.events

    def end_of(self, request_id: str) -> FinishEvent | FailEvent:
        self.wait(lambda: self.ends()[request_id])
        return next(
            e
            for e in self.events
            if isinstance(e, FinishEvent | FailEvent) and e.request_id == request_id
        )


@pytest.fixture
def running(endpoint: ScriptedEndpoint):
    model = EndpointModel(Endpoint("box", endpoint.url, "m1"))
    engine = RemoteEngine({"box": model}.get, patience=Patience(first_wait_s=0.01))
    heard = Heard()
    engine.add_listener(heard)
    yield engine, heard
    engine.close()


def ask(id_: str, **more) -> Request:
    messages = (PromptMessage("user", "Hi"),)
    return Request(id_, (), SAMPLING, model="box", messages=messages, **more)


@pytest.mark.parametrize("seed", range(3))
def test_every_request_ends_once_whatever_happens(running, endpoint, seed):
    engine, heard = running
    draws = random.Random(seed)
    kinds = [
        stream("Hello"),
        [STREAM_HEAD, delta(content="On"), hold],
        [STREAM_HEAD, delta(content="On"), reset],
        json_reply(500, {"error": "boom"}),
        json_reply(429, {"error": "busy"}, retry_after="0"),
    ]
    endpoint.replies = [draws.choice(kinds) for _ in range(200)]
    ids = [str(number) for number in range(40)]
    for id_ in ids:
        engine.submit(ask(id_))
        if draws.random() < 0.5:
            engine.cancel(draws.choice(ids))
        if draws.random() < 0.1:
            engine.unload("box")
        if draws.random() < 0.2:
            engine.load("box")
    engine.close()
    assert heard.ends() == Counter(ids)
    engine.submit(ask("late"))
    end = heard.end_of("late")
    assert isinstance(end, FailEvent) and isinstance(end.error, EngineStopped)


def test_events_of_a_moment_come_in_one_batch(running, endpoint):
    engine, heard = running
    endpoint.replies = [stream(*["word "] * 500)]
    engine.submit(ask("a"))
    end = heard.end_of("a")
    assert isinstance(end, FinishEvent) and end.usage is None
    told = [e for e in heard.events if isinstance(e, TokenEvent)]
    assert "".join(e.text for e in told) == "word " * 500
    assert not any(e.token_ids for e in told)
    assert heard.batches < 100


def test_a_request_that_is_cancelled_before_it_begins_ends_as_cancelled(running):
    engine, heard = running
    engine.submit(ask("a"))
    engine.cancel("a")
    engine.cancel("unknown")
    end = heard.end_of("a")
    assert isinstance(end, FinishEvent) and end.reason is FinishReason.CANCELLED


def test_what_an_endpoint_is_never_asked_is_refused(running, endpoint):
    engine, heard = running
    for number, more in enumerate(
        ({"num_samples": 2}, {"beam": BeamParams(2)}, {"prompt_logprobs": 1})
    ):
        engine.submit(ask(str(number), **more))
        end = heard.end_of(str(number))
        assert isinstance(end, FailEvent) and isinstance(end.error, BadParameter)
    assert not endpoint.posts


def test_loading_asks_once_and_again_after_a_failure(running, endpoint):
    engine, heard = running
    endpoint.models = json_reply(500, {"error": "boom"})
    engine.load("box")
    heard.wait(lambda: any(isinstance(e, LoadFailedEvent) for e in heard.events))
    endpoint.models = None
    for _ in range(2):
        engine.load("box")
    heard.wait(lambda: any(isinstance(e, ReadyEvent) for e in heard.events))
    ready = next(e for e in heard.events if isinstance(e, ReadyEvent))
    assert ready.is_endpoint and ready.is_further
    num_asked = len(endpoint.asked)
    engine.load("box")
    engine.submit(ask("a"))
    heard.end_of("a")
    assert len(endpoint.asked) == num_asked + 1
    engine.unload("box")
    heard.wait(lambda: any(isinstance(e, UnloadedEvent) for e in heard.events))


def test_a_name_that_is_no_endpoint_is_not_found(running):
    engine, heard = running
    engine.submit(Request("a", (), SAMPLING, model="other"))
    end = heard.end_of("a")
    assert isinstance(end, FailEvent) and isinstance(end.error, ModelNotFound)


def test_requests_go_to_the_engine_of_their_model_and_memory_is_asked_here_alone(endpoint):
    box = EndpointModel(Endpoint("box", endpoint.url, "m1"))
    local, heard = ScriptedEngine(), Heard()
    remote = RemoteEngine({"box": box}.get)
    engine = RoutedEngine(local, remote, endpoint_of={"box": box}.get)
    engine.add_listener(heard)
    local.load()
    engine.submit(ask("a"))
    engine.submit(Request("b", (1, 2), SAMPLING))
    assert [request.id for request in local.submitted] == ["b"]
    assert isinstance(heard.end_of("a"), FinishEvent)
    assert (engine.snapshot("box").total_blocks, engine.snapshot("box").model_name) == (0, "box")
    assert engine.snapshot().total_blocks > 0
    asked = (
        engine.inspect("box"),
        engine.block_tokens(1, "box"),
        engine.pin("k", (1,), "box"),
        engine.pin_branch("k", 1, "box"),
        engine.unpin("k", "box"),
        engine.evict(1, 0, "box"),
    )
    for future in asked:
        with pytest.raises(ChatError, match="box is an endpoint: its KV memory is elsewhere"):
            future.result(0)
    assert engine.inspect() is not None
    assert all(box.abilities.why_not(ability) for ability in Ability)
    engine.close()
