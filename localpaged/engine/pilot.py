"""Pilot: carries plans out, one step ahead of the host where the runner can fly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from localpaged.engine.containment import Runner, run_apart, run_contained
from localpaged.engine.flight import Flight, FlyingRunner
from localpaged.engine.plan_ahead import give_up_ahead, plan_ahead, tell
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.step_plan import UNKNOWN_TOKEN, StepPlan, StepResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was carried out, and how long the engine was busy with it."""

    plan: StepPlan
    result: StepResult
    seconds: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class _Launched:
    plan: StepPlan
    flight: Flight
    started_s: float


class Pilot:
    """Engine thread only.

    Invariant: between steps at most one flight is in the air, planned ahead of what was committed.
    Its rows are those sequences whose `num_ahead` is 1; what happens to a sequence meanwhile takes
    its row out. A plan that is not made ahead is made only when nothing is in the air.
    """

    def __init__(self, scheduler: Scheduler, runner: Runner, *, clock: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._flying = runner if isinstance(runner, FlyingRunner) else None
        # One that nearly is a FlyingRunner would go step by step, and nobody would notice.
        assert self._flying is not None or not hasattr(runner, "launch"), runner
        self._clock = clock
        self._in_air: _Launched | None = None
        self._last_end_s = float("-inf")

    @property
    def note(self) -> str:
        """What is to be told of the runner."""
        return "" if self._flying is None else self._flying.note

    def step(self) -> Step | None:
        """Carry out one step; None when there is nothing to do."""
        if self._in_air is not None:
            in_air, self._in_air = self._in_air, None
            alive = self._alive(in_air.plan)
            if any(alive):
                return self._land(in_air, alive)
        plan = self._scheduler.plan()
        if plan is None:
            return None
        started_s = self._clock()
        if self._flying is None:
            return self._done(plan, run_contained(self._runner, plan), started_s)
        try:
            flight = self._flying.launch(plan)
        except Exception:  # whatever breaks a step must not take the engine down
            log.exception("a step of %d rows could not be launched", len(plan.rows))
            return self._done(plan, run_apart(self._runner, plan), started_s)
        return self._wait(plan, _Launched(plan, flight, started_s), [True] * len(plan.rows))

    def _land(self, in_air: _Launched, alive: list[bool]) -> Step:
        """Take in what a flight computed for rows that are alive."""
        running = {s.id: s for s in self._scheduler.running}
        rows = tell(self._scheduler, in_air.plan)
        in_air.flight.decide(rows)
        kept = zip(rows, alive, strict=True)
        plan = replace(in_air.plan, rows=tuple(row for row, is_alive in kept if is_alive))
        step = self._wait(plan, in_air, alive)
        for row in plan.rows:
            running[row.sequence_id].num_ahead -= 1
        return step

    def _wait(self, plan: StepPlan, launched: _Launched, alive: list[bool]) -> Step:
        """Launch the step after `plan`, its rows that are alive, then wait for its tokens."""
        following = self._launch_ahead(plan, launched.flight)
        try:
            result = launched.flight.wait()
        except Exception:
            log.exception("a step of %d rows and %d tokens failed", len(plan.rows), plan.num_tokens)
            if following is not None:
                # It went on with tokens that there are not.
                give_up_ahead(self._scheduler, following.plan)
                following = None
            result = run_apart(self._runner, self._known(plan))
        else:
            kept = zip(result.rows, alive, strict=True)
            result = replace(result, rows=tuple(row for row, is_alive in kept if is_alive))
        self._in_air = following
        return self._done(plan, result, launched.started_s)

    def _known(self, plan: StepPlan) -> StepPlan:
        """Return a plan with the tokens that nobody knew when it was launched, and now all do."""
        running = {s.id: s for s in self._scheduler.running}
        rows = (
            replace(row, token_ids=(running[row.sequence_id].tokens[row.start],))
            if row.token_ids == (UNKNOWN_TOKEN,)
            else row
            for row in plan.rows
        )
        return replace(plan, rows=tuple(rows))

    def _launch_ahead(self, plan: StepPlan, flight: Flight) -> _Launched | None:
        assert self._flying is not None
        ahead = plan_ahead(self._scheduler, plan) if flight.has_draws else None
        if ahead is None:
            return None
        started_s = self._clock()
        try:
            return _Launched(ahead, self._flying.launch(ahead, after=flight), started_s)
        except Exception:  # it is planned again, and contained then
            log.exception("a step of %d rows could not be launched ahead", len(ahead.rows))
            give_up_ahead(self._scheduler, ahead)
            return None

    def _alive(self, plan: StepPlan) -> list[bool]:
        """Return which rows are still somebody's; who is not running has given its room back."""
        ahead = {s.id for s in self._scheduler.running if s.num_ahead}
        return [row.sequence_id in ahead for row in plan.rows]

    def _done(self, plan: StepPlan, result: StepResult, started_s: float) -> Step:
        """A step that was launched while another one ran was begun when that had ended."""
        ended_s = self._clock()
        seconds = ended_s - max(started_s, self._last_end_s)
        self._last_end_s = ended_s
        return Step(plan, result, seconds, ended_s)
