"""Whatever users do in whatever order, at the end every message is in its place."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import ChatError, EngineError
from localpaged.store.database import connect
from localpaged.store.rows import Turn, TurnStatus
from localpaged.store.store import Store
from testkit.builders import make_service
from testkit.scripted_engine import Answer, ScriptedEngine

ANSWERS = [
    Answer(("a", "b", "c")),
    Answer(("cut",), reason=FinishReason.LENGTH),
    Answer(("bro", "ken"), error=EngineError("broken")),
    Answer(()),
]
ACTIONS = st.tuples(
    st.sampled_from(["send", "send", "step", "step", "step", "stop", "continue", "delete"]),
    st.integers(0, 9),
)


class Session:
    """Performs actions and keeps what must be true at the end."""

    def __init__(self, service: ChatService, engine: ScriptedEngine) -> None:
        self.service = service
        self.engine = engine
        self.chats = [service.new_chat(system=system).id for system in ("", "be brief")]
        self.sent: dict[str, list[str]] = defaultdict(list)
        self.begun: Counter[str] = Counter()
        self.turns: list[Turn] = []

    def act(self, action: str, number: int) -> None:
        if action == "send":
            self._send(self.chats[number % 2])
        elif action == "step":
            self.engine.step()
        elif action == "delete":
            self.service.delete(self.chats[number % 2])
            self.service.restore(self.chats[number % 2])
        elif self.turns:
            turn = self.turns[number % len(self.turns)]
            if action == "stop":
                self.service.stop(turn.id)
            else:
                self._continue(turn)

    def _send(self, chat_id: str) -> None:
        text = f"message {len(self.turns)}"
        turn = self.service.send(chat_id, text)
        self.turns.append(turn)
        self.sent[chat_id].append(text)
        self.begun[turn.id] += 1

    def _continue(self, turn: Turn) -> None:
        try:
            self.service.continue_turn(turn.id)
        except ChatError:
            return
        self.begun[turn.id] += 1


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=25))
def test_no_message_is_lost_moved_or_answered_twice(actions: list[tuple[str, int]]):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as environment:
        environment.setenv("LOCALPAGED_HOME", folder)
        path = Path(folder) / "data" / "chats.db"
        engine = ScriptedEngine(lambda request: ANSWERS[len(request.prompt_ids) % len(ANSWERS)])
        service, _, recorder = make_service(path, engine=engine)
        session = Session(service, engine)
        for action, number in actions:
            session.act(action, number)
        service.close()

        assert Counter(end.turn_id for end in recorder.of(TurnEnded)) == session.begun
        assert connect(path).table("runs").count == 0
        store = Store.open(path)
        assert store.num_interrupted == 0
        assert store.verify() == []
        for chat_id in session.chats:
            conversation = store.conversation(chat_id)
            messages = [m for m in conversation.messages if m.role != "system"]
            assert [m.text for m in messages[::2]] == session.sent[chat_id]
            assert [m.role for m in messages] == ["user", "assistant"] * len(session.sent[chat_id])
            assert not any(turn.status.is_open for turn in conversation.turns)
            made = {turn.tip_hash: turn for turn in conversation.turns}
            for answer in messages[1::2]:
                turn = made[answer.hash]
                assert turn.parent_hash == answer.parent_hash
                assert turn.status is not TurnStatus.INTERRUPTED
        store.close()
