"""Tools of a request: what may be called, what must be, and the grammar that sees to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from localpaged.engine.params import Grammar
from localpaged.prompt import ToolStyle
from localpaged.server.errors import invalid, invalid_type
from localpaged.server.fields import Fields, clean
from localpaged.server.sampling import grammar_of

MAX_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHOICES = ("none", "auto", "required")
# One way to write a value, as for any schema: a model could write blanks for ever otherwise.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

# Before a call, between its name and its arguments, behind it, and between two calls.
_WRITTEN: Mapping[ToolStyle, tuple[str, str, str, str, str]] = {
    "hermes": ("", '<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "\n"),
    "llama3": ("", '{"name": "', '", "parameters": ', "}", "; "),
    "mistral": ("[TOOL_CALLS][", '{"name": "', '", "arguments": ', "}", ", "),
}
_END: Mapping[ToolStyle, str] = {"hermes": "", "llama3": "", "mistral": "]"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that an answer may have called; `told` is how it was described."""

    name: str
    parameters: Mapping[str, Any]
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of one request. `named` is the only one that may be called, if there is one."""

    tools: tuple[Tool, ...] = ()
    choice: Literal["none", "auto", "required"] = "none"
    is_parallel: bool = True
    named: str = ""

    @property
    def is_told(self) -> bool:
        """Whether the model hears of the tools, and calls are looked for in its answer."""
        return self.choice != "none" and bool(self.tools)

    @property
    def told(self) -> Sequence[Mapping[str, Any]]:
        """The tools as the template gets them."""
        return [tool.told for tool in self.tools] if self.is_told else ()

    @property
    def callable(self) -> Sequence[Tool]:
        """What may be called."""
        return [tool for tool in self.tools if not self.named or tool.name == self.named]

    def grammar(self, style: ToolStyle, *, schema: Mapping[str, Any] | None) -> Grammar | None:
        """Return what an answer must look like: calls, or JSON by a schema; None if anything.

        Where calls are possible and not needed, it is either of the two.
        """
        if self.choice != "required" and schema is None:
            return None
        if not self.is_told:
            return grammar_of("json_schema", json.dumps(schema), param="response_format")
        first, before, between, behind, separator = _WRITTEN[style]
        calls = "call" if not self.is_parallel else f"call ({_quoted(separator)} call)*"
        around = [_quoted(first), calls, _quoted(_END[style])]
        rules = ["calls: " + " ".join(part for part in around if part != _quoted(""))]
        if self.choice == "required":
            rules.append("start: calls")
        else:
            rules += ["start: calls | answer", f"answer: %json {_schema_text(schema or {})}"]
        rules.append("call: " + " | ".join(f"call_{i}" for i in range(len(self.callable))))
        for i, tool in enumerate(self.callable):
            rules += [
                f"call_{i}: {_quoted(before + tool.name + between)} args_{i} {_quoted(behind)}",
                f"args_{i}: %json {_schema_text(tool.parameters)}",
            ]
        return grammar_of("lark", "\n".join(rules), param="tools")


def tool_use_of(fields: Fields) -> ToolUse:
    """Return the tools of a body and how they are to be used. Raises ApiError."""
    items = fields.items("tools", most=MAX_TOOLS)
    tools = tuple(_tool(item, f"tools[{i}]") for i, item in enumerate(items or ()))
    is_parallel = fields.flag("parallel_tool_calls", default=True)
    raw = fields.raw("tool_choice")
    if len({tool.name for tool in tools}) < len(tools):
        raise invalid("Invalid 'tools': two functions have the same name.", param="tools")
    if not tools:
        if raw not in (None, "none"):
            raise invalid(
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
                "specified.",
                param="tool_choice",
            )
        return ToolUse()
    if raw is None:
        return ToolUse(tools, "auto", is_parallel)
    if isinstance(raw, str):
        choice = fields.choice("tool_choice", _CHOICES)
        return ToolUse(tools, choice, is_parallel)  # type: ignore[arg-type]
    return ToolUse(tools, "required", is_parallel=False, named=_named(fields, tools))


def _tool(item: Any, path: str) -> Tool:
    tool = Fields(item, path)
    if not tool.has("type"):
        raise tool.missing("type")
    tool.choice("type", ("function",))
    function = tool.object("function")
    if function is None:
        raise tool.missing("function")
    name = function.needed_text("name")
    if not _NAME.fullmatch(name):
        raise invalid(
            f"Invalid '{function.path_of('name')}': it must match '^[a-zA-Z0-9_-]{{1,64}}$'.",
            param=function.path_of("name"),
            code="invalid_value",
        )
    function.text("description")
    parameters = function.raw("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if not isinstance(parameters, Mapping):
        raise invalid_type(function.path_of("parameters"), "an object", parameters)
    if parameters.get("type", "object") != "object":
        raise invalid(
            f"Invalid schema for function '{name}': schema must have type 'object'.",
            param=function.path_of("parameters"),
            code="invalid_function_parameters",
        )
    parameters = clean({"type": "object", **parameters})
    told = {"name": name, "description": function.text("description") or ""}
    return Tool(
        name,
        parameters,
        {"type": "function", "function": {**told, "parameters": parameters}},
    )


def _named(fields: Fields, tools: Sequence[Tool]) -> str:
    choice = Fields(fields.raw("tool_choice"), "tool_choice")
    choice.choice("type", ("function",))
    function = choice.object("function")
    if function is None:
        raise choice.missing("function")
    name = function.needed_text("name")
    if name not in {tool.name for tool in tools}:
        raise invalid(
            "Invalid value for 'tool_choice': no function of this name is in 'tools'.",
            param=function.path_of("name"),
        )
    return name


def _schema_text(schema: Mapping[str, Any]) -> str:
    return json.dumps({**schema, "x-guidance": _LAYOUT})


def _quoted(text: str) -> str:
    return json.dumps(text)
