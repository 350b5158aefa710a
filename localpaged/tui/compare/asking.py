"""What `/compare n=4 t=0.2,0.7 m=A,B prompt` asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localpaged.chat.compare import BranchSpec, make_specs
from localpaged.chat.sampling_options import BY_NAME
from localpaged.errors import BadParameter

SYNTAX = "n=4 t=0.2,0.7 m=A,B seed=1 blind"
_OPTION = re.compile(r"(blind|([a-z_]+)=(\S*))(?:\s+|$)")
_NAMES = {"temp": "t", "temperature": "t", "model": "m", "models": "m", "s": "seed"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers that are wanted, and the prompt; an empty one is still to be written."""

    specs: Sequence[BranchSpec]
    prompt: str = ""
    is_blind: bool = False


def asked_for(text: str) -> Asked:
    """Read options up to the first word that is none; the rest is the prompt, as it stands.

    Raises BadParameter, with what is possible.
    """
    text = text.lstrip()
    options: dict[str, str] = {}
    is_blind = False
    while (match := _OPTION.match(text)) is not None:
        name = _NAMES.get(match[2] or "", match[2])
        if match[1] == "blind":
            is_blind = True
        elif name in ("n", "t", "m", "seed"):
            options[name] = match[3]
        elif name in BY_NAME:
            raise BadParameter(f"A compare has no {name} of its own.", hint=_hint())
        else:
            break
        text = text[match.end() :]
    return Asked(
        make_specs(
            models=[name for name in options.get("m", "").split(",") if name],
            num_samples=_whole("n", options["n"]) if "n" in options else None,
            temperatures=[_number("t", part) for part in options.get("t", "").split(",") if part],
            seed=_whole("seed", options["seed"]) if "seed" in options else None,
        ),
        text,
        is_blind,
    )


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"{name} must be a whole number, not {text!r}.", hint=_hint()) from None


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadParameter(f"{name} must be numbers, not {text!r}.", hint=_hint()) from None


def _hint() -> str:
    return f"Write options such as {SYNTAX} before the prompt."
