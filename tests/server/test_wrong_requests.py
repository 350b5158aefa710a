"""Whatever is wrong with a request is told in OpenAI's way, and the next request works."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.chat.endless import MOST_CHARS_A_TOKEN
from localpaged.errors import EngineError, GrammarFailed, PromptTooLong, StepFailed
from testkit.http_server import Served, scripted
from testkit.scripted_engine import Answer

CHAT = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "f"}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x"}}
HOSTILE = "\x1b]0;x\x07\u202e[bold]\ud83d\0"


def error_of(response: Any, status: int = 400) -> Any:
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert "Traceback" not in response.text
    return body["error"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_p": [1]}, "top_p"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"n": 0}, "n"),
        ({"n": 10**6}, "n"),
        ({"seed": 2**70}, "seed"),
        ({"seed": "1"}, "seed"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"logit_bias": {"1": None}}, "logit_bias.1"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "x", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"regex": "a", "grammar": 'start: "a"'}, "regex"),
        ({"regex": "a", "response_format": FORMAT}, "regex"),
        ({"regex": ""}, "regex"),
        ({"grammar": "x" * 300_000}, "grammar"),
        ({"dry": {"base": 2}}, "dry.multiplier"),
        ({"functions": [{}]}, "functions"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"temprature": 1}, "temprature"),
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
    ],
)
def test_a_wrong_field_is_named(served: Served, fields, param):
    error = error_of(served.chat(**fields))

    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


def test_a_missing_model_is_told(served: Served):
    error = error_of(served.post(CHAT, {"messages": [{"role": "user", "content": "x"}]}))
    assert (error["param"], error["code"]) == ("model", "missing_required_parameter")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe{}",
        b'{"model": NaN}',
        b'{"model": -Infinity}',
        b'{"n": ' + b"9" * 5_000 + b"}",
        b'{"a":' * 3_000,
        b"[" * 100_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
    ],
)
def test_what_is_no_json_object_is_told(served: Served, raw):
    response = served.http.post(CHAT, content=raw, headers={"Content-Type": "application/json"})

    assert "JSON body" in error_of(response)["message"]


def test_numbers_that_are_not_finite_are_refused(served: Served):
    raw = b'{"model": "fake-model", "messages": [{"role": "user", "content": "x"}], "top_p": 1e400}'
    response = served.http.post(CHAT, content=raw, headers={"Content-Type": "application/json"})

    assert error_of(response)["param"] == "top_p"


def test_an_unknown_model_and_what_there_is(served: Served):
    error = error_of(served.chat(model="gpt-5"), 404)
    assert error["code"] == "model_not_found"
    assert "`fake-model`" in error["message"]
    error_of(served.http.get("/v1/models/gpt-5"), 404)


def test_unknown_paths_and_methods(served: Served):
    assert "GET /v2/x" in error_of(served.http.get("/v2/x"), 404)["message"]
    error_of(served.post(f"{CHAT}/", {}), 404)
    error_of(served.http.get(CHAT), 405)
    error_of(served.post("/v1/models", {}), 405)


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so():
    with scripted(body_bytes=1_000) as served:
        error_of(served.chat("x" * 2_000), 413)

        def parts() -> Any:
            for _ in range(50):
                yield b" " * 100

        response = served.http.post(
            CHAT, content=parts(), headers={"Content-Type": "application/json"}
        )
        error_of(response, 413)
        assert served.chat().status_code == 200


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_client_that_sends_a_whole_large_body_before_it_reads_hears_why_it_is_refused(framing):
    # a connection that is closed in mid-body is reset, and a reset takes the answer along
    body = b" " * 8_000_000
    with scripted(body_bytes=1_000) as served:
        for path, host, status in ((CHAT, "localhost", 413), (CHAT, "evil", 403)):
            asking = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=10)
            headers = {"Host": host, "Content-Type": "application/json"}
            content = body if framing == "declared" else iter([body[:1_000_000]] * 8)
            asking.request("POST", path, content, headers, encode_chunked=framing == "chunked")
            assert asking.getresponse().status == status
            asking.close()


def test_a_prompt_that_is_too_long_tells_its_numbers(served: Served):
    error = error_of(served.chat("x" * 9_000))

    assert error["code"] == "context_length_exceeded"
    assert "maximum context length is 8192 tokens" in error["message"]


def test_what_can_never_fit_is_refused_before_it_is_cut_into_tokens(served: Served, monkeypatch):
    def render(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was cut into tokens")

    monkeypatch.setattr(served.model, "render", render)
    error = error_of(served.chat("x" * (8_193 * MOST_CHARS_A_TOKEN)))

    assert error["code"] == "context_length_exceeded"
    assert "resulted in 8193 tokens" in error["message"]


def test_spaces_around_a_text_do_not_count_as_templates_leave_them_out(served: Served, monkeypatch):
    render = served.model.render
    monkeypatch.setattr(served.model, "render", lambda messages, **_: render(messages[:0]))
    padded = " " * (8_193 * MOST_CHARS_A_TOKEN)
    assert served.chat(f"{padded}hi{padded}").status_code == 200


def test_a_request_while_the_model_loads_is_told_to_come_again():
    with scripted(loads=False) as served:
        response = served.chat()
        assert error_of(response, 503)["code"] == "model_loading"
        assert response.headers["retry-after"]
        assert served.http.get("/health").json()["status"] == "loading"
        assert served.http.get("/ready").status_code == 503
        assert served.http.get("/v1/models").json()["data"] == []

        served.engine.load()

        assert served.http.get("/ready").status_code == 200


def test_an_engine_that_died_is_told_everywhere():
    with scripted() as served:
        served.engine.fail(EngineError("The engine stopped: no memory."))

        assert served.http.get("/health").status_code == 503
        assert "no memory" in error_of(served.chat(), 503)["message"]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (StepFailed("bad step"), 500),
        (PromptTooLong("too long"), 400),
        (GrammarFailed("no way on"), 400),
    ],
)
def test_what_fails_in_the_middle_is_told_as_an_error(failure, status):
    with scripted((Answer(("some", "text"), error=failure),)) as served:
        assert failure.message in error_of(served.chat(), status)["message"]

        streamed = served.chat(stream=True)

    assert streamed.status_code == 200, "it had begun"
    last = streamed.text.rstrip().split("\n\n")[-1]
    assert failure.message in json.loads(last.removeprefix("data: "))["error"]["message"]
    assert "[DONE]" not in streamed.text


def test_one_request_too_many_is_told_to_wait():
    with scripted((["a"] * 400,), max_requests=1, tokens_per_s=100.0) as served:
        body = {"model": "fake-model", "messages": [{"role": "user", "content": "x"}]}
        with served.http.stream("POST", CHAT, json={**body, "stream": True}) as first:
            begun = first.iter_bytes()
            next(begun)
            response = served.chat()
            assert error_of(response, 429)["code"] == "rate_limit_exceeded"
            assert response.headers["retry-after"]


def test_hostile_text_is_an_answer_or_an_error_and_never_a_control(served: Served):
    for fields in (
        {"messages": [{"role": "user", "content": HOSTILE}]},
        {"messages": [{"role": HOSTILE, "content": ""}]},
        {"model": HOSTILE},
        {HOSTILE: 1},
        {"user": HOSTILE},
        {"stop": [HOSTILE]},
    ):
        response = served.chat(**fields)
        assert response.status_code in (200, 400, 404)
        told = response.json().get("error", {}).get("message", "")
        assert not {"\x1b", "\x07", "\0", "\u202e"} & set(told)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"stop_token_ids": [999_999]}, "stop_token_ids"),
        ({"regex": "("}, "regex"),
        ({"grammar": "nonsense"}, "grammar"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": 5}},
                }
            },
            "response_format",
        ),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"properties": 1}}}
                ],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)
@pytest.mark.parametrize("is_stream", [True, False])
def test_what_the_engine_refuses_is_named_before_anything_is_sent(
    tiny_served, fields, param, is_stream
):
    served, core = tiny_served

    assert error_of(served.chat(**fields, stream=is_stream))["param"] == param
    assert core.is_idle


def test_prompts_that_are_no_prompts_are_refused(tiny_served):
    served, _ = tiny_served
    for prompt in ("", [], [999_999], [-1], [[1], [2]], ["a", "b"], [1.5], {}, "x" * 9_000):
        assert error_of(served.post("/v1/completions", {"model": "llama", "prompt": prompt}))
    assert served.post("/v1/completions", {"model": "llama", "prompt": "\u200b"}).status_code == 200
    assert served.chat("").status_code == 200


FIELDS = (
    *("model", "messages", "temperature", "top_p", "n", "stop", "seed", "max_tokens", "stream"),
    *("logprobs", "top_logprobs", "tools", "tool_choice", "response_format", "logit_bias", "dry"),
    *("stream_options", "top_k", "min_p", "regex", "user", "presence_penalty", "stop_token_ids"),
    *("max_completion_tokens", "parallel_tool_calls", "modalities", "ignore_eos", "prompt"),
)
INNER = (
    *("role", "content", "type", "text", "function", "name", "arguments", "tool_calls", "id"),
    *("tool_call_id", "json_schema", "schema", "include_usage", "parameters", "1", "multiplier"),
)
WORDS = ("user", "system", "assistant", "tool", "function", "json_schema", "auto", "required")
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from((*WORDS, "fake-model", "", HOSTILE)),
    st.text(max_size=8),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=4)
    ),
    max_leaves=8,
)
GOOD = st.fixed_dictionaries(
    {"model": st.just("fake-model"), "messages": st.just([{"role": "user", "content": "x"}])}
)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(
    good=GOOD | st.just({}),
    odd=st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), VALUES, max_size=4),
    path=st.sampled_from((CHAT, "/v1/completions")),
)
def test_any_body_gets_an_answer_or_an_error_that_names_the_cause(served: Served, good, odd, path):
    response = served.post(path, {**good, **odd})

    assert response.status_code < 500, response.text
    if response.status_code != 200:
        error_of(response, response.status_code)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(odd=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_any_body_leaves_the_real_engine_whole(tiny_served, odd):
    served, core = tiny_served
    short = {"max_tokens": 3} if "max_completion_tokens" not in odd else {}

    response = served.chat(**{**short, **odd})

    assert response.status_code < 500, response.text
    assert core.is_idle
    assert core.scheduler.kv.pool.num_held == 0
