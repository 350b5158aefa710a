"""Errors of chats that more than one place raises, each in the same words."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from localpaged import paths
from localpaged.errors import ChatError

if TYPE_CHECKING:
    from localpaged.store.rows import Chat

log = logging.getLogger(__name__)

NO_PROMPT = "The prompt could not be made"
STOP_OR_WAIT = "Stop it, or wait for its end."


def chats_are_closed() -> ChatError:
    """Return the error for what comes after the end."""
    return ChatError("The chats are closed.")


def answer_is_running() -> ChatError:
    """Return the error for what needs the end of an answer."""
    return ChatError("The answer is still running.", hint=STOP_OR_WAIT)


def nothing_to_send() -> ChatError:
    """Return the error for an empty message."""
    return ChatError("There is nothing to send.")


def chat_is_deleted(chat: Chat) -> ChatError:
    """Return the error for a chat in the bin."""
    return ChatError(f"The chat “{chat.title}” is deleted.", hint="Restore it first.")


def answered_elsewhere(chat: Chat, *, hint: str) -> ChatError:
    """Return the error for a chat that another program answers in."""
    return ChatError(f"The chat “{chat.title}” is being answered in another localpaged.", hint=hint)


def not_in_this_chat() -> ChatError:
    """Return the error for a message of another chat."""
    return ChatError("The message does not belong to this chat.")


def unexpected(what: str, error: Exception) -> ChatError:
    """Log an error that nobody expected, and return one that tells it behind `what`."""
    log.error("%s", what, exc_info=error)
    return ChatError(f"{what}: {error}.", hint=paths.log_hint())
