"""Holding a conversation whose cache reports a test looks at."""

from __future__ import annotations

from pathlib import Path

from localpaged.chat.cache_report import CacheReport
from localpaged.chat.events import TurnCacheReport, TurnEnded
from localpaged.chat.service import ChatService
from localpaged.engine.events import ReadyEvent
from localpaged.engine.params import SamplingParams
from localpaged.store.rows import Chat
from localpaged.store.writes import Write, change_chat
from testkit.builders import Recorder, make_service, ready_model
from testkit.fake_model import FakeChatModel
from testkit.scripted_engine import Answer, ScriptedEngine

QUESTION = "What is the capital of France, please?"
ANSWER = Answer(("The capital ", "of France ", "is Paris."))


class Chatting:
    """A chat service, its scripted engine, and how to hold a conversation with it."""

    def __init__(
        self,
        path: Path,
        *,
        model: FakeChatModel | None = None,
        script: tuple[Answer, ...] = (ANSWER,),
        dtype: str = "float32",
    ) -> None:
        self.model = model or FakeChatModel()
        self.service: ChatService
        self.recorder: Recorder
        self.service, self.engine, self.recorder = make_service(
            path,
            engine=ScriptedEngine(script, ready=ReadyEvent("fake-model", "cpu", dtype, 8_192, 0.1)),
            model=ready_model(self.model),
        )
        self.chat: Chat

    def begin(self, *, system: str = "You are a helpful assistant.") -> Chatting:
        self.chat = self.service.new_chat(system=system)
        return self

    def ask(self, text: str = QUESTION, *, sampling: SamplingParams | None = None) -> CacheReport:
        number = len(self.recorder.of(TurnEnded)) + 1
        self.service.send(self.chat.id, text, sampling=sampling)
        return self.answered(number)

    def answered(self, number: int) -> CacheReport:
        self.engine.wait_submitted(number)
        self.engine.run_until_idle()
        self.recorder.wait_for(TurnEnded, count=number)
        return self.recorder.of(TurnCacheReport)[number - 1].report

    def go_to(self, tip_hash: str | None) -> None:
        """Make another message the chat's last, as an edit of what follows does."""
        change = change_chat(self.chat.id, tip_hash=tip_hash)
        self.service._store.submit(Write(chat_changes=(change,)))

    @property
    def messages(self) -> list[str]:
        lines = self.service.transcript(self.chat.id)
        return [line.message.hash for line in lines if line.message is not None]
