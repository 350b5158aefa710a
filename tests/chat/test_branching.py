"""Another answer, another question, another version, a chat of its own: nothing is taken away."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded
from localpaged.chat.transcript import WAITING_PREFIX
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, NotInHistory
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_service
from testkit.scripted_engine import ScriptedEngine
from testkit.talk import Talk, text_of

WAIT_S = 10.0


@pytest.fixture
def talk(database_path: Path) -> Talk:
    return Talk(database_path)


def test_a_regenerated_answer_is_a_sibling_of_the_old_one(talk: Talk):
    first = talk.say("q")
    again = talk.service.regenerate(first.id)
    assert again.parent_hash == talk.lines()[0].key
    assert talk.texts() == ["q", "queued: "]
    assert talk.versions() == ["-", "2/2"]

    talk.finish(again)

    assert talk.texts() == ["q", "answer 2"]
    assert talk.versions() == ["-", "2/2"]
    assert talk.asked() == ["q"]
    shown = talk.service.show_sibling(talk.id, talk.hash_of("answer 2"), -1)
    assert talk.texts() == ["q", "answer 1"]
    assert talk.hash_of("answer 1") == shown
    assert talk.versions() == ["-", "1/2"]
    talk.service.close()


def test_a_regenerated_answer_has_another_seed(talk: Talk):
    turn = talk.finish(talk.service.send(talk.id, "q", sampling=SamplingParams(seed=7)))
    again = talk.finish(talk.service.regenerate(turn.id))
    same = talk.finish(talk.service.regenerate(turn.id, sampling=SamplingParams(seed=7)))
    chosen = talk.finish(talk.service.regenerate(turn.id, sampling=SamplingParams(seed=8)))
    seeds = [request.sampling.seed for request in talk.engine.submitted]
    assert seeds == [7, again.seed, same.seed, 8]
    assert 7 not in seeds[1:3]
    assert None not in seeds
    assert chosen.seed == 8
    talk.service.close()


def test_what_followed_an_answer_comes_back_with_it(talk: Talk):
    first = talk.say("q1")
    talk.say("q2", "q3")
    talk.finish(talk.service.regenerate(first.id))
    assert talk.texts() == ["q1", "answer 4"]
    talk.say("other")

    talk.service.show_sibling(talk.id, talk.hash_of("answer 4"), -1)
    assert talk.texts() == ["q1", "answer 1", "q2", "answer 2", "q3", "answer 3"]
    talk.service.show_sibling(talk.id, talk.hash_of("answer 1"), 1)
    assert talk.texts() == ["q1", "answer 4", "other", "answer 5"]
    talk.service.close()


def test_an_edited_question_is_a_sibling_and_the_rest_comes_back_with_the_old_one(
    database_path: Path,
):
    talk = Talk(database_path, system="Be brief.")
    talk.say("q1", "q2", "q3")
    turn = talk.service.edit(talk.id, talk.hash_of("q2"), "other \x1b[31m\ud83d")
    talk.finish(turn)

    assert talk.texts() == ["Be brief.", "q1", "answer 1", "other \x1b[31m\ufffd", "answer 4"]
    assert talk.versions() == ["-", "-", "-", "2/2", "-"]
    assert talk.asked() == ["Be brief.", "q1", "answer 1", "other \x1b[31m\ufffd"]
    talk.service.show_sibling(talk.id, talk.lines()[3].key, -1)
    assert talk.texts()[3:] == ["q2", "answer 2", "q3", "answer 3"]
    talk.service.close()


def test_the_first_question_can_be_edited(talk: Talk):
    talk.say("q1")
    talk.finish(talk.service.edit(talk.id, talk.hash_of("q1"), "q2"))
    assert talk.texts() == ["q2", "answer 2"]
    assert talk.versions() == ["2/2", "-"]
    talk.service.close()


def test_a_question_edited_to_what_it_was_is_answered_again(talk: Talk):
    talk.say("q1")
    talk.finish(talk.service.edit(talk.id, talk.hash_of("q1"), "q1"))
    assert talk.texts() == ["q1", "answer 2"]
    assert talk.versions() == ["-", "2/2"]
    talk.service.close()


def test_an_edit_keeps_the_draft(talk: Talk):
    talk.say("q1")
    talk.service.save_draft(talk.id, "half a thought")
    talk.finish(talk.service.edit(talk.id, talk.hash_of("q1"), "q2"))
    assert talk.service.chats()[0].draft == "half a thought"
    talk.service.close()


def test_regenerating_stops_the_running_answer_and_what_waits_follows_the_new_one(talk: Talk):
    running, waiting = talk.begin("q1", "q2")

    again = talk.service.regenerate(running.id)

    assert talk.texts() == ["q1", "queued: ", "q2", "queued: "]
    assert talk.versions()[:2] == ["-", "2/2"]
    with pytest.raises(ChatError, match="has not begun"):
        talk.service.regenerate(again.id)
    talk.finish(again)
    assert talk.recorder.wait_ended(running.id).status is TurnStatus.STOPPED
    talk.finish(waiting)
    assert talk.texts() == ["q1", "abc", "q2", "abc"]
    assert talk.asked() == ["q1", "abc", "q2"]
    talk.service.show_sibling(talk.id, talk.lines()[1].key, -1)
    assert talk.texts() == ["q1", "a"]
    talk.service.close()


def test_editing_stops_the_running_answer_and_keeps_its_text(talk: Talk):
    (running,) = talk.begin("q1")
    edited = talk.service.edit(talk.id, talk.hash_of("q1"), "q1, better")
    assert talk.texts() == ["q1, better", "queued: "]
    talk.finish(edited)
    assert talk.recorder.wait_ended(running.id).status is TurnStatus.STOPPED
    assert talk.texts() == ["q1, better", "abc"]
    talk.service.show_sibling(talk.id, talk.lines()[0].key, -1)
    assert talk.texts() == ["q1", "a"]
    talk.service.close()


def test_a_message_that_waits_for_its_answer_is_not_gone_back_behind(database_path: Path):
    engine = ScriptedEngine()
    service, _, _ = make_service(database_path, engine=engine)
    chat = service.new_chat()
    first = service.send(chat.id, "q1")
    second = service.send(chat.id, "q2")
    engine.wait_submitted(1)
    with pytest.raises(ChatError, match="not been answered"):
        service.regenerate(second.id)
    with pytest.raises(ChatError, match="no place"):
        service.edit(chat.id, f"{WAITING_PREFIX}{second.id}", "q3")
    with pytest.raises(ChatError, match="no place"):
        service.fork(chat.id, f"{WAITING_PREFIX}{second.id}")
    with pytest.raises(ChatError, match="still running"):
        service.show_sibling(chat.id, first.id, 1)
    service.close()


def test_an_answer_without_a_word_is_no_version_once_it_is_left(talk: Talk):
    first = talk.say("q")
    talk.engine._script = lambda request: ("late",)
    stopped = talk.service.regenerate(first.id)
    talk.service.stop(stopped.id)
    talk.recorder.wait_ended(stopped.id)
    assert talk.versions() == ["-", "2/2"]
    talk.service.show_sibling(talk.id, talk.lines()[1].key, -1)
    assert talk.texts() == ["q", "answer 1"]
    assert talk.versions() == ["-", "-"]
    talk.service.close()


def test_an_answer_without_a_word_that_was_replied_to_stays_a_version(talk: Talk):
    first = talk.say("q")
    stopped = talk.service.regenerate(first.id)
    talk.service.stop(stopped.id)
    talk.recorder.wait_ended(stopped.id)
    talk.say("go on")
    talk.service.show_sibling(talk.id, talk.lines()[1].key, -1)
    assert talk.versions() == ["-", "1/2"]
    talk.service.show_sibling(talk.id, talk.lines()[1].key, 1)
    assert talk.texts()[2:] == ["go on", f"answer {len(talk.engine.submitted)}"]
    talk.service.close()


def test_beyond_the_first_and_the_last_version_there_is_none(talk: Talk):
    first = talk.say("q")
    with pytest.raises(ChatError, match="no other version"):
        talk.service.show_sibling(talk.id, talk.hash_of("answer 1"), 1)
    talk.finish(talk.service.regenerate(first.id))
    assert talk.service.show_sibling(talk.id, talk.hash_of("answer 2"), 1) is None
    assert talk.texts() == ["q", "answer 2"]
    talk.service.close()


def test_what_is_not_in_the_chat_is_refused(talk: Talk):
    turn = talk.say("q")
    other = talk.service.new_chat()
    with pytest.raises(NotInHistory):
        talk.service.regenerate("nope")
    with pytest.raises(ChatError, match="does not belong"):
        talk.service.regenerate(turn.id, chat_id=other.id)
    for deed in (
        lambda key: talk.service.edit(other.id, key, "x"),
        lambda key: talk.service.fork(other.id, key),
    ):
        with pytest.raises(ChatError, match="does not belong"):
            deed(talk.hash_of("q"))
    with pytest.raises(ChatError, match="Only your own"):
        talk.service.edit(talk.id, talk.hash_of("answer 1"), "x")
    with pytest.raises(ChatError, match="nothing to send"):
        talk.service.edit(talk.id, talk.hash_of("q"), " \n")
    talk.service.close()


def test_a_deleted_chat_is_not_branched(talk: Talk):
    turn = talk.say("q")
    question = talk.hash_of("q")
    talk.service.delete(talk.id)
    for deed in (
        lambda: talk.service.regenerate(turn.id),
        lambda: talk.service.edit(talk.id, question, "x"),
        lambda: talk.service.show_sibling(talk.id, question, 1),
        lambda: talk.service.fork(talk.id, question),
    ):
        with pytest.raises(ChatError, match="is deleted"):
            deed()
    talk.service.close()


def test_a_message_outlives_the_turn_that_was_continued(talk: Talk):
    """The fork's line has no turn any more, and still is an answer."""
    (turn,) = talk.begin("q")
    talk.service.stop(turn.id)
    talk.finish(turn)
    fork = talk.service.fork(talk.id, talk.hash_of("a"))
    talk.service.continue_turn(turn.id)
    talk.engine.wait_submitted(2)
    talk.engine.run_until_idle()
    talk.recorder.wait_for(TurnEnded, count=2)
    line = talk.lines(fork.id)[-1]
    assert line.message is not None
    assert (line.message.role, line.message.text, line.turn) == ("assistant", "a", None)
    talk.service.close()


def test_siblings_are_there_again_after_a_restart(database_path: Path):
    talk = Talk(database_path)
    first = talk.say("q1")
    talk.finish(talk.service.regenerate(first.id))
    talk.finish(talk.service.edit(talk.id, talk.hash_of("q1"), "q1b"))
    chat_id = talk.id
    talk.service.close()

    service, _, _ = make_service(database_path)
    lines = service.transcript(chat_id)
    assert [text_of(line) for line in lines] == ["q1b", "answer 3"]
    service.show_sibling(chat_id, lines[0].key, -1)
    assert [text_of(line) for line in service.transcript(chat_id)] == ["q1", "answer 2"]
    service.close()
    store = Store.open(database_path)
    assert store.verify() == []
    store.close()


def test_the_same_answer_again_brings_back_what_followed_it(talk: Talk):
    talk.engine._script = lambda request: ("same",)
    first = talk.say("q1")
    talk.say("q2")
    talk.finish(talk.service.regenerate(first.id))
    assert talk.texts() == ["q1", "same", "q2", "same"]
    assert talk.versions() == ["-"] * 4
    talk.service.close()


def test_an_archived_chat_that_is_gone_back_in_is_listed_again(talk: Talk):
    turn = talk.say("q")
    talk.service.history.archive(talk.id)
    assert talk.service.chats() == []
    talk.finish(talk.service.regenerate(turn.id))
    assert [chat.id for chat in talk.service.chats()] == [talk.id]
    talk.service.close()


def test_an_edited_message_is_where_the_models_view_begins_if_the_old_one_was(talk: Talk):
    talk.say("q1", "q2")
    begins = change_chat(talk.id, view_hash=talk.hash_of("q2"))
    talk.service._store.submit(Write(chat_changes=(begins,))).result(WAIT_S)
    talk.finish(talk.service.edit(talk.id, talk.hash_of("q2"), "other"))
    assert talk.asked() == ["other"]
    talk.service.close()
