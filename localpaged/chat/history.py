"""The history as a whole: searched, listed by scope, put away and taken out again. No widgets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from localpaged.chat.branches import BranchTree
from localpaged.chat.errors import STOP_OR_WAIT
from localpaged.chat.live import LiveTurns
from localpaged.chat.portable.exporting import export_to
from localpaged.chat.portable.file_format import FileFormat
from localpaged.chat.portable.importing import import_file
from localpaged.chat.portable.report import ImportProgress, ImportReport
from localpaged.errors import ChatError
from localpaged.store.rows import Chat
from localpaged.store.scope import ChatScope
from localpaged.store.search import SearchResult
from localpaged.store.store import Store
from localpaged.store.writes import Write, change_chat


class ChatHistory:
    """What of the chat service is about chats that need not be open. Any thread.

    `search` may take a while in a long history: it is not for the UI's thread.
    """

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        intake: threading.Lock,
        submit: Callable[[Write], Future[None]],
    ) -> None:
        """`intake` lets one caller at a time decide about a chat's tip."""
        self.store = store
        self._live = live
        self._intake = intake
        self._submit = submit

    def search(self, query: str, *, scope: ChatScope = ChatScope.ALL) -> SearchResult:
        """Look for a text in titles, questions and answers; see Store."""
        return self.store.search(query, scope=scope)

    def chats(self, scope: ChatScope = ChatScope.ALL) -> Sequence[Chat]:
        """Return the chats of a scope, the latest used first."""
        return self.store.chats(scope)

    def archive(self, chat_id: str) -> Chat:
        """Take a chat off the list; it is still found, and listed again when it is written in.

        Raises NotInHistory, and ChatError while the chat is answering.
        """
        with self._intake:
            chat = self.store.chat(chat_id)
            if self._live.of_chat(chat_id):
                raise ChatError(
                    f"The chat “{chat.title}” is still answering.",
                    hint=STOP_OR_WAIT,
                )
            return self._set_archived(chat, time.time())

    def unarchive(self, chat_id: str) -> Chat:
        """Put an archived chat on the list again. Raises NotInHistory."""
        return self._set_archived(self.store.chat(chat_id), None)

    def export(self, chat_id: str, kind: str, path: Path) -> Path:
        """Write a chat as `md` or `json` into a new file, and return it; not for the UI's thread.

        Raises BadChatFile and NotInHistory.
        """
        return export_to(self.store, [chat_id], FileFormat(kind), path)

    def import_file(
        self,
        path: Path,
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        told: Callable[[ImportProgress], object] = lambda _: None,
    ) -> ImportReport:
        """Add the chats of a file; not for the UI's thread. Raises BadChatFile and StoreError."""
        return import_file(
            self.store,
            path,
            is_answering=lambda chat_id: bool(self._live.of_chat(chat_id)),
            may_go_on=may_go_on,
            told=told,
        )

    def show(self, chat_id: str, message_hash: str) -> Chat:
        """Let the chat lead through a message: its tip moves to what was said last below it.

        Nothing is done when it does already. Raises NotInHistory, and ChatError for a message of
        another chat, or while the chat is answering.
        """
        with self._intake:
            conversation, lineage = self.store.chat_tree(chat_id)
            chat = conversation.chat
            if message_hash in {message.hash for message in conversation.messages}:
                return chat
            if self._live.of_chat(chat_id) or self.store.is_answered_elsewhere(chat_id):
                raise ChatError(
                    "That message is on another branch, and the chat is still answering.",
                    hint=STOP_OR_WAIT,
                )
            try:
                tip_hash = BranchTree(lineage).newest_leaf(message_hash)
            except KeyError as error:
                raise ChatError("The message does not belong to this chat any more.") from error
            change = change_chat(chat_id, tip_hash=tip_hash)
            self._submit(Write(chat_changes=(change,), claimed_chat=chat_id))
            return replace(chat, tip_hash=tip_hash)

    def _set_archived(self, chat: Chat, archived_at: float | None) -> Chat:
        self._submit(Write(chat_changes=(change_chat(chat.id, archived_at=archived_at),)))
        return replace(chat, archived_at=archived_at)
