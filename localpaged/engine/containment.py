"""Runs a plan so that what breaks for one row does not break the others."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from localpaged.engine.grammar import DEAD_END, DEAD_END_HINT, too_complex
from localpaged.engine.step_plan import PlannedRow, RowResult, StepPlan, StepResult
from localpaged.errors import GrammarFailed, StepFailed

FAILED_STEP_HINT = "Other chats go on. Try again; the log has the details."

log = logging.getLogger(__name__)


class Runner(Protocol):
    """Computes a plan; `ModelRunner`, or a fake."""

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and what follows from their logits."""


def run_contained(runner: Runner, plan: StepPlan) -> StepResult:
    """Run `plan`; when that fails, run its rows one by one and mark the ones that fail.

    Running a row again is harmless: it writes the same KV into the same slots, and the sources of
    block copies are not written by anybody's slots that the copy needs. What was to go to host
    memory is not: the failed run may have written over it, so it is given up.
    """
    try:
        return runner.run(plan)
    except Exception:  # whatever breaks a step must not take the engine down
        log.exception("a step of %d rows and %d tokens failed", len(plan.rows), plan.num_tokens)
    return run_apart(runner, plan)


def run_apart(runner: Runner, plan: StepPlan) -> StepResult:
    """Run the rows of a plan that failed one by one; mark the ones that fail."""
    rows = tuple(_run_alone(runner, row, plan) for row in plan.rows)
    return StepResult(rows, has_swapped_out=not plan.swap_outs)


def _run_alone(runner: Runner, row: PlannedRow, plan: StepPlan) -> RowResult | None:
    own = replace(
        plan,
        rows=(row,),
        copies=tuple(copy for copy in plan.copies if copy.target in row.block_table),
        swap_outs=(),
        swap_ins=tuple(move for move in plan.swap_ins if move.block in row.block_table),
    )
    try:
        return runner.run(own).rows[0]
    except Exception as error:
        log.exception("request %s failed alone", row.request_id)
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        return RowResult(error=f"The forward pass failed: {message}")


def step_failed(error: str) -> StepFailed:
    """Return what the user is told of a row that failed, and what may help."""
    if error == DEAD_END:
        return GrammarFailed(error, hint=DEAD_END_HINT)
    return StepFailed(error, hint=FAILED_STEP_HINT)


def grammar_failed(error: str) -> GrammarFailed:
    """Return what the user is told when the parser met a limit of its own, `error`."""
    return GrammarFailed(f"The grammar {too_complex(error)}.", hint=DEAD_END_HINT)
