"""ChatService: chats, turns and answers. What the UI, `ask`, the server and benchmarks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from localpaged.chat.events import ChatEvent
from localpaged.chat.model import ChatModel
from localpaged.engine.params import SamplingParams
from localpaged.engine.port import EnginePort
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.store.rows import Chat, Exchange, Turn

Subscriber = Callable[[tuple[ChatEvent, ...]], None]


class ChatService:
    """Calls return at once; work happens on the service's own worker thread, results are events."""

    def __init__(self, *, store: object, engine: EnginePort, model: Future[ChatModel]) -> None: ...

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every batch of events, on the thread where they happen."""
        raise NotImplementedError

    def chats(self) -> Sequence[Chat]:
        """Every chat, the latest used first, deleted ones left out."""
        raise NotImplementedError

    def transcript(self, chat_id: str) -> Sequence[Exchange]:
        """The chat's messages from the first to the tip, open answer included."""
        raise NotImplementedError

    def new_chat(self, *, title: str = "", system: str = "") -> Chat:
        """Make a chat. Without a title it is named after its first message."""
        raise NotImplementedError

    def send(
        self,
        chat_id: str,
        text: str,
        *,
        sampling: SamplingParams | None = None,
        is_foreground: bool = True,
    ) -> Turn:
        """Save `text` as the chat's next message, then have it answered.

        Returns the queued turn at once. The message is durable before the model runs.
        """
        raise NotImplementedError

    def continue_turn(self, turn_id: str, *, sampling: SamplingParams | None = None) -> Turn:
        """Go on with an answer that was stopped, cut by its length or interrupted by a crash."""
        raise NotImplementedError

    def stop(self, turn_id: str) -> None:
        """End an answer and keep its text."""
        raise NotImplementedError

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title."""
        raise NotImplementedError

    def delete(self, chat_id: str) -> None:
        """Take a chat out of the list; its running answer is stopped. `restore` undoes it."""
        raise NotImplementedError

    def restore(self, chat_id: str) -> Chat:
        """Undo `delete`."""
        raise NotImplementedError

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is typed but not sent."""
        raise NotImplementedError

    def snapshot(self) -> EngineSnapshot:
        """The engine's latest picture."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop every answer, save everything, end the threads."""
        raise NotImplementedError
