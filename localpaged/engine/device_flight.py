"""DeviceFlight: a step on a GPU, from its launch to its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from localpaged.engine.device import Ticket
from localpaged.engine.packed import Layout
from localpaged.engine.step_plan import PlannedRow, RowResult, SequenceId, StepResult

Read = Callable[[Mapping[str, np.ndarray]], list[RowResult | None]]


@dataclass(frozen=True, slots=True)
class Begun:
    """All of a step is on the stream; `ticket` brings what is read with `layout`.

    `places` tells where among the device's draws each sequence's token is.
    """

    ticket: Ticket
    layout: Layout
    read: Read
    places: Mapping[SequenceId, int] = field(default_factory=dict)


class DeviceFlight:
    """A step on the device. Engine thread only.

    Either all of it has begun, or `decide` begins the rest, its draws. `settle` waits for all that
    the device was given: it is asked where a flight was given up between the two.
    """

    def __init__(
        self,
        begun: Begun | None,
        *,
        rest: Callable[[Sequence[PlannedRow]], Begun] | None = None,
        settle: Callable[[], None],
        swap_s: float,
    ) -> None:
        assert (begun is None) != (rest is None)
        self._begun = begun
        self._rest = rest
        self._settle = settle
        self._swap_s = swap_s
        self._error: Exception | None = None
        self._piece: torch.Tensor | None = None
        self._is_over = False

    @property
    def has_draws(self) -> bool:
        """See Flight."""
        return bool(self.places)

    @property
    def places(self) -> Mapping[SequenceId, int]:
        """Where among the device's draws each sequence's token is; nothing before `decide`."""
        return {} if self._begun is None else self._begun.places

    def decide(self, rows: Sequence[PlannedRow]) -> None:
        """See Flight."""
        rest, self._rest = self._rest, None
        if rest is None:
            return
        try:
            self._begun = rest(rows)
        except Exception as error:  # `wait` raises it, where a step that breaks is contained
            self._error = error

    def land(self) -> None:
        """Wait until the device has done with the step's memory; nothing if that was done."""
        if self._is_over:
            return
        if self._begun is None:
            self._settle()
        else:
            self._piece = self._begun.ticket.wait()
        self._is_over = True

    def wait(self) -> StepResult:
        """See Flight."""
        if self._error is not None:
            raise self._error
        assert self._begun is not None, "nobody said what the draws follow from"
        self.land()
        assert self._piece is not None
        rows = self._begun.read(self._begun.layout.arrays(self._piece))
        return StepResult(tuple(rows), swap_s=self._swap_s)
