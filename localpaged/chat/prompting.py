"""What a turn's prompt is made of: the messages up to it, with the ids their answers had."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localpaged.abilities import abilities_of
from localpaged.chat.endless import refuse_endless
from localpaged.chat.view import sent
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Message, Turn
from localpaged.store.store import Conversation, Store
from localpaged.store.text import storable
from localpaged.store.token_ids import unpack


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids for the engine, and the messages they were made of.

    The last `num_begun` ids are of an answer that is continued; None when its ids cannot be told
    from those before it. An endpoint gets `texts` and no ids: the messages, and last what its
    answer has begun with.
    """

    ids: tuple[int, ...]
    messages: Sequence[Message]
    num_begun: int | None = 0
    texts: tuple[PromptMessage, ...] = ()

    @property
    def begun_ids(self) -> tuple[int, ...] | None:
        """The ids of the continued answer so far."""
        return None if self.num_begun is None else self.ids[len(self.ids) - self.num_begun :]


def make_prompt(store: Store, model: ChatModel, turn: Turn) -> Prompt:
    """Render the messages up to a turn's question, and what its answer has begun with.

    Answers keep the ids they were made of by this very model; all else is written as text. Raises
    PromptEndless for what surely does not fit.
    """
    conversation = store.conversation(turn.chat_id, up_to=turn.parent_hash)
    known = known_ids(conversation, model)
    told = answered(sent(conversation.chat, conversation.messages))
    messages = [
        PromptMessage(message.role, message.text, known.get(message.hash)) for message in told
    ]
    if abilities_of(model).is_remote:
        begun = [PromptMessage("assistant", turn.partial_text)] if is_begun(turn) else []
        return Prompt((), told, None, (*messages, *begun))
    refuse_endless(messages, model)
    ids, num_begun = prompt_ids(model, messages, turn)
    return Prompt(ids, told, num_begun)


def prompt_ids(
    model: ChatModel, messages: Sequence[PromptMessage], turn: Turn
) -> tuple[tuple[int, ...], int | None]:
    """Return the ids of a prompt, and how many at its end are of the answer that `turn` goes on.

    None when they cannot be told from those before them.
    """
    if not is_begun(turn):
        return model.render(messages), 0
    question = model.render(messages)
    exact = _exact_ids(turn, model)
    if exact is not None:
        return (*question, *exact), len(exact)
    begun = PromptMessage("assistant", turn.partial_text, ids_of(turn, model))
    ids = model.render([*messages, begun], continue_last=True)
    is_in_front = ids[: len(question)] == question
    return ids, len(ids) - len(question) if is_in_front else None


def is_begun(turn: Turn) -> bool:
    """Whether an answer that is asked for has a beginning already: it may be half a character."""
    return bool(turn.partial_text or turn.token_ids)


def text_of(pieces: Sequence[bytes]) -> str:
    """Return the text that tokens make so far: what is part of a character at its end waits."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return storable(decoder.decode(b"".join(pieces)))


def _exact_ids(turn: Turn, model: ChatModel) -> tuple[int, ...] | None:
    """Return the ids of an answer so far, if they are all of its text and nothing but text.

    They stand behind the question as the model wrote them, whatever a template makes of answers.
    """
    ids = ids_of(turn, model)
    if ids is None:
        return None
    pieces = model.pieces(ids)
    # the first token may be no more than the space that some tokenizers put before a text
    is_text = all(p or model.spell((id_,)) == " " for id_, p in zip(ids, pieces, strict=True))
    return ids if is_text and text_of(pieces) == turn.partial_text else None


def answered(messages: Sequence[Message]) -> Sequence[Message]:
    """Leave out questions whose answer never began: refused ones would be refused for ever."""
    told: list[Message] = []
    for message in messages:
        is_empty = message.role == "assistant" and not message.text
        if is_empty and told and told[-1].role == "user":
            told.pop()
        else:
            told.append(message)
    return told


def known_ids(conversation: Conversation, model: ChatModel) -> Mapping[str, tuple[int, ...]]:
    """Return the ids that a conversation's answers were made of by this very model, by hash."""
    # The chat's own turns come last and win: a message may be the answer of several.
    return {
        turn.tip_hash: ids
        for turn in conversation.turns
        if turn.tip_hash is not None and (ids := ids_of(turn, model)) is not None
    }


def ids_of(turn: Turn, model: ChatModel) -> tuple[int, ...] | None:
    """Return the ids of a turn's answer; None when they are not known, or another model's."""
    is_same = (turn.model, turn.model_fingerprint) == (model.name, model.fingerprint)
    return unpack(turn.token_ids) if is_same and turn.token_ids else None


def chat_prefix(store: Store, model: ChatModel, chat_id: str) -> tuple[int, ...]:
    """Return the ids that every next prompt of a chat as it is now begins with."""
    conversation = store.conversation(chat_id)
    known = known_ids(conversation, model)
    told = answered(sent(conversation.chat, conversation.messages))
    return _prefix(model, [PromptMessage(m.role, m.text, known.get(m.hash)) for m in told])


def system_prefix(store: Store, model: ChatModel, chat_id: str) -> tuple[int, ...]:
    """Return the ids of a chat's system text, as every prompt of it begins.

    Without one it is what the model's template puts in its place; empty if that fills no block.
    """
    conversation = store.conversation(chat_id)
    told = sent(conversation.chat, conversation.messages)
    system = [PromptMessage(m.role, m.text) for m in told if m.role == "system"]
    if system:
        return _prefix(model, system)
    brought = _common_beginning(model, ())
    return brought if len(brought) >= BLOCK_SIZE_TOKENS else ()


def _prefix(model: ChatModel, messages: Sequence[PromptMessage]) -> tuple[int, ...]:
    """Return what prompts with these messages have in common, whatever is asked next."""
    if not messages:
        return ()
    if messages[-1].role == "user":
        return model.render(messages)
    return _common_beginning(model, messages)


def _common_beginning(model: ChatModel, messages: Sequence[PromptMessage]) -> tuple[int, ...]:
    """Return how prompts begin whose next message is a question, whatever is asked."""
    first, second = (
        model.render([*messages, PromptMessage("user", text)]) for text in ("a", "B b")
    )
    num_common = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first)
    )
    return first[:num_common]
