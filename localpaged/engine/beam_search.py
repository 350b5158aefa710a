"""BeamSearch: which continuations of a prompt live on. Plain numbers; equal to transformers'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localpaged.engine.params import BeamParams
from localpaged.engine.step_plan import Candidate


@dataclass(frozen=True, slots=True)
class Beam:
    """A living continuation: its parent's place in the last round, its last token, its score."""

    parent: int
    token_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished continuation; `score` has the length penalty in it."""

    token_ids: tuple[int, ...]
    score: float


class BeamSearch:
    """The state of one search. Engine thread only.

    Each round takes every living beam's likeliest tokens and returns the beams that live on; the
    best finished ones are kept. Scores are sums of log probabilities; finished ones are divided
    by length ** length_penalty, as in transformers' `generate(num_beams=…)`.
    """

    def __init__(self, params: BeamParams, *, eos_ids: frozenset[int], max_tokens: int) -> None:
        self.params = params
        self._eos_ids = eos_ids
        self._max_tokens = max_tokens
        self._answers: list[tuple[int, ...]] = [()]
        self._scores = [0.0]
        self._finished: list[Hypothesis] = []
        self.is_done = False

    @property
    def num_candidates(self) -> int:
        """Tokens to look at for each beam: enough that `width` beams live on."""
        return max(2, 1 + len(self._eos_ids)) * self.params.width

    @property
    def answers(self) -> Sequence[tuple[int, ...]]:
        """The living beams' tokens, best first."""
        return self._answers

    def best(self) -> list[Hypothesis]:
        """Return the finished hypotheses, best first; living ones fill up when there are none."""
        if self._finished:
            return sorted(self._finished, key=lambda h: -h.score)
        penalty = max(1, len(self._answers[0])) ** self.params.length_penalty
        return [
            Hypothesis(answer, score / penalty)
            for answer, score in zip(self._answers, self._scores, strict=True)
        ]

    def advance(self, candidates: Sequence[Sequence[Candidate]]) -> list[Beam]:
        """Take the candidates of each living beam, in order; return the beams that live on.

        After the last round nothing lives on and `is_done` is true.
        """
        length = len(self._answers[0]) + 1
        ranked = sorted(
            (
                Beam(parent, candidate.token_id, self._scores[parent] + candidate.logprob)
                for parent, beam in enumerate(candidates)
                for candidate in beam
            ),
            key=lambda beam: -beam.score,
        )[: self.num_candidates]
        width = self.params.width
        is_last = length >= self._max_tokens
        ended = [is_last or beam.token_id in self._eos_ids for beam in ranked]
        living = [beam for beam, over in zip(ranked, ended, strict=True) if not over][:width]
        new = [
            Hypothesis(
                (*self._answers[beam.parent], beam.token_id),
                beam.score / length**self.params.length_penalty,
            )
            # Only the best `width` may finish; the rest is there to keep enough beams alive.
            for beam, over in zip(ranked[:width], ended[:width], strict=True)
            if over
        ]
        if not (self.params.early_stopping is True and len(self._finished) == width):
            self._finished = sorted(self._finished + new, key=lambda h: -h.score)[:width]
        self._answers = [(*self._answers[beam.parent], beam.token_id) for beam in living]
        self._scores = [beam.score for beam in living]
        self.is_done = is_last or not living or self._cannot_improve(length)
        return [] if self.is_done else living

    def _cannot_improve(self, length: int) -> bool:
        """Whether the finished beams will stay the best (transformers' stopping heuristics)."""
        if len(self._finished) < self.params.width:
            return False
        if self.params.early_stopping is True:
            return True
        penalty = self.params.length_penalty
        is_never = self.params.early_stopping == "never"
        best_length = self._max_tokens if is_never and penalty > 0 else length
        best_possible: float = self._scores[0] / best_length**penalty
        return best_possible <= min(h.score for h in self._finished)
