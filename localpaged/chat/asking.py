"""Asking in a chat, and going on with an answer that was cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from localpaged.abilities import Abilities
from localpaged.chat.chat_options import sampling_to_continue
from localpaged.chat.errors import answer_is_running, nothing_to_send
from localpaged.chat.live import LiveTurn, LiveTurns, open_turn
from localpaged.chat.sampling import may_be_guessed, to_options, with_seed
from localpaged.chat.title import auto_title
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.text import storable
from localpaged.store.writes import Write, change_chat


class Asking:
    """What of the chat service puts new turns behind a chat's others. Any thread."""

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        intake: threading.Lock,
        open_chat: Callable[[str], Chat],
        begin: Callable[[LiveTurn, Write], None],
        sampling_of: Callable[[Chat], SamplingParams],
        abilities: Callable[[str], Abilities],
    ) -> None:
        """`open_chat` raises for a chat that cannot be answered; `intake` lets one caller in."""
        self._store = store
        self._live = live
        self._intake = intake
        self._open_chat = open_chat
        self._begin = begin
        self._sampling_of = sampling_of
        self._abilities = abilities

    def send(
        self, chat_id: str, text: str, *, sampling: SamplingParams | None, is_foreground: bool
    ) -> Turn:
        """Save a message and have it answered; see ChatService."""
        text = storable(text)
        if not text.strip():
            raise nothing_to_send()
        with self._intake:
            chat = self._open_chat(chat_id)
            live = open_turn(
                chat,
                sampling or self._sampling_of(chat),
                question=text,
                is_foreground=is_foreground,
            )
            turn = live.turn
            change = change_chat(
                chat_id,
                title=self._title_after(chat, text),
                draft="",
                updated_at=turn.created_at,
                archived_at=None,
            )
            self._begin(
                live, Write(chat_changes=(change,), turns=(turn,), claimed_chat=turn.chat_id)
            )
            return turn

    def continue_turn(self, turn_id: str, *, chat_id: str, sampling: SamplingParams | None) -> Turn:
        """Go on with an answer; see ChatService."""
        with self._intake:
            turn = self._store.turn(turn_id)
            chat = self._open_chat(chat_id or turn.chat_id)
            if turn.chat_id != chat.id:
                turn = replace(turn, id=new_id(), chat_id=chat.id, created_at=time.time())
            text = self._text_to_continue(turn)
            if text and (reason := self._abilities(chat.model).why_not_continue):
                raise ChatError(f"{reason}.", hint="Regenerate it, or ask for the rest.")
            sampling = sampling or sampling_to_continue(chat, turn)
            may_guess = may_be_guessed(sampling)
            sampling = with_seed(sampling)
            turn = replace(
                turn,
                tip_hash=None,
                status=TurnStatus.QUEUED,
                partial_text=text,
                finish_reason=None,
                error=None,
                seed=sampling.seed,
                finished_at=None,
                options=to_options(sampling),
                cache_report=None,
            )
            change = change_chat(
                turn.chat_id,
                tip_hash=turn.parent_hash,
                updated_at=time.time(),
                archived_at=None,
            )
            live = LiveTurn(turn, sampling, is_foreground=True, may_guess=may_guess)
            self._begin(
                live, Write(chat_changes=(change,), turns=(turn,), claimed_chat=turn.chat_id)
            )
            return turn

    def _title_after(self, chat: Chat, text: str) -> str:
        """Return the title of a chat in which `text` is sent; a fork gets its own."""
        if chat.forked_from is None or not chat.title:
            return chat.title or auto_title(text)
        if (
            self._store.lineage(chat.id).turns
            or self._store.chat(chat.forked_from).title != chat.title
        ):
            return chat.title
        return auto_title(text)

    def _text_to_continue(self, turn: Turn) -> str:
        if turn.status.is_open:
            raise answer_is_running()
        if turn.finish_reason == FinishReason.STOP:
            raise ChatError("The answer is complete.", hint="Send another message.")
        conversation = self._store.conversation(turn.chat_id)
        is_last = turn.tip_hash is not None and turn.tip_hash == conversation.chat.tip_hash
        if not is_last or self._live.of_chat(turn.chat_id):
            raise ChatError(
                "Only the last answer of a chat can be continued.",
                hint="Send a message that asks for the rest.",
            )
        return conversation.messages[-1].text
