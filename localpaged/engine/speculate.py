"""Prompt lookup: guesses the next tokens from what the sequence has said before.

A draft costs a row of the step; a right one saves a whole step. A draw depends on seed and place
alone, so checking drafts against draws changes no token, greedy or not
(prompt lookup decoding; speculative decoding, arXiv 2211.17192).
"""

from __future__ import annotations

from collections.abc import Sequence

FIRST_RATES = (0.15, 0.4, 0.6)
"""How often a draft is right before any was seen, by length of n-gram: a word alone says little."""

LONGEST_NGRAM = len(FIRST_RATES)
MEMORY = 0.9
"""Weight of what was learned before when a draft is judged."""

SMOOTHING = 0.2
"""Weight of the newest step in the running averages of costs."""

LEAST_SHARE = 0.01
"""The least that a draft costs, of a step, whatever was measured."""

FIRST_PRICE = 0.2
"""A draft's cost in tokens before any was measured."""

SHORTEST_PAUSE = 8
LONGEST_PAUSE = 256
REMEASURE_STEPS = 64


class Drafter:
    """One sequence's guesses and how often they were right. Engine thread only.

    For each length of n-gram it remembers where the latest one continued and what share of its
    drafts was right. A length whose first draft is worth less than it costs pauses, and is tried
    again with one draft after ever longer pauses.
    """

    def __init__(self) -> None:
        self._continuations: dict[tuple[int, ...], int] = {}
        self._num_indexed = 0
        self._lengths = [_Record(rate) for rate in FIRST_RATES]
        self._used: _Record | None = None

    def propose(self, tokens: Sequence[int], *, limit: int, price: float) -> tuple[int, ...]:
        """Return up to `limit` guesses of what follows `tokens`.

        A draft costs `price` tokens; as many are proposed as are worth more than that.
        """
        self._index(tokens)
        for length in range(min(LONGEST_NGRAM, len(tokens) - 1), 0, -1):
            start = self._continuations.get(tuple(tokens[len(tokens) - length :]))
            if start is not None:
                self._used = self._lengths[length - 1]
                count = self._used.num_worth(price, limit=limit)
                return _follow(tokens, start, count)
        return ()

    def learn(self, *, num_drafts: int, num_right: int) -> None:
        """Take into account how many of the drafts proposed last were drawn."""
        assert self._used is not None
        self._used.learn(num_right, is_end_known=num_right < num_drafts)

    def _index(self, tokens: Sequence[int]) -> None:
        """Note where each n-gram continues; the last one has no continuation yet."""
        for place in range(max(self._num_indexed, 1), len(tokens)):
            for length in range(1, min(LONGEST_NGRAM, place) + 1):
                self._continuations[tuple(tokens[place - length : place])] = place
        self._num_indexed = len(tokens)


class DraftCosts:
    """What a draft costs on this machine, in tokens. Engine thread only."""

    def __init__(self) -> None:
        self._step_s: dict[int, float] = {}
        self._draft_s: float | None = None
        self._num_since_plain = 0

    def price(self, num_decodes: int) -> float | None:
        """Return a draft's cost in tokens beside `num_decodes` rows; None: measure without first.

        A token costs its share of a step without drafts.
        """
        step_s = self._step_s.get(num_decodes)
        if step_s is None or self._num_since_plain >= REMEASURE_STEPS:
            return None
        if self._draft_s is None:
            return FIRST_PRICE
        return self._draft_s * num_decodes / max(step_s, 1e-9)

    def learn(self, *, num_decodes: int, num_drafts: int, seconds: float) -> None:
        """Take the measured length of a step that reads no prompt into account."""
        step_s = self._step_s.get(num_decodes)
        if num_drafts == 0:
            self._num_since_plain = 0
            self._step_s[num_decodes] = _blend(step_s, seconds)
            return
        self._num_since_plain += 1
        if step_s is not None:
            draft_s = max((seconds - step_s) / num_drafts, LEAST_SHARE * step_s)
            self._draft_s = _blend(self._draft_s, draft_s)


class _Record:
    """How often the drafts of one length of n-gram were right."""

    def __init__(self, rate: float) -> None:
        self._num_judged = 2.0
        self._num_right = rate * self._num_judged
        self._pause = SHORTEST_PAUSE
        self._num_paused = 0

    def num_worth(self, price: float, *, limit: int) -> int:
        """Return how many drafts are worth `price` each: draft i is right at rate ** i."""
        rate = self._num_right / self._num_judged
        count = 0
        while count < limit and rate ** (count + 1) > price:
            count += 1
        if count:
            self._pause, self._num_paused = SHORTEST_PAUSE, 0
            return count
        self._num_paused += 1
        if self._num_paused < self._pause or limit == 0:
            return 0
        self._pause, self._num_paused = min(2 * self._pause, LONGEST_PAUSE), 0
        return 1

    def learn(self, num_right: int, *, is_end_known: bool) -> None:
        """Take drafts into account: those that were right and perhaps the first wrong one."""
        self._num_right = MEMORY * self._num_right + num_right
        self._num_judged = MEMORY * self._num_judged + num_right + is_end_known


def _follow(tokens: Sequence[int], start: int, count: int) -> tuple[int, ...]:
    """Return what followed from `start` on; a repetition that reaches the end goes on."""
    drafts: list[int] = []
    for place in range(start, start + count):
        drafts.append(tokens[place] if place < len(tokens) else drafts[place - len(tokens)])
    return tuple(drafts)


def _blend(old: float | None, new: float) -> float:
    # A machine that was busy elsewhere makes one step long; that says little about the next one.
    return new if old is None else (1 - SMOOTHING) * old + SMOOTHING * min(new, 2 * old)
