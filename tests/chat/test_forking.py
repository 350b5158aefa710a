"""A chat of its own: what it began with is shared and stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.errors import ChatError
from localpaged.store.writes import Purge, Write, change_chat
from testkit.builders import make_service
from testkit.scripted_engine import ScriptedEngine
from testkit.talk import Talk

WAIT_S = 10.0


@pytest.fixture
def talk(database_path: Path) -> Talk:
    return Talk(database_path)


def test_a_chat_that_is_answered_elsewhere_is_only_forked(talk: Talk, database_path: Path):
    turn = talk.say("q")
    talk.finish(talk.service.regenerate(turn.id))
    # the other program looks into the database, which has the end a moment after it was told
    assert talk.service.history.store.writer.flush()
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


def test_a_fork_of_a_chat_that_is_in_no_list_is_in_the_list(talk: Talk):
    talk.say("q")
    hidden = change_chat(talk.id, is_hidden=True, archived_at=1.0)
    talk.service._store.submit(Write(chat_changes=(hidden,))).result(WAIT_S)
    fork = talk.service.fork(talk.id, talk.hash_of("answer 1"))
    assert [chat.id for chat in talk.service.chats()] == [fork.id]
    talk.service.close()
