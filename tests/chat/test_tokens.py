"""Answers token by token: measured on demand, and gone on from anywhere with their exact tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.chat.token_view import label_of, viewed
from localpaged.engine.detokenizer import Detokenizer
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, NotInHistory
from localpaged.store.rows import TurnStatus
from localpaged.store.token_ids import unpack
from testkit.builders import WAIT_S, make_service, ready_model
from testkit.fake_model import END_ID, HALF_BASE, FakeChatModel, piece_id
from testkit.past_chats import write_chat
from testkit.scripted_engine import Answer, ScriptedEngine

PIECES = ("Paris", " is", " the", " cap", "ital", ".")


class Chatting:
    def __init__(self, path: Path, *, script=(PIECES,), **model) -> None:
        self.model = FakeChatModel(**model)
        self.service, self.engine, self.recorder = make_service(
            path, engine=ScriptedEngine(script), model=ready_model(self.model)
        )
        self.ended = 0

    def ask(self, text: str = "capital?", **sampling):
        params = SamplingParams(**sampling) if sampling else None
        turn = self.service.send(self.service.new_chat(system="s").id, text, sampling=params)
        self.answered()
        return turn

    def answered(self) -> TurnEnded:
        self.ended += 1
        # what was measured was submitted, too
        self.engine.wait_submitted(self.ended)
        self.engine.run_until_idle()
        return self.recorder.wait_for(TurnEnded, count=self.ended)

    def view(self, turn_id: str):
        count = len(self.engine.submitted)
        measured = self.service.tokens.view(turn_id)
        self.engine.wait_submitted(count + 1)
        self.engine.run_until_idle()
        self.ended += 0
        return measured.result(WAIT_S)


def last_text(service: ChatService, chat_id: str) -> str:
    message = service.transcript(chat_id)[-1].message
    assert message is not None
    return message.text


@pytest.fixture
def chatting(database_path: Path):
    made = Chatting(database_path)
    yield made
    made.service.close()


def test_an_answer_is_measured_as_the_tokens_it_was_made_of(chatting):
    turn = chatting.ask()
    view = chatting.view(turn.id)
    asked, request = chatting.engine.submitted
    assert request.prompt_ids == (*asked.prompt_ids, *map(piece_id, PIECES))
    assert request.prompt_logprobs_from == len(asked.prompt_ids)
    assert (view.is_exact, view.turn_id, view.model) == (True, turn.id, "fake-model")
    assert [token.text for token in view.tokens] == list(PIECES)
    surprising = [token.label for token in view.tokens if token.is_surprising]
    assert surprising == ["ital"]
    (surprise,) = (token for token in view.tokens if token.is_surprising)
    assert [c.label for c in surprise.candidates] == ["x", "y", "ital"]
    assert surprise.candidates[0].probability == pytest.approx(0.905, abs=1e-3)
    assert surprise.bits == pytest.approx(5.77, abs=1e-2)


def test_the_prompt_is_the_one_that_was_read_whatever_the_template_writes_now(chatting):
    turn = chatting.ask()
    chatting.model.preamble = "Tuesday. "
    chatting.view(turn.id)
    asked, request = chatting.engine.submitted
    assert request.prompt_ids[: len(asked.prompt_ids)] == asked.prompt_ids


def test_an_answer_without_tokens_is_cut_anew_and_says_so(database_path: Path, home):
    chat_id = write_chat([("q", "Paris")])
    made = Chatting(database_path)
    (_, answer) = made.service.transcript(chat_id)
    assert answer.turn is not None
    view = made.view(answer.turn.id)
    assert not view.is_exact
    assert [token.text for token in view.tokens] == list("Paris")
    made.service.close()


def test_parts_of_characters_are_told_by_their_bytes(database_path: Path):
    halves = tuple(HALF_BASE + byte for byte in "é".encode())
    script = [Answer(("caf", "", "é"), ((piece_id("caf"),), halves[:1], halves[1:]))]
    made = Chatting(database_path, script=script)
    view = made.view(made.ask().id)
    assert [(token.label, token.text) for token in view.tokens] == [
        ("caf", "caf"), ("<C3>", ""), ("<A9>", "é"),
    ]  # fmt: skip
    assert label_of(END_ID, made.model) == "<end>"
    made.service.close()


def test_a_running_an_unknown_and_an_empty_answer_are_refused(chatting):
    turn = chatting.service.send(chatting.service.new_chat().id, "q")
    chatting.engine.wait_submitted(1)
    with pytest.raises(ChatError, match="still running"):
        chatting.service.tokens.view(turn.id).result(WAIT_S)
    with pytest.raises(NotInHistory):
        chatting.service.tokens.view("none").result(WAIT_S)
    chatting.service.stop(turn.id)
    chatting.engine.run_until_idle()
    chatting.recorder.wait_ended(turn.id)
    with pytest.raises(ChatError, match="no tokens"):
        chatting.service.tokens.view(turn.id).result(WAIT_S)


@pytest.mark.parametrize(
    ("num_tokens", "next_piece", "text"),
    [
        (3, None, "Paris is the"),
        (3, " most", "Paris is the most"),
        (6, None, "Paris is the capital."),
        (0, "London", "London"),
        (0, None, ""),
    ],
)
def test_a_fork_goes_on_from_the_exact_tokens(database_path, num_tokens, next_piece, text):
    made = Chatting(database_path, script=[PIECES, (" and", " on")])
    turn = made.ask()
    asked = made.engine.submitted[0]
    next_id = None if next_piece is None else piece_id(next_piece)
    fork = made.service.fork_at_token(turn.id, num_tokens, next_id)
    made.answered()
    request = made.engine.submitted[1]
    kept = [*map(piece_id, PIECES[:num_tokens]), *([] if next_id is None else [next_id])]
    assert request.prompt_ids == (*asked.prompt_ids, *kept)
    assert request.is_continuation == bool(kept)
    assert fork.forked_from == turn.chat_id
    answer = made.service.transcript(fork.id)[-1]
    assert answer.message is not None and answer.turn is not None
    assert answer.message.text == text + " and on"
    # what it began with is the answer's, and counts once
    assert answer.turn.prompt_tokens == len(asked.prompt_ids)
    assert answer.turn.completion_tokens == len(kept) + 2
    assert unpack(answer.turn.token_ids)[: len(kept)] == tuple(kept)
    assert last_text(made.service, turn.chat_id) == "".join(PIECES)
    made.service.close()


def test_a_running_answer_can_be_gone_on_from(chatting):
    turn = chatting.service.send(chatting.service.new_chat().id, "q")
    chatting.engine.wait_submitted(1)
    for _ in range(4):
        chatting.engine.step()
    fork = chatting.service.fork_at_token(turn.id, 2)
    chatting.engine.wait_submitted(2)
    chatting.engine.run_until_idle()
    chatting.recorder.wait_for(TurnEnded, count=2)
    text = last_text(chatting.service, fork.id)
    assert text == "Paris is" + "".join(PIECES)


def test_a_part_of_a_character_waits_for_the_rest_of_it(database_path: Path):
    halves = tuple(HALF_BASE + byte for byte in "é".encode())
    first = Answer(("caf", "", "é"), ((piece_id("caf"),), halves[:1], halves[1:]))
    made = Chatting(database_path, script=[first, Answer(("é!",), ((*halves[1:], ord("!")),))])
    turn = made.ask()
    fork = made.service.fork_at_token(turn.id, 2)
    (_, _, running) = made.service.transcript(fork.id)
    assert running.turn is not None and running.turn.partial_text == "caf"
    made.answered()
    assert made.engine.submitted[1].prompt_ids[-2:] == (piece_id("caf"), halves[0])
    answer = made.service.transcript(fork.id)[-1]
    assert answer.message is not None and answer.message.text == "café!"
    made.service.close()


def test_a_part_of_a_character_at_an_answers_end_is_a_token_without_text():
    ids = (piece_id("caf"), HALF_BASE + "é".encode()[0])
    tokens = viewed(ids, (), FakeChatModel())
    assert [(token.text, token.label) for token in tokens] == [("caf", "caf"), ("", "<C3>")]


def test_the_engine_completes_a_character_that_the_prompt_began():
    pieces = [b"caf", b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98", b"\x80", b"!", b""]
    for begun, rest, text in [
        ((0, 1), (2,), "é"),
        ((0, 3), (4, 5), "😀"),
        ((0, 3, 4), (5, 6), "😀!"),
        ((0, 1, 7), (2,), "é"),
        ((0,), (6,), "!"),
        ((0, 1, 2), (6,), "!"),
    ]:
        detokenizer = Detokenizer(pieces)
        detokenizer.go_on(begun)
        assert "".join(map(detokenizer.push, rest)) + detokenizer.finish() == text


@pytest.mark.parametrize(
    ("num_tokens", "next_id", "why"),
    [
        (7, None, "6 tokens"),
        (-1, None, "6 tokens"),
        (2, END_ID, "ends the answer"),
        (2, -1, "ends"),
    ],
)
def test_what_an_answer_does_not_have_is_refused(chatting, num_tokens, next_id, why):
    turn = chatting.ask()
    before = len(chatting.service.chats())
    with pytest.raises(ChatError, match=why):
        chatting.service.fork_at_token(turn.id, num_tokens, next_id)
    assert len(chatting.service.chats()) == before


def test_a_fork_inside_a_thought_goes_on_thinking(database_path: Path):
    script = [("<think>", "a", "b", "</think>", "end"), ("c", "</think>", "so")]
    made = Chatting(database_path, script=script, thinks=True)
    turn = made.ask()
    fork = made.service.fork_at_token(turn.id, 2)
    end = made.answered()
    assert end.thought is not None and end.status is TurnStatus.DONE
    text = last_text(made.service, fork.id)
    assert text[end.thought.start : end.thought.end] == "ac"
    assert text[end.thought.after :] == "so"
    made.service.close()


def test_a_measuring_that_nobody_waits_for_ends(chatting):
    turn = chatting.ask()
    measured = chatting.service.tokens.view(turn.id)
    request = chatting.engine.wait_submitted(2)
    assert measured.cancel()
    assert chatting.engine.cancelled == [request.id]
    chatting.engine.run_until_idle()
    # the worker took no harm from an end that nobody waits for
    assert len(chatting.view(turn.id).tokens) == len(PIECES)
