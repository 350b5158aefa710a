"""Going back in a chat: another answer, another question, another version, a chat of its own.

Nothing is changed in place and nothing is taken away: a chat's tip moves to another way of the
message tree, and the ways it has been stay reachable as the siblings of their lines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from localpaged.chat.branches import BranchTree
from localpaged.chat.errors import (
    answer_is_running,
    chat_is_deleted,
    not_in_this_chat,
    nothing_to_send,
)
from localpaged.chat.live import LiveTurn, LiveTurns, open_turn
from localpaged.chat.runner import TurnRunner
from localpaged.chat.sampling import from_options
from localpaged.chat.transcript import WAITING_PREFIX
from localpaged.chat.view import SYSTEM_PREFIX
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError
from localpaged.store.lineage import Lineage, Place
from localpaged.store.rows import Chat, Message, Turn
from localpaged.store.store import Store
from localpaged.store.text import storable
from localpaged.store.tree import make_message
from localpaged.store.writes import ChatColumns, Write, change_chat


class Branching:
    """What of the chat service moves tips of the tree. Any thread; one caller decides at a time.

    Invariant: an answer is asked behind the one that runs, which is stopped, and before every
    message that waits for its place: those follow the new answer.
    """

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        runner: TurnRunner,
        intake: threading.Lock,
        open_chat: Callable[[str], Chat],
        submit: Callable[[Write], Future[None]],
        sampling_of: Callable[[Chat], SamplingParams],
    ) -> None:
        """`open_chat` raises for a chat that cannot be answered; `intake` lets one caller in."""
        self._store = store
        self._live = live
        self._runner = runner
        self._intake = intake
        self._open_chat = open_chat
        self._submit = submit
        self._sampling_of = sampling_of

    def regenerate(self, turn_id: str, *, chat_id: str, sampling: SamplingParams | None) -> Turn:
        """Have a question answered once more; see ChatService."""
        with self._intake:
            old = self._store.turn(turn_id)
            chat = self._open_chat(chat_id or old.chat_id)
            if old.question is not None or old.parent_hash is None:
                raise ChatError("That message has not been answered yet.", hint="Wait for it.")
            if chat.id != old.chat_id:
                self._place_of(old.parent_hash, self._lineage(chat))
            if sampling is None:
                # another answer, but one of the same form
                grammar = from_options(old.options).grammar
                sampling = replace(self._sampling_of(chat), grammar=grammar)
            if sampling.seed == old.seed:
                # the same seed would give the same words again
                sampling = replace(sampling, seed=None)
            return self._ask(chat, old.parent_hash, sampling)

    def edit(
        self, chat_id: str, message_hash: str, text: str, *, sampling: SamplingParams | None
    ) -> Turn:
        """Ask something else in a question's place; see ChatService."""
        text = storable(text)
        if not text.strip():
            raise nothing_to_send()
        with self._intake:
            chat = self._open_chat(chat_id)
            place = self._place_of(message_hash, self._lineage(chat))
            if place.role != "user":
                raise ChatError("Only your own messages can be edited.")
            question = make_message(place.parent_hash, "user", text)
            sampling = sampling or self._sampling_of(chat)
            return self._ask(chat, question.hash, sampling, question, message_hash)

    def show_sibling(self, chat_id: str, key: str, step: int) -> str | None:
        """Go to another version of a line; see ChatService."""
        with self._intake:
            chat = self._open_chat(chat_id)
            if self._live.of_chat(chat_id):
                raise answer_is_running()
            tree = BranchTree(self._lineage(chat))
            siblings = tree.siblings(key)
            if siblings is None:
                raise ChatError("There is no other version of this message.")
            place = siblings.place + step
            if not 0 <= place < len(siblings.keys):
                return None
            tip_hash = tree.newest_leaf(siblings.keys[place])
            change = change_chat(chat_id, tip_hash=tip_hash)
            self._submit(Write(chat_changes=(change,), claimed_chat=chat_id))
            return siblings.keys[place]

    def fork(self, chat_id: str, at_hash: str) -> Chat:
        """Make a chat that begins with another's messages; see ChatService."""
        chat = self._store.chat(chat_id)
        if chat.deleted_at is not None:
            raise chat_is_deleted(chat)
        place = self._place_of(at_hash, self._lineage(chat))
        if place.role != "user":
            return self._store.fork(chat_id, at_hash=at_hash)
        # an answer must follow a question: it becomes the first message to send
        text = self._store.path_to(at_hash)[-1].text
        return self._store.fork(chat_id, at_hash=place.parent_hash, draft=text)

    # inside

    def _lineage(self, chat: Chat) -> Lineage:
        return self._store.lineage(chat.id)

    def _place_of(self, message_hash: str, lineage: Lineage) -> Place:
        if message_hash.startswith(SYSTEM_PREFIX):
            raise ChatError("The system text is no message.", hint="Change it in the options.")
        if message_hash.startswith(WAITING_PREFIX):
            raise ChatError("The message has no place in the chat yet.", hint="Wait for it.")
        place = lineage.places.get(message_hash)
        if place is None:
            raise not_in_this_chat()
        return place

    def _ask(
        self,
        chat: Chat,
        parent_hash: str,
        sampling: SamplingParams,
        question: Message | None = None,
        edited_hash: str = "",
    ) -> Turn:
        running = self._running(chat.id)
        live = open_turn(chat, sampling, parent_hash=parent_hash)
        turn = live.turn
        # a chat that is written in is listed again
        columns = ChatColumns(updated_at=turn.created_at, archived_at=None)
        if running is None:
            columns["tip_hash"] = parent_hash
        if question is not None and chat.view_hash == edited_hash:
            # what the model is not shown stays so
            columns["view_hash"] = question.hash
        write = Write(
            messages=() if question is None else (question,),
            chat_changes=(change_chat(chat.id, **columns),),
            turns=(turn,),
            claimed_chat=chat.id,
        )
        self._live.add(live)
        self._runner.begin(live, self._submit(write), is_next=True)
        if running is not None:
            self._runner.stop(running)
        return turn

    def _running(self, chat_id: str) -> LiveTurn | None:
        """Return the answer that has to make way. Raises ChatError when none can be asked now."""
        open_turns = self._live.of_chat(chat_id)
        begun = [live for live in open_turns if live.turn.question is None]
        if len(begun) > 1:
            raise ChatError("The new answer has not begun yet.", hint="Wait a moment.")
        if open_turns and not begun:
            raise ChatError(
                "The chat's next message waits for its answer.", hint="Wait for it, or stop it."
            )
        return begun[0] if begun else None
