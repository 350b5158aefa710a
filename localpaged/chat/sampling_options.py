"""Sampling parameters as a person writes them: names, texts for them, values out of texts.

The one table behind the config file, a chat's options and `/set`. A chat keeps only what differs
from the defaults, as JSON of these names.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from localpaged.engine.params import DryParams, SamplingParams
from localpaged.errors import BadParameter

DRY_ON = DryParams(multiplier=0.8)
"""What "on" means: the strength that DRY's author recommends."""
STOP_SEPARATOR = " | "
_ON, _OFF = ("on", "true", "yes"), ("off", "false", "no")

Kind = Literal["number", "whole", "texts", "dry", "flag"]


@dataclass(frozen=True, slots=True)
class SamplingOption:
    """One parameter: `name` is the field of SamplingParams, `label` and `doc` are for people.

    `unset` is how the value None is written, where the parameter may be None.
    """

    name: str
    label: str
    kind: Kind
    doc: str
    unset: str = ""

    def value_of(self, text: str) -> Any:
        """Return the value that `text` writes. Raises BadParameter when it writes none."""
        if self.kind == "texts":
            # white space is a part of what ends an answer
            return tuple(_unescaped(part) for part in text.split(STOP_SEPARATOR) if part)
        text = text.strip()
        if self.unset and text.casefold() == self.unset:
            return None
        match self.kind:
            case "dry":
                return self._dry(text)
            case "flag":
                return self._flag(text)
            case "whole":
                return self._number(text, int, "a whole number")
            case _:
                return self._number(text, float, "a number")

    def text_of(self, value: Any) -> str:
        """Return how a person writes `value`."""
        if value is None:
            return self.unset
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, DryParams):
            return "on" if value == DRY_ON else f"{value.multiplier:g}"
        if isinstance(value, tuple):
            return STOP_SEPARATOR.join(_escaped(part) for part in value)
        return f"{value:g}" if isinstance(value, float) else str(value)

    def _number(self, text: str, kind: type[int] | type[float], what: str) -> int | float:
        try:
            return kind(text)
        except ValueError:
            raise BadParameter(f"{self.name} must be {what}, not {text!r}.") from None

    def _flag(self, text: str) -> bool:
        word = text.casefold()
        if word in _ON or word in _OFF:
            return word in _ON
        raise BadParameter(f"{self.name} is on or off, not {text!r}.")

    def _dry(self, text: str) -> DryParams | None:
        if text.casefold() in _ON:
            return DRY_ON
        if text.casefold() in _OFF:
            return None
        try:
            multiplier = float(text)
        except ValueError:
            raise BadParameter(f"dry is on, off or a multiplier, not {text!r}.") from None
        return DryParams(multiplier=multiplier) if multiplier else None


OPTIONS = (
    SamplingOption("temperature", "Temperature", "number", "0 takes the likeliest token"),
    SamplingOption("top_k", "Top-k", "whole", "only the k likeliest; 0: off"),
    SamplingOption("top_p", "Top-p", "number", "likeliest up to this sum"),
    SamplingOption("min_p", "Min-p", "number", "least share of the likeliest"),
    SamplingOption(
        "repetition_penalty", "Repetition penalty", "number", "above 1 avoids what was said"
    ),
    SamplingOption("presence_penalty", "Presence penalty", "number", "taken off once it was used"),
    SamplingOption("frequency_penalty", "Frequency penalty", "number", "taken off for each use"),
    SamplingOption("dry", "DRY", "dry", "against loops; on or number", "off"),
    SamplingOption("seed", "Seed", "whole", "same seed, same answer", "random"),
    SamplingOption("max_tokens", "Max tokens", "whole", "length limit of an answer", "none"),
    SamplingOption("min_tokens", "Min tokens", "whole", "no end before so many"),
    SamplingOption("stop", "Stop strings", "texts", "end before any of these"),
    SamplingOption("stop_loops", "Stop loops", "flag", "end what only repeats itself"),
)
BY_NAME = {option.name: option for option in OPTIONS}
_SHORT = {"temp": "temperature", "t": "temperature", "rep": "repetition_penalty"}


def find_option(name: str) -> SamplingOption:
    """Return the option that `name` means. Raises BadParameter with the nearest name."""
    plain = name.strip().casefold().replace("-", "_")
    option = BY_NAME.get(_SHORT.get(plain, plain))
    if option is None:
        near = difflib.get_close_matches(plain, [*BY_NAME, *_SHORT], n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(BY_NAME)}."
        raise BadParameter(f"There is no sampling option {name!r}.", hint=hint)
    return option


def with_overrides(defaults: SamplingParams, overrides: Mapping[str, Any]) -> SamplingParams:
    """Return the defaults with other values for some. Raises BadParameter.

    A length limit that is asked for counts more than a least length that is merely the default.
    """
    limit = overrides.get("max_tokens")
    if isinstance(limit, int) and "min_tokens" not in overrides:
        defaults = replace(
            defaults, max_tokens=None, min_tokens=max(0, min(defaults.min_tokens, limit))
        )
    return replace(defaults, **overrides)


def pack_overrides(overrides: Mapping[str, Any]) -> str:
    """Return overrides as the JSON that a chat keeps."""
    return json.dumps(
        {k: asdict(v) if isinstance(v, DryParams) else v for k, v in overrides.items()}
    )


def unpack_overrides(options: str) -> dict[str, Any]:
    """Return what a chat keeps; what a later version may have added is left out."""
    known = {name: value for name, value in json.loads(options).items() if name in BY_NAME}
    if "stop" in known:
        known["stop"] = tuple(known["stop"])
    if known.get("dry") is not None:
        known["dry"] = as_dry(known["dry"])
    return known


def as_dry(saved: Mapping[str, Any]) -> DryParams:
    """Return DRY as it was saved."""
    return DryParams(**{**saved, "breaker_ids": tuple(saved.get("breaker_ids", ()))})


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _unescaped(text: str) -> str:
    marks = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    parts: list[str] = []
    at = 0
    while at < len(text):
        mark = marks.get(text[at : at + 2])
        parts.append(text[at] if mark is None else mark)
        at += 1 if mark is None else 2
    return "".join(parts)
