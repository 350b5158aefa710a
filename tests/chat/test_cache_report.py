"""Why was this not cached? Every cause, as the chat service tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.cache_cause import MAX_TEXT_CHARS
from localpaged.chat.cache_report import CacheCause, CacheReport, Parting, report_of, to_json
from localpaged.chat.events import TurnCacheReport, TurnEnded
from localpaged.engine.params import SamplingParams
from localpaged.errors import EngineStopped
from localpaged.store.tree import make_message
from localpaged.store.writes import Write
from testkit.cached_chats import ANSWER, Chatting
from testkit.fake_model import FakeChatModel, piece_id
from testkit.scripted_engine import Answer

BLOCK = 16


def test_a_first_turn_has_nothing_to_find(chatting: Chatting):
    report = chatting.ask()

    assert report.cause is CacheCause.FIRST_TURN
    assert report.matched_tokens == 0
    assert report.recomputed_tokens == report.prompt_tokens > 0
    assert report.parting is None
    assert not report.is_surprising


def test_a_next_turn_finds_all_that_was_computed(chatting: Chatting):
    chatting.ask()
    first = chatting.engine.submitted[0]

    report = chatting.ask("And of Italy?")

    computed = len(first.prompt_ids) + len(ANSWER.pieces) - 1
    assert report.cause is CacheCause.NOTHING
    assert report.agreed_tokens == computed
    assert computed - BLOCK < report.matched_tokens <= computed
    assert report.parting is None
    assert not report.is_surprising


def test_a_changed_message_is_an_edit_and_shows_both_texts(chatting: Chatting):
    chatting.ask("The first question is here.")
    chatting.ask("Which colour is the sky?")
    chatting.go_to(chatting.messages[2])

    report = chatting.ask("Which colour is grass?")

    assert report.cause is CacheCause.EDITED
    assert report.parting is not None
    assert report.parting.position == report.agreed_tokens
    assert report.parting.common_text.endswith("<user>Which colour is ")
    assert report.parting.old_text.startswith("the sky?<end>")
    assert report.parting.new_text == "grass?<end><assistant>"
    assert not report.is_surprising


def test_going_back_without_another_text_parts_from_nothing(chatting: Chatting):
    chatting.ask("The first question is here.")
    chatting.ask("Which colour is the sky?")
    chatting.go_to(chatting.messages[2])

    report = chatting.ask("Which colour is the sky?")

    assert report.cause is CacheCause.NOTHING
    assert report.agreed_tokens == report.prompt_tokens


def test_going_back_to_a_branch_finds_what_was_computed_for_it(chatting: Chatting):
    chatting.ask("The first question is here.")
    chatting.ask("Which colour is the sky?")
    sky = chatting.messages
    chatting.go_to(sky[2])
    assert chatting.ask("Which colour is grass, if it is not dry?").cause is CacheCause.EDITED
    chatting.go_to(sky[-1])

    report = chatting.ask("Is it?")

    assert report.cause is CacheCause.NOTHING
    assert report.parting is None
    assert report.agreed_tokens - BLOCK < report.matched_tokens


def test_a_branch_is_compared_with_the_chat_it_came_from(chatting: Chatting):
    chatting.ask("The first question is here.")
    chatting.ask("Which colour is the sky?")
    chatting.chat = chatting.service._store.fork(chatting.chat.id, at_hash=chatting.messages[2])

    report = chatting.ask("Which colour is grass?")

    assert report.cause is CacheCause.EDITED
    assert report.parting is not None and report.parting.new_text.startswith("grass")
    next_report = chatting.ask("Thanks.")
    assert next_report.cause is CacheCause.NOTHING
    assert next_report.parting is None


def test_another_system_text_changes_the_template(chatting: Chatting):
    chatting.ask()
    other = make_message(None, "system", "You are a pirate.")
    chatting.service._store.submit(Write(messages=(other,)))
    chatting.go_to(other.hash)

    report = chatting.ask()

    assert report.cause is CacheCause.TEMPLATE_CHANGED
    assert report.parting is not None
    assert (report.parting.old_text[:9], report.parting.new_text[:7]) == ("helpful a", "pirate.")


def test_another_template_changes_the_template(chatting: Chatting):
    chatting.ask()
    chatting.model.preamble = "Today is Monday. "

    report = chatting.ask("More?")

    assert report.cause is CacheCause.TEMPLATE_CHANGED
    assert report.agreed_tokens == report.matched_tokens == 0
    assert report.parting is not None and report.parting.new_text.startswith("Today")
    assert report.is_surprising


def test_reasoning_that_the_template_cuts_out_is_named(database_path: Path):
    thinking = Answer(("<think>", "France has a capital, and that is", "</think>", "Paris."))
    chatting = Chatting(
        database_path, model=FakeChatModel(strips_thoughts=True), script=(thinking,)
    ).begin()
    chatting.ask()

    report = chatting.ask("Sure?")

    assert report.cause is CacheCause.REASONING_STRIPPED
    assert report.parting is not None
    assert report.parting.common_text.endswith("<end><assistant>")
    assert report.parting.old_text.startswith("<think>France")
    assert report.parting.new_text.startswith("Paris.")
    assert report.is_surprising


def test_the_same_text_in_other_tokens_is_named(database_path: Path):
    chatting = Chatting(database_path, model=FakeChatModel(keeps_ids=False)).begin()
    chatting.ask()

    report = chatting.ask("Sure?")

    assert report.cause is CacheCause.RETOKENISED
    assert report.parting is not None
    assert report.parting.old_text.startswith("The capital of France")
    assert report.parting.new_text.startswith("The capital of Fr")
    assert report.is_surprising


def test_what_the_engine_gave_away_is_evicted(chatting: Chatting):
    chatting.ask()
    chatting.engine.forget(chatting.chat.id)

    report = chatting.ask("Sure?")

    assert report.cause is CacheCause.EVICTED
    assert report.matched_tokens == 0 < report.agreed_tokens
    assert report.parting is None
    assert report.is_surprising


def test_a_block_that_was_never_full_is_not_missed(chatting: Chatting):
    chatting.begin(system="").ask("Hi")  # with its answer less than a block
    chatting.engine.forget(chatting.chat.id)

    assert chatting.ask("Ho").cause is CacheCause.NOTHING


def test_after_a_restart_nothing_is_there_and_that_is_why(database_path: Path):
    before = Chatting(database_path).begin()
    before.ask()
    agreed = before.ask("More?").prompt_tokens
    before.service.close()
    after = Chatting(database_path)
    after.chat = before.chat

    report = after.ask("Again?")

    assert report.cause is CacheCause.RESTARTED
    assert report.agreed_tokens == agreed + len(ANSWER.pieces) - 1
    assert not report.is_surprising
    assert after.ask("And again?").cause is CacheCause.NOTHING


@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        (FakeChatModel(name="other"), "float32"),
        (FakeChatModel(fingerprint="other weights"), "float32"),
        (FakeChatModel(), "bfloat16"),
    ],
)
def test_another_model_or_number_format_is_another_namespace(
    database_path: Path, model: FakeChatModel, dtype: str
):
    before = Chatting(database_path).begin()
    before.ask()
    before.service.close()
    after = Chatting(database_path, model=model, dtype=dtype)
    after.chat = before.chat

    report = after.ask("Again?")

    assert report.cause is CacheCause.OTHER_NAMESPACE
    assert (report.agreed_tokens, report.parting) == (0, None)


@pytest.mark.parametrize(
    "stopped",
    [
        Answer(("one, ", "two", ""), token_ids=((1,), (2,), (3, 4))),
        Answer(("one, ", "tw"), token_ids=((1,), (2, 3))),
    ],
)
def test_a_stop_string_that_is_not_sent_is_no_reason(database_path: Path, stopped: Answer):
    ids = {1: piece_id("one, "), 2: piece_id("two"), 3: piece_id(" three"), 4: piece_id("END")}
    token_ids = tuple(tuple(ids[id_] for id_ in group) for group in stopped.token_ids)
    chatting = Chatting(
        database_path, script=(Answer(stopped.pieces, token_ids=token_ids), ANSWER)
    ).begin()
    chatting.ask(sampling=SamplingParams(stop=("END",)))

    report = chatting.ask("More?")

    assert report.cause is CacheCause.NOTHING
    assert report.parting is None


def test_a_continued_answer_finds_its_prompt_and_its_beginning(database_path: Path):
    chatting = Chatting(database_path, script=(ANSWER, Answer((" And more.",)), ANSWER)).begin()
    chatting.ask(sampling=SamplingParams(max_tokens=2))
    turn = chatting.service.transcript(chatting.chat.id)[-1].turn
    assert turn is not None

    chatting.service.continue_turn(turn.id, sampling=SamplingParams(max_tokens=9))
    report = chatting.answered(2)

    assert report.cause is CacheCause.NOTHING
    assert report.agreed_tokens == report.prompt_tokens - 1
    assert chatting.ask("More?").cause is CacheCause.NOTHING


def test_a_report_is_kept_with_its_turn_and_comes_before_the_end(chatting: Chatting):
    chatting.ask()
    chatting.model.preamble = "Today is Monday: \x1b[31m\ud7ff“"
    report = chatting.ask("More?")

    turn = chatting.service.transcript(chatting.chat.id)[-1].turn
    assert turn is not None and report_of(turn) == report
    kinds = [
        type(event)
        for event in chatting.recorder.events
        if isinstance(event, TurnCacheReport | TurnEnded)
    ]
    assert kinds == [TurnCacheReport, TurnEnded] * 2
    question = chatting.service.transcript(chatting.chat.id)[-2]
    assert question.turn is None


def test_a_turn_whose_prompt_was_never_read_has_no_report(database_path: Path):
    chatting = Chatting(database_path, script=(ANSWER,)).begin()
    chatting.ask()
    chatting.service.send(chatting.chat.id, "Next?")
    chatting.engine.wait_submitted(2)
    chatting.engine.fail(EngineStopped("gone"))
    chatting.recorder.wait_for(TurnEnded, count=2)

    turn = chatting.service.transcript(chatting.chat.id)[-1].turn
    assert turn is not None and report_of(turn) is None
    assert len(chatting.recorder.of(TurnCacheReport)) == 1


def test_shown_texts_are_bounded(chatting: Chatting):
    chatting.ask("x" * 1_000)
    chatting.go_to(chatting.messages[0])

    report = chatting.ask("y" * 1_000)

    assert report.parting is not None
    for text in (report.parting.common_text, report.parting.old_text, report.parting.new_text):
        assert 0 < len(text) <= MAX_TEXT_CHARS


def test_what_a_tokenizer_spells_badly_costs_no_turn():
    parting = Parting(3, "a\ud83d", "\x00", "\udc00b")
    report = CacheReport(CacheCause.EDITED, 9, 3, 3, parting)
    kept = to_json(report)
    kept.encode()
    assert "\x00" not in kept
