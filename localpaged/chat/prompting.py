"""What a turn's prompt is made of: the messages up to it, with the ids their answers had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localpaged.chat.view import sent
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Message, Turn
from localpaged.store.store import Conversation, Store
from localpaged.store.token_ids import unpack


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids for the engine, and the messages they were made of.

    The last `num_begun` ids are of an answer that is continued; None when its ids cannot be told
    from those before it.
    """

    ids: tuple[int, ...]
    messages: Sequence[Message]
    num_begun: int | None = 0

    @property
    def begun_ids(self) -> tuple[int, ...] | None:
        """The ids of the continued answer so far."""
        return None if self.num_begun is None else self.ids[len(self.ids) - self.num_begun :]


def make_prompt(store: Store, model: ChatModel, turn: Turn) -> Prompt:
    """Render the messages up to a turn's question, and what its answer has begun with.

    Answers keep the ids they were made of by this very model; all else is written as text.
    """
    conversation = store.conversation(turn.chat_id, up_to=turn.parent_hash)
    known = _known_ids(conversation, model)
    told = _answered(sent(conversation.chat, conversation.messages))
    messages = [
        PromptMessage(message.role, message.text, known.get(message.hash)) for message in told
    ]
    if not turn.partial_text:
        return Prompt(model.render(messages), told)
    begun = PromptMessage("assistant", turn.partial_text, _ids_of(turn, model))
    ids = model.render([*messages, begun], continue_last=True)
    question = model.render(messages)
    is_in_front = ids[: len(question)] == question
    return Prompt(ids, told, len(ids) - len(question) if is_in_front else None)


def _answered(messages: Sequence[Message]) -> Sequence[Message]:
    """Leave out questions whose answer never began: refused ones would be refused for ever."""
    told: list[Message] = []
    for message in messages:
        is_empty = message.role == "assistant" and not message.text
        if is_empty and told and told[-1].role == "user":
            told.pop()
        else:
            told.append(message)
    return told


def _known_ids(conversation: Conversation, model: ChatModel) -> Mapping[str, tuple[int, ...]]:
    # The chat's own turns come last and win: a message may be the answer of several.
    return {
        turn.tip_hash: ids
        for turn in conversation.turns
        if turn.tip_hash is not None and (ids := _ids_of(turn, model)) is not None
    }


def _ids_of(turn: Turn, model: ChatModel) -> tuple[int, ...] | None:
    is_same = (turn.model, turn.model_fingerprint) == (model.name, model.fingerprint)
    return unpack(turn.token_ids) if is_same and turn.token_ids else None


def chat_prefix(store: Store, model: ChatModel, chat_id: str) -> tuple[int, ...]:
    """Return the ids that every next prompt of a chat as it is now begins with."""
    conversation = store.conversation(chat_id)
    known = _known_ids(conversation, model)
    told = _answered(sent(conversation.chat, conversation.messages))
    return _prefix(model, [PromptMessage(m.role, m.text, known.get(m.hash)) for m in told])


def system_prefix(store: Store, model: ChatModel, chat_id: str) -> tuple[int, ...]:
    """Return the ids of a chat's system text, as every prompt of it begins; empty without one."""
    conversation = store.conversation(chat_id)
    told = sent(conversation.chat, conversation.messages)
    return _prefix(model, [PromptMessage(m.role, m.text) for m in told if m.role == "system"])


def _prefix(model: ChatModel, messages: Sequence[PromptMessage]) -> tuple[int, ...]:
    """Return what prompts with these messages have in common, whatever is asked next."""
    if not messages:
        return ()
    if messages[-1].role == "user":
        return model.render(messages)
    first, second = (
        model.render([*messages, PromptMessage("user", text)]) for text in ("a", "B b")
    )
    num_common = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first)
    )
    return first[:num_common]
