"""Renders a model's own chat template: untrusted Jinja code in a sandbox with limits.

The environment is set up as transformers sets it up (trim_blocks, lstrip_blocks, loop controls,
tojson, raise_exception, strftime_now), so templates render the same. On top of the sandbox, the
output's length, repetition and counted loops are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
import jinja2.ext
import jinja2.utils
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localpaged.errors import ModelError, UnsupportedModel
from localpaged.plain_text import visible

MAX_TEMPLATE_CHARS = 2**20
MAX_LOOP_ITEMS = 2**20  # of all ranges in one rendering
MAX_REPEATED_ITEMS = 2**20
MAX_ADDED_CHARS = 2**20  # the output may be this much longer than MAX_GROWTH times the messages
MAX_GROWTH = 16


class ChatTemplate:
    """A compiled template. Immutable; rendering is thread-safe."""

    def __init__(self, source: str, *, model_name: str) -> None:
        """Compile `source`; raises UnsupportedModel when that is not possible."""
        self.model_name = model_name
        if len(source) > MAX_TEMPLATE_CHARS:
            raise UnsupportedModel(
                f"The chat template of {visible(model_name)} has {len(source):,} characters; "
                f"{MAX_TEMPLATE_CHARS:,} are possible.",
                hint="Choose another version of the model.",
            )
        environment = _environment()
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise UnsupportedModel(
                f"The chat template of {visible(model_name)} cannot be compiled: "
                f"{visible(str(error))}.",
                hint="Choose another version of the model.",
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        special_texts: Mapping[str, str],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Return the conversation as the model was trained to read it.

        `tools` are described as OpenAI's API does. Raises ModelError when the template refuses the
        conversation or breaks a limit.
        """
        text_length = sum(len(message["content"]) for message in messages)
        text_length += sum(len(str(tool)) for tool in tools)
        pieces = self._template.generate(
            messages=[dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            range=_RangeBudget(),
            **special_texts,
        )
        try:
            return _join_bounded(pieces, MAX_ADDED_CHARS + MAX_GROWTH * text_length)
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise self._refusal(str(error)) from error
        except (RecursionError, MemoryError) as error:
            raise self._refusal("it needs too much memory") from error

    def _refusal(self, reason: str) -> ModelError:
        return ModelError(
            f"The chat template of {visible(self.model_name)} refuses this conversation: "
            f"{visible(reason).rstrip('.')}.",
            hint="Some models take no system prompt, or want user and assistant to alternate.",
        )


class _BoundedSandbox(ImmutableSandboxedEnvironment):
    """The sandbox, with limits on what one product or power can build."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute `left operator right` unless the result would be huge."""
        if operator == "**" and not (abs(left) <= 2**16 and abs(right) <= 2**6):
            raise SecurityError("it computes a huge power")
        for text, times in ((left, right), (right, left)):
            if (
                isinstance(text, (str, list, tuple))
                and isinstance(times, int)
                and len(text) * times > MAX_REPEATED_ITEMS
            ):
                raise SecurityError(f"it repeats a text {times:,} times")
        return super().call_binop(context, operator, left, right)


class _RangeBudget:
    """The `range` of one rendering: all its ranges together have at most MAX_LOOP_ITEMS items."""

    def __init__(self) -> None:
        self._left = MAX_LOOP_ITEMS

    def __call__(self, *bounds: int) -> range:
        items = range(*bounds)
        self._left -= len(items)
        if self._left < 0:
            raise SecurityError(f"it loops more than {MAX_LOOP_ITEMS:,} times")
        return items


class _Dict:
    """The `dict` of templates: callable, without the type's attributes."""

    def __call__(self, *pairs: Any, **entries: Any) -> dict[Any, Any]:
        return dict(*pairs, **entries)


class _Namespace(jinja2.utils.Namespace):
    """The `namespace` of templates: takes no names that reach into Python."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"it sets the attribute {name}")
        super().__setitem__(name, value)


class _GenerationBlock(jinja2.ext.Extension):
    """Accepts `{% generation %}`, by which training tools find answers; renders its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return what is between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = _BoundedSandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment


def _join_bounded(pieces: Iterable[str], max_chars: int) -> str:
    taken: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > max_chars:
            raise SecurityError(f"it writes more than {max_chars:,} characters")
        taken.append(piece)
    return "".join(taken)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format_: str) -> str:
    return datetime.now().strftime(format_)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Dump without the HTML escapes of Jinja's own filter, as templates expect."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
