"""Deficit round-robin: prompt tokens are shared out between chats, not between requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

ChatKey = str
Serve = Callable[[ChatKey, int], int]
"""Give a chat up to so many tokens; returns how many it took, 0 if it can use none now."""

QUANTUM_TOKENS = 32


class FairShare:
    """Who may compute prompt tokens next. Engine thread only.

    Deficit round-robin (Shreedhar and Varghese, SIGCOMM 1995): a chat at the front may take its
    quantum times its weight, over several steps if need be, then goes to the back. What it does
    not need is not saved up.
    """

    def __init__(self, *, quantum_tokens: int = QUANTUM_TOKENS) -> None:
        self._quantum_tokens = quantum_tokens
        self._turns: deque[ChatKey] = deque()
        self._credit_tokens: dict[ChatKey, int] = {}

    def share_out(
        self, budget_tokens: int, weights: Mapping[ChatKey, int], serve: Serve, *, first: ChatKey
    ) -> None:
        """Hand out up to `budget_tokens` among the chats of `weights`, all of which want some.

        A chat that comes new to the round waits at its end, `first` at its beginning.
        """
        self._meet(weights, first)
        blocked: set[ChatKey] = set()
        while budget_tokens > 0 and len(blocked) < len(self._turns):
            chat = self._turns[0]
            if chat in blocked:
                self._turns.rotate(-1)
                continue
            if self._credit_tokens[chat] <= 0:
                self._credit_tokens[chat] += self._quantum_tokens * weights[chat]
            taken = serve(chat, min(budget_tokens, self._credit_tokens[chat]))
            budget_tokens -= taken
            self._credit_tokens[chat] -= taken
            if taken == 0:
                blocked.add(chat)
            if taken == 0 or self._credit_tokens[chat] <= 0:
                self._turns.rotate(-1)

    def order(self) -> tuple[ChatKey, ...]:
        """Return the chats in the order of their turns."""
        return tuple(self._turns)

    def _meet(self, weights: Mapping[ChatKey, int], first: ChatKey) -> None:
        for chat in [chat for chat in self._turns if chat not in weights]:
            self._turns.remove(chat)
            del self._credit_tokens[chat]
        for chat in weights:
            if chat not in self._credit_tokens:
                self._credit_tokens[chat] = 0
                if chat == first:
                    self._turns.appendleft(chat)
                else:
                    self._turns.append(chat)
