"""Whatever goes wrong with an endpoint is told in a sentence, and nothing is lost."""

import json
import socket
import ssl

import httpx2
import pytest

from localpaged.chat.events import ModelFailed
from localpaged.errors import ChatError, EndpointError, ModelNotFound, PromptTooLong
from localpaged.remote.endpoint import Endpoint, find_endpoint
from localpaged.remote.failures import is_worth_a_retry, not_reached
from localpaged.store.rows import TurnStatus
from testkit.scripted_endpoint import (
    STREAM_HEAD,
    ScriptedEndpoint,
    delta,
    event,
    hold,
    json_reply,
    model_list,
    reply,
    reset,
    stream,
)

HTML = reply(200, b"<html><h1>Welcome to nginx</h1></html>", "text/html; charset=utf-8")


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_nobody_at_the_address(begin):
    address = unused_address()
    run = begin(f"http://{address}/v1")
    error = run.fail()
    assert error.message == f"box: nothing answers at {address}."
    assert isinstance(error, EndpointError) and error.hint


def test_a_chat_can_be_opened_and_asked_again_when_its_endpoint_is_back(begin):
    address = unused_address()
    run = begin(f"http://{address}/v1")
    assert "nothing answers" in run.recorder.wait_for(ModelFailed).error.message
    first = run.ask("Are you there?")
    assert first.status is TurnStatus.ERROR
    with ScriptedEndpoint([stream("Yes.")], address=address):
        again = run.service.regenerate(first.turn_id)
        assert run.recorder.wait_ended(again.id).status is TurnStatus.DONE
    assert run.text_of(first.chat_id) == "Yes."


def test_a_host_that_nobody_knows(begin):
    error = begin("https://no-such-host.invalid/v1").fail()
    assert error.message == "box: the host no-such-host.invalid is not known."


def test_a_server_without_tls_at_an_https_address(begin, endpoint):
    error = begin(endpoint.url.replace("http:", "https:")).fail()
    assert "does not speak TLS" in error.message and "http://" in error.hint


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (json_reply(401, {"error": {"message": "No key"}}), EndpointError, "wants a key"),
        (json_reply(403, {"detail": "Forbidden"}), EndpointError, "(HTTP 403): Forbidden"),
        (json_reply(404, {"detail": "Not Found"}), EndpointError, "nothing is at http://"),
        (
            json_reply(404, {"error": {"message": "The model `m1` does not exist."}}),
            ModelNotFound,
            "box: The model `m1` does not exist.",
        ),
        (
            json_reply(
                400, {"error": {"message": "This model's maximum context length is 64 tokens."}}
            ),
            PromptTooLong,
            "maximum context length is 64",
        ),
        (
            json_reply(400, {"object": "error", "message": "temperature must be positive"}),
            EndpointError,
            "refused (HTTP 400): temperature must be positive",
        ),
        (json_reply(422, {"detail": [{"msg": "bad seed"}]}), EndpointError, "bad seed"),
        (reply(500, b"Internal\nServer Error", "text/plain"), EndpointError, "failed (HTTP 500)"),
        (reply(302, b"", location="http://evil.example/"), EndpointError, "another address"),
        (HTML, EndpointError, "a web page came instead of an answer (HTTP 200)"),
        (reply(502, b"<html>Bad gateway", "text/html"), EndpointError, "a web page came"),
        (json_reply(200, {"choices": []}), EndpointError, "no stream but application/json"),
        (reply(200, b"hello", "text/plain"), EndpointError, "no stream but text/plain"),
        (reply(500, b"x" * 100_000, "text/plain"), EndpointError, "xxx…"),
        (reply(500, b"\x1b[2J\x1b]0;x\x07\xff", "text/plain"), EndpointError, "␛[2J"),
    ],
)
def test_a_refusal_is_told_in_a_sentence(shared, answer, kind, told):
    run, endpoint = shared
    endpoint.replies = [answer]
    error = run.fail()
    assert type(error) is kind and told in error.message
    assert len(error.message) < 500 and "\x1b" not in error.message + error.hint


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([b"data: {not json\n\n"], "a piece is not JSON"),
        ([b"data: [1, 2]\n\n"], "is no JSON object"),
        ([b"data: " + b"[" * 200_000 + b"\n\n"], "a piece is not JSON"),
        ([event({"choices": 7})], "choices that are no list"),
        ([event({"choices": [{"delta": {"content": 7}}]})], "content that is no text"),
        ([b"data: " + b"x" * 1_100_000], "longer than 1,048,576 bytes"),
        ([event({"error": {"message": "CUDA out of memory"}})], "CUDA out of memory"),
        ([delta("content_filter")], "content filter cut the answer"),
        ([delta("tool_calls")], "asked for a tool"),
        ([delta("\x1b[2J!")], "ended oddly: ␛[2J!"),
        ([reset], "the connection was lost in the middle"),
        ([], "the connection was lost in the middle"),
    ],
)
def test_a_stream_that_breaks_keeps_what_has_arrived(shared, pieces, told):
    run, endpoint = shared
    endpoint.replies = [[STREAM_HEAD, delta(content="Once upon"), *pieces]]
    num_before = len(endpoint.posts)
    ended = run.ask()
    assert ended.error is not None and told in ended.error.message
    assert ended.status is TurnStatus.ERROR
    assert run.text_of(ended.chat_id) == "Once upon"
    assert len(endpoint.posts) == num_before + 1, "an answer that has begun is not asked for again"


def test_a_stream_that_ends_before_a_word_is_not_an_answer_that_was_cut(shared):
    run, endpoint = shared
    for end in ([], [b"data: [DONE]\n\n"]):
        endpoint.replies = [[STREAM_HEAD, delta(role="assistant"), *end]]
        assert "ended without an answer" in run.fail().message
    endpoint.replies = [[STREAM_HEAD, b"data: [DONE]\n\n"]]
    assert "ended without an answer" in run.fail().message


def test_an_answer_that_was_broken_off_can_be_continued(begin, endpoint):
    endpoint.models = model_list("m1", owned_by="sglang")
    endpoint.replies = [[STREAM_HEAD, delta(content="Once upon"), reset], stream(" a time.")]
    run = begin(endpoint)
    broken = run.ask()
    run.service.continue_turn(broken.turn_id)
    run.recorder.wait(lambda: run.recorder.text(broken.turn_id) == "Once upon a time.")


def test_an_answer_cut_in_its_reasoning_is_not_continued(begin, endpoint):
    endpoint.models = model_list("m1", owned_by="vllm")
    endpoint.replies = [[STREAM_HEAD, delta(reasoning_content="Hm, "), reset]]
    run = begin(endpoint)
    broken = run.ask()
    again = run.service.continue_turn(broken.turn_id)
    run.recorder.wait(
        lambda: (
            len([e for e in run.recorder.events if getattr(e, "turn_id", "") == again.id]) > 0
            and any(isinstance(getattr(e, "error", None), ChatError) for e in run.recorder.events)
        )
    )
    assert len(endpoint.posts) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_and_its_word_on_when_is_kept(begin, endpoint, status):
    busy = json_reply(status, {"error": "busy"}, retry_after="0")
    endpoint.replies = [busy, busy, stream("At last.")]
    run = begin(endpoint)
    ended = run.ask()
    assert run.recorder.text(ended.turn_id) == "At last." and len(endpoint.posts) == 3


def test_a_connection_that_was_closed_at_the_other_end_is_made_anew_once(begin, endpoint):
    endpoint.replies = [[reset], stream("Here I am")]
    run = begin(endpoint)
    assert run.recorder.text(run.ask().turn_id) == "Here I am"
    endpoint.replies = [[reset]]
    num_before = len(endpoint.posts)
    assert "was lost before an answer" in run.fail().message
    assert len(endpoint.posts) == num_before + 2


def test_a_server_that_stays_busy_or_wants_a_long_wait_is_told(begin, endpoint):
    endpoint.replies = [json_reply(429, {"error": "slow down"}, retry_after="0")]
    run = begin(endpoint)
    assert "too many requests: slow down" in run.fail().message
    assert len(endpoint.posts) == 4
    endpoint.replies = [json_reply(503, {"error": "loading"}, retry_after="3600")]
    assert "not ready to answer: loading" in run.fail().message
    assert len(endpoint.posts) == 5


def test_no_first_word_and_silence_in_the_middle_have_limits_of_their_own(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, hold]]
    run = begin(endpoint, timeout_s=0.05)
    assert "no word of an answer came within 0.05 s" in run.fail().message
    endpoint.replies = [[STREAM_HEAD, delta(content="Once"), hold]]
    run = begin(endpoint, idle_timeout_s=0.05)
    ended = run.ask()
    assert ended.error is not None and "stopped coming for 0.05 s" in ended.error.message
    assert run.text_of(ended.chat_id) == "Once"


def test_pieces_without_a_word_are_silence(begin, endpoint):
    def trickle(talk):
        while not talk.endpoint.go_on.wait(0.005):
            talk.connection.sendall(event({"choices": []}))

    endpoint.replies = [[STREAM_HEAD, delta(content="Once"), trickle]]
    ended = begin(endpoint, idle_timeout_s=0.05).ask()
    assert ended.error is not None and "stopped coming for 0.05 s" in ended.error.message


def test_nothing_is_said_to_be_kept_where_nothing_has_arrived(shared):
    run, endpoint = shared
    for broken in (b"data: {not json\n\n", b"data: " + b"x" * 1_100_000):
        endpoint.replies = [[STREAM_HEAD, broken]]
        error = run.fail()
        assert "the stream is broken" in error.message and "kept" not in error.hint


def test_a_proxy_is_not_asked_for_servers_of_this_machine(begin, endpoint, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://{unused_address()}")
    assert begin(endpoint).ask().status is TurnStatus.DONE


def test_a_model_that_is_not_there_is_refused_with_what_is(begin, endpoint):
    endpoint.models = model_list("qwen3-8b", "llama-3")
    error = begin(endpoint, model="qwen").fail()
    assert isinstance(error, ModelNotFound)
    assert "no model 'qwen'" in error.message and "qwen3-8b, llama-3" in error.hint
    error = begin(endpoint, model="").fail()
    assert "no model was named. It has qwen3-8b, llama-3." in error.message
    assert not endpoint.posts


@pytest.mark.parametrize("listed", [HTML, reply(200, b"[[[["), json_reply(200, {"data": 7})])
def test_a_list_of_models_that_is_none_is_told(begin, endpoint, listed):
    endpoint.models = listed
    error = begin(endpoint).fail()
    assert "box: " in error.message and "/v1" in error.hint


def test_a_server_without_a_list_of_models_is_asked_for_the_one_that_was_named(begin, endpoint):
    endpoint.models = json_reply(404, {"detail": "Not Found"})
    assert begin(endpoint).ask().status is TurnStatus.DONE


def test_a_restarted_server_with_another_model_is_looked_at_again(begin, endpoint):
    endpoint.models = model_list("old")
    run = begin(endpoint, model="")
    run.ask()
    endpoint.models = model_list("new")
    endpoint.replies = [
        stream("?"),
        json_reply(404, {"error": {"message": "no model old"}}),
        stream("Here."),
    ]
    assert isinstance(run.fail(), ModelNotFound)
    assert run.ask().status is TurnStatus.DONE
    assert json.loads(json.dumps(endpoint.posts[-1].body))["model"] == "new"


@pytest.mark.parametrize(
    ("error", "cause", "told", "is_retried"),
    [
        (httpx2.ConnectTimeout, None, "did not answer within 10 s", False),
        (httpx2.ConnectError, ConnectionRefusedError(), "nothing answers at host:1", True),
        (httpx2.ConnectError, OSError(113, "No route to host"), "No route to host", True),
        (httpx2.ConnectError, socket.gaierror(socket.EAI_AGAIN, "x"), "is not known", True),
        (httpx2.ConnectError, socket.gaierror(socket.EAI_NONAME, "x"), "is not known", False),
        (httpx2.ConnectError, ssl.SSLError("x"), "does not speak TLS", False),
        (httpx2.ProxyError, None, "the proxy does not let", False),
        (httpx2.ReadError, None, "was lost before an answer", False),
        (httpx2.RemoteProtocolError, None, "was lost before an answer", False),
    ],
)
def test_what_keeps_a_request_from_getting_through(error, cause, told, is_retried):
    failure = error("internals")
    failure.__cause__ = cause
    endpoint = Endpoint("box", "http://host:1/v1")
    found = not_reached(endpoint, failure)
    assert told in found.message and "internals" not in found.message + found.hint
    assert found.message.startswith("box: ")
    for choice in ("http://host:1/v1", "http://host:1/v1#m"):
        by_address = find_endpoint(choice, ())
        assert by_address is not None
        sentence = not_reached(by_address, failure).message
        assert sentence.lower() == found.message.removeprefix("box: ").lower()
        assert sentence[0].isupper() or sentence.startswith("host:1 ")
    assert is_worth_a_retry(failure, 2) is is_retried
