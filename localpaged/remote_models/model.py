"""A ChatModel behind an endpoint: it reads messages, and nothing is known of its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.abilities import Abilities, Ability, of_endpoint
from localpaged.plain_text import visible
from localpaged.prompt import PromptMessage, ReasoningMarks
from localpaged.remote.dialects import DIALECTS
from localpaged.remote.endpoint import AUTO, Endpoint
from localpaged.remote.served import Known

MARKS = ReasoningMarks("<think>", "</think>")
"""Between these its reasoning stands in a saved answer: endpoints tell it apart from the text."""
UNKNOWN_CONTEXT = 0
DONE_HERE = frozenset({"stop_loops"})
"""Parameters that the chats act on, whoever answers: who reads an answer looks for loops."""


class EndpointModel:
    """Any thread. Invariant: what is known is replaced by one assignment, never changed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        dialect = DIALECTS["openai" if endpoint.kind == AUTO else endpoint.kind]
        dialect = dialect.with_extras(endpoint.sampling, can_continue=endpoint.can_continue)
        # until the server was asked nobody knows what it can: everything may be tried
        may_know = None if endpoint.kind == AUTO else frozenset(dialect.sampling)
        may_continue = endpoint.kind == AUTO or dialect.continues != "no"
        self.abilities = _abilities(endpoint, may_know, can_continue=may_continue)
        self._context = endpoint.context or UNKNOWN_CONTEXT

    def learn(self, known: Known) -> None:
        """Take what the server told of itself."""
        self._context = known.context or UNKNOWN_CONTEXT
        self.abilities = _abilities(
            self.endpoint,
            frozenset(known.dialect.sampling),
            can_continue=known.dialect.continues != "no",
        )

    @property
    def name(self) -> str:
        """See ChatModel."""
        return self.endpoint.name

    @property
    def fingerprint(self) -> str:
        """See ChatModel."""
        return f"endpoint {self.endpoint.url} {self.endpoint.model}"

    @property
    def context_length(self) -> int:
        """See ChatModel; 0 when it is not known."""
        return self._context

    @property
    def reasoning(self) -> ReasoningMarks | None:
        """See ChatModel."""
        return MARKS

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Raise ChatError: its tokenizer is not here."""
        self.abilities.require(Ability.PRICE)
        raise AssertionError("an endpoint has no tokenizer")

    def pieces(self, ids: Sequence[int]) -> Sequence[bytes]:
        """See ChatModel; there are no ids of it."""
        return [b""] * len(ids)

    def spell(self, ids: Sequence[int]) -> str:
        """See ChatModel; there are no ids of it."""
        return ""


def _abilities(
    endpoint: Endpoint, sampling: frozenset[str] | None, *, can_continue: bool
) -> Abilities:
    told = None if sampling is None else sampling | {"grammar"} | DONE_HERE
    return of_endpoint(visible(endpoint.name), sampling=told, can_continue=can_continue)
