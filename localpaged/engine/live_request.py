"""LiveRequest: a request in the engine, its answers and how many of them are still open."""

from __future__ import annotations

from localpaged.engine.answer import Answer
from localpaged.engine.beam_group import BeamGroup
from localpaged.engine.events import Event, FinishEvent, PrefillEvent, TokenEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request
from localpaged.engine.sequence import Sequence


class LiveRequest:
    """Engine thread only. Open until every answer has ended."""

    def __init__(self, request: Request, first: Answer, *, beams: BeamGroup | None) -> None:
        self.request = request
        self.answers = [first]
        self.beams = beams
        self.cancelled_branches: set[int] = set()

    @property
    def first(self) -> Answer:
        """The answer whose sequence reads the prompt for all."""
        return self.answers[0]

    @property
    def open_answers(self) -> list[Answer]:
        """The answers that still grow."""
        return [answer for answer in self.answers if not answer.is_over]

    @property
    def is_open(self) -> bool:
        """Whether an answer still grows, or branches are still to come."""
        is_branched = len(self.answers) == self.request.num_samples
        return bool(self.open_answers) if self.beams or is_branched else not self.first.is_over

    def beam_events(self, reason: FinishReason) -> list[Event]:
        """Return the texts and the ends of a beam search's answers, best first."""
        assert self.beams is not None
        request, first = self.request, self.first
        best = self.beams.best()[: request.num_samples]
        events: list[Event] = []
        for branch, hypothesis in enumerate(best):
            token_ids = hypothesis.token_ids
            is_ended = bool(token_ids) and token_ids[-1] in first.sequence.end_ids
            why = reason if is_ended or reason is FinishReason.CANCELLED else FinishReason.LENGTH
            events += [
                TokenEvent(request.id, token_ids, first.text_of(token_ids), branch),
                FinishEvent(
                    request.id,
                    why,
                    first.usage(num_tokens=len(token_ids)),
                    branch,
                    is_last=branch == len(best) - 1,
                    score=hypothesis.score,
                ),
            ]
        return events


def prefill_event(sequence: Sequence) -> PrefillEvent:
    """Return what is told of how far a prompt was read."""
    return PrefillEvent(
        sequence.request.id,
        cached_tokens=sequence.num_cached_at_start or 0,
        computed_tokens=min(sequence.num_computed, sequence.num_prompt),
        prompt_tokens=sequence.num_prompt,
    )
