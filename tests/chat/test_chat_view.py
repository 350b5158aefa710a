"""A chat's own system text and view decide what is shown and sent; the tree stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.chat.view import SYSTEM_PREFIX
from localpaged.store.store import Store
from localpaged.store.writes import ChatColumns, Write, change_chat
from testkit.builders import make_chat, make_service
from testkit.fake_model import read_prompt
from testkit.scripted_engine import ScriptedEngine

WAIT_S = 10.0


class Talk:
    """A service over a history that a test may change beside it."""

    def __init__(self, path: Path, *, system: str) -> None:
        self.engine = ScriptedEngine([("yes",)])
        self.service: ChatService
        self.service, _, self.recorder = make_service(path, engine=self.engine)
        self.path = path
        self.chat_id = self.service.new_chat(system=system).id
        self.num_asked = 0

    def ask(self, text: str, *, chat_id: str = "") -> list[tuple[str, str]]:
        """Send a message, wait for the answer; return what the model was given to read."""
        self.service.send(chat_id or self.chat_id, text)
        self.num_asked += 1
        request = self.engine.wait_submitted(self.num_asked)
        self.engine.run_until_idle()
        self.recorder.wait_for(TurnEnded, count=self.num_asked)
        *told, _ = read_prompt(request.prompt_ids)  # the answer begins there
        return told

    def shown(self) -> list[tuple[str, str]]:
        """What the transcript shows."""
        lines = [line.message for line in self.service.transcript(self.chat_id)]
        return [(message.role, message.text) for message in lines if message is not None]


def configure(talk: Talk, **columns: object) -> None:
    """Change a chat as another program would."""
    store = Store.open(talk.path)
    change = change_chat(talk.chat_id, **columns)  # type: ignore[arg-type]
    store.submit(Write(chat_changes=(change,))).result(WAIT_S)
    store.close()


@pytest.mark.parametrize("own", ["", "Be brief."])
@pytest.mark.parametrize("system", [None, "", "Be \x1b[31mloud.", "Be brief."])
def test_the_chats_system_text_stands_for_the_conversations_own(
    database_path: Path, own: str, system: str | None
):
    talk = Talk(database_path, system=own)
    talk.ask("one")
    configure(talk, system=system)

    effective = own if system is None else system
    expected = [("system", effective)] if effective else []
    prompt = talk.ask("two")

    assert prompt == [*expected, ("user", "one"), ("assistant", "yes"), ("user", "two")]
    assert talk.shown() == [*prompt, ("assistant", "yes")]
    first = talk.service.transcript(talk.chat_id)[0].message
    assert first is not None
    is_of_the_tree = effective in ("", own)
    assert first.hash.startswith(SYSTEM_PREFIX) is not is_of_the_tree
    talk.service.close()


def test_what_comes_before_the_view_is_shown_but_not_sent(database_path: Path):
    talk = Talk(database_path, system="Be brief.")
    talk.ask("one")
    talk.ask("two")
    lines = talk.service.transcript(talk.chat_id)
    second = next(line.message for line in lines if line.message and line.message.text == "two")
    configure(talk, view_hash=second.hash)

    prompt = talk.ask("three")

    assert prompt[:2] == [("system", "Be brief."), ("user", "two")]
    assert ("user", "one") in talk.shown()
    talk.service.close()


def test_a_view_that_begins_on_another_branch_hides_nothing(database_path: Path):
    talk = Talk(database_path, system="")
    talk.ask("one")
    configure(talk, view_hash="b2:elsewhere")
    assert talk.ask("two")[0] == ("user", "one")
    talk.service.close()


def test_a_fork_inherits_what_its_chat_is_set_to_and_is_neither_archived_nor_unread(
    database_path: Path,
):
    store = Store.open(database_path)
    chat = make_chat(store, texts=["question", "answer"])
    columns = ChatColumns(
        options='{"temperature": 0.5}',
        system="Be loud.",
        view_hash=chat.tip_hash,
        archived_at=3.0,
        is_unread=True,
    )
    store.submit(Write(chat_changes=(change_chat(chat.id, **columns),))).result(WAIT_S)
    chat = store.chat(chat.id)
    assert (chat.archived_at, chat.is_unread) == (3.0, True)
    assert chat.tip_hash is not None

    fork = store.fork(chat.id, at_hash=chat.tip_hash)

    assert store.chat(fork.id) == fork
    assert (fork.options, fork.system, fork.view_hash, fork.model) == (
        chat.options,
        chat.system,
        chat.view_hash,
        chat.model,
    )
    assert (fork.archived_at, fork.is_unread) == (None, False)
    store.close()
