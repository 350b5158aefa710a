"""Whatever users do in whatever order, every version of every message can be reached again."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import ChatError, EngineError
from localpaged.store.rows import Message, Turn
from localpaged.store.store import Store
from testkit.builders import Recorder, make_service
from testkit.scripted_engine import Answer, ScriptedEngine

ACTIONS = st.tuples(
    st.sampled_from(
        [
            *["send", "step", "step", "finish"] * 2,
            *["regenerate", "edit", "sibling", "fork", "stop", "go_on", "delete", "restart"],
        ]
    ),
    st.integers(0, 99),
)
MAX_CHATS = 4


class Session:
    """Does what users do, and keeps by itself what must be found at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_answers = 0
        self.asked: dict[str, str] = {}
        self.written: dict[str, str] = defaultdict(str)
        self.again: dict[str, Turn] = {}
        self.edited: dict[str, Message] = {}
        self.begun_with: dict[str, set[str]] = {}
        self.turns: list[Turn] = []
        self.begin()
        self.chats = [self.service.new_chat(system=system).id for system in ("", "be brief")]

    def begin(self) -> None:
        self.engine = ScriptedEngine(lambda request: self.answer())
        self.service: ChatService
        self.recorder: Recorder
        self.service, _, self.recorder = make_service(self.path, engine=self.engine)

    def answer(self) -> Answer:
        self.num_answers += 1
        number = self.num_answers
        return (
            Answer((f"{number}a ", "b ", "c")),
            Answer((f"{number}cut",), reason=FinishReason.LENGTH),
            Answer(("same",)),
            Answer((f"{number}bro", "ken"), error=EngineError("broken")),
            Answer(()),
        )[number % 5]

    def end(self) -> None:
        self.service.close()
        for turn_id in self.asked:
            self.written[turn_id] += self.recorder.text(turn_id)

    def act(self, action: str, number: int) -> None:
        if action == "restart":
            self.end()
            self.begin()
            return
        chat_id = self.chats[number % len(self.chats)]
        try:
            getattr(self, action)(chat_id, number)
        except ChatError:
            return
        finally:
            for other in self.chats:
                assert self.service.transcript(other) is not None

    def send(self, chat_id: str, number: int) -> None:
        text = f"message {len(self.turns)}"
        self.note(self.service.send(chat_id, text), text)

    def note(self, turn: Turn, question: str) -> None:
        self.turns.append(turn)
        self.asked[turn.id] = question

    def step(self, chat_id: str, number: int) -> None:
        self.engine.step()

    def finish(self, chat_id: str, number: int) -> None:
        self.engine.run_until_idle()

    def stop(self, chat_id: str, number: int) -> None:
        if self.turns:
            self.service.stop(self.turns[number % len(self.turns)].id)

    def delete(self, chat_id: str, number: int) -> None:
        self.service.delete(chat_id)
        self.service.restore(chat_id)

    def regenerate(self, chat_id: str, number: int) -> None:
        if self.turns:
            old = self.turns[number % len(self.turns)]
            in_chat = chat_id if number % 3 else old.chat_id
            turn = self.service.regenerate(old.id, chat_id=in_chat)
            self.note(turn, self.asked[old.id])
            self.again[turn.id] = old

    def go_on(self, chat_id: str, number: int) -> None:
        """Continue an answer, in its chat or maybe in a fork of it."""
        if not self.turns:
            return
        old = self.turns[number % len(self.turns)]
        turn = self.service.continue_turn(old.id, chat_id="" if number % 3 else chat_id)
        if turn.id != old.id:
            self.note(turn, self.asked[old.id])
            self.written[turn.id] = turn.partial_text

    def edit(self, chat_id: str, number: int) -> None:
        if message := self.pick(chat_id, number, role="user"):
            text = message.text if number % 4 == 0 else f"edit {len(self.turns)}"
            turn = self.service.edit(chat_id, message.hash, text)
            self.note(turn, text)
            self.edited[turn.id] = message

    def fork(self, chat_id: str, number: int) -> None:
        message = self.pick(chat_id, number)
        if message is not None and len(self.chats) < MAX_CHATS:
            fork = self.service.fork(chat_id, message.hash)
            self.chats.append(fork.id)
            begun = self.service.transcript(fork.id)
            self.begun_with[fork.id] = {line.key for line in begun}

    def sibling(self, chat_id: str, number: int) -> None:
        lines = self.service.transcript(chat_id)
        if lines:
            step = 1 if number % 2 else -1
            self.service.show_sibling(chat_id, lines[number % len(lines)].key, step)

    def pick(self, chat_id: str, number: int, *, role: str = "") -> Message | None:
        lines = self.service.transcript(chat_id)
        messages = [m for line in lines if (m := line.message) and role in ("", m.role)]
        return messages[number % len(messages)] if messages else None


class Explorer:
    """Goes through all versions of all lines of a chat, as a user with patience would."""

    def __init__(self, service: ChatService, chat_id: str) -> None:
        self.service = service
        self.chat_id = chat_id
        self.line_before: dict[str, str] = {}
        self.seen: set[str] = set()
        self.look()
        while unseen := set(self.line_before) - self.seen:
            self.show(min(unseen))
            self.look()

    def look(self) -> None:
        """Note what the transcript shows, and which other versions it tells of."""
        before = ""
        for line in self.service.transcript(self.chat_id):
            for key in line.siblings.keys if line.siblings else (line.key,):
                self.line_before.setdefault(key, before)
            self.seen.add(line.key)
            before = line.key

    def show(self, key: str) -> None:
        """Bring a version on the screen, the lines before it first."""
        if self.line_before[key]:
            self.show(self.line_before[key])
        for line in self.service.transcript(self.chat_id):
            if line.siblings is not None and key in line.siblings.keys:
                step = line.siblings.keys.index(key) - line.siblings.place
                if step:
                    assert self.service.show_sibling(self.chat_id, line.key, step) == key
                return


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=30))
def test_every_version_of_every_message_can_be_reached(actions: list[tuple[str, int]]):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as environment:
        environment.setenv("LOCALPAGED_HOME", folder)
        path = Path(folder) / "data" / "chats.db"
        session = Session(path)
        for action, number in actions:
            session.act(action, number)
        ended = {end.turn_id for end in session.recorder.of(TurnEnded)}
        assert ended <= set(session.asked)
        session.end()

        store = Store.open(path)
        assert store.num_interrupted == 0
        assert store.verify() == []
        must: dict[str, set[str]] = defaultdict(set, session.begun_with)
        for begun in session.turns:
            turn = store.turn(begun.id)
            *_, question, answer = store.path_to(turn.tip_hash)
            assert (question.role, question.text) == ("user", session.asked[turn.id])
            assert (answer.role, answer.text) == ("assistant", session.written[turn.id])
            assert turn.parent_hash == question.hash
            must[turn.chat_id] |= {question.hash} | ({answer.hash} if answer.text else set())
            if (old := session.again.get(turn.id)) is not None:
                assert turn.parent_hash == store.turn(old.id).parent_hash
            if (message := session.edited.get(turn.id)) is not None:
                assert question.parent_hash == message.parent_hash
        store.close()

        service, _, _ = make_service(path)
        for chat_id in session.chats:
            assert must[chat_id] <= Explorer(service, chat_id).seen
        service.close()
