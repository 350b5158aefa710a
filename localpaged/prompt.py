"""What a chat needs of a model: its prompt format. Implemented in `models`, faked in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

ToolStyle = Literal["hermes", "llama3", "mistral"]
"""How an answer writes that a tool is to be called, by the family of models it comes from."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that an answer wants called; `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message as the chat template sees it. `role` is system, user, assistant or tool.

    `token_ids` are the ids an answer was made of, by the model that renders it. They stand for
    its text wherever the template keeps that unchanged; ids that do not spell the text are left
    out. `tool_calls` are an answer's; a tool's message has the `tool_call_id` it replies to.
    """

    role: str
    text: str
    token_ids: tuple[int, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


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


@runtime_checkable
class ToolChatModel(ChatModel, Protocol):
    """A model that can also be told of tools, and asked to go on with a raw text."""

    @property
    def tool_style(self) -> ToolStyle:
        """How its answers write calls."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a raw text, with a begin token if the tokenizer adds one."""

    def render(
        self,
        messages: Sequence[PromptMessage],
        *,
        continue_last: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, with tools as OpenAI describes them.

        A template that knows no tools gets them, and their calls and results, as text.
        """
