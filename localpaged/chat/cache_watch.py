"""Remembers what was computed for each chat, and explains what of the next prompt was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localpaged.chat.cache_cause import Computed, explain, num_common
from localpaged.chat.cache_report import CacheReport
from localpaged.chat.live import LiveTurn
from localpaged.chat.view import sent
from localpaged.engine.events import PrefillEvent, ReadyEvent
from localpaged.prompt import ChatModel
from localpaged.store.rows import SentPrompt, Turn
from localpaged.store.sent import SentSequence
from localpaged.store.store import Store
from localpaged.store.token_ids import ID_BYTES, pack, unpack

REMEMBERED_CHATS = 64
REMEMBERED_BRANCHES = 4  # of a chat: who edits goes to and fro


class CacheWatch:
    """What the engine read and wrote for each chat. The chat worker's thread only.

    Invariant: what is remembered of a chat is what the store will have, the latest last, and none
    of it begins another. The store is only asked for the latest, when a chat is new to this
    process or was forgotten for others. What one model computed is nothing to another, even where
    both read the same ids.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number_formats: dict[str, str] = {}
        self._known: dict[str, tuple[SentSequence, ...]] = {}

    def engine_ready(self, event: ReadyEvent) -> None:
        """Note what the engine computes with for a model."""
        self._number_formats[event.model_name] = f"{event.dtype} {event.device}"

    def explain(self, live: LiveTurn, event: PrefillEvent, model: ChatModel) -> CacheReport:
        """Return why so much of a turn's prompt was found as the engine says, and not more."""
        assert live.prompt is not None, "a turn without a prompt was read"
        namespace = self._namespace(live.turn)
        nearest = self._nearest(live.turn.chat_id, live.prompt.ids, namespace=namespace)
        report = explain(
            live.prompt.ids,
            live.prompt.messages,
            matched_tokens=event.cached_tokens,
            before=None if nearest is None else self._computed(nearest, live.turn.chat_id),
            namespace=namespace,
            model=model,
        )
        return replace(
            report, restored_tokens=event.restored_tokens, restore_note=event.restore_note
        )

    def ended(self, live: LiveTurn, turn: Turn) -> Sequence[SentPrompt]:
        """Remember what was computed for a turn; return it as it should be saved with `turn`."""
        if live.prompt is None or live.prefill is None or not live.prompt.ids:
            return ()  # nothing was read, or by an endpoint
        new_ids = live.new_ids
        # The last token that was sampled was never computed.
        num_computed = (
            len(live.prompt.ids) + len(new_ids) - 1 if new_ids else live.prefill.computed_tokens
        )
        is_answer_known = turn.token_ids is not None
        num_begun = live.prompt.num_begun if is_answer_known else 0
        prompt_ids = live.prompt.ids[: len(live.prompt.ids) - (num_begun or 0)]
        ids = (*live.prompt.ids, *new_ids) if is_answer_known else live.prompt.ids
        sent = replace(
            self._as_difference(turn, prompt_ids),
            num_computed=min(num_computed, len(ids)),
            namespace=self._namespace(turn),
            run_id=self._store.run_id,
        )
        newest = SentSequence(turn, sent, pack(ids))
        others = [k for k in self._known_of(turn.chat_id) if not _begins(k, newest)]
        self._remember(turn.chat_id, (*others[1 - REMEMBERED_BRANCHES :], newest))
        return (sent,)

    def _as_difference(self, turn: Turn, prompt_ids: tuple[int, ...]) -> SentPrompt:
        whole = SentPrompt(turn.id, None, 0, pack(prompt_ids), 0, "", "")
        for known in self._known_of(turn.chat_id):
            if known.turn.id == turn.id:
                # A continued answer: its prompt is what it was, or it stands for itself.
                is_same = unpack(known.ids)[: _answer_start(known)] == prompt_ids
                return known.prompt if is_same else whole
        base = self._nearest(turn.chat_id, prompt_ids)
        if base is None or base.turn.chat_id != turn.chat_id:
            return whole
        num_shared = num_common(unpack(base.ids), prompt_ids)
        return replace(
            whole,
            base_turn_id=base.turn.id if num_shared else None,
            num_shared=num_shared,
            tail_ids=pack(prompt_ids[num_shared:]),
        )

    def _computed(self, last: SentSequence, chat_id: str) -> Computed:
        path = self._store.path_to(last.turn.tip_hash or last.turn.parent_hash)
        return Computed(
            ids=unpack(last.ids),
            num_computed=last.prompt.num_computed,
            answer_start=None if last.turn.token_ids is None else _answer_start(last),
            messages=sent(self._store.chat(chat_id), path),
            path=path,
            namespace=last.prompt.namespace,
            is_this_run=last.prompt.run_id == self._store.run_id,
        )

    def _namespace(self, turn: Turn) -> str:
        number_format = self._number_formats.get(turn.model, "")
        return f"{turn.model} {turn.model_fingerprint} {number_format}"

    def _nearest(
        self, chat_id: str, ids: tuple[int, ...], *, namespace: str = ""
    ) -> SentSequence | None:
        """Return what has most in common with `ids`, of several the latest.

        What was computed in `namespace` is nearer than anything else.
        """

        def nearness(known: SentSequence) -> tuple[bool, int]:
            return known.prompt.namespace == namespace, num_common(unpack(known.ids), ids)

        return max(reversed(self._known_of(chat_id)), key=nearness, default=None)

    def _known_of(self, chat_id: str) -> tuple[SentSequence, ...]:
        if chat_id not in self._known:
            last = self._store.last_sent(chat_id)
            self._remember(chat_id, () if last is None else (last,))
        return self._known[chat_id]

    def _remember(self, chat_id: str, known: tuple[SentSequence, ...]) -> None:
        self._known.pop(chat_id, None)
        self._known[chat_id] = known
        if len(self._known) > REMEMBERED_CHATS:
            del self._known[next(iter(self._known))]


def _begins(older: SentSequence, newer: SentSequence) -> bool:
    is_same_memory = older.prompt.namespace == newer.prompt.namespace
    return is_same_memory and newer.ids.startswith(older.ids)


def _answer_start(sent: SentSequence) -> int:
    return (len(sent.ids) - len(sent.turn.token_ids or b"")) // ID_BYTES
