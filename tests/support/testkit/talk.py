"""A chat service whose engine answers "answer 1", "answer 2", …: for going back in a chat."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.store.rows import Exchange, Turn
from testkit.builders import Recorder, make_service
from testkit.fake_model import read_prompt
from testkit.scripted_engine import ScriptedEngine

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
