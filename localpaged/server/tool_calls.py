"""Finds calls of tools in an answer while its text arrives."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from localpaged.chat.thought import num_suspect
from localpaged.prompt import ToolCall, ToolStyle
from localpaged.store.text import storable

Part = str | ToolCall

_BEGIN, _END = "<tool_call>", "</tool_call>"
_PYTHON_TAG = "<|python_tag|>"
_CALLS = "[TOOL_CALLS]"
# Mistral's later way: a name, perhaps an id, then the arguments.
_NAMED_CALL = re.compile(r"\s*([a-zA-Z0-9_-]{1,64})\s*(?:\[CALL_ID\]\w+)?\[ARGS\]\s*")
_SEPARATORS = ";, \t\r\n"
# Mistral's templates refuse longer ids.
_SHORT_ID_CHARS, _LONG_ID_CHARS = 9, 24
_ALPHABET = string.ascii_letters + string.digits


class ToolCallReader:
    """Tells calls from text. One thread.

    Invariant: the texts told, the calls and what is held are all of the answer, in order, but for
    white space beside calls. What looks like a call and is none, or calls what may not be called,
    is text. A call is told when it is complete.
    """

    def __init__(
        self, style: ToolStyle, names: Collection[str], *, is_parallel: bool = True
    ) -> None:
        self._style = style
        self._names = names
        self._is_parallel = is_parallel
        self._held = ""
        self._space = ""  # white space that may be all there is before a call
        self._has_words = False
        self.num_calls = 0

    def take(self, text: str) -> list[Part]:
        """Take more text; return what is sure."""
        self._held += text
        if self._style == "hermes":
            return list(self._told(self._between_marks()))
        begins = (_PYTHON_TAG, "{") if self._style == "llama3" else (_CALLS,)
        return list(self._told(self._before(begins, at_start=self._style == "llama3")))

    def finish(self) -> list[Part]:
        """Return the rest: the answer is over."""
        held, self._held = self._held, ""
        readers: dict[ToolStyle, Callable[[str], list[ToolCall]]] = {
            "hermes": self._unclosed,
            "llama3": self._objects,
            "mistral": self._list,
        }
        calls = readers[self._style](held) if held else []
        rest: list[Part] = [*calls] or [held]
        parts = list(self._told(iter(rest if held else ())))
        if self._space and not self.num_calls:
            parts.append(self._space)
        return parts

    def _told(self, parts: Iterator[Part]) -> Iterator[Part]:
        for part in parts:
            if isinstance(part, ToolCall):
                self.num_calls += 1
                self._space, self._has_words = "", False
                if self._is_parallel or self.num_calls == 1:
                    yield part
            elif self.num_calls and not self._is_parallel:
                continue  # one call was allowed, and what follows it is not part of the answer
            elif self._has_words or part.strip():
                text, self._space, self._has_words = self._space + part, "", True
                yield text
            else:
                self._space += part

    def _between_marks(self) -> Iterator[Part]:
        while True:
            at = self._held.find(_BEGIN)
            if at < 0:
                yield from self._pass_on(len(self._held) - num_suspect(self._held, _BEGIN))
                return
            yield from self._pass_on(at)
            end = self._held.find(_END)
            if end < 0:
                return
            whole, self._held = self._held[: end + len(_END)], self._held[end + len(_END) :]
            call = self._call(_json(whole[len(_BEGIN) : end]))
            yield whole if call is None else call

    def _before(self, begins: Sequence[str], *, at_start: bool) -> Iterator[Part]:
        """Pass on what is before a mark, from which on all is held."""
        if at_start:
            words = self._held.lstrip()
            may_call = not self._has_words and any(
                words.startswith(begin) or begin.startswith(words) for begin in begins
            )
            if not may_call:
                yield from self._pass_on(len(self._held))
            return
        (begin,) = begins
        at = self._held.find(begin)
        suspect = num_suspect(self._held, begin)
        yield from self._pass_on(len(self._held) - suspect if at < 0 else at)

    def _pass_on(self, num_chars: int) -> Iterator[str]:
        if num_chars:
            text, self._held = self._held[:num_chars], self._held[num_chars:]
            yield text

    def _unclosed(self, held: str) -> list[ToolCall]:
        """A call whose end mark was also the answer's end."""
        call = self._call(_json(held.removeprefix(_BEGIN))) if held.startswith(_BEGIN) else None
        return [] if call is None else [call]

    def _objects(self, held: str) -> list[ToolCall]:
        """Llama 3: one object after another and nothing else."""
        return self._all_calls(_jsons(held.strip().removeprefix(_PYTHON_TAG)))

    def _list(self, held: str) -> list[ToolCall]:
        if not held.startswith(_CALLS):
            return []
        rest = held.removeprefix(_CALLS)
        if rest.lstrip().startswith("["):
            listed = _json(rest)
            return self._all_calls(listed if isinstance(listed, list) else None)
        found: list[Any] = []
        for written in rest.split(_CALLS):
            match = _NAMED_CALL.match(written)
            if match is None:
                return []
            found.append({"name": match[1], "arguments": _json(written[match.end() :])})
        return self._all_calls(found)

    def _all_calls(self, found: Sequence[Any] | None) -> list[ToolCall]:
        calls = [self._call(each) for each in found or ()]
        return [call for call in calls if call is not None] if None not in calls else []

    def _call(self, found: Any) -> ToolCall | None:
        name = found.get("name") if isinstance(found, dict) else None
        if not isinstance(name, str) or name not in self._names:
            return None
        arguments = found.get("arguments", found.get("parameters", {}))
        if isinstance(arguments, str):
            arguments = _json(arguments)
        if not isinstance(arguments, dict):
            return None
        written = storable(json.dumps(arguments, ensure_ascii=False))
        return ToolCall(name, written, self._new_id())

    def _new_id(self) -> str:
        is_short = self._style == "mistral"
        length = _SHORT_ID_CHARS if is_short else _LONG_ID_CHARS
        random = "".join(secrets.choice(_ALPHABET) for _ in range(length))
        return random if is_short else f"call_{random}"


def _json(text: str) -> Any:
    """Return what a text says in JSON; None when it says nothing, or null."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _jsons(text: str) -> Sequence[Any] | None:
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(value)
        while at < len(text) and text[at] in _SEPARATORS:
            at += 1
    return found
