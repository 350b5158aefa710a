"""The token ids of recent answers: clients send texts back, which may be cut into others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from localpaged.prompt import ChatModel, PromptMessage

MAX_ANSWERS = 512
MAX_TOKENS = 1 << 20


class RecentAnswers:
    """Keeps the ids of the answers used last, by model and text. Any thread.

    Invariant: at most MAX_ANSWERS answers of MAX_TOKENS together. What is kept says nothing that
    its text, which has to be sent to find it, does not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()
        self._num_tokens = 0

    def keep(self, model: ChatModel, text: str, ids: Sequence[int]) -> None:
        """Remember what an answer was made of."""
        key = (model.fingerprint, text)
        with self._lock:
            self._num_tokens += len(ids) - len(self._ids.pop(key, ()))
            self._ids[key] = tuple(ids)
            while len(self._ids) > MAX_ANSWERS or self._num_tokens > MAX_TOKENS:
                _, oldest = self._ids.popitem(last=False)
                self._num_tokens -= len(oldest)

    def known(self, model: ChatModel, messages: Sequence[PromptMessage]) -> list[PromptMessage]:
        """Return the messages, answers that are remembered with the ids they were made of."""
        return [self._known(model, message) for message in messages]

    def _known(self, model: ChatModel, message: PromptMessage) -> PromptMessage:
        if message.role != "assistant" or not message.text:
            return message
        key = (model.fingerprint, message.text)
        with self._lock:
            ids = self._ids.get(key)
            if ids is not None:
                self._ids.move_to_end(key)
        return message if ids is None else replace(message, token_ids=ids)
