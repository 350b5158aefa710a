"""StepEnds: what follows a step's logits: draws, measurements, and the copy to the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from localpaged.engine.device import DeviceLayer
from localpaged.engine.device_flight import Begun, Read
from localpaged.engine.device_sampler import Decided, DeviceSampler, helpers, read_plain
from localpaged.engine.mixed_batch import MixedBatch
from localpaged.engine.packed import Layout, fields_of, pack
from localpaged.engine.prompt_scoring import score_later
from localpaged.engine.sides import Side
from localpaged.engine.static_batch import StaticBatch
from localpaged.engine.step_plan import PlannedRow, RowResult, SequenceId


class StepEnds:
    """Engine thread only. Everything is put on the stream; nothing is looked at on the device.

    Tokens of a step in which each row draws once are left in the static memory, from where the next
    step may take them.
    """

    def __init__(
        self,
        device: DeviceLayer,
        sampler: DeviceSampler,
        static: StaticBatch,
        *,
        logits_of: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        self._device = device
        self._sampler = sampler
        self._static = static
        self._logits_of = logits_of

    def of_plain(self, side: Side, rows: Sequence[PlannedRow]) -> Begun:
        """Begin to bring what a decode step of plain rows drew, all of it in static memory."""
        static = self._static

        def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
            return [*read_plain(rows, host["tokens"], host["sound"])]

        own = {row.sequence_id: i for i, row in enumerate(rows)}
        return self._download(side, static.results_layout, static.results, read, places=own)

    def of_draws(
        self,
        side: Side,
        rows: Sequence[PlannedRow],
        logits: torch.Tensor,
        draws: Mapping[str, torch.Tensor],
    ) -> Begun:
        """Begin to draw for rows some of which ask for more, and to bring it to the host."""
        return self._told(side, rows, self.decide(side, rows, logits, draws))

    def of_mixed(
        self,
        side: Side,
        rows: Sequence[PlannedRow],
        mixed: MixedBatch,
        hidden: torch.Tensor,
        decided: Decided,
    ) -> Begun:
        """Begin to measure prompts and to bring all that is told to the host."""
        scored = score_later(
            hidden, rows, mixed.numbers, logits_of=self._logits_of, pad=self._sampler.pad
        )
        # Where nothing is asked for, what comes back tells that the step is over.
        tensors = {**decided.tensors, **scored.tensors} or {"sound": self._static.sound}
        layout, piece = pack(tensors)

        def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
            found = iter(decided.finish(host))
            results = [next(found) if row.needs_logits else None for row in rows]
            return scored.add_to(results, host)

        return self._download(side, layout, piece, read, places=self._keep_draws(rows, decided))

    def decide(
        self,
        side: Side,
        rows: Sequence[PlannedRow],
        logits: torch.Tensor,
        draws: Mapping[str, torch.Tensor],
        *,
        numbers: Mapping[str, torch.Tensor] | None = None,
        places: torch.Tensor | None = None,
    ) -> Decided:
        """Begin to draw from logits [spots, vocab]; `numbers` may be there already."""
        if numbers is None:
            numbers = self._bring(side, helpers(rows))
        return self._sampler.decide(logits, rows, draws, numbers, places)

    def _bring(self, side: Side, arrays: Mapping[str, np.ndarray]) -> Mapping[str, torch.Tensor]:
        """Begin to bring arrays to the device in one copy; none where there are none."""
        if not arrays:
            return {}
        layout = Layout(fields_of(arrays))
        memory = side.more(layout.num_bytes)
        for name, place in layout.arrays(memory).items():
            place[...] = arrays[name]
        piece = torch.empty(layout.num_bytes, dtype=torch.uint8, device=self._device.torch_device)
        self._device.upload(memory, piece)
        return layout.tensors(piece)

    def _told(self, side: Side, rows: Sequence[PlannedRow], decided: Decided) -> Begun:
        """Begin to bring to the host what was decided of all rows."""
        layout, piece = pack(decided.tensors)

        def read(host: Mapping[str, np.ndarray]) -> list[RowResult | None]:
            return [*decided.finish(host)]

        return self._download(side, layout, piece, read, places=self._keep_draws(rows, decided))

    def _keep_draws(self, rows: Sequence[PlannedRow], decided: Decided) -> Mapping[SequenceId, int]:
        """Leave tokens where the next step may look for them; tell where each sequence's is."""
        if not all(row.is_decode for row in rows) or len(rows) > self._static.max_rows:
            return {}
        tokens = decided.tensors["tokens"]
        self._static.tokens[: len(tokens)].copy_(tokens)
        return {row.sequence_id: i for i, row in enumerate(rows)}

    def _download(
        self,
        side: Side,
        layout: Layout,
        piece: torch.Tensor,
        read: Read,
        *,
        places: Mapping[SequenceId, int] | None = None,
    ) -> Begun:
        ticket = self._device.download(piece, side.down(layout.num_bytes))
        return Begun(ticket, layout, read, places or {})
