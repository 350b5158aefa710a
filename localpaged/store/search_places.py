"""In which chats messages are, and whether on the branch that a chat shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlite_utils import Database

from localpaged.store.rows import Chat

_BY_TURNS = """
SELECT parent_hash AS hash, chat_id FROM turns
WHERE parent_hash IN (SELECT value FROM json_each(:hashes))
UNION
SELECT tip_hash, chat_id FROM turns WHERE tip_hash IN (SELECT value FROM json_each(:hashes))
"""
_BY_TIPS = """
WITH RECURSIVE below(top, hash) AS (
    SELECT value, value FROM json_each(:hashes)
    UNION
    SELECT below.top, messages.hash FROM below JOIN messages ON messages.parent_hash = below.hash
)
SELECT below.top, chats.id FROM below JOIN chats ON chats.tip_hash = below.hash
"""
_ON_PATH = """
WITH RECURSIVE path(hash, parent_hash) AS (
    SELECT hash, parent_hash FROM messages WHERE hash = ?
    UNION ALL
    SELECT messages.hash, messages.parent_hash
    FROM path JOIN messages ON messages.hash = path.parent_hash
)
SELECT hash FROM path WHERE hash IN (SELECT value FROM json_each(?))
"""


class ChatsOfMessages:
    """Answers for one reading of the history. `wanted` are the chats that count.

    A message belongs to the chats that wrote it, as their turns tell. Forks have it, too, but are
    told only when no chat that wrote it counts; so forking a chat does not multiply its hits, and
    comparing does not either.

    Invariant: `_on_path` has, by a tip, which of the messages `_hashes` are above it.
    """

    def __init__(self, db: Database, chats: Mapping[str, Chat], wanted: Sequence[Chat]) -> None:
        self._db = db
        self._chats = chats
        self.wanted = wanted
        self._wanted_ids = {chat.id for chat in wanted}
        # what an answer of a compare did not write is found where it was written, or kept
        self._heirs = {chat.id for chat in wanted if not chat.is_hidden}
        self._forks: dict[str, list[str]] = defaultdict(list)
        for chat in chats.values():
            if chat.forked_from is not None:
                self._forks[chat.forked_from].append(chat.id)
        self._hashes = "[]"
        self._on_path: dict[str, frozenset[str]] = {}

    def of(self, hashes: Sequence[str]) -> dict[str, Sequence[tuple[Chat, bool]]]:
        """Return for each message its chats that count, and whether it is above their tips."""
        writers: dict[str, list[str]] = defaultdict(list)
        self._hashes = json.dumps(list(hashes))
        self._on_path.clear()
        for message_hash, chat_id in self._db.execute(_BY_TURNS, {"hashes": self._hashes}):
            writers[message_hash].append(chat_id)
        told: dict[str, Sequence[tuple[Chat, bool]]] = {
            message_hash: self._told(message_hash, ids) for message_hash, ids in writers.items()
        }
        if orphans := [message_hash for message_hash in hashes if message_hash not in writers]:
            self._by_tips(orphans, told)
        return told

    def _told(self, message_hash: str, writers: Iterable[str]) -> list[tuple[Chat, bool]]:
        wanted = [self._chats[i] for i in writers if i in self._wanted_ids]
        if wanted:
            found = [(chat, self._is_above_tip(message_hash, chat)) for chat in wanted]
            found.sort(key=lambda pair: (pair[1], pair[0].updated_at), reverse=True)
            # the prompt of a compare is in all its answers
            return [pair for pair in found if not pair[0].is_hidden] or found[:1]
        for chat in self._all_forks(writers):
            if self._is_above_tip(message_hash, chat):
                return [(chat, True)]
        return []

    def _by_tips(self, hashes: Sequence[str], told: dict[str, Sequence[tuple[Chat, bool]]]) -> None:
        """Whose turns are gone with the chat that wrote it: look below the message for tips."""
        rows = self._db.execute(_BY_TIPS, {"hashes": json.dumps(list(hashes))})
        for message_hash, chat_id in rows:
            if chat_id in self._heirs and not told.get(message_hash):
                told[message_hash] = [(self._chats[chat_id], True)]

    def _all_forks(self, origins: Iterable[str]) -> Iterable[Chat]:
        """The chats that count among the forks of these chats, and the forks of those."""
        waiting, seen = list(origins), set(origins)
        while waiting:
            for fork_id in self._forks[waiting.pop()]:
                if fork_id not in seen:
                    seen.add(fork_id)
                    waiting.append(fork_id)
                    if fork_id in self._heirs:
                        yield self._chats[fork_id]

    def _is_above_tip(self, message_hash: str, chat: Chat) -> bool:
        tip = chat.tip_hash
        if tip is None:
            return False
        if tip not in self._on_path:
            rows = self._db.execute(_ON_PATH, [tip, self._hashes])
            self._on_path[tip] = frozenset(row[0] for row in rows)
        return message_hash in self._on_path[tip]
