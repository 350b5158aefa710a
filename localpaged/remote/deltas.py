"""The pieces of a streamed answer: JSON of a server, checked, as frozen values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_THOUGHTS = ("reasoning_content", "reasoning")


class BadPiece(Exception):
    """A piece is not what it should be; the text says how, and nothing of its content."""


class ToldError(Exception):
    """The server tells of an error in the middle of an answer; `told` is its JSON."""

    def __init__(self, told: Any) -> None:
        super().__init__("the server told of an error")
        self.told = told


@dataclass(frozen=True, slots=True)
class Tally:
    """What the server counted, in tokens; None is what it did not tell."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """More of an answer: text, what was thought before it, why it ended, what it cost."""

    text: str = ""
    thought: str = ""
    reason: str = ""
    tally: Tally | None = None


def read_delta(data: str) -> Delta:
    """Return what one event of a stream tells. Raises BadPiece and ToldError."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        raise BadPiece("is not JSON") from None
    if not isinstance(told, dict):
        raise BadPiece("is no JSON object")
    if told.get("error"):
        raise ToldError(told)
    choices = told.get("choices", [])
    if not isinstance(choices, list):
        raise BadPiece("has choices that are no list")
    tally = _tally(told.get("usage"))
    if not choices:
        return Delta(tally=tally)
    choice = choices[0]
    if not isinstance(choice, dict):
        raise BadPiece("has a choice that is no object")
    delta = choice.get("delta") or {}
    if not isinstance(delta, dict):
        raise BadPiece("has a delta that is no object")
    thought = next((text for name in _THOUGHTS if (text := _text(delta, name))), "")
    text = _text(delta, "content") or _text(delta, "refusal")
    return Delta(text, thought, _text(choice, "finish_reason"), tally)


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPiece(f"has {name} that is no text")
    return value


def _tally(usage: Any) -> Tally | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None or completion is None:
        return None
    return Tally(prompt, completion, None if cached is None else min(cached, prompt))


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    # a database takes no larger number
    return value if type(value) is int and 0 <= value < 2**53 else None
