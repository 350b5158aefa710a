"""BeamGroup: the sequences behind a beam search, forked and dropped as the search decides."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from localpaged.engine.beam_search import BeamSearch, Hypothesis
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence
from localpaged.engine.step_plan import Candidate, SequenceId


class BeamGroup:
    """One search and its living sequences, best beam first. Engine thread only.

    A round ends when every living sequence has its candidates; who has them waits, and may lose
    its blocks meanwhile without losing its place.
    """

    def __init__(self, search: BeamSearch, first: Sequence) -> None:
        self._search = search
        self._living = [first]
        self._candidates: dict[SequenceId, tuple[Candidate, ...]] = {}

    @property
    def sequences(self) -> Seq[Sequence]:
        """The living sequences."""
        return tuple(self._living)

    @property
    def is_done(self) -> bool:
        """Whether the search has ended; no sequence lives any more."""
        return self._search.is_done

    def best(self) -> list[Hypothesis]:
        """Return the hypotheses found, best first."""
        return self._search.best()

    def take(
        self, sequence: Sequence, candidates: tuple[Candidate, ...], scheduler: Scheduler
    ) -> None:
        """Take a sequence's candidates; with the last ones of a round, begin the next round."""
        self._candidates[sequence.id] = candidates
        sequence.is_paused = True
        if len(self._candidates) == len(self._living):
            self._advance(scheduler)

    def _advance(self, scheduler: Scheduler) -> None:
        parents = self._living
        beams = self._search.advance([self._candidates[parent.id] for parent in parents])
        self._candidates.clear()
        # Fork before any token is appended: children begin with what the parent had.
        heirs: set[int] = set()
        living: list[Sequence] = []
        for beam in beams:
            parent = parents[beam.parent]
            living.append(scheduler.fork(parent, branch=0) if beam.parent in heirs else parent)
            heirs.add(beam.parent)
        for place, parent in enumerate(parents):
            if place not in heirs:
                scheduler.finish(parent)
        for beam, sequence in zip(beams, living, strict=True):
            sequence.tokens.append(beam.token_id)
            sequence.is_paused = False
        self._living = living
