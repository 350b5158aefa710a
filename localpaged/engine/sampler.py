"""Sampler: what follows from the logits of a step's rows: tokens, or candidates of a beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from localpaged.engine.drawing import DrawTask, Select, draw_tokens, select_likeliest
from localpaged.engine.events import TokenLogprob
from localpaged.engine.grammar import DEAD_END
from localpaged.engine.logprobs import Measured, report
from localpaged.engine.penalties import Adjusted, adjust
from localpaged.engine.step_plan import Candidate, Draw, PlannedRow, RowResult

NOT_FINITE = RowResult(error="The model produced numbers that are not finite.")
NOTHING_ALLOWED = RowResult(error=DEAD_END)


@dataclass(frozen=True, slots=True)
class Spot:
    """The logits at `place` that follow a row's known tokens and the first `offset` drafts."""

    place: int
    row: PlannedRow
    offset: int

    @property
    def draws(self) -> tuple[Draw, ...]:
        """What is drawn here."""
        draws = self.row.draws
        return (
            draws
            if self.offset == 0
            else tuple(replace(d, index=d.index + self.offset) for d in draws)
        )

    @property
    def adjusted(self) -> Adjusted:
        """What changes these logits before a draw."""
        row = self.row
        return Adjusted(
            self.place,
            row.sampling,
            (*row.history, *row.drafts[: self.offset]) if row.history else (),
            row.num_prompt,
            row.barred_ids if self._is_short else (),
            row.allowed,
        )

    @property
    def _is_short(self) -> bool:
        return not self.draws or self.draws[0].index < self.row.sampling.min_tokens


def sample(
    logits: torch.Tensor,
    rows: Sequence[PlannedRow],
    *,
    padding_ids: torch.Tensor,
    select: Select = select_likeliest,
) -> list[RowResult]:
    """Decide what follows each of `rows`; logits [spots, vocab] float32 are changed in place.

    A row has a spot for its last token and one before it for each draft. `padding_ids` int64 only
    round the vocabulary up and are never chosen. A row whose logits are not finite gets an error
    and leaves the others alone. `select` finds the likeliest tokens.
    """
    if len(padding_ids):  # it costs a look at all logits
        logits.index_fill_(1, padding_ids, float("-inf"))
    # Infinite logits are legal (masked ids); a row is broken when its maximum is not a number.
    is_sound = logits.amax(dim=-1).isfinite().tolist()
    by_row = spots_of(rows)
    results = [NOT_FINITE] * len(rows)
    sound = [i for i, spots in enumerate(by_row) if all(is_sound[spot.place] for spot in spots)]
    measured = _measure(logits, [by_row[i] for i in sound])
    beams = [i for i in sound if rows[i].num_candidates]
    if beams:
        # As in transformers, what changes a beam's scores changes log probabilities.
        places = [by_row[i][0].place for i in beams]
        logits[places] = logits[places].log_softmax(-1)
    adjust(logits, [spot.adjusted for i in sound for spot in by_row[i]])
    for i in beams:
        results[i] = RowResult(candidates=_likeliest(logits[by_row[i][0].place], rows[i]))
    drawing = [i for i in sound if rows[i].draws]
    if any(rows[i].allowed is not None for i in drawing):
        is_possible = logits.amax(dim=-1).isfinite().tolist()
        for i in drawing:
            results[i] = NOTHING_ALLOWED
        drawing = [i for i in drawing if all(is_possible[spot.place] for spot in by_row[i])]
    drawn = _draw(logits, [by_row[i] for i in drawing], select)
    for i, token_ids in zip(drawing, drawn, strict=True):
        results[i] = RowResult(
            token_ids, logprobs=_report(measured, by_row[i], token_ids) if measured else ()
        )
    return results


def spots_of(rows: Sequence[PlannedRow]) -> list[list[Spot]]:
    """Return the spots of each row."""
    by_row: list[list[Spot]] = []
    place = 0
    for row in rows:
        by_row.append([Spot(place + offset, row, offset) for offset in range(row.num_logits)])
        place += row.num_logits
    return by_row


def _draw(
    logits: torch.Tensor, by_row: Sequence[Sequence[Spot]], select: Select
) -> list[tuple[int, ...]]:
    """Return the tokens of each row: of all its draws, or up to the first draft that is wrong."""
    tasks = [
        (spot.place, DrawTask(draw, spot.row.sampling))
        for spots in by_row
        for spot in spots
        for draw in spot.draws
    ]
    if not tasks:
        return []
    places = [place for place, _ in tasks]
    own = logits if places == list(range(len(logits))) else logits[places]
    tokens = iter(draw_tokens(own, [task for _, task in tasks], select=select))
    drawn = [[next(tokens) for spot in spots for _ in spot.draws] for spots in by_row]
    return [
        tuple(row_tokens[: 1 + num_agreeing(row_tokens, spots[0].row.drafts)])
        if spots[0].row.drafts
        else tuple(row_tokens)
        for row_tokens, spots in zip(drawn, by_row, strict=True)
    ]


def num_agreeing(tokens: Sequence[int], drafts: Sequence[int]) -> int:
    """Return how many of `drafts` were drawn before the first that was not."""
    pairs = enumerate(zip(tokens, drafts, strict=False))
    return next((i for i, (token, draft) in pairs if token != draft), len(drafts))


def _measure(logits: torch.Tensor, by_row: Sequence[Sequence[Spot]]) -> Measured | None:
    """Keep the log probabilities that are asked for before anything changes the logits."""
    places = [
        spot.place
        for spots in by_row
        for spot in spots
        if spot.row.draws and spot.row.sampling.logprobs is not None
    ]
    return Measured.of(logits, places) if places else None


def _report(
    measured: Measured, spots: Sequence[Spot], token_ids: Sequence[int]
) -> tuple[TokenLogprob, ...]:
    row = spots[0].row
    if row.sampling.logprobs is None:
        return ()
    places = [spot.place for spot in spots for _ in spot.draws]
    return report(measured, list(zip(places, token_ids, strict=False)), row.sampling.logprobs)


def _likeliest(scores: torch.Tensor, row: PlannedRow) -> tuple[Candidate, ...]:
    """Return the best of the next tokens' scores, best first."""
    logprobs, ids = scores.topk(min(row.num_candidates, len(scores)))
    return tuple(
        Candidate(token_id, logprob)
        for token_id, logprob in zip(ids.tolist(), logprobs.tolist(), strict=True)
        if logprob > float("-inf")
    )
