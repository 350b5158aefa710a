"""Draws on a device: everything is begun here and told when it has come to the host.

The kernel draws all rows at once. What it does not know (penalties, grammars, biases, beams, log
probabilities) is done to the logits by torch's operators before, also on the device, by numbers
that were brought there in one piece (`helpers`). Nothing in here looks at a number that the device
computes: what decides is copied with the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import torch

from localpaged.engine.events import TokenLogprob
from localpaged.engine.logprobs import look_up, tell
from localpaged.engine.penalties import adjustments, apply
from localpaged.engine.sampler import (
    NOT_FINITE,
    NOTHING_ALLOWED,
    Spot,
    num_agreeing,
    spots_of,
)
from localpaged.engine.step_plan import Candidate, Draw, PlannedRow, RowResult

Host = Mapping[str, np.ndarray]


class DrawKernel(Protocol):
    """Draws tokens; see `localpaged_kernels.sampling.reference`."""

    def __call__(
        self,
        tokens: torch.Tensor,
        sound: torch.Tensor,
        logits: torch.Tensor,
        draws: Mapping[str, torch.Tensor],
    ) -> None:
        """Fill `tokens` [rows] int64 and `sound` [rows] int8 from logits [rows, vocab] float32."""


def triton_draws(
    tokens: torch.Tensor,
    sound: torch.Tensor,
    logits: torch.Tensor,
    draws: Mapping[str, torch.Tensor],
) -> None:
    """See DrawKernel."""
    from localpaged_kernels.sampling.triton_impl import plan

    plan(tokens, sound, logits, **draws).run()


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided on the device, and how it is read when it is on the host."""

    tensors: Mapping[str, torch.Tensor]
    finish: Callable[[Host], list[RowResult]]


def read_plain(
    rows: Sequence[PlannedRow], tokens: np.ndarray, sound: np.ndarray
) -> list[RowResult]:
    """Return the results of plain rows from tokens [rows or more] and whether each is sound."""
    count = len(rows)
    return [
        RowResult((token,)) if is_sound else NOT_FINITE
        for token, is_sound in zip(tokens[:count].tolist(), sound[:count].tolist(), strict=True)
    ]


def draws_of(rows: Sequence[PlannedRow]) -> list[tuple[Spot, Draw]]:
    """Return all draws of `rows` and where each draws, in the order of the results."""
    return [(spot, draw) for spots in spots_of(rows) for spot in spots for draw in spot.draws]


def helpers(rows: Sequence[PlannedRow]) -> dict[str, np.ndarray]:
    """Return the numbers by which `decide` does what `rows` ask for beside a draw.

    Those that nobody asks for are left out. `measured` and `beams` are places among the spots; of
    the draws that are told, `told` says which they are and `told_rows` where each was measured.
    """
    by_row = spots_of(rows)
    spots = [spot for each in by_row for spot in each]
    arrays = adjustments([spot.adjusted for spot in spots])
    measured = {s.place: i for i, s in enumerate(s for s in spots if _is_measured(s.row))}
    if measured:
        drawn = [spot for spot in spots for _ in spot.draws]
        told = [(i, measured[s.place]) for i, s in enumerate(drawn) if s.place in measured]
        arrays["measured"] = np.array(list(measured), dtype=np.int64)
        arrays["told"], arrays["told_rows"] = np.array(told, dtype=np.int64).T
    beams = [each[0].place for each in by_row if each and each[0].row.num_candidates]
    if beams:
        arrays["beams"] = np.array(beams, dtype=np.int64)
    return arrays


class DeviceSampler:
    """Engine thread only. `padding_ids` only round the vocabulary up and are never chosen."""

    def __init__(
        self, device: torch.device, *, padding_ids: Sequence[int] = (), draw: DrawKernel
    ) -> None:
        self._draw = draw
        self._padding_ids = torch.tensor(padding_ids, dtype=torch.int64, device=device)

    def draw(
        self,
        tokens: torch.Tensor,
        sound: torch.Tensor,
        logits: torch.Tensor,
        draws: Mapping[str, torch.Tensor],
    ) -> None:
        """Draw from logits [rows, vocab] as they come from the model; may be recorded."""
        self.pad(logits)
        self._draw(tokens, sound, logits, draws)

    def pad(self, logits: torch.Tensor) -> None:
        """Rule out in place what stands for no token."""
        if len(self._padding_ids):
            logits.index_fill_(1, self._padding_ids, float("-inf"))

    def decide(
        self,
        logits: torch.Tensor,
        rows: Sequence[PlannedRow],
        draws: Mapping[str, torch.Tensor],
        numbers: Mapping[str, torch.Tensor],
        places: torch.Tensor | None,
    ) -> Decided:
        """Begin to decide what follows `rows`; padded logits [spots, vocab] are changed in place.

        `draws` are made with the numbers of `draws_of(rows)`, from the logits at `places` [draws]
        int64, or, where that is None, from all. `numbers` are the `helpers` of the rows.
        """
        by_row = spots_of(rows)
        tensors = {"is_sound": logits.amax(-1).isfinite()}
        logprobs = None
        if "measured" in numbers:
            logprobs = logits[numbers["measured"]].log_softmax(-1)
        beams = numbers.get("beams")
        if beams is not None:
            # As in transformers, what changes a beam's scores changes log probabilities.
            logits[beams] = logits[beams].log_softmax(-1)
        apply(logits, numbers)
        if beams is not None:
            count = min(max(row.num_candidates for row in rows), logits.shape[1])
            values, ids = logits[beams].topk(count)
            tensors |= {"scores": values, "candidates": ids}
        drawn = [spot for spots in by_row for spot in spots for _ in spot.draws]
        tokens = torch.zeros(len(drawn), dtype=torch.int64, device=logits.device)
        sound = torch.zeros(len(drawn), dtype=torch.int8, device=logits.device)
        if drawn:
            own = logits if places is None else logits.index_select(0, places)
            self._draw(tokens, sound, own, {name: t[: len(drawn)] for name, t in draws.items()})
        tensors |= {"tokens": tokens, "sound": sound}
        if logprobs is not None:
            most = max(row.sampling.logprobs or 0 for row in rows if _is_measured(row))
            own, values, ids = look_up(
                logprobs[numbers["told_rows"]], tokens[numbers["told"]], most
            )
            tensors |= {"own": own, "likeliest": values, "likeliest_ids": ids}
        return Decided(tensors, lambda host: _read(host, by_row))


def _is_measured(row: PlannedRow) -> bool:
    return bool(row.draws) and row.sampling.logprobs is not None


def _read(host: Host, by_row: Sequence[Sequence[Spot]]) -> list[RowResult]:
    is_sound = host["is_sound"].tolist()
    tokens, sound = iter(host["tokens"].tolist()), iter(host["sound"].tolist())
    told, beams = _Told(host), _Beams(host)
    results: list[RowResult] = []
    for spots in by_row:
        row = spots[0].row
        num_draws = sum(len(spot.draws) for spot in spots)
        drawn = list(islice(tokens, num_draws))
        is_possible = all(list(islice(sound, num_draws)))
        logprobs = told.take(row, drawn) if _is_measured(row) else ()
        candidates = beams.take(row) if row.num_candidates else ()
        if not all(is_sound[spot.place] for spot in spots):
            results.append(NOT_FINITE)
        elif not is_possible:
            results.append(NOTHING_ALLOWED if row.allowed is not None else NOT_FINITE)
        elif row.num_candidates:
            results.append(RowResult(candidates=candidates))
        else:
            if row.drafts:
                drawn = drawn[: 1 + num_agreeing(drawn, row.drafts)]
            results.append(RowResult(tuple(drawn), logprobs=logprobs[: len(drawn)]))
    return results


class _Told:
    """Log probabilities of draws, one row's after the other."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._next = 0

    def take(self, row: PlannedRow, tokens: Sequence[int]) -> tuple[TokenLogprob, ...]:
        first, self._next = self._next, self._next + len(tokens)
        count = row.sampling.logprobs or 0
        return tuple(
            tell(
                token,
                float(self._host["own"][i]),
                tuple(
                    zip(
                        self._host["likeliest_ids"][i, :count].tolist(),
                        self._host["likeliest"][i, :count].tolist(),
                        strict=True,
                    )
                ),
            )
            for i, token in enumerate(tokens, start=first)
        )


class _Beams:
    """The candidates of beams, one after the other."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._next = 0

    def take(self, row: PlannedRow) -> tuple[Candidate, ...]:
        place, self._next = self._next, self._next + 1
        pairs = zip(
            self._host["candidates"][place].tolist(),
            self._host["scores"][place].tolist(),
            strict=True,
        )
        return tuple(
            Candidate(token_id, logprob)
            for token_id, logprob in islice(pairs, row.num_candidates)
            if logprob > float("-inf")
        )
