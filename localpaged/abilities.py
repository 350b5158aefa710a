"""What a model lets be done with its answers, and why not what it does not: the one place."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from localpaged.errors import ChatError


class Ability(StrEnum):
    """What only an engine in this process can do. The value is how an error calls it."""

    TOKENS = "look at tokens"
    TOKEN_FORK = "fork inside an answer"
    BLOCKS = "show KV blocks"
    PIN = "pin or evict memory"
    WHY = "tell why a prompt was not cached"
    PRICE = "count tokens before they are sent"
    CONTEXT = "count ways on in a full context"
    LOGPROBS = "tell log probabilities"
    UNLOAD = "load or unload it"


_REASONS = {
    Ability.TOKENS: "its tokens are not known here",
    Ability.TOKEN_FORK: "its tokens are not known here",
    Ability.BLOCKS: "its KV memory is elsewhere",
    Ability.PIN: "its KV memory is elsewhere",
    Ability.WHY: "what it had cached is not told",
    Ability.PRICE: "its tokenizer is not here",
    Ability.CONTEXT: "its tokenizer is not here",
    Ability.LOGPROBS: "its tokens are not known here",
    Ability.UNLOAD: "its memory is on its own machine",
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """What can be done with a model. `endpoint` is how a remote one is called, "" is one here.

    `sampling` has the names of the parameters it knows; None is all there are.
    """

    endpoint: str = ""
    missing: Set[Ability] = frozenset()
    sampling: Set[str] | None = None
    can_continue: bool = True

    @property
    def is_remote(self) -> bool:
        """Whether messages leave this machine's process."""
        return bool(self.endpoint)

    def why_not(self, ability: Ability) -> str:
        """Return the reason against it as a short text; empty when it can be done."""
        if ability not in self.missing:
            return ""
        return f"{self.endpoint} is an endpoint: {_REASONS[ability]}"

    def why_not_set(self, parameter: str) -> str:
        """Return why a sampling parameter cannot be set; empty when it can."""
        if self.sampling is None or parameter in self.sampling:
            return ""
        return f"{self.endpoint} does not know {parameter}"

    @property
    def why_not_continue(self) -> str:
        """The reason why an answer that was cut cannot go on; empty when it can."""
        return "" if self.can_continue else f"{self.endpoint} cannot continue an answer"

    def require(self, ability: Ability) -> None:
        """Raise ChatError with the reason unless it can be done."""
        if reason := self.why_not(ability):
            raise ChatError(f"{reason}.", hint="Models on this machine can do it.")


EMBEDDED = Abilities()


@runtime_checkable
class Limited(Protocol):
    """A model that lets less be done than one in this process does."""

    @property
    def abilities(self) -> Abilities:
        """What can be done with it."""


def abilities_of(model: object) -> Abilities:
    """Return what a model lets be done with it."""
    return model.abilities if isinstance(model, Limited) else EMBEDDED


def of_endpoint(
    name: str, *, sampling: Set[str] | None = None, can_continue: bool = True
) -> Abilities:
    """Return what a remote endpoint of that name can do."""
    return Abilities(name, frozenset(Ability), sampling, can_continue)
