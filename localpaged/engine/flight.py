"""Flight: a step that was launched and whose tokens have not reached the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from localpaged.engine.step_plan import PlannedRow, StepPlan, StepResult


class Flight(Protocol):
    """A launched step. Engine thread only.

    `has_draws`: the step after it may go on with what it draws, which stays on the device.
    """

    @property
    def has_draws(self) -> bool:
        """Whether its draws can be found by the next step."""

    def decide(self, rows: Sequence[PlannedRow]) -> None:
        """Tell what the draws follow from, where rows of the plan were open; else nothing happens.

        `rows` are those of the plan, in their order. One that is still open has ended meanwhile,
        and draws for nobody. What breaks is raised by `wait`.
        """

    def wait(self) -> StepResult:
        """Return what came out of the step, once; raises what broke it."""


@runtime_checkable
class FlyingRunner(Protocol):
    """A runner that can begin a step before the one before it has told its tokens."""

    @property
    def note(self) -> str:
        """Why steps are not launched as graphs; empty where they are."""

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and what follows from their logits."""

    def launch(self, plan: StepPlan, *, after: Flight | None = None) -> Flight:
        """Begin `plan`; raises what broke it, and then nothing has begun.

        A row whose token is UNKNOWN_TOKEN goes on with what the same sequence draws in `after`,
        the flight that was launched last. Where a row is open, nothing is drawn before `decide`.
        """
