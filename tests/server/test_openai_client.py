"""The official client gets what it expects, over a real engine with a tiny random model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from testkit.fake_runner import text_of
from testkit.http_server import Served, scripted

NAME = "llama"
QUESTION: list[Any] = [{"role": "user", "content": "what is the capital of france?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["rome", "paris"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
FORCED: Any = {"type": "function", "function": {"name": "weather"}}
YES_OR_NO: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"yes": {"type": "boolean"}},
            "required": ["yes"],
            "additionalProperties": False,
        },
    },
}


def client_of(served: Served, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=served.url, api_key="none", max_retries=0, **options)


@pytest.fixture
def client(tiny_served: Any) -> openai.OpenAI:
    return client_of(tiny_served[0])


def test_models_are_listed(client):
    (model,) = client.models.list()

    assert model.id == NAME
    assert client.models.retrieve(NAME) == model


def test_a_stream_says_what_the_whole_answer_says(client):
    asked: Any = {"model": NAME, "messages": QUESTION, "max_tokens": 30, "temperature": 0}
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    told = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert (
        "".join(choice.delta.content or "" for choice in told) == whole.choices[0].message.content
    )
    assert [choice.delta.role for choice in told if choice.delta.role] == ["assistant"]
    ends = [choice.finish_reason for choice in told if choice.finish_reason]
    assert ends == [whole.choices[0].finish_reason]
    *others, last = chunks
    assert all(chunk.usage is None for chunk in others)
    assert last.choices == []
    assert last.usage.total_tokens == whole.usage.total_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_is_told_only_when_it_is_asked_for(client):
    for options in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
        chunks = client.chat.completions.create(
            model=NAME, messages=QUESTION, max_tokens=3, stream=True, **options
        )
        assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_a_repeated_prompt_is_found_in_memory(client):
    long: Any = [{"role": "user", "content": "one, two, three, four, five, six " * 4}]
    for _ in range(2):
        answer = client.chat.completions.create(model=NAME, messages=long, max_tokens=2)

    usage = answer.usage
    assert usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens // 16 * 16
    assert usage.completion_tokens == 2
    assert usage.total_tokens == usage.prompt_tokens + 2


def test_two_answers_of_one_prompt_are_two_and_repeatable(client):
    def ask() -> list[str | None]:
        answer = client.chat.completions.create(
            model=NAME, messages=QUESTION, n=2, seed=-5, temperature=1.5, max_tokens=20
        )
        assert [choice.index for choice in answer.choices] == [0, 1]
        assert answer.usage.completion_tokens == 40
        return [choice.message.content for choice in answer.choices]

    first, second = ask()

    assert first != second
    assert ask() == [first, second]


def test_several_streamed_answers_each_have_their_end(client):
    chunks = client.chat.completions.create(
        model=NAME, messages=QUESTION, n=3, max_tokens=5, stream=True
    )

    ends = [c.choices[0].index for c in chunks if c.choices[0].finish_reason]
    assert sorted(ends) == [0, 1, 2]


def test_chances_cover_the_text_byte_by_byte(client):
    asked: Any = {
        "model": NAME,
        "messages": QUESTION,
        "max_tokens": 20,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 5,
    }
    answer = client.chat.completions.create(**asked)
    whole = answer.choices[0]

    content = whole.logprobs.content
    spelled = b"".join(bytes(token.bytes or ()) for token in content)
    assert text_of(spelled) == whole.message.content
    has_end = whole.finish_reason == "stop"
    assert len(content) == answer.usage.completion_tokens - has_end, "the end is not part of it"
    for token in content:
        assert len(token.top_logprobs) == 5
        assert token.top_logprobs[0].logprob == max(top.logprob for top in token.top_logprobs)
        assert token.logprob == token.top_logprobs[0].logprob, "greedy takes the likeliest"

    streamed = [
        token
        for chunk in client.chat.completions.create(**asked, stream=True)
        if chunk.choices[0].logprobs is not None
        for token in chunk.choices[0].logprobs.content or ()
    ]
    assert [token.token for token in streamed] == [token.token for token in content]


def test_chances_without_alternatives(client):
    choice = client.chat.completions.create(
        model=NAME, messages=QUESTION, max_tokens=3, logprobs=True, top_logprobs=0
    ).choices[0]

    assert [token.top_logprobs for token in choice.logprobs.content] == [[], [], []]


def test_a_forced_call_is_a_call_however_random_the_model(client):
    answer = client.chat.completions.create(
        model=NAME, messages=QUESTION, tools=[WEATHER], tool_choice=FORCED, max_tokens=200
    ).choices[0]

    assert answer.finish_reason == "tool_calls"
    assert answer.message.content is None
    (call,) = answer.message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("rome", "paris")


def test_calls_are_streamed_whole(client):
    chunks = list(
        client.chat.completions.create(
            model=NAME,
            messages=QUESTION,
            tools=[WEATHER],
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=200,
            stream=True,
        )
    )

    calls = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or ()]
    (call,) = calls
    assert (call.index, call.type, call.function.name) == (0, "function", "weather")
    assert json.loads(call.function.arguments)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert not any(chunk.choices[0].delta.content for chunk in chunks)


def test_a_conversation_with_calls_and_results_goes_on(client):
    messages: list[Any] = [
        *QUESTION,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "rome"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "22"}]},
    ]

    answer = client.chat.completions.create(
        model=NAME, messages=messages, tools=[WEATHER], max_tokens=5
    )

    assert answer.usage.completion_tokens == 5


def test_an_answer_matches_its_schema(client):
    for response_format in (YES_OR_NO, {"type": "json_object"}):
        answer = client.chat.completions.create(
            model=NAME, messages=QUESTION, response_format=response_format, max_tokens=300, seed=3
        ).choices[0]
        if answer.finish_reason == "stop":
            assert isinstance(json.loads(answer.message.content), dict)
    assert json.loads(
        client.chat.completions.create(
            model=NAME, messages=QUESTION, response_format=YES_OR_NO, max_tokens=300
        )
        .choices[0]
        .message.content
    )["yes"] in (True, False)


def test_calls_and_a_schema_together_are_one_or_the_other(client):
    answer = client.chat.completions.create(
        model=NAME,
        messages=QUESTION,
        tools=[WEATHER],
        response_format=YES_OR_NO,
        max_tokens=300,
        temperature=0,
    ).choices[0]

    assert answer.message.tool_calls or "yes" in json.loads(answer.message.content)


def test_the_engines_own_fields_are_extra_fields(client):
    answer = client.chat.completions.create(
        model=NAME,
        messages=QUESTION,
        extra_body={
            "regex": "(red|green)",
            "top_k": 40,
            "min_p": 0.01,
            "repetition_penalty": 1.1,
            "dry": 0.8,
        },
    )

    assert answer.choices[0].message.content in ("red", "green")


def test_bias_bans_and_forces_tokens(client):
    first = client.chat.completions.create(
        model=NAME, messages=QUESTION, max_tokens=4, logprobs=True, logit_bias={"65": 100}
    ).choices[0]

    assert len({token.token for token in first.logprobs.content}) == 1


def test_completions_go_on_with_a_text(client):
    answer = client.completions.create(model=NAME, prompt="the quick", max_tokens=6, logprobs=2)
    pieces = client.completions.create(model=NAME, prompt="the quick", max_tokens=6, stream=True)
    by_ids = client.completions.create(model=NAME, prompt=[70, 71, 72], temperature=0)

    assert answer.usage.completion_tokens == 6
    assert len(answer.choices[0].logprobs.tokens) == 6
    assert all(len(top) <= 2 for top in answer.choices[0].logprobs.top_logprobs)
    assert next(piece.object for piece in pieces) == "text_completion"
    assert by_ids.usage.prompt_tokens == 3
    assert by_ids.usage.completion_tokens == 16, "OpenAI's default"


def test_errors_are_the_clients_own_classes(client):
    def ask(**fields: Any) -> Any:
        return client.chat.completions.create(**{"model": NAME, "messages": QUESTION, **fields})

    with pytest.raises(openai.NotFoundError) as unknown:
        ask(model="gpt-5")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as hot:
        ask(temperature=3)
    assert (hot.value.param, hot.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.BadRequestError) as long:
        ask(messages=[{"role": "user", "content": "x" * 9_000}])
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as much:
        ask(max_completion_tokens=100_000)
    assert much.value.code == "context_length_exceeded"
    assert "100000 in the completion" in much.value.message
    with pytest.raises(openai.BadRequestError) as schema:
        ask(response_format={**YES_OR_NO, "json_schema": {"name": "x", "schema": {"type": "no"}}})
    assert schema.value.param == "response_format"


async def test_eight_async_clients_stream_at_once(tiny_served):
    served, core = tiny_served

    async def ask(number: int) -> str:
        async with openai.AsyncOpenAI(base_url=served.url, api_key="none") as client:
            stream = await client.chat.completions.create(
                model=NAME,
                messages=[{"role": "user", "content": f"count to {number}"}],
                temperature=0,
                max_tokens=25,
                stream=True,
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    together = await asyncio.gather(*(ask(number) for number in range(8)))

    assert together == [await ask(number) for number in range(8)]
    assert core.is_idle


def test_what_a_model_thinks_is_apart_from_its_answer():
    from testkit.fake_model import FakeChatModel

    script = (("<thi", "nk>hm", "m</thi", "nk>\n", "Paris", "."),)
    with scripted(script, model=FakeChatModel(thinks=True)) as served:
        whole = client_of(served).chat.completions.create(model="fake-model", messages=QUESTION)
        pieces = list(
            client_of(served).chat.completions.create(
                model="fake-model", messages=QUESTION, stream=True
            )
        )

    message: Any = whole.choices[0].message
    assert (message.reasoning_content, message.content) == ("hmm", "Paris.")
    assert whole.usage.completion_tokens_details.reasoning_tokens >= 2
    deltas: list[Any] = [piece.choices[0].delta for piece in pieces]
    assert "".join(getattr(d, "reasoning_content", "") for d in deltas) == "hmm"
    assert "".join(d.content or "" for d in deltas) == "Paris."


def test_a_conversation_is_read_on_from_where_it_was(client):
    """A random model's tokens are not those that its text would be cut into."""
    messages = [{"role": "user", "content": "one, two, three, four, five, six, seven"}]
    for _ in range(3):
        answer = client.chat.completions.create(
            model=NAME, messages=messages, max_tokens=40, temperature=1.5, seed=7
        )
        total = answer.usage.total_tokens
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        messages.append({"role": "user", "content": "and then?"})

        found = client.chat.completions.create(
            model=NAME, messages=messages, max_tokens=1
        ).usage.prompt_tokens_details.cached_tokens

        assert found >= total // 16 * 16 - 16


def test_remembered_answers_are_bounded(monkeypatch):
    from localpaged.prompt import PromptMessage
    from localpaged.server import recent_answers
    from testkit.fake_model import FakeChatModel

    monkeypatch.setattr(recent_answers, "MAX_ANSWERS", 2)
    monkeypatch.setattr(recent_answers, "MAX_TOKENS", 10)
    kept = recent_answers.RecentAnswers()
    model = FakeChatModel()

    def known(text: str) -> bool:
        (message,) = kept.known(model, [PromptMessage("assistant", text)])
        return message.token_ids is not None

    for text in ("a", "b", "c"):
        kept.keep(model, text, (1, 2))
    assert (known("a"), known("b"), known("c")) == (False, True, True)
    kept.keep(model, "d", tuple(range(9)))
    assert (known("c"), known("d")) == (False, True)
    kept.keep(model, "e", tuple(range(11)))
    assert not known("e")
    (other,) = kept.known(FakeChatModel(fingerprint="x"), [PromptMessage("assistant", "d")])
    assert other.token_ids is None
