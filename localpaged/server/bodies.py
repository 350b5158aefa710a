"""The JSON of answers, in the shapes of OpenAI's API."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from localpaged.prompt import ToolCall
from localpaged.server.answers import Bill, Delta, ScoredToken
from localpaged.server.offer import Served

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(body: Any) -> bytes:
    """Return compact JSON."""
    # a name of a file may be no text
    return _ENCODER.encode(body).encode("utf-8", "replace")


def model_body(served: Served) -> dict[str, Any]:
    """Return a model as `/v1/models` lists it; `max_model_len` is vLLM's."""
    return {
        "id": served.name,
        "object": "model",
        "created": served.created_s,
        "owned_by": "localpaged",
        "max_model_len": served.context_length,
    }


def usage_body(bill: Bill) -> dict[str, Any]:
    """Return what a request took."""
    return {
        "prompt_tokens": bill.prompt_tokens,
        "completion_tokens": bill.completion_tokens,
        "total_tokens": bill.prompt_tokens + bill.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": bill.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": bill.reasoning_tokens},
    }


@dataclass(slots=True)
class Whole:
    """One answer put together."""

    content: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    logprobs: list[ScoredToken] = field(default_factory=list)
    finish_reason: str | None = None

    def add(self, delta: Delta) -> None:
        """Take what is new."""
        self.content += delta.content
        self.reasoning += delta.reasoning
        self.calls += [call for _, call in delta.calls]
        self.logprobs += delta.logprobs
        self.finish_reason = delta.finish_reason or self.finish_reason


class Shape:
    """How one request's answers are written. `kind` tells chats from completions."""

    def __init__(self, served: Served, *, has_logprobs: bool, has_stream_usage: bool) -> None:
        self._has_logprobs = has_logprobs
        self._has_stream_usage = has_stream_usage
        self._common: dict[str, Any] = {
            "id": self.prefix + secrets.token_hex(14),
            "object": "",
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": f"fp_{served.model.fingerprint[:12]}",
        }

    prefix = ""
    object = ""
    chunk_object = ""

    def whole(self, wholes: Sequence[Whole], bill: Bill) -> dict[str, Any]:
        """Return all answers."""
        return {
            **self._common,
            "object": self.object,
            "choices": [self._choice(index, whole) for index, whole in enumerate(wholes)],
            "usage": usage_body(bill),
        }

    def first_chunks(self, num_answers: int) -> list[dict[str, Any]]:
        """Return what a stream begins with."""
        return []

    def chunk(self, delta: Delta) -> dict[str, Any]:
        """Return what is new in one answer."""
        return self._chunk([self._chunk_choice(delta)])

    def usage_chunk(self, bill: Bill) -> dict[str, Any] | None:
        """Return a stream's last piece, where it was asked for."""
        if not self._has_stream_usage:
            return None
        return {**self._chunk([]), "usage": usage_body(bill)}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        body = {**self._common, "object": self.chunk_object, "choices": choices}
        if self._has_stream_usage:
            body["usage"] = None
        return body

    def _choice(self, index: int, whole: Whole) -> dict[str, Any]:
        raise NotImplementedError

    def _chunk_choice(self, delta: Delta) -> dict[str, Any]:
        raise NotImplementedError


class ChatShape(Shape):
    """Chat completions."""

    prefix = "chatcmpl-"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def first_chunks(self, num_answers: int) -> list[dict[str, Any]]:
        """Return who speaks, once for each answer."""
        opening = {"role": "assistant", "content": ""}
        return [
            self._chunk([self._told(index, {"delta": opening}, (), None)])
            for index in range(num_answers)
        ]

    def _choice(self, index: int, whole: Whole) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": whole.content, "refusal": None}
        if whole.reasoning:
            message["reasoning_content"] = whole.reasoning
        if whole.calls:
            message["content"] = whole.content or None
            message["tool_calls"] = [_call_body(call) for call in whole.calls]
        return self._told(index, {"message": message}, whole.logprobs, whole.finish_reason)

    def _chunk_choice(self, delta: Delta) -> dict[str, Any]:
        new: dict[str, Any] = {}
        if delta.reasoning:
            new["reasoning_content"] = delta.reasoning
        if delta.content or (delta.logprobs and not delta.calls):
            new["content"] = delta.content
        if delta.calls:
            new["tool_calls"] = [{"index": i, **_call_body(call)} for i, call in delta.calls]
        return self._told(delta.index, {"delta": new}, delta.logprobs, delta.finish_reason)

    def _told(
        self,
        index: int,
        said: dict[str, Any],
        logprobs: Sequence[ScoredToken],
        finish_reason: str | None,
    ) -> dict[str, Any]:
        scores: dict[str, Any] | None = None
        if self._has_logprobs:
            scores = {"content": [_score_body(token) for token in logprobs], "refusal": None}
        return {"index": index, **said, "logprobs": scores, "finish_reason": finish_reason}


class CompletionShape(Shape):
    """Completions."""

    prefix = "cmpl-"
    object = "text_completion"
    chunk_object = "text_completion"

    def __init__(self, served: Served, *, has_logprobs: bool, has_stream_usage: bool) -> None:
        super().__init__(served, has_logprobs=has_logprobs, has_stream_usage=has_stream_usage)
        self._offsets: dict[int, int] = {}

    def _choice(self, index: int, whole: Whole) -> dict[str, Any]:
        return self._told(index, whole.content, whole.logprobs, whole.finish_reason)

    def _chunk_choice(self, delta: Delta) -> dict[str, Any]:
        return self._told(delta.index, delta.content, delta.logprobs, delta.finish_reason)

    def _told(
        self,
        index: int,
        text: str,
        logprobs: Sequence[ScoredToken],
        finish_reason: str | None,
    ) -> dict[str, Any]:
        scores = self._scores(index, logprobs) if self._has_logprobs else None
        return {"index": index, "text": text, "logprobs": scores, "finish_reason": finish_reason}

    def _scores(self, index: int, logprobs: Sequence[ScoredToken]) -> dict[str, Any]:
        offsets: list[int] = []
        at = self._offsets.get(index, 0)
        for token in logprobs:
            offsets.append(at)
            at += len(token.text)
        self._offsets[index] = at
        return {
            "tokens": [token.text for token in logprobs],
            "token_logprobs": [token.logprob for token in logprobs],
            "top_logprobs": [{top.text: top.logprob for top in token.top} for token in logprobs],
            "text_offset": offsets,
        }


def _call_body(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _score_body(token: ScoredToken) -> dict[str, Any]:
    return {**_bare_score(token), "top_logprobs": [_bare_score(top) for top in token.top]}


def _bare_score(token: ScoredToken) -> dict[str, Any]:
    piece = None if token.piece is None else list(token.piece)
    return {"token": token.text, "logprob": token.logprob, "bytes": piece}
