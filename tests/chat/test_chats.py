"""Making, naming, deleting and restoring chats; drafts and titles."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.title import MAX_TITLE_CHARS, auto_title, one_line
from localpaged.errors import ChatError, NotInHistory
from localpaged.store.rows import TurnStatus
from testkit.builders import make_service


def test_chats_are_listed_latest_used_first_and_survive_a_restart(database_path: Path):
    service, engine, recorder = make_service(database_path)
    assert service.latest_chat() is None
    first, second = service.new_chat(title="first"), service.new_chat(title="second")
    assert [chat.title for chat in service.chats()] == ["second", "first"]
    turn = service.send(first.id, "hi")
    assert service.latest_chat() is not None
    assert [chat.id for chat in service.chats()] == [first.id, second.id]
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    service.close()

    service, _, _ = make_service(database_path)
    latest = service.latest_chat()
    assert latest is not None
    assert (latest.id, latest.title, latest.model) == (first.id, "first", "")
    service.close()


def test_a_chat_without_a_title_is_named_after_its_first_message_only(database_path: Path):
    service, _, _ = make_service(database_path)
    chat = service.new_chat()
    service.send(chat.id, "How do\nradix trees work?")
    service.send(chat.id, "and B-trees?")
    assert service.chats()[0].title == "How do radix trees work?"
    service.close()


def test_renaming_gives_a_plain_title(database_path: Path):
    service, _, _ = make_service(database_path)
    chat = service.new_chat(title="a\nb")
    assert chat.title == "a b"
    service.rename(chat.id, "new \x1b[31m\tname\ud83d")
    assert service.chats()[0].title == "new [31m name\ufffd"
    with pytest.raises(NotInHistory):
        service.rename("nope", "x")
    service.close()


def test_a_deleted_chat_is_gone_and_comes_back_whole(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    first, second = service.send(chat.id, "one"), service.send(chat.id, "two")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    service.delete(chat.id)
    assert service.chats() == []
    engine.step()
    assert recorder.wait_ended(first.id).status is TurnStatus.STOPPED
    assert recorder.wait_ended(second.id).status is TurnStatus.STOPPED
    assert len(engine.submitted) == 1
    with pytest.raises(ChatError, match="deleted"):
        service.send(chat.id, "still there?")

    restored = service.restore(chat.id)
    assert restored.deleted_at is None
    assert [one.id for one in service.chats()] == [chat.id]
    service.close()

    service, _, _ = make_service(database_path)
    texts = [line.message.text for line in service.transcript(chat.id) if line.message]
    assert texts == ["one", "Hello", "two", ""]
    service.close()


def test_drafts_are_kept_per_chat_and_go_when_they_are_sent(database_path: Path):
    service, _, _ = make_service(database_path)
    chat, other = service.new_chat(), service.new_chat()
    for typed in ("h", "he", "hello"):
        service.save_draft(chat.id, typed)
    service.save_draft(other.id, "kept \0")
    drafts = {one.id: one.draft for one in service.chats()}
    assert drafts == {chat.id: "hello", other.id: "kept \ufffd"}
    service.send(chat.id, "hello")
    service.close()

    service, _, _ = make_service(database_path)
    assert {one.id: one.draft for one in service.chats()} == {chat.id: "", other.id: "kept \ufffd"}
    service.close()


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("short", "short"),
        ("  two\n\n lines\t", "two lines"),
        ("word " * 30, "word " * 10 + "word word…"),
        ("x" * 100, "x" * 59 + "…"),
        ("x" * 60, "x" * 60),
        ("\x1b]0;evil\x07 title\u202e", "]0;evil title"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
        ("[bold]{{x}}[/]", "[bold]{{x}}[/]"),
        ("\0\n", ""),
    ],
)
def test_a_title_is_the_first_words_on_one_line(message: str, title: str):
    assert auto_title(message) == title.strip()
    assert len(auto_title(message)) <= 60


def test_one_line_keeps_long_titles_whole():
    assert one_line("a\r\nb " + "c" * 100) == "a b " + "c" * 100


@pytest.mark.parametrize("text", ["c" * 10**7, " \n" * 10**6 + "c", "c " * 10**6], ids=len)
def test_a_title_has_an_end(text: str):
    title = one_line(text)
    assert len(title) <= MAX_TITLE_CHARS
    assert one_line(title) == title


def test_the_engine_is_told_which_chat_is_looked_at(database_path: Path):
    service, engine, _ = make_service(database_path)
    chat = service.new_chat()
    service.focus(chat.id)
    service.focus("")
    assert engine.focused == [chat.id, ""]
    service.close()
