"""Sampling parameters out of a body: OpenAI's fields, and the engine's own under its names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from localpaged.chat.sampling_options import with_overrides
from localpaged.engine.params import (
    MAX_STOP_CHARS,
    MAX_STOPS,
    MAX_TOKEN_LIST,
    DryParams,
    Grammar,
    SamplingParams,
)
from localpaged.errors import BadParameter
from localpaged.server.errors import invalid, invalid_type
from localpaged.server.fields import Fields

MAX_TEMPERATURE = 2.0
MAX_TOKENS = 2**31 - 1
MAX_TOP_K = 2**31 - 1
_SEED_RANGE = 2**63
MAX_LINK_TOKENS = 1_000

OPENAI_FIELDS = (
    *("temperature", "top_p", "seed", "stop"),
    *("presence_penalty", "frequency_penalty", "logit_bias"),
)
OWN_FIELDS = (
    *("top_k", "min_p", "repetition_penalty", "dry", "min_tokens", "stop_token_ids"),
    *("ignore_eos", "regex", "grammar"),
)
FIELDS = frozenset((*OPENAI_FIELDS, *OWN_FIELDS))


def sampling_of(
    fields: Fields, defaults: SamplingParams, *, max_tokens: int | None
) -> SamplingParams:
    """Return the sampling parameters of a body over the server's defaults. Raises ApiError."""
    given: dict[str, Any] = {
        "temperature": fields.number("temperature", low=0.0, high=MAX_TEMPERATURE),
        "top_p": fields.number("top_p", low=0.0, high=1.0),
        "min_p": fields.number("min_p", low=0.0, high=1.0),
        "top_k": fields.whole("top_k", low=0, high=MAX_TOP_K),
        "presence_penalty": fields.number("presence_penalty", low=-2.0, high=2.0),
        "frequency_penalty": fields.number("frequency_penalty", low=-2.0, high=2.0),
        "repetition_penalty": fields.number("repetition_penalty", low=0.01, high=10.0),
        "seed": _seed(fields),
        "stop": _stops(fields),
        "logit_bias": _logit_bias(fields),
        "dry": _dry(fields),
        "min_tokens": fields.whole("min_tokens", low=0, high=MAX_TOKENS),
        "stop_token_ids": _token_ids(fields, "stop_token_ids"),
        "max_tokens": max_tokens,
        "grammar": own_grammar(fields),
    }
    if given["top_p"] == 0.0:
        given["top_p"] = None
        given["temperature"] = 0.0  # nothing but the likeliest token is left
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        return with_overrides(defaults, {"ignore_eos": fields.flag("ignore_eos"), **chosen})
    except BadParameter as error:
        raise invalid(
            error.message, param=_named_in(error.message), code="invalid_value"
        ) from error


def own_grammar(fields: Fields) -> Grammar | None:
    """Return the grammar of the engine's own fields; None if there is none."""
    regex, lark = fields.text("regex"), fields.text("grammar")
    if regex is not None and lark is not None:
        raise invalid("'regex' and 'grammar' exclude each other.", param=fields.path_of("regex"))
    if regex is not None:
        return grammar_of("regex", regex, param="regex")
    return None if lark is None else grammar_of("lark", lark, param="grammar")


def grammar_of(kind: str, text: str, *, param: str) -> Grammar:
    """Return a grammar; raises ApiError naming `param` when it cannot be one."""
    try:
        return Grammar(kind, text)  # type: ignore[arg-type]
    except BadParameter as error:
        raise invalid(error.message, param=param, code="invalid_value") from error


def _seed(fields: Fields) -> int | None:
    seed = fields.whole("seed", low=-_SEED_RANGE, high=_SEED_RANGE - 1)
    return None if seed is None else seed % _SEED_RANGE


def _stops(fields: Fields) -> tuple[str, ...] | None:
    raw = fields.raw("stop")
    if raw is None:
        return None
    stops: list[str] = []
    one_or_more = [raw] if isinstance(raw, str) else fields.items("stop", most=MAX_STOPS)
    for place, stop in enumerate(one_or_more or ()):
        if not isinstance(stop, str):
            raise invalid_type(f"stop[{place}]", "a string", stop)
        if not 0 < len(stop) <= MAX_STOP_CHARS:
            raise invalid(
                f"Invalid 'stop': a stop string has 1 to {MAX_STOP_CHARS} characters.", param="stop"
            )
        stops.append(stop)
    return tuple(dict.fromkeys(stops))


def _logit_bias(fields: Fields) -> tuple[tuple[int, float], ...] | None:
    biases = fields.object("logit_bias")
    if biases is None:
        return None
    raw = fields.raw("logit_bias")
    if len(raw) > MAX_TOKEN_LIST:
        raise invalid(
            f"Invalid 'logit_bias': at most {MAX_TOKEN_LIST} tokens are possible.",
            param="logit_bias",
        )
    pairs: dict[int, float] = {}
    for name in raw:
        if not (name.isascii() and name.isdigit() and len(name) <= 9):
            raise invalid("Invalid key in 'logit_bias': keys are token ids.", param="logit_bias")
        bias = biases.number(name, low=-100.0, high=100.0)
        if bias is None:
            raise invalid_type(biases.path_of(name), "a decimal", None)
        pairs[int(name)] = bias
    return tuple(pairs.items())


def _dry(fields: Fields) -> DryParams | None:
    """DRY as its multiplier, or as an object of its parameters."""
    if isinstance(fields.raw("dry"), int | float):
        multiplier = fields.number("dry", low=0.0, high=100.0)
        return DryParams(multiplier) if multiplier else None
    dry = fields.object("dry")
    if dry is None:
        return None
    dry.refuse_others(("multiplier", "base", "allowed_length"))
    multiplier = dry.number("multiplier", low=0.0, high=100.0)
    if multiplier is None:
        raise dry.missing("multiplier")
    base = dry.number("base", low=1.0, high=10.0)
    length = dry.whole("allowed_length", low=1, high=MAX_LINK_TOKENS)
    plain = DryParams(multiplier)
    return replace(
        plain,
        base=plain.base if base is None else base,
        allowed_length=plain.allowed_length if length is None else length,
    )


def _token_ids(fields: Fields, name: str) -> tuple[int, ...] | None:
    ids = fields.items(name, most=MAX_TOKEN_LIST)
    if ids is None:
        return None
    for place, id_ in enumerate(ids):
        if not isinstance(id_, int) or isinstance(id_, bool):
            raise invalid_type(f"{fields.path_of(name)}[{place}]", "an integer", id_)
        if not 0 <= id_ < MAX_TOKENS:
            raise invalid(f"Invalid '{name}': {place} is no token id.", param=name)
    return tuple(dict.fromkeys(ids))


def _named_in(message: str) -> str | None:
    first_word = message.partition(" ")[0]
    return first_word if first_word in (*FIELDS, "max_tokens") else None
