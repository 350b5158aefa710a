"""Bodies become requests: parsed, rendered by the model and counted, on a thread of the loop."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localpaged.chat.endless import MOST_CHARS_A_TOKEN
from localpaged.chat.sampling import may_be_guessed, with_seed
from localpaged.chat.thought import opens_thought
from localpaged.engine.params import CLIENT_PREFIX, Request, SamplingParams
from localpaged.errors import ConfigError, LocalPagedError
from localpaged.plain_text import visible
from localpaged.prompt import ChatModel, ToolChatModel, ToolStyle
from localpaged.server.answers import AnswerKind
from localpaged.server.asked import (
    Asked,
    ChatAsked,
    CompletionAsked,
    chat_asked,
    completion_asked,
    model_of,
)
from localpaged.server.errors import api_error_of, too_long, unsupported
from localpaged.server.fields import parsed
from localpaged.server.offer import Offer, Served
from localpaged.server.recent_answers import RecentAnswers

MAX_USER_CHARS = 64


@dataclass(frozen=True, slots=True)
class Known:
    """What every request is read with: the models, what it leaves open, answers before it."""

    offer: Offer
    sampling: SamplingParams
    recent: RecentAnswers


@dataclass(frozen=True, slots=True)
class Order:
    """A request for the engine and all that is needed to tell its answers."""

    request: Request
    served: Served
    asked: Asked
    kind: AnswerKind


def chat_order(raw: bytes, known: Known, *, client: str) -> Order:
    """Return what a body of a chat completion asks for. Raises ApiError."""
    served, body = _served(raw, known.offer)
    wanted = chat_asked(body, known.sampling)
    model = served.model
    style: ToolStyle = model.tool_style if isinstance(model, ToolChatModel) else "hermes"
    asked = wanted.for_style(style)
    said = (message.text for message in wanted.messages if message.role != "assistant")
    _refuse_endless(said, served, "messages")
    ids = _rendered(model, wanted, known.recent)
    is_bounded = asked.sampling.grammar is not None
    kind = AnswerKind(
        model=model,
        tools=wanted.tools,
        style=style,
        # a grammar bounds the whole answer, so that nothing is thought before it
        reads_thoughts=not is_bounded,
        begins_inside=not is_bounded and opens_thought(model, ids),
        num_top_logprobs=asked.sampling.logprobs,
        recent=known.recent,
    )
    return _order(ids, served, asked, kind, client)


def completion_order(raw: bytes, known: Known, *, client: str) -> Order:
    """Return what a body of a completion asks for. Raises ApiError."""
    served, body = _served(raw, known.offer)
    wanted = completion_asked(body, known.sampling)
    if isinstance(wanted.prompt, str):
        _refuse_endless((wanted.prompt,), served, "prompt")
    ids = _encoded(served.model, wanted)
    kind = AnswerKind(
        model=served.model,
        reads_thoughts=False,
        num_top_logprobs=wanted.asked.sampling.logprobs,
    )
    return _order(ids, served, wanted.asked, kind, client, is_continuation=True)


def _served(raw: bytes, offer: Offer) -> tuple[Served, Mapping[str, Any]]:
    body = parsed(raw)
    return offer.find(model_of(body)), body


def _rendered(model: ChatModel, wanted: ChatAsked, recent: RecentAnswers) -> tuple[int, ...]:
    messages = recent.known(model, wanted.messages)
    has_tools = wanted.tools.is_told or any(
        message.role == "tool" or message.tool_calls for message in wanted.messages
    )
    try:
        if isinstance(model, ToolChatModel):
            return model.render(messages, tools=wanted.tools.told)
        if has_tools:
            raise unsupported("tools", f"The model `{model.name}` takes no tools.")
        return model.render(messages)
    except LocalPagedError as error:
        raise api_error_of(error) from error


def _refuse_endless(texts: Iterable[str], served: Served, param: str) -> None:
    """Raise ApiError for what cannot fit, before seconds are spent on cutting it into tokens.

    Nobody could end that, not even its client by going away. Templates leave out what surrounds a
    text and old thoughts of answers, which therefore do not count.
    """
    least = sum(len(text.strip()) for text in texts) // MOST_CHARS_A_TOKEN
    if least > served.context_length:
        raise too_long(context=served.context_length, prompt=least, answer=None, param=param)


def _encoded(model: ChatModel, wanted: CompletionAsked) -> tuple[int, ...]:
    if isinstance(wanted.prompt, tuple):
        return wanted.prompt
    if not isinstance(model, ToolChatModel):
        raise unsupported("prompt", f"The model `{model.name}` takes messages only.")
    return model.encode(wanted.prompt)


def _order(
    ids: tuple[int, ...],
    served: Served,
    asked: Asked,
    kind: AnswerKind,
    client: str,
    *,
    is_continuation: bool = False,
) -> Order:
    room = served.context_length - len(ids)
    answer = asked.sampling.max_tokens
    if room < 1 or (answer is not None and answer > room):
        param = "prompt" if is_continuation else "messages"
        raise too_long(context=served.context_length, prompt=len(ids), answer=answer, param=param)
    try:
        request = Request(
            id=f"http-{secrets.token_hex(12)}",
            prompt_ids=ids,
            sampling=with_seed(asked.sampling),
            chat_id=CLIENT_PREFIX + visible(asked.user or client)[:MAX_USER_CHARS],
            model=served.engine_name,
            num_samples=asked.num_answers,
            is_continuation=is_continuation,
            speculation=may_be_guessed(asked.sampling),
        )
    except ConfigError as error:
        raise api_error_of(error) from error
    return Order(request, served, asked, kind)
