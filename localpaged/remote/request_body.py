"""A chat as the body of a request: messages, and sampling in the server's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from localpaged.errors import BadParameter, ChatError
from localpaged.plain_text import visible
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.served import Known

MAX_SEED = 2**31 - 1
NEUTRAL: Mapping[str, Any] = {
    "top_k": 0,
    "min_p": 0.0,
    "seed": None,
    "max_tokens": None,
    "stop": (),
    "ignore_eos": False,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry": None,
    "logit_bias": (),
    "min_tokens": 0,
    "stop_token_ids": (),
    "logprobs": None,
    "grammar": None,
}
"""Values that change nothing: what a server does not know may have them. Others are refused."""


def make_body(
    endpoint: Endpoint,
    known: Known,
    messages: Sequence[Mapping[str, str]],
    sampling: Mapping[str, Any],
    *,
    is_continuation: bool,
) -> dict[str, Any]:
    """Return the body of a streamed chat completion.

    `sampling` has values by our names of parameters; a grammar is its kind and text. Raises
    BadParameter, naming the parameter that the server does not know, and ChatError where it
    cannot go on with an answer.
    """
    body: dict[str, Any] = {
        "model": known.model,
        "messages": list(messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for name, value in sampling.items():
        if name in NEUTRAL and value == NEUTRAL[name]:
            continue
        if name == "grammar":
            body["response_format"] = _format(endpoint, *value)
        elif name in known.dialect.sampling:
            body[known.dialect.sampling[name]] = _sent(name, value)
        else:
            raise _unknown(endpoint, known, name)
    if is_continuation:
        _go_on(endpoint, known, body)
    return body


def _sent(name: str, value: Any) -> Any:
    if name == "seed":
        # some servers have 32 bits for it, and JSON of some keeps 53
        return value & MAX_SEED
    return list(value) if isinstance(value, tuple) else value


def _go_on(endpoint: Endpoint, known: Known, body: dict[str, Any]) -> None:
    if known.dialect.continues == "no":
        raise ChatError(
            f"{visible(endpoint.name)} cannot continue an answer.",
            hint="Regenerate it, or ask for the rest in a message.",
        )
    if known.dialect.continues == "flags":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False


def _format(endpoint: Endpoint, kind: str, text: str) -> dict[str, Any]:
    if kind != "json_schema":
        raise BadParameter(
            f"{visible(endpoint.name)} takes a JSON schema and no other grammar, not {kind}.",
            hint="Models on this machine take regular expressions and Lark grammars as well.",
        )
    try:
        schema = json.loads(text)
    except ValueError:
        raise BadParameter("The JSON schema is not JSON.") from None
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }


def _unknown(endpoint: Endpoint, known: Known, name: str) -> BadParameter:
    return BadParameter(
        f"{visible(endpoint.name)} does not know {name} (it speaks as {known.dialect.name}).",
        hint=f'/set {name}= leaves it out; sampling = ["{name}"] in its section says it knows it.',
    )
