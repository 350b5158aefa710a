"""What an endpoint answers becomes an answer like any other."""

import pytest

from localpaged.chat.events import ModelReady, TurnText
from localpaged.chat.thought import TextPart
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Grammar, SamplingParams
from localpaged.errors import ChatError, ModelNotFound
from localpaged.remote.endpoint import Endpoint
from localpaged.store.rows import TurnStatus
from testkit.scripted_endpoint import (
    STREAM_HEAD,
    ScriptedEndpoint,
    delta,
    event,
    hold,
    model_list,
    stream,
    usage,
)


def test_an_answer_streams_is_saved_and_has_the_servers_bill(begin, endpoint):
    endpoint.replies = [stream("Hello", " you", usage(12, 2, cached=8))]
    run = begin(endpoint)
    ended = run.ask()
    assert (ended.status, ended.finish_reason) == (TurnStatus.DONE, FinishReason.STOP)
    assert run.recorder.text(ended.turn_id) == "Hello you" == run.text_of(ended.chat_id)
    assert ended.usage is not None
    bill = (ended.usage.prompt_tokens, ended.usage.cached_tokens, ended.usage.completion_tokens)
    assert bill == (12, 8, 2)
    turn = run.service.transcript(ended.chat_id)[-1].turn
    assert (turn.model, turn.token_ids, turn.completion_tokens) == ("box", None, 2)


def test_a_server_that_tells_no_bill_is_not_given_one(begin, endpoint):
    ended = begin(endpoint).ask()
    assert ended.usage is None and ended.status is TurnStatus.DONE


def test_the_chat_is_sent_as_messages_with_its_system_text(begin, endpoint):
    run = begin(endpoint)
    chat = run.service.new_chat(system="Be brief.")
    run.ask("One?", chat_id=chat.id)
    run.ask("Two?", chat_id=chat.id)
    body = endpoint.posts[-1].body
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", "Be brief."),
        ("user", "One?"),
        ("assistant", "Hello, world"),
        ("user", "Two?"),
    ]
    assert (body["model"], body["stream"]) == ("m1", True)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_folded_and_not_sent_back(begin, endpoint, field):
    pieces = [delta(**{field: "Let me "}), delta(**{field: "think."}), "Four", "."]
    endpoint.replies = [stream(*pieces, usage(9, 6))]
    run = begin(endpoint)
    chat = run.service.new_chat()
    ended = run.ask("2+2?", chat_id=chat.id)
    told = [e for e in run.recorder.of(TurnText) if e.turn_id == ended.turn_id]
    parts = {
        part: "".join(e.text for e in told if e.part is part)
        for part in (TextPart.THOUGHT, TextPart.ANSWER)
    }
    assert parts == {TextPart.THOUGHT: "Let me think.", TextPart.ANSWER: "Four."}
    assert ended.thought is not None and ended.thought.end is not None
    run.ask("And 3+3?", chat_id=chat.id)
    assert endpoint.posts[-1].body["messages"][1]["content"] == "Four."


def test_an_answer_that_was_cut_by_its_length_says_so(begin, endpoint):
    endpoint.replies = [stream("Once", reason="length")]
    assert begin(endpoint).ask().finish_reason is FinishReason.LENGTH


def test_a_stop_closes_the_connection_at_once_and_keeps_the_text(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, delta(content="Once upon"), hold]]
    run = begin(endpoint)
    turn = run.begin()
    run.recorder.wait(lambda: run.recorder.text(turn.id) == "Once upon")
    run.service.stop(turn.id)
    ended = run.recorder.wait_ended(turn.id)
    assert ended.status is TurnStatus.STOPPED
    assert endpoint.was_left.wait(5)
    assert run.text_of(turn.chat_id) == "Once upon"


def test_closing_the_program_ends_answers_and_connections(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, delta(content="Once"), hold]]
    run = begin(endpoint)
    turn = run.begin()
    run.recorder.wait(lambda: run.recorder.text(turn.id) == "Once")
    run.service.close()
    assert run.recorder.wait_ended(turn.id).status is TurnStatus.STOPPED
    assert endpoint.was_left.wait(5)


def test_chats_of_several_endpoints_stream_beside_each_other(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, delta(content="slow"), hold, *stream("")[1:]]]
    with ScriptedEndpoint([stream("fast")]) as other:
        run = begin(endpoint, Endpoint("other", other.url, "m1"))
        slow = run.begin()
        run.recorder.wait(lambda: run.recorder.text(slow.id) == "slow")
        chat = run.service.configure(run.service.new_chat().id, model="other")
        fast = run.ask(chat_id=chat.id)
        assert run.recorder.text(fast.turn_id) == "fast"
        turn = run.service.transcript(chat.id)[-1].turn
        assert turn.model == "other"
        endpoint.go_on.set()
        assert run.recorder.wait_ended(slow.id).status is TurnStatus.DONE


def test_an_endpoint_is_ready_with_its_context_when_its_list_was_read(begin, endpoint):
    endpoint.models = model_list("m1", owned_by="vllm", max_model_len=32_768)
    run = begin(endpoint)
    ready = run.recorder.wait_for(ModelReady)
    assert (ready.model_name, ready.event.model_name) == ("", "box")
    assert ready.event.context_length == 32_768
    assert ready.event.device == endpoint.url[7:-3]


def test_the_only_model_need_not_be_named(begin, endpoint):
    endpoint.models = model_list("the-only-one")
    assert begin(endpoint, model="").ask().status is TurnStatus.DONE
    assert endpoint.posts[0].body["model"] == "the-only-one"


def test_ollamas_models_may_be_called_without_their_tag(begin, endpoint):
    endpoint.models = model_list("llama3:latest", "qwen3:8b", owned_by="library")
    assert begin(endpoint, model="llama3").ask().status is TurnStatus.DONE
    assert endpoint.posts[0].body["model"] == "llama3:latest"


@pytest.mark.parametrize(
    ("more", "context"),
    [
        ({"max_model_len": 4_096}, 4_096),
        ({"meta": {"n_ctx": 2_048, "n_ctx_train": 32_768}}, 2_048),
        ({"meta": {"n_ctx_train": 32_768}}, 0),
        ({"max_model_len": -1}, 0),
        ({"max_model_len": "long"}, 0),
        ({"max_model_len": 10**30}, 0),
    ],
)
def test_the_context_is_what_the_server_runs_with_or_not_known(begin, endpoint, more, context):
    endpoint.models = model_list("m1", **more)
    run = begin(endpoint)
    assert run.recorder.wait_for(ModelReady).event.context_length == context


def test_parameters_go_by_the_names_that_the_server_has_for_them(begin, endpoint):
    endpoint.models = model_list("m1", owned_by="llamacpp")
    sampling = SamplingParams(
        temperature=0.5, top_k=40, min_p=0.1, repetition_penalty=1.2, seed=7, stop=("END",)
    )
    begin(endpoint).ask(sampling=sampling)
    body = endpoint.posts[0].body
    assert {k: body[k] for k in ("temperature", "top_k", "min_p", "seed", "stop")} == {
        "temperature": 0.5,
        "top_k": 40,
        "min_p": 0.1,
        "seed": 7,
        "stop": ["END"],
    }
    assert body["repeat_penalty"] == 1.2 and "repetition_penalty" not in body
    assert not {"presence_penalty", "max_tokens", "logit_bias", "dry", "grammar"} & set(body)


def test_a_parameter_that_the_server_does_not_know_is_refused_by_its_name(begin, endpoint):
    run = begin(endpoint)
    error = run.fail(sampling=SamplingParams(top_k=40))
    assert "box does not know top_k" in error.message
    assert "sampling" in error.hint and "/set top_k=" in error.hint
    assert not endpoint.posts
    run = begin(endpoint, sampling=("top_k",))
    assert run.ask(sampling=SamplingParams(top_k=40)).error is None
    assert endpoint.posts[0].body["top_k"] == 40


def test_a_json_schema_is_asked_for_and_other_grammars_are_refused(begin, endpoint):
    run = begin(endpoint)
    run.ask(sampling=SamplingParams(grammar=Grammar("json_schema", '{"type": "object"}')))
    told = endpoint.posts[0].body["response_format"]
    assert told["json_schema"]["schema"] == {"type": "object"}
    error = run.fail(sampling=SamplingParams(grammar=Grammar("regex", "a+")))
    assert "box takes a JSON schema and no other grammar" in error.message


def test_a_cut_answer_goes_on_where_the_server_can(begin, endpoint):
    endpoint.models = model_list("m1", owned_by="vllm")
    endpoint.replies = [stream("Once upon", reason="length"), stream(" a time.")]
    run = begin(endpoint)
    first = run.ask()
    run.service.continue_turn(first.turn_id)
    run.recorder.wait(lambda: run.recorder.text(first.turn_id) == "Once upon a time.")
    body = endpoint.posts[1].body
    assert body["messages"][-1] == {"role": "assistant", "content": "Once upon"}
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_where_it_cannot_that_is_told_and_nothing_changes(begin, endpoint):
    endpoint.replies = [stream("Once upon", reason="length")]
    run = begin(endpoint)
    first = run.ask()
    with pytest.raises(ChatError, match="box cannot continue an answer"):
        run.service.continue_turn(first.turn_id)
    turn = run.service.transcript(first.chat_id)[-1].turn
    assert (turn.status, run.text_of(first.chat_id)) == (TurnStatus.DONE, "Once upon")


def test_where_nobody_knew_yet_the_text_stays(begin, endpoint):
    endpoint.replies = [stream("Once upon", reason="length")]
    run = begin(endpoint)
    first = run.ask()
    run.service.close()
    endpoint.models = [hold, *model_list("m1")]
    begun = begin(endpoint)
    begun.service.continue_turn(first.turn_id)
    endpoint.go_on.set()
    ended = begun.recorder.wait_ended(first.turn_id)
    assert isinstance(ended.error, ChatError) and begun.text_of(first.chat_id) == "Once upon"


def test_hostile_text_arrives_as_text(begin, endpoint):
    text = "[bold]\x1b]0;owned\x07\u202e\u200b]\x00 \ud83d"
    endpoint.replies = [
        [
            STREAM_HEAD,
            delta(content=text),
            b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n',
            event({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        ]
    ]
    run = begin(endpoint)
    ended = run.ask()
    assert ended.status is TurnStatus.DONE
    assert "[bold]\x1b]0;owned" in run.text_of(ended.chat_id)


def test_marks_of_reasoning_in_the_text_itself_are_folded_as_well(begin, endpoint):
    endpoint.replies = [stream("<think>", "2 and 2", "</think>", "\n\nFour.")]
    run = begin(endpoint)
    ended = run.ask("2+2?")
    assert ended.thought is not None and ended.thought.end is not None
    run.ask("And 3+3?", chat_id=ended.chat_id)
    assert endpoint.posts[-1].body["messages"][1]["content"] == "Four."


def test_what_was_meant_for_a_model_of_this_machine_is_not_sent_away(begin, endpoint):
    run = begin(endpoint)
    chat = run.service.configure(run.service.new_chat().id, model="a-model-that-is-gone")
    assert isinstance(run.fail("a secret", chat_id=chat.id), ModelNotFound)
    assert not endpoint.posts


def test_log_probabilities_are_refused_by_name(begin, endpoint):
    error = begin(endpoint).fail(sampling=SamplingParams(logprobs=3))
    assert "box does not know logprobs" in error.message and not endpoint.posts


def test_tokens_of_an_answer_cannot_be_looked_at_or_forked_from(begin, endpoint):
    run = begin(endpoint)
    ended = run.ask()
    with pytest.raises(ChatError, match="box is an endpoint: its tokens are not known here"):
        run.service.tokens.view(ended.turn_id).result(5)
    with pytest.raises(ChatError, match="its tokens are not known"):
        run.service.fork_at_token(ended.turn_id, 1)
    with pytest.raises(ChatError, match="its tokenizer is not here"):
        run.service.context.room(ended.chat_id).result(5)
    with pytest.raises(ChatError, match="its tokenizer is not here"):
        run.service.count_tokens("some text").result(5)
    with pytest.raises(ChatError, match="KV memory is elsewhere"):
        run.service.memory.pin_chat(ended.chat_id).result(5)
