"""Which chats a list or a search is about."""

from __future__ import annotations

from enum import StrEnum

from localpaged.store.rows import Chat

# after that a deleted chat is gone for good
DELETED_KEPT_S = 30 * 24 * 3_600.0


class ChatScope(StrEnum):
    """Deleted chats are kept for a while and can be restored; archived ones are found, not listed.

    `LISTED` is what the list of chats shows, `ALL` is that and the archived ones. Chats that are
    hidden are answers of a compare that were not kept: they are `COMPARED` and nothing else.
    """

    LISTED = "listed"
    ALL = "all"
    ARCHIVED = "archived"
    DELETED = "deleted"
    COMPARED = "compared"

    def has(self, chat: Chat) -> bool:
        """Whether the chat is one of those."""
        if chat.is_hidden is not (self is ChatScope.COMPARED):
            return False
        if (chat.deleted_at is not None) is not (self is ChatScope.DELETED):
            return False
        match self:
            case ChatScope.LISTED:
                return chat.archived_at is None
            case ChatScope.ARCHIVED:
                return chat.archived_at is not None
            case _:
                return True

    def is_searched(self, chat: Chat) -> bool:
        """Whether what a chat says is found: in all chats what was answered in a compare, too."""
        return self.has(chat) or (self is ChatScope.ALL and ChatScope.COMPARED.has(chat))
