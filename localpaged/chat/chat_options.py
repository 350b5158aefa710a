"""What a chat has of its own: sampling, system text, model. The rest are the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import Any

from localpaged.chat.sampling import from_options
from localpaged.chat.sampling_options import pack_overrides, unpack_overrides, with_overrides
from localpaged.engine.params import SamplingParams
from localpaged.store.rows import Chat, Turn
from localpaged.store.writes import ChatChange, change_chat

Overrides = Mapping[str, Any]
"""Values by the names of sampling_options; what is not among them is the default."""


def sampling_of(chat: Chat, defaults: SamplingParams) -> SamplingParams:
    """Return what the chat's next answer is sampled with."""
    return with_overrides(defaults, unpack_overrides(chat.options))


def sampling_to_continue(chat: Chat, turn: Turn) -> SamplingParams:
    """Return what the answer began with, but for its seed and what the chat has of its own."""
    return with_overrides(from_options(turn.options), unpack_overrides(chat.options))


def configured(
    chat_id: str,
    *,
    defaults: SamplingParams,
    options: Overrides | None,
    system: str | EllipsisType | None,
    model: str | None,
) -> ChatChange:
    """Return the change of what is given. Raises BadParameter for options that cannot be."""
    change = change_chat(chat_id)
    columns = list(change.columns)
    if options is not None:
        with_overrides(defaults, options)
        columns += change_chat(chat_id, options=pack_overrides(options)).columns
    if not isinstance(system, EllipsisType):
        columns += change_chat(chat_id, system=system).columns
    if model is not None:
        columns += change_chat(chat_id, model=model).columns
    return ChatChange(chat_id, tuple(columns))
