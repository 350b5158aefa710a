"""PromptShare: which prompts a step reads, and how much of each. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from localpaged.engine.fair_share import ChatKey, FairShare
from localpaged.engine.kv_manager import KVManager
from localpaged.engine.pace import Pace
from localpaged.engine.sequence import Sequence, Status
from localpaged.engine.step_plan import SequenceId

FOREGROUND_WEIGHT = 4

MOST_LOOKED_AT = 16
"""Waiting prompts a step looks at to find short ones: each look walks the prefix tree once."""

Grants = dict[SequenceId, tuple[Sequence, int]]
Admit = Callable[[Sequence], bool]
"""Let a waiting sequence in, if there is room for it now."""


class PromptShare:
    """Divides the prompt tokens of a step. Engine thread only.

    Chats share fairly what fits into the stretch that streams allow. Beyond that, up to the stall
    that nobody notices, short prompts are read, the shortest first and only to their end: what is
    read of a prompt helps nobody before the last of its tokens.
    """

    def __init__(self, kv: KVManager, pace: Pace) -> None:
        self._kv = kv
        self._pace = pace
        self._fair_share = FairShare()

    def order(self) -> tuple[ChatKey, ...]:
        """Return the chats in the order of their turns."""
        return self._fair_share.order()

    def share_out(
        self,
        reading: list[Sequence],
        waiting: list[Sequence],
        *,
        room_tokens: int,
        num_decodes: int,
        foreground: ChatKey,
        admit: Admit,
    ) -> list[tuple[Sequence, int]]:
        """Return who reads how many tokens of the step, `room_tokens` at most, besides decodes.

        `waiting` are those that may be let in, which happens on the way.
        """
        grants: Grants = {}
        budget = room_tokens
        if num_decodes:
            context = max((s.num_computed for s in reading), default=0)
            allowed = self._pace.prompt_tokens(num_decodes=num_decodes, context=context)
            budget = min(budget, allowed)
        self._share_fairly([*reading, *waiting], grants, budget, foreground, admit)
        if num_decodes:
            room = room_tokens - sum(granted for _, granted in grants.values())
            unread = [*reading, *waiting[:MOST_LOOKED_AT]]
            self._finish_short(unread, grants, room, num_decodes, admit)
        return list(grants.values())

    def _share_fairly(
        self,
        wanting: Iterable[Sequence],
        grants: Grants,
        budget: int,
        foreground: ChatKey,
        admit: Admit,
    ) -> None:
        backlog: dict[ChatKey, list[Sequence]] = {}
        for sequence in wanting:
            backlog.setdefault(sequence.chat, []).append(sequence)

        def serve(chat: ChatKey, num_tokens: int) -> int:
            for sequence in backlog[chat]:
                if sequence.status is Status.WAITING and not admit(sequence):
                    continue
                taken = min(num_tokens, _num_unread(sequence, grants))
                if taken > 0:
                    _grant(sequence, taken, grants)
                    return taken
            return 0

        weights = {chat: FOREGROUND_WEIGHT if chat == foreground else 1 for chat in backlog}
        self._fair_share.share_out(budget, weights, serve, first=foreground)

    def _finish_short(
        self,
        unread: Iterable[Sequence],
        grants: Grants,
        room: int,
        num_decodes: int,
        admit: Admit,
    ) -> None:
        """Read short prompts to their end, as many as makes their first tokens come earliest.

        Reading one more lets all in this step wait for it, and spares those behind a part of the
        next step's decoding: over `R` seconds of prompts in all and `d` seconds of decoding the
        mean is smallest with sqrt(d · R) seconds a step.
        """
        decode_s = self._pace.decode_s(num_decodes)
        bound_s = self._pace.longest_reading_s(num_decodes)
        if decode_s is None or bound_s is None:
            return
        spent_s = sum(self._cost_s(s, granted) for s, granted in grants.values())
        costs = [(self._cost_s(s, self._num_left(s, grants)), s) for s in unread]
        short = [(cost_s, s) for cost_s, s in costs if 0 < cost_s <= bound_s]
        whole_s = spent_s + sum(cost_s for cost_s, _ in short)
        best_s = min(bound_s, math.sqrt(decode_s * whole_s))
        has_finished = any(not _num_unread(s, grants) for s, _ in grants.values())
        for cost_s, sequence in sorted(short, key=lambda one: one[0]):
            if spent_s + cost_s > (best_s if has_finished else bound_s):
                return
            if self._num_left(sequence, grants) > room:
                continue
            if sequence.status is Status.WAITING and not admit(sequence):
                continue
            # Letting it in may have cost it what was cached; who is let in reads something.
            num_tokens = min(_num_unread(sequence, grants), room)
            _grant(sequence, num_tokens, grants)
            room -= num_tokens
            spent_s += self._cost_s(sequence, num_tokens)
            has_finished = True

    def _cost_s(self, sequence: Sequence, num_tokens: int) -> float:
        token_s = self._pace.token_s_behind(self._num_known(sequence))
        return num_tokens * (token_s or 0.0)

    def _num_left(self, sequence: Sequence, grants: Grants) -> int:
        _, granted = grants.get(sequence.id, (sequence, 0))
        return len(sequence.tokens) - self._num_known(sequence) - granted

    def _num_known(self, sequence: Sequence) -> int:
        """Tokens that are computed or, before it was let in, that are cached in whole blocks."""
        if sequence.status is not Status.WAITING:
            return sequence.num_computed
        keys = sequence.keys(sequence.num_reusable)
        return len(self._kv.tree.find(keys)) * self._kv.block_size


def _num_unread(sequence: Sequence, grants: Grants) -> int:
    _, granted = grants.get(sequence.id, (sequence, 0))
    return sequence.num_todo - granted


def _grant(sequence: Sequence, num_tokens: int, grants: Grants) -> None:
    _, granted = grants.get(sequence.id, (sequence, 0))
    grants[sequence.id] = (sequence, granted + num_tokens)
