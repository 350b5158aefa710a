"""A chat model without a tokenizer: one token a character, so that prompts can be read in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localpaged.prompt import PromptMessage

_CONTROL_BASE = 0x110000  # above every Unicode code point: no text can forge these ids
_ROLE_IDS = {"system": _CONTROL_BASE, "user": _CONTROL_BASE + 1, "assistant": _CONTROL_BASE + 2}
_ROLES = {role_id: role for role, role_id in _ROLE_IDS.items()}
END_ID = _CONTROL_BASE + 3


class FakeChatModel:
    """Implements ChatModel. A message is its role's id, its characters and END_ID."""

    def __init__(self, *, name: str = "fake-model", context_length: int = 8_192) -> None:
        self._name = name
        self._context_length = context_length

    @property
    def name(self) -> str:
        """The name the model is listed under."""
        return self._name

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        return self._context_length

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Return the prompt's ids; `continue_last` leaves the last message open."""
        ids: list[int] = []
        for message in messages:
            ids += [_ROLE_IDS[message.role], *map(ord, message.text), END_ID]
        if continue_last:
            assert messages[-1].role == "assistant", "only an assistant's message is continued"
            return tuple(ids[:-1])
        return (*ids, _ROLE_IDS["assistant"])


def read_prompt(prompt_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Turn rendered ids back into (role, text) pairs; the last one is the answer's opening."""
    pairs: list[tuple[str, str]] = []
    for token_id in prompt_ids:
        if token_id in _ROLES:
            pairs.append((_ROLES[token_id], ""))
        elif token_id != END_ID:
            role, text = pairs[-1]
            pairs[-1] = (role, text + chr(token_id))
    return pairs
