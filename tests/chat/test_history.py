"""The history as a whole: found, put away, taken out, opened where something was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.errors import ChatError, NotInHistory
from localpaged.store.scope import ChatScope
from testkit.builders import make_service


@pytest.fixture
def opened(tmp_path: Path):
    service, engine, recorder = make_service(tmp_path / "chats.db")
    yield service, engine, recorder
    service.close()


def ask(opened, chat_id: str, text: str):
    service, engine, recorder = opened
    turn = service.send(chat_id, text)
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    return service.history.store.turn(turn.id)


def ids(chats) -> list[str]:
    return [chat.id for chat in chats]


def test_an_archived_chat_is_not_listed_but_found(opened):
    service = opened[0]
    chat = service.new_chat()
    ask(opened, chat.id, "needle")
    service.history.archive(chat.id)
    assert service.chats() == []
    assert ids(service.history.chats()) == [chat.id]
    assert ids(service.history.chats(ChatScope.ARCHIVED)) == [chat.id]
    assert ids(hit.chat for hit in service.history.search("needle").hits)[-1] == chat.id
    service.history.unarchive(chat.id)
    assert ids(service.chats()) == [chat.id]
    assert service.history.chats(ChatScope.ARCHIVED) == []


def test_writing_in_an_archived_chat_lists_it_again(opened):
    service = opened[0]
    chat = service.new_chat()
    service.history.archive(chat.id)
    ask(opened, chat.id, "hello")
    assert ids(service.chats()) == [chat.id]


def test_a_chat_that_answers_is_not_archived(opened):
    service, engine, _ = opened
    chat = service.new_chat()
    service.send(chat.id, "hello")
    engine.wait_submitted(1)
    with pytest.raises(ChatError, match="still answering"):
        service.history.archive(chat.id)


def test_a_deleted_chat_is_in_its_own_scope_and_can_be_restored(opened):
    service = opened[0]
    chat = service.new_chat(title="gone")
    service.delete(chat.id)
    assert service.history.chats() == []
    assert ids(service.history.chats(ChatScope.DELETED)) == [chat.id]
    service.restore(chat.id)
    assert ids(service.history.chats()) == [chat.id]


def test_a_chat_can_be_led_through_a_message_of_another_branch(opened):
    service, engine, recorder = opened
    chat = service.new_chat()
    first = ask(opened, chat.id, "question")
    second = service.edit(chat.id, first.parent_hash, "edited question")
    engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_ended(second.id)
    history = service.history
    shown = history.show(chat.id, first.parent_hash)
    assert shown.tip_hash == first.tip_hash
    assert next(e.message.text for e in service.transcript(chat.id)) == "question"
    # and what is shown already stays
    assert history.show(chat.id, first.parent_hash).tip_hash == first.tip_hash


def test_a_message_of_another_chat_is_refused(opened):
    service = opened[0]
    one, other = service.new_chat(), service.new_chat()
    turn = ask(opened, one.id, "question")
    with pytest.raises(ChatError, match="does not belong"):
        service.history.show(other.id, turn.tip_hash)
    with pytest.raises(NotInHistory):
        service.history.archive("nothing")
