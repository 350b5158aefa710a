"""What a chat needs of a model: its prompt format. Implemented in `models`, faked in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message as the chat template sees it. `role` is system, user or assistant.

    `token_ids` are the ids an answer was made of, by the model that renders it. They stand for
    its text wherever the template keeps that unchanged; ids that do not spell the text are left
    out.
    """

    role: str
    text: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """What a model writes before and after it thinks aloud, as `<think>` and `</think>`."""

    begin: str
    end: str


class ChatModel(Protocol):
    """Renders messages to token ids. Thread-safe; no torch."""

    @property
    def name(self) -> str:
        """The name the model is listed under."""

    @property
    def fingerprint(self) -> str:
        """Tells models apart whose token ids and KV must never be mixed."""

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""

    @property
    def reasoning(self) -> ReasoningMarks | None:
        """The marks around what the model thinks; None for a model that does not."""

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, ending where the answer begins.

        With `continue_last` the last message, an assistant's, is left open to be continued.
        Control tokens written in a message's text stay text: they never become control ids.
        """

    def pieces(self, ids: Sequence[int]) -> Sequence[bytes]:
        """Return what each id of an answer adds to its text, in UTF-8; b"" for control tokens.

        A piece may be part of a character.
        """

    def spell(self, ids: Sequence[int]) -> str:
        """Return what a person reads in these ids: their text, control tokens by their names."""
