"""Reading one's own writes: what waits in the writer's queue, laid over the rows on the disk.

While the disk is full this is how everything written since is still there to be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from localpaged.store.rows import Chat, Compare, Message, SentPrompt, Turn
from localpaged.store.writes import Operation, Write


class Overlay:
    """The unsaved writes, oldest first. Frozen: a picture of the queue at one moment."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._writes: Sequence[Write] = [o for o in operations if isinstance(o, Write)]

    def chats(self, saved: Iterable[Chat]) -> list[Chat]:
        """Return the saved chats as they will be, and the new ones."""
        chats = {chat.id: chat for chat in saved}
        for write in self._writes:
            chats.update((chat.id, chat) for chat in write.new_chats)
            for change in write.chat_changes:
                if change.chat_id in chats:
                    chats[change.chat_id] = change.applied_to(chats[change.chat_id])
        return list(chats.values())

    def turns(self, saved: Iterable[Turn]) -> dict[str, Turn]:
        """Return the saved turns as they will be, and all unsaved ones, by id."""
        turns = {turn.id: turn for turn in saved}
        for write in self._writes:
            turns.update((turn.id, turn) for turn in write.turns)
        return turns

    def prompts(self, saved: Mapping[str, SentPrompt]) -> dict[str, SentPrompt]:
        """Return the saved prompts as they will be, and all unsaved ones, by turn."""
        unsaved = {prompt.turn_id: prompt for write in self._writes for prompt in write.prompts}
        return {**saved, **unsaved}

    def compares(self, saved: Iterable[Compare]) -> dict[str, Compare]:
        """Return the saved compares as they will be, and all unsaved ones, by id."""
        unsaved = {compare.id: compare for write in self._writes for compare in write.compares}
        return {**{compare.id: compare for compare in saved}, **unsaved}

    def messages(self) -> dict[str, Message]:
        """Return the unsaved messages by hash."""
        return {message.hash: message for write in self._writes for message in write.messages}
