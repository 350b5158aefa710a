"""The program while endpoints answer its chats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localpaged.chat.events import TurnEnded
from localpaged.chat.service import ChatService
from localpaged.errors import LocalPagedError
from localpaged.store.rows import Turn
from testkit.builders import Recorder


@dataclass(frozen=True, slots=True)
class Run:
    """A service, and what it told."""

    service: ChatService
    recorder: Recorder

    def ask(self, text: str = "Hi", *, chat_id: str = "", **options: Any) -> TurnEnded:
        """Ask in a chat, a new one unless it is named; wait for the end."""
        return self.recorder.wait_ended(self.begin(text, chat_id=chat_id, **options).id)

    def begin(self, text: str = "Hi", *, chat_id: str = "", **options: Any) -> Turn:
        """Ask, and do not wait."""
        chat_id = chat_id or self.service.new_chat().id
        return self.service.send(chat_id, text, **options)

    def fail(self, text: str = "Hi", **options: Any) -> LocalPagedError:
        """Ask what cannot be answered; return why."""
        error = self.ask(text, **options).error
        assert error is not None, "it was answered"
        return error

    def text_of(self, chat_id: str) -> str:
        """What a chat's last answer is, as it is saved."""
        exchange = self.service.transcript(chat_id)[-1]
        assert exchange.message is not None
        return exchange.message.text
