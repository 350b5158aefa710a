"""A runner that notes how long the host waits for the device: all else of a step is host work."""

from __future__ import annotations

import time
from collections.abc import Sequence

from localpaged.engine.device_flight import DeviceFlight
from localpaged.engine.flight import Flight
from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.step_plan import PlannedRow, StepPlan, StepResult


class TimedRunner:
    """A FlyingRunner around the GPU's. Engine thread only. Both numbers only grow.

    `num_ahead` are the steps that were launched before the one before them was heard of.
    """

    def __init__(self, runner: GpuRunner) -> None:
        self.inner = runner
        self.waited_s = 0.0
        self.num_ahead = 0

    @property
    def note(self) -> str:
        """See FlyingRunner."""
        return self.inner.note

    def run(self, plan: StepPlan) -> StepResult:
        """See FlyingRunner."""
        return self.launch(plan).wait()

    def launch(self, plan: StepPlan, *, after: Flight | None = None) -> TimedFlight:
        """See FlyingRunner."""
        assert after is None or isinstance(after, TimedFlight)
        self.num_ahead += after is not None
        flight = self.inner.launch(plan, after=None if after is None else after.inner)
        return TimedFlight(self, flight)


class TimedFlight:
    """A Flight that tells its runner how long the host waited for it to land."""

    def __init__(self, runner: TimedRunner, flight: DeviceFlight) -> None:
        self.inner = flight
        self._runner = runner

    @property
    def has_draws(self) -> bool:
        """See Flight."""
        return self.inner.has_draws

    def decide(self, rows: Sequence[PlannedRow]) -> None:
        """See Flight."""
        self.inner.decide(rows)

    def wait(self) -> StepResult:
        """See Flight."""
        started_s = time.perf_counter()
        self.inner.land()
        self._runner.waited_s += time.perf_counter() - started_s
        return self.inner.wait()
