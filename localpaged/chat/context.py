"""Going on in a chat that has filled its context, the way the user chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from localpaged.chat.context_room import ContextRoom, answer_room, count_room
from localpaged.chat.endless import refuse_endless
from localpaged.chat.errors import answer_is_running, not_in_this_chat
from localpaged.chat.events import ChatEvent, ModelReady
from localpaged.chat.later import RunSoon, do_later
from localpaged.chat.live import LiveTurns
from localpaged.chat.models import Models, opened_model
from localpaged.chat.sampling import from_options
from localpaged.errors import ChatError
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Chat, Message, Turn
from localpaged.store.store import Conversation, Store, new_id
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat


class ChatContext:
    """Counts and moves a chat's view; forks, sending and continuing are the service's. Any thread.

    Invariant: `_limits` has the context of every model that was ready once, "" being the default.
    """

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        models: Models,
        run_soon: RunSoon,
        intake: threading.Lock,
        submit: Callable[[Write], Future[None]],
    ) -> None:
        self._store = store
        self._live = live
        self._models = models
        self._run_soon = run_soon
        self._intake = intake
        self._submit = submit
        self._limits: dict[str, int] = {}

    def receive(self, events: tuple[ChatEvent, ...]) -> None:
        """Learn how much context the models have; a subscriber of the chats' events."""
        for event in events:
            if isinstance(event, ModelReady):
                self._limits[event.model_name] = event.event.context_length

    def room(self, chat_id: str) -> Future[ContextRoom]:
        """Count how a chat can go on whose last question did not fit, or whose answer was cut.

        The future may end with NotInHistory, ChatError and ModelError.
        """
        return do_later(self._run_soon, lambda: self._count(chat_id))

    def limit_of(self, model: ChatModel) -> int:
        """Tokens of the context that a model was loaded with; what it can have, before it was."""
        name = "" if model.name == self._models.default_name else model.name
        return self._limits.get(name, model.context_length)

    def begin_view(self, chat_id: str, message_hash: str | None) -> None:
        """Send nothing that comes before a message any more; None is everything again.

        Raises NotInHistory, and ChatError for a message that is not on the chat's way.
        """
        with self._intake:
            chat = self._store.chat(chat_id)
            messages = self._store.path_to(chat.tip_hash)
            if message_hash is not None and message_hash not in {m.hash for m in messages}:
                raise not_in_this_chat()
            self._submit(Write(chat_changes=(change_chat(chat_id, view_hash=message_hash),)))

    def follow_summary(self, chat_id: str, *, summary_id: str, rest: Sequence[str]) -> None:
        """Begin the view of a fork at its summary, and put the messages `rest` behind that.

        `summary_id` is the turn that wrote the summary. Raises ChatError when there is none.
        """
        with self._intake:
            turn = self._store.turn(summary_id)
            chat = self._store.chat(chat_id)
            if turn.tip_hash is None or turn.tip_hash != chat.tip_hash or self._is_empty(turn):
                raise ChatError("There is no summary to go on from.", hint="Ask for it again.")
            messages, turns = self._copies(turn.tip_hash, chat, rest)
            tip_hash = messages[-1].hash if messages else turn.tip_hash
            change = change_chat(chat_id, view_hash=turn.parent_hash, tip_hash=tip_hash)
            self._submit(Write(messages=messages, turns=turns, chat_changes=(change,)))

    def _copies(
        self, tip_hash: str, chat: Chat, rest: Sequence[str]
    ) -> tuple[Sequence[Message], Sequence[Turn]]:
        """Return messages of the chat that this one was forked from as they follow `tip_hash`."""
        if not rest or chat.forked_from is None:
            return (), ()
        origin = self._store.conversation(chat.forked_from, up_to=rest[-1])
        made_by = {turn.tip_hash: turn for turn in origin.turns}
        messages: list[Message] = []
        turns: list[Turn] = []
        for old in origin.messages[-len(rest) :]:
            parent_hash = messages[-1].hash if messages else tip_hash
            messages.append(make_message(parent_hash, old.role, old.text))
            if (made := made_by.get(old.hash)) is not None:
                copy = replace(made, id=new_id(), chat_id=chat.id, parent_hash=parent_hash)
                turns.append(replace(copy, tip_hash=messages[-1].hash))
        return messages, turns

    def _is_empty(self, turn: Turn) -> bool:
        return not self._store.path_to(turn.tip_hash)[-1].text.strip()

    def _count(self, chat_id: str) -> ContextRoom:
        whole = self._store.conversation(chat_id)
        turn, answer = self._last_turn(whole)
        model = self._model(whole.chat.model)
        limit = self.limit_of(model)
        options = from_options(turn.options)
        # no way on helps a question that never fits, and others wait for the worker
        refuse_endless([PromptMessage(m.role, m.text) for m in whole.messages[-2:]], model)
        asked = self._store.conversation(chat_id, up_to=turn.parent_hash)
        return count_room(
            asked,
            replace(turn, partial_text=answer.text),
            model,
            context_length=limit,
            room=answer_room(limit, options.max_tokens),
        )

    def _last_turn(self, conversation: Conversation) -> tuple[Turn, Message]:
        chat = conversation.chat
        if self._live.of_chat(chat.id):
            raise answer_is_running()
        made = [turn for turn in conversation.turns if turn.tip_hash == chat.tip_hash]
        if not made or chat.tip_hash is None:
            raise ChatError("Nothing has been asked here yet.", hint="Write something first.")
        return made[-1], conversation.messages[-1]

    def _model(self, choice: str) -> ChatModel:
        return opened_model(self._models.find(choice))
