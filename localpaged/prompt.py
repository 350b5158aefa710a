"""What a chat needs of a model: its prompt format. Implemented in `models`, faked in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message as the chat template sees it. `role` is system, user or assistant."""

    role: str
    text: str


class ChatModel(Protocol):
    """Renders messages to token ids. Thread-safe; no torch."""

    @property
    def name(self) -> str:
        """The name the model is listed under."""

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, ending where the answer begins.

        With `continue_last` the last message, an assistant's, is left open to be continued.
        Control tokens written in a message's text stay text: they never become control ids.
        """
