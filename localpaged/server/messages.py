"""Messages out of a body: roles, texts in one piece or in parts, calls of tools and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from localpaged.prompt import PromptMessage, ToolCall
from localpaged.server.errors import invalid, invalid_type, unsupported
from localpaged.server.fields import Fields

MAX_MESSAGES = 10_000
MAX_PARTS = 1_000
MAX_CALLS = 128
ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_of(fields: Fields) -> tuple[PromptMessage, ...]:
    """Return the messages of a body. Raises ApiError."""
    items = fields.items("messages", most=MAX_MESSAGES)
    if items is None:
        raise fields.missing("messages")
    if not items:
        raise invalid(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            param="messages",
            code="empty_array",
        )
    return tuple(_message(item, f"messages[{place}]") for place, item in enumerate(items))


def _message(item: Any, path: str) -> PromptMessage:
    message = Fields(item, path)
    if not message.has("role"):
        raise message.missing("role")
    role = message.choice("role", ROLES)
    assert role is not None
    calls = _calls(message) if role == "assistant" else ()
    if message.raw("content") is None and not calls:
        raise invalid(
            f"Invalid value for '{message.path_of('content')}': expected a string, got null.",
            param=message.path_of("content"),
            code="invalid_value",
        )
    reply_to = ""
    if role == "tool":
        reply_to = message.needed_text("tool_call_id")
    return PromptMessage(
        # what OpenAI calls the system's role for its newer models
        "system" if role == "developer" else role,
        _content(message),
        tool_calls=calls,
        tool_call_id=reply_to,
    )


def _content(message: Fields) -> str:
    raw = message.raw("content")
    if raw is None or isinstance(raw, str):
        return message.text("content") or ""
    path = message.path_of("content")
    if not isinstance(raw, list):
        raise invalid_type(path, "a string or an array of content parts", raw)
    parts = message.items("content", most=MAX_PARTS) or ()
    return "".join(_part(part, f"{path}[{place}]") for place, part in enumerate(parts))


def _part(item: Any, path: str) -> str:
    part = Fields(item, path)
    kind = part.needed_text("type")
    if kind not in ("text", "refusal"):
        shown = kind if len(kind) <= 40 else f"{kind[:40]}…"
        raise unsupported(
            part.path_of("type"), f"Content parts of type '{shown}' are not supported; 'text' is."
        )
    if part.raw(kind) is None:
        raise part.missing(kind)
    return part.text(kind) or ""


def _calls(message: Fields) -> tuple[ToolCall, ...]:
    items: Sequence[Any] = message.items("tool_calls", most=MAX_CALLS) or ()
    path = message.path_of("tool_calls")
    return tuple(_call(item, f"{path}[{place}]") for place, item in enumerate(items))


def _call(item: Any, path: str) -> ToolCall:
    call = Fields(item, path)
    function = call.object("function")
    if function is None:
        raise call.missing("function")
    arguments: Any = function.raw("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    elif arguments is not None:
        arguments = function.text("arguments")
    return ToolCall(function.needed_text("name"), arguments or "{}", call.text("id") or "")
