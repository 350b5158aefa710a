"""Options of how an answer is sampled and what it may be, and the overrides made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import click

from localpaged.cli.text import TEXT
from localpaged.engine.params import (
    DEFAULT_TEMPERATURE,
    DEFAULT_TOP_P,
    MAX_GRAMMAR_CHARS,
    Grammar,
)
from localpaged.errors import ConfigError

PLAIN_OPTIONS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "max_tokens",
    "min_tokens",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "stop_loops",
)
"""Options that are named and valued as what they set."""

F = TypeVar("F", bound=Callable[..., Any])


class TokenBias(click.ParamType[tuple[int, float]]):
    """What is added to a token's logit, as 42=-3.5."""

    name = "id=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, float]:
        """Return the token's id and the bias."""
        token_id, _, bias = str(value).partition("=")
        try:
            return int(token_id), float(bias)
        except ValueError:
            self.fail(f"{value!r} is no bias; write 42=-3.5.", param, ctx)


class Temperatures(click.ParamType[tuple[float, ...]]):
    """One temperature or several, as 0.2,0.9."""

    name = "float[,float...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the numbers in their order."""
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no temperature; write 0.7, or several as 0.2,0.9.", param, ctx)


def all_of(
    ctx: click.Context, param: click.Parameter, values: Sequence[tuple[float, ...]]
) -> tuple[float, ...]:
    """Return the values of a repeated option as one list."""
    return tuple(chain.from_iterable(values))


stop_loops_option = click.option(
    "--stop-loops/--no-stop-loops",
    default=None,
    help="End an answer that only repeats itself; on by default.",
)


def sampling_options(command: F) -> F:
    """Add the options that say how an answer is sampled and what it may be."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def overrides_from(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options set, by the names of SamplingParams.

    Raises ConfigError for options that do not go together or a file that cannot be read, and
    BadParameter for a grammar that is none.
    """
    overrides = {name: options[name] for name in PLAIN_OPTIONS if options[name] is not None}
    for name in ("stop", "logit_bias"):
        if options[name]:
            overrides[name] = tuple(options[name])
    if options["logprobs"] is not None and not options["is_json"]:
        raise ConfigError("--logprobs needs --json.", hint="Add --json.")
    grammar = _grammar(options)
    if grammar is None:
        return overrides
    from localpaged.engine.grammar import check

    # Here, where nothing is loaded and nothing is saved yet.
    check(grammar)
    return {**overrides, "grammar": grammar}


def _grammar(options: Mapping[str, Any]) -> Grammar | None:
    names = ("schema", "regex", "grammar")
    given = {name: options[name] for name in names if options[name] is not None}
    if len(given) > 1:
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in given)} do not go together.",
            hint="Give only one of them.",
        )
    match given:
        case {"schema": str(schema)}:
            is_inline = schema.lstrip().startswith("{")
            text = TEXT.convert(schema, None, None) if is_inline else _file_text(schema)
            return Grammar("json_schema", text)
        case {"regex": str(regex)}:
            return Grammar("regex", regex)
        case {"grammar": str(path)}:
            return Grammar("lark", _file_text(path))
    return None


def _file_text(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            # One more than a grammar may have: what is longer is refused with its limit.
            return file.read(MAX_GRAMMAR_CHARS + 1)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path} cannot be read: {reason}.") from error


_OPTIONS = (
    click.option(
        "--temperature",
        "-t",
        type=float,
        help=f"0 always takes the likeliest token; default {DEFAULT_TEMPERATURE}.",
    ),
    click.option("--top-k", type=int, help="Choose among the k likeliest tokens."),
    click.option(
        "--top-p",
        type=float,
        help=f"Choose among tokens of this total probability; default {DEFAULT_TOP_P}.",
    ),
    click.option("--min-p", type=float, help="Drop tokens below this share of the likeliest."),
    click.option("--seed", type=int, help="The same seed gives the same answer."),
    click.option("--max-tokens", type=int, help="Length limit of the answer."),
    click.option("--min-tokens", type=int, help="The answer does not end before so many tokens."),
    click.option(
        "--stop", type=TEXT, multiple=True, help="End the answer before this text. Repeatable."
    ),
    stop_loops_option,
    click.option("--schema", help="JSON schema of the answer: a file, or the schema itself."),
    click.option("--regex", type=TEXT, help="Regular expression that the whole answer matches."),
    click.option("--grammar", metavar="FILE", help="Lark grammar of the answer."),
    click.option("--repetition-penalty", type=float, help="Above 1 avoids what was said."),
    click.option(
        "--presence-penalty", type=float, help="Subtracted once for tokens that the answer has."
    ),
    click.option("--frequency-penalty", type=float, help="Subtracted for every time it has them."),
    click.option(
        "--logit-bias",
        type=TokenBias(),
        multiple=True,
        help="Added to the logit of a token, as 42=-3.5. Repeatable.",
    ),
    click.option(
        "--logprobs",
        type=int,
        help="With --json: each token's log probability, and so many alternatives.",
    ),
)
