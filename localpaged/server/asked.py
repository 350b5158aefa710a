"""What a body asks for: the fields of chat completions and of completions, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localpaged.engine.params import (
    MAX_BRANCHES,
    MAX_LOGPROBS,
    SamplingParams,
)
from localpaged.prompt import PromptMessage, ToolStyle
from localpaged.server.errors import ApiError, invalid, invalid_type, unsupported
from localpaged.server.fields import Fields, clean
from localpaged.server.messages import messages_of
from localpaged.server.sampling import FIELDS, MAX_TOKENS, sampling_of
from localpaged.server.tools import ToolUse, tool_use_of
from localpaged.store.text import storable

MAX_PROMPT_IDS = 1 << 22
DEFAULT_COMPLETION_TOKENS = 16
MAX_COMPLETION_LOGPROBS = 5

_SHARED = FIELDS | {"model", "max_tokens", "n", "stream", "stream_options", "logprobs", "user"}
# taken and not used: they name the caller, or choose between OpenAI's services
_UNUSED = {
    *("metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    *("prompt_cache_retention", "reasoning_effort", "verbosity", "modalities"),
}
_CHAT_FIELDS = (
    _SHARED
    | _UNUSED
    | {"messages", "max_completion_tokens", "top_logprobs", "response_format"}
    | {"tools", "tool_choice", "parallel_tool_calls"}
)
_COMPLETION_FIELDS = _SHARED | {"prompt", "echo", "best_of", "suffix"}
_CHAT_WITHOUT = ("audio", "prediction", "web_search_options", "functions", "function_call")


@dataclass(frozen=True, slots=True)
class Asked:
    """What both endpoints have in common. `grammar_param` is the field the grammar came from."""

    model: str
    sampling: SamplingParams
    num_answers: int
    is_stream: bool
    has_stream_usage: bool
    user: str
    grammar_param: str | None = None


@dataclass(frozen=True, slots=True)
class ChatAsked:
    """The body of a chat completion; `schema` is what its answer must match."""

    asked: Asked
    messages: tuple[PromptMessage, ...]
    tools: ToolUse
    schema: Mapping[str, Any] | None

    def for_style(self, style: ToolStyle) -> Asked:
        """Return what is asked, with the grammar in a model's way to write calls."""
        grammar = self.tools.grammar(style, schema=self.schema)
        if grammar is None:
            return self.asked
        if self.asked.sampling.grammar is not None:
            raise invalid(
                "'regex' and 'grammar' exclude 'response_format' and calls that are required.",
                param=self.asked.grammar_param,
            )
        param = "response_format" if self.schema is not None else "tools"
        sampling = replace(self.asked.sampling, grammar=grammar)
        return replace(self.asked, sampling=sampling, grammar_param=param)


@dataclass(frozen=True, slots=True)
class CompletionAsked:
    """The body of a completion: a text or token ids to go on with."""

    asked: Asked
    prompt: str | tuple[int, ...]


def model_of(body: Mapping[str, Any]) -> str:
    """Return the name of the model that is asked. Raises ApiError."""
    return Fields(body).needed_text("model")


def chat_asked(body: Mapping[str, Any], defaults: SamplingParams) -> ChatAsked:
    """Read the body of a chat completion. Raises ApiError."""
    fields = Fields(body)
    for name in _CHAT_WITHOUT:
        if fields.has(name):
            raise _unsupported_field(name)
    fields.refuse_others((*_CHAT_FIELDS, *_CHAT_WITHOUT))
    if fields.raw("modalities") not in (None, ["text"]):
        raise unsupported("modalities", "Unsupported value: 'modalities' can only be ['text'].")
    names = ("max_tokens", "max_completion_tokens")
    limits = [fields.whole(name, low=1, high=MAX_TOKENS) for name in names]
    if None not in limits:
        raise invalid(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            param="max_tokens",
        )
    asked = _asked(
        fields,
        defaults,
        max_tokens=limits[0] or limits[1],
        logprobs=_chat_logprobs(fields),
    )
    return ChatAsked(asked, messages_of(fields), tool_use_of(fields), _schema(fields))


def completion_asked(body: Mapping[str, Any], defaults: SamplingParams) -> CompletionAsked:
    """Read the body of a completion. Raises ApiError."""
    fields = Fields(body)
    fields.refuse_others(_COMPLETION_FIELDS)
    if fields.flag("echo") or fields.text("suffix"):
        param = "echo" if fields.flag("echo") else "suffix"
        raise _unsupported_field(param)
    num_answers = fields.whole("n", low=1, high=MAX_BRANCHES) or 1
    if fields.whole("best_of", low=1, high=MAX_BRANCHES) not in (None, num_answers):
        raise unsupported("best_of", "Unsupported value: 'best_of' can only be equal to 'n'.")
    asked = _asked(
        fields,
        defaults,
        max_tokens=fields.whole("max_tokens", low=1, high=MAX_TOKENS) or DEFAULT_COMPLETION_TOKENS,
        logprobs=fields.whole("logprobs", low=0, high=MAX_COMPLETION_LOGPROBS),
    )
    return CompletionAsked(asked, _prompt(fields))


def _asked(
    fields: Fields, defaults: SamplingParams, *, max_tokens: int | None, logprobs: int | None
) -> Asked:
    is_stream = fields.flag("stream")
    options = fields.object("stream_options")
    if options is not None and not is_stream:
        raise invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    has_usage = False
    if options is not None:
        options.refuse_others(("include_usage", "include_obfuscation"))
        has_usage = options.flag("include_usage")
    sampling = sampling_of(fields, defaults, max_tokens=max_tokens)
    grammar = None if sampling.grammar is None else sampling.grammar.kind
    users = ("prompt_cache_key", "user", "safety_identifier")
    return Asked(
        model=fields.needed_text("model"),
        sampling=replace(sampling, logprobs=logprobs),
        num_answers=fields.whole("n", low=1, high=MAX_BRANCHES) or 1,
        is_stream=is_stream,
        has_stream_usage=has_usage,
        user=next((name for each in users if (name := fields.text(each))), ""),
        grammar_param="regex" if grammar == "regex" else "grammar",
    )


def _chat_logprobs(fields: Fields) -> int | None:
    is_wanted = fields.flag("logprobs")
    num_top = fields.whole("top_logprobs", low=0, high=MAX_LOGPROBS)
    if num_top is not None and not is_wanted:
        raise invalid(
            "Invalid value for 'top_logprobs': 'logprobs' must be true when 'top_logprobs' is "
            "given.",
            param="top_logprobs",
        )
    return (num_top or 0) if is_wanted else None


def _schema(fields: Fields) -> Mapping[str, Any] | None:
    wanted = fields.object("response_format")
    if wanted is None:
        return None
    if not wanted.has("type"):
        raise wanted.missing("type")
    kind = wanted.choice("type", ("text", "json_object", "json_schema"))
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    described = wanted.object("json_schema")
    if described is None:
        raise wanted.missing("json_schema")
    described.needed_text("name")
    described.flag("strict")
    schema = described.raw("schema")
    if schema is None:
        return {"type": "object"}
    if not isinstance(schema, Mapping):
        raise invalid_type(described.path_of("schema"), "an object", schema)
    cleaned: Mapping[str, Any] = clean(schema)
    return cleaned


def _prompt(fields: Fields) -> str | tuple[int, ...]:
    raw = fields.raw("prompt")
    if raw is None:
        raise fields.missing("prompt")
    if isinstance(raw, list) and len(raw) == 1 and isinstance(raw[0], str | list):
        raw = raw[0]
    if isinstance(raw, str):
        return storable(raw)
    if not isinstance(raw, list):
        raise invalid_type("prompt", "a string or an array of token ids", raw)
    return _ids(raw)


def _ids(raw: Sequence[Any]) -> tuple[int, ...]:
    if any(isinstance(each, str | list) for each in raw):
        raise several_prompts()
    if len(raw) > MAX_PROMPT_IDS or not all(
        type(id_) is int and 0 <= id_ < MAX_TOKENS for id_ in raw
    ):
        raise invalid("Invalid 'prompt': it is no list of token ids.", param="prompt")
    return tuple(raw)


def _unsupported_field(name: str) -> ApiError:
    return unsupported(name, f"Unsupported parameter: '{name}' is not supported here.")


def several_prompts() -> ApiError:
    """Return the error for more than one prompt."""
    return unsupported("prompt", "One prompt a request is supported; send one request for each.")
