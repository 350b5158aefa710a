"""Tools in a prompt: how a model's template has them, and as text where it knows none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from localpaged.models.tokenizer_data import TokenizerData
from localpaged.prompt import PromptMessage, ToolCall, ToolStyle

TEMPLATELESS_STYLE: ToolStyle = "hermes"
"""How calls are written by models whose template knows no tools: as they are told to."""

# What a template writes around calls, the surest first.
_MARKS: tuple[tuple[ToolStyle, str], ...] = (
    ("mistral", "[TOOL_CALLS]"),
    ("hermes", "<tool_call>"),
    ("llama3", "<|python_tag|>"),
    ("llama3", '{"name": function name, "parameters":'),
)
# Qwen3-Coder and its like write calls as XML, which nobody here reads.
_UNREADABLE = ("<function=",)
_CALL_TOKENS = frozenset(
    ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<tool_call>", "</tool_call>", "<|python_tag|>")
)
_INSTRUCTIONS = """\
You may call one or more functions to assist with the user query.
You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>
For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""

T = TypeVar("T")


def style_of(data: TokenizerData) -> ToolStyle | None:
    """Return how the model's template writes calls; None when it knows none that we can read."""
    template = data.chat_template or ""
    if "tools" not in template or any(mark in template for mark in _UNREADABLE):
        return None
    return next((style for style, mark in _MARKS if mark in template), None)


def with_visible_calls(data: TokenizerData, style: ToolStyle | None) -> TokenizerData:
    """Return `data` with the tokens around calls having a text, where they were hidden ones.

    Without their text nobody could tell a call from words.
    """
    if style is None:
        return data
    controls = tuple(
        replace(control, is_hidden=False) if control.text in _CALL_TOKENS else control
        for control in data.controls
    )
    return replace(data, controls=controls)


def template_message(message: PromptMessage, content: str) -> dict[str, Any]:
    """Return a message as templates want it, with `content` for its text."""
    told: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        told["tool_calls"] = [_template_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        told["tool_call_id"] = message.tool_call_id
    return told


def written_out(
    messages: Sequence[PromptMessage], tools: Sequence[Mapping[str, Any]]
) -> Sequence[PromptMessage]:
    """Return messages that say all of tools, calls and results in their texts."""
    told: list[PromptMessage] = []
    is_behind_result = False
    for message in messages:
        if message.role == "tool":
            text = f"<tool_response>\n{message.text}\n</tool_response>"
            if is_behind_result:  # one turn of the user's, as templates want turns to alternate
                told[-1] = replace(told[-1], text=f"{told[-1].text}\n{text}")
            else:
                told.append(PromptMessage("user", text))
        elif message.tool_calls:
            parts = [message.text, *map(_written_call, message.tool_calls)]
            told.append(PromptMessage(message.role, "\n".join(part for part in parts if part)))
        else:
            told.append(message)
        is_behind_result = message.role == "tool"
    if not tools:
        return told
    signatures = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    instructions = _INSTRUCTIONS.format(signatures=signatures)
    if told and told[0].role == "system":
        first = replace(told[0], text=f"{told[0].text}\n\n{instructions}".lstrip("\n"))
        return [first, *told[1:]]
    return [PromptMessage("system", instructions), *told]


def each_text(
    messages: Iterable[PromptMessage], tools: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield every text that comes from outside."""
    for message in messages:
        yield message.text
        yield from _texts(template_message(message, ""))
    yield from _texts(tools)


def with_each_text(value: T, change: Callable[[str], str], *, but: str = "") -> T:
    """Return JSON data with every text changed, keys included, save that of the key `but`."""
    changed: Any
    match value:
        case str():
            changed = change(value)
        case Mapping():
            changed = {
                change(str(key)): each if but and key == but else with_each_text(each, change)
                for key, each in value.items()
            }
        case list() | tuple():
            changed = [with_each_text(each, change) for each in value]
        case _:
            changed = value
    return changed  # type: ignore[no-any-return]


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for key, each in value.items():
                yield str(key)
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)


def _template_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def _written_call(call: ToolCall) -> str:
    written = json.dumps({"name": call.name, "arguments": _arguments(call)}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


def _arguments(call: ToolCall) -> Any:
    """Return a call's arguments as data: templates write them as JSON themselves."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
