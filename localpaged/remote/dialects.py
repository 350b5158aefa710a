"""What servers know beyond OpenAI's own parameters, and how they are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Continues = Literal["no", "last", "flags"]
"""Whether a last message of the assistant is gone on with: no, always, or when it is asked for."""

BASE_SAMPLING = {
    name: name
    for name in (
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "stop",
        "presence_penalty",
        "frequency_penalty",
    )
}
"""Parameters by our names, with the fields of a request that carry them."""
EXTRA_SAMPLING = {
    name: name
    for name in (
        "top_k",
        "min_p",
        "repetition_penalty",
        "repeat_penalty",
        "min_tokens",
        "ignore_eos",
        "stop_token_ids",
    )
}
"""What a section of the config file may say its server knows."""
_VLLM = ("top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server. `sampling` has what it knows, as BASE_SAMPLING does.

    `owners` is what it says in `owned_by` of its models.
    """

    name: str
    sampling: Mapping[str, str]
    continues: Continues = "no"
    owners: tuple[str, ...] = ()

    def with_extras(self, names: Iterable[str], *, can_continue: bool | None) -> Dialect:
        """Return the dialect of a server that knows more, or less, than others of its kind."""
        sampling = {**self.sampling, **_extras(names)}
        continues = self.continues
        if can_continue is not None:
            continues = (continues if continues != "no" else "last") if can_continue else "no"
        return Dialect(self.name, sampling, continues, self.owners)


def _extras(names: Iterable[str]) -> dict[str, str]:
    # llama.cpp's family calls ours by another name
    return {"repetition_penalty" if n == "repeat_penalty" else n: n for n in names}


def _dialect(
    name: str, *extras: str, continues: Continues = "no", owners: tuple[str, ...] = ()
) -> Dialect:
    return Dialect(name, {**BASE_SAMPLING, **_extras(extras)}, continues, owners)


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        _dialect("openai"),
        _dialect("vllm", *_VLLM, continues="flags", owners=("vllm",)),
        _dialect("sglang", *_VLLM, continues="flags", owners=("sglang",)),
        _dialect(
            *("llamacpp", "top_k", "min_p", "repeat_penalty", "ignore_eos"),
            continues="last",
            owners=("llamacpp",),
        ),
        _dialect("llamacpp-python", "top_k", "min_p", "repeat_penalty", owners=("me",)),
        _dialect(*("lmstudio", "top_k", "repeat_penalty"), owners=("organization_owner",)),
        _dialect("ollama", owners=("library",)),
        _dialect("localpaged", *_VLLM, owners=("localpaged",)),
    )
}


def dialect_of(owned_by: str) -> Dialect:
    """Return the kind of server that says this of its models; OpenAI's own for any other."""
    known = (dialect for dialect in DIALECTS.values() if owned_by.lower() in dialect.owners)
    return next(known, DIALECTS["openai"])
