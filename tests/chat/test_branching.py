"""Another answer, another question, another version, a chat of its own: nothing is taken away."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.chat.transcript import WAITING_PREFIX
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, NotInHistory
from localpaged.store.rows import Exchange, Turn, TurnStatus
from localpaged.store.store import Store
from localpaged.store.writes import Purge, Write, change_chat
from testkit.builders import Recorder, make_service
from testkit.fake_model import read_prompt
from testkit.scripted_engine import ScriptedEngine

WAIT_S = 10.0
PAUSE = Event()


class Talk:
    """A service whose engine answers with the number of the request."""

    def __init__(self, path: Path, *, system: str = "") -> None:
        self.engine = ScriptedEngine(lambda request: (f"answer {len(self.engine.submitted) + 1}",))
        self.service: ChatService
        self.recorder: Recorder
        self.service, _, self.recorder = make_service(path, engine=self.engine)
        self.id = self.service.new_chat(system=system).id

    def say(self, *texts: str) -> Turn:
        """Send messages, each after the answer of the one before; return the last turn."""
        for text in texts:
            turn = self.finish(self.service.send(self.id, text))
        return turn

    def finish(self, turn: Turn) -> Turn:
        """Let a turn be answered; return it as it was asked."""
        while not any(end.turn_id == turn.id for end in self.recorder.of(TurnEnded)):
            self.engine.run_until_idle()
            PAUSE.wait(0.002)
        return turn

    def begin(self, *texts: str) -> list[Turn]:
        """Send messages, the first of which is answered "a" so far, of "abc"."""
        self.engine._script = lambda request: ("a", "b", "c")
        before = len(self.engine.submitted)
        turns = [self.service.send(self.id, text) for text in texts]
        self.engine.wait_submitted(before + 1)
        self.engine.step()
        self.engine.step()
        return turns

    def lines(self, chat_id: str = "") -> list[Exchange]:
        return list(self.service.transcript(chat_id or self.id))

    def texts(self, chat_id: str = "") -> list[str]:
        return [text_of(line) for line in self.lines(chat_id)]

    def versions(self, chat_id: str = "") -> list[str]:
        """`2/3` for every line."""
        told = []
        for line in self.lines(chat_id):
            siblings = line.siblings
            told.append(f"{siblings.place + 1}/{len(siblings.keys)}" if siblings else "-")
        return told

    def hash_of(self, text: str) -> str:
        return next(line.key for line in self.lines() if text_of(line) == text)

    def asked(self) -> list[str]:
        """What the model was given to read last."""
        *told, _ = read_prompt(self.engine.submitted[-1].prompt_ids)
        return [text for _, text in told]


def text_of(line: Exchange) -> str:
    if line.message is not None:
        return line.message.text
    assert line.turn is not None
    return f"{line.turn.status.value}: {line.turn.partial_text}"


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


def test_a_chat_that_is_answered_elsewhere_is_only_forked(talk: Talk, database_path: Path):
    turn = talk.say("q")
    talk.finish(talk.service.regenerate(turn.id))
    other, engine, recorder = make_service(database_path, engine=ScriptedEngine([("x", "y")]))
    theirs = other.send(talk.id, "theirs")
    engine.wait_submitted(1)
    engine.step()
    for deed in (
        lambda: talk.service.regenerate(turn.id),
        lambda: talk.service.edit(talk.id, talk.hash_of("q"), "x"),
        lambda: talk.service.show_sibling(talk.id, talk.hash_of("answer 2"), -1),
    ):
        with pytest.raises(ChatError, match="another localpaged"):
            deed()
    fork = talk.service.fork(talk.id, talk.hash_of("answer 2"))
    assert talk.texts(fork.id) == ["q", "answer 2"]
    engine.run_until_idle()
    recorder.wait_ended(theirs.id)
    other.close()
    assert talk.texts() == ["q", "answer 2", "theirs", "xy"]
    talk.service.close()


def test_a_fork_shares_the_messages_and_goes_its_own_way(talk: Talk):
    talk.say("q1", "q2")
    fork = talk.service.fork(talk.id, talk.hash_of("answer 1"))
    assert fork.forked_from == talk.id
    assert talk.texts(fork.id) == ["q1", "answer 1"]
    talk.finish(talk.service.send(fork.id, "own"))
    assert talk.texts(fork.id) == ["q1", "answer 1", "own", "answer 3"]
    assert talk.texts() == ["q1", "answer 1", "q2", "answer 2"]
    assert talk.versions() == ["-"] * 4 == talk.versions(fork.id)
    talk.service.close()


def test_a_fork_at_a_question_has_its_text_as_draft(talk: Talk):
    talk.say("q1", "q2")
    later = talk.service.fork(talk.id, talk.hash_of("q2"))
    first = talk.service.fork(talk.id, talk.hash_of("q1"))
    assert (talk.texts(later.id), later.draft) == (["q1", "answer 1"], "q2")
    assert (talk.texts(first.id), first.draft) == ([], "q1")
    talk.service.close()


def test_a_fork_is_named_after_the_first_message_that_is_its_own(talk: Talk):
    talk.say("origin")
    fork = talk.service.fork(talk.id, talk.hash_of("answer 1"))
    assert fork.title == "origin"
    titles = []
    for text in ("shorter", "longer"):
        talk.finish(talk.service.send(fork.id, text))
        titles.append(next(c.title for c in talk.service.chats() if c.id == fork.id))
    assert titles == ["shorter", "shorter"]
    named = talk.service.fork(talk.id, talk.hash_of("answer 1"))
    talk.service.rename(named.id, "mine")
    talk.finish(talk.service.send(named.id, "x"))
    assert next(c.title for c in talk.service.chats() if c.id == named.id) == "mine"
    talk.service.close()


def test_in_a_fork_what_it_began_with_is_never_lost(talk: Talk):
    first = talk.say("q1")
    talk.say("q2")
    fork = talk.service.fork(talk.id, talk.hash_of("answer 2"))
    again = talk.service.regenerate(first.id, chat_id=fork.id)
    assert again.chat_id == fork.id
    talk.finish(again)
    assert talk.texts(fork.id) == ["q1", "answer 3"]
    assert talk.texts() == ["q1", "answer 1", "q2", "answer 2"]
    assert talk.versions() == ["-"] * 4
    # not even when the chat it came from is gone for good
    talk.service.delete(talk.id)
    talk.service._store.submit(Purge(deleted_before=2e10)).result(WAIT_S)
    talk.service.show_sibling(fork.id, talk.lines(fork.id)[1].key, -1)
    assert talk.texts(fork.id) == ["q1", "answer 1", "q2", "answer 2"]
    talk.service.close()


def test_a_stopped_answer_is_continued_in_the_fork_that_asks_for_it(talk: Talk):
    (turn,) = talk.begin("q")
    talk.service.stop(turn.id)
    talk.finish(turn)
    fork = talk.service.fork(talk.id, talk.hash_of("a"))
    on = talk.service.continue_turn(turn.id, chat_id=fork.id)
    talk.finish(on)
    assert (on.chat_id, talk.texts(fork.id)) == (fork.id, ["q", "aabc"])
    assert talk.texts() == ["q", "a"]
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


def test_a_fork_of_a_chat_that_is_in_no_list_is_in_the_list(talk: Talk):
    talk.say("q")
    hidden = change_chat(talk.id, is_hidden=True, archived_at=1.0)
    talk.service._store.submit(Write(chat_changes=(hidden,))).result(WAIT_S)
    fork = talk.service.fork(talk.id, talk.hash_of("answer 1"))
    assert [chat.id for chat in talk.service.chats()] == [fork.id]
    talk.service.close()
