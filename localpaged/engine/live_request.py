"""LiveRequest: a request in the engine, its answers and how many of them are still open."""

from __future__ import annotations

from localpaged.engine.answer import Answer
from localpaged.engine.beam_group import BeamGroup
from localpaged.engine.params import Request


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
