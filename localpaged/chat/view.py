"""What of a conversation is shown and sent: the chat's own system text, and where its view begins.

The tree is not changed by either, so both can be taken back and forks keep sharing their messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.store.rows import Chat, Message

SYSTEM_PREFIX = "system:"


def shown(chat: Chat, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the system text that the chat has.

    A text that is not the conversation's own has no place in the tree: the `hash` of its message
    is `system:` and the chat's id.
    """
    own, others = _system_and_others(messages)
    if chat.system is None:
        return messages
    if not chat.system:
        return others
    if [message.text for message in own] == [chat.system]:
        return messages
    return [Message(f"{SYSTEM_PREFIX}{chat.id}", None, "system", chat.system), *others]


def sent(chat: Chat, messages: Sequence[Message]) -> Sequence[Message]:
    """Return what of the messages a model is given to read.

    A view that begins on another branch of the tree hides nothing.
    """
    system, others = _system_and_others(shown(chat, messages))
    begins = [place for place, message in enumerate(others) if message.hash == chat.view_hash]
    return [*system, *others[begins[0] :]] if begins else [*system, *others]


def _system_and_others(
    messages: Sequence[Message],
) -> tuple[Sequence[Message], Sequence[Message]]:
    is_system = bool(messages) and messages[0].role == "system"
    return messages[: int(is_system)], messages[int(is_system) :]
