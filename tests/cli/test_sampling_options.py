"""What `ask` makes of the options of sampling and of the answer's form; the model is a script."""

from __future__ import annotations

import json
import math
import queue

import pytest

from localpaged import paths
from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.engine.params import MAX_GRAMMAR_CHARS, Grammar
from localpaged.store.store import Store
from testkit.builders import ready_model
from testkit.commands import assert_refused, call, run
from testkit.fake_model import piece_id
from testkit.scripted_engine import Answer, ScriptedEngine

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}}'


def test_penalties_biases_and_lengths_reach_the_engine(answer_with):
    runs = answer_with(["Yes."])
    options = (
        "--repetition-penalty 1.1 --presence-penalty -0.5 --frequency-penalty 0.25 "
        "--logit-bias 42=-3.5 --logit-bias 7=100 --min-tokens 3 --max-tokens 20"
    )
    assert call("ask", *options.split(), "Hi").code == 0
    sampling = runs.requests[0].sampling
    assert sampling.repetition_penalty == 1.1
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (-0.5, 0.25)
    assert sampling.logit_bias == ((42, -3.5), (7, 100.0))
    assert (sampling.min_tokens, sampling.max_tokens) == (3, 20)
    assert (sampling.grammar, sampling.logprobs) == (None, None)


@pytest.mark.parametrize(
    ("option", "text", "grammar"),
    [
        ("--schema", f"\n {SCHEMA}", Grammar("json_schema", f"\n {SCHEMA}")),
        ("--regex", "[0-9]+ – é", Grammar("regex", "[0-9]+ – é")),
    ],
)
def test_the_form_of_an_answer_can_be_given_inline(answer_with, option, text, grammar):
    runs = answer_with(["Yes."])
    assert call("ask", option, text, "Hi").code == 0
    assert runs.requests[0].sampling.grammar == grammar


@pytest.mark.parametrize(
    ("option", "kind", "text"),
    [("--schema", "json_schema", SCHEMA), ("--grammar", "lark", 'start: "é" | "no"\n')],
)
def test_the_form_of_an_answer_can_be_a_file(answer_with, tmp_path, option, kind, text):
    runs = answer_with(["Yes."])
    file = tmp_path / "form of [it].txt"
    file.write_text(text, encoding="utf-8")
    assert call("ask", option, str(file), "Hi").code == 0
    assert runs.requests[0].sampling.grammar == Grammar(kind, text)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--schema", SCHEMA, "--regex", "a"], "--schema and --regex do not go together"),
        (["--logprobs", "3"], "--logprobs needs --json"),
        (["--grammar", "nowhere.lark"], "nowhere.lark cannot be read: No such file"),
        (["--grammar", "."], "cannot be read: Is a directory"),
        (["--grammar", "a\x00b"], "cannot be read"),
        (["--schema", "nowhere\x1b[2J.json"], "cannot be read"),
        (["--regex", ""], "A grammar has 1 to"),
        (["--regex", "[a-"], "expression cannot be used: unclosed character class.\n"),
        (["--schema", '{"type": 3}'], "schema cannot be used: type must be a string or array"),
        (["--schema", "{"], "schema cannot be used: Expecting property name"),
        (["--logit-bias", "7"], "write 42=-3.5"),
        (["--logit-bias", "x=1"], "write 42=-3.5"),
        (["--logit-bias", "7=nan"], "must be from -100 to 100"),
        (["--logit-bias", "7=1", "--logit-bias", "7=2"], "names a token twice"),
        (["--min-tokens", "5", "--max-tokens", "2"], "min_tokens 5 is more than max_tokens 2"),
        (["--json", "--logprobs", "21"], "logprobs must be a whole number from 0 to 20"),
        (["--presence-penalty", "3"], "presence_penalty must be from -2 to 2"),
    ],
)
def test_what_cannot_be_is_wrong_use_and_asks_nothing(
    answer_with, tmp_path, monkeypatch, arguments, part
):
    monkeypatch.chdir(tmp_path)
    runs = answer_with(["Yes."])
    done = call("ask", *arguments, "Hi")
    assert (done.code, runs.requests) == (2, [])
    assert part in done.err
    assert "\x1b" not in done.err
    if "--json" not in arguments:
        assert done.out == ""


def test_a_form_that_cannot_be_is_refused_before_anything_is_loaded_or_saved(listed_home, tmp_path):
    file = tmp_path / "form.lark"
    file.write_text("start: missing\n", encoding="utf-8")
    done = call("ask", "--grammar", str(file), "Hi")
    assert_refused(
        done, 2, 'The grammar cannot be used: unknown name: "missing" (line 1, column 8)'
    )
    assert not paths.database_file().exists()


def test_a_file_that_is_no_text_or_too_long_is_refused(answer_with, tmp_path):
    answer_with(["Yes."])
    for content, part in (
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * (MAX_GRAMMAR_CHARS + 5), f"has 1 to {MAX_GRAMMAR_CHARS:,} characters"),
    ):
        (tmp_path / "grammar.lark").write_bytes(content)
        done = call("ask", "--grammar", str(tmp_path / "grammar.lark"), "Hi")
        assert_refused(done, 2, part)


def test_log_probabilities_are_told_in_json_with_the_text_of_each_token(answer_with):
    answer_with(Answer(("é", "\x1b", "b"), ((ord("é"),), (0x1B,), (ord("b"),))))
    done = call("ask", "--json", "--logprobs", "2", "Hi")
    told = json.loads(done.out)["logprobs"]
    assert [entry["token"] for entry in told] == ["é", "\x1b", "b"]
    assert told[2]["token_id"] == ord("b")
    assert told[2]["alternatives"] == [
        {"token_id": ord("b"), "token": "b", "logprob": -0.25},
        {"token_id": ord("c"), "token": "c", "logprob": -1.25},
    ]
    assert done.out.isascii()
    assert json.loads(call("ask", "--json", "Hi").out)["logprobs"] is None


def test_another_answer_and_the_rest_of_one_have_the_form_of_the_first(answer_with):
    answer_with(["{", '"city'])
    assert call("ask", "--schema", SCHEMA, "--max-tokens", "2", "Where?").code == 0
    engine = ScriptedEngine([['": 1}'], ["{}"], ["Well."]])
    service = ChatService(store=Store.open(), engine=engine, model=ready_model())
    ends: queue.SimpleQueue[str] = queue.SimpleQueue()
    service.subscribe(
        lambda events: [ends.put(e.turn_id) for e in events if isinstance(e, TurnEnded)]
    )

    def end(turn):
        assert ends.get(timeout=20) == turn.id

    try:
        engine.start(tokens_per_s=1_000.0)
        chat = service.latest_chat()
        old = service.transcript(chat.id)[-1].turn
        end(service.continue_turn(old.id))
        end(service.regenerate(old.id))
        end(service.send(chat.id, "And then?"))
        rest, again, free = engine.submitted
        assert rest.sampling.grammar == again.sampling.grammar == Grammar("json_schema", SCHEMA)
        assert rest.begun_ids == (piece_id("{"), piece_id('"city'))
        assert again.begun_ids == ()
        assert free.sampling.grammar is None
    finally:
        service.close()


@pytest.mark.model
def test_a_real_answer_has_its_form(ready_home):
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string", "maxLength": 20}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    options = ["--json", "--logprobs", "1", "-t", "0", "--schema", json.dumps(schema)]
    done = run("ask", *options, "What is the capital of France? Answer in JSON.")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert json.loads(answer["text"]).keys() == {"capital"}
    assert len(answer["logprobs"]) == answer["usage"]["completion_tokens"]
    assert all(math.isfinite(entry["logprob"]) for entry in answer["logprobs"])
    refused = run("ask", "--regex", "(", "Hi")
    assert_refused(refused, 2, "The regular expression cannot be used")
