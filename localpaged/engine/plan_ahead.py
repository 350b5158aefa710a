"""Plans a step whose tokens nobody knows yet, so that the device need not wait for the host.

Only steps of which the model's part depends on nothing else: every row is one token and one draw,
and nobody waits to be let in. What a draw follows from beside its logits is told when the tokens
are known (`tell`), while the model computes. What is found out afterwards (a row has ended, was
cancelled or has failed) makes some of the work worthless and none of it wrong: the row is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from localpaged.engine.draw_terms import has_terms, with_terms
from localpaged.engine.scheduler import Scheduler
from localpaged.engine.sequence import Sequence
from localpaged.engine.step_plan import UNKNOWN_TOKEN, Draw, PlannedRow, StepPlan


def plan_ahead(scheduler: Scheduler, plan: StepPlan) -> StepPlan | None:
    """Return the step after `plan`, which was launched and told nothing; None: it must tell first.

    Blocks for it are taken, but nothing is evicted, preempted or grown for a step like this: that
    is for the host to weigh up when it knows more. `give_up_ahead` gives them back.
    """
    sequences = _going_on(scheduler, plan)
    kv = scheduler.kv
    missing = sum(-(-(s.num_computed + 2) // kv.block_size) - len(s.block_table) for s in sequences)
    if not sequences or missing > kv.pool.num_free:
        return None
    rows = []
    for sequence in sequences:
        has_room = kv.extend(sequence, num_tokens=2)
        assert has_room
        sequence.num_ahead += 1
        rows.append(
            PlannedRow(
                sequence_id=sequence.id,
                request_id=sequence.request.id,
                token_ids=(UNKNOWN_TOKEN,),
                start=sequence.num_computed + 1,
                block_table=tuple(sequence.block_table),
                sampling=sequence.request.sampling,
                draws=(Draw(sequence.branch, sequence.seed, sequence.num_generated + 1),),
                num_prompt=sequence.num_prompt,
                is_open=has_terms(sequence, num_generated=sequence.num_generated + 1),
            )
        )
    return StepPlan(tuple(rows), (), pool_blocks=kv.pool.num_blocks)


def tell(scheduler: Scheduler, plan: StepPlan) -> tuple[PlannedRow, ...]:
    """Return the rows of a plan made ahead with what the step before it has shown.

    The rows of those that have ended meanwhile stay as they are.
    """
    ahead = {s.id: s for s in scheduler.running if s.num_ahead}
    return tuple(
        with_terms(row, ahead[row.sequence_id]) if row.sequence_id in ahead else row
        for row in plan.rows
    )


def give_up_ahead(scheduler: Scheduler, plan: StepPlan) -> None:
    """Take back a plan made ahead, before the step before it is committed."""
    planned = {row.sequence_id for row in plan.rows}
    for sequence in scheduler.running:
        if sequence.id in planned and sequence.num_ahead:
            sequence.num_ahead -= 1
            scheduler.kv.trim(sequence, num_planned=1)


def _going_on(scheduler: Scheduler, plan: StepPlan) -> list[Sequence]:
    """Return who goes on after `plan` whatever it draws, but for what ends an answer early.

    Nobody, where a step made now would be another one than a step made later.
    """
    if not all(row.is_decode for row in plan.rows) or scheduler.is_host_needed:
        return []
    running = {s.id: s for s in scheduler.running}
    if len(running) != len(plan.rows) or any(row.sequence_id not in running for row in plan.rows):
        return []
    sequences = [running[row.sequence_id] for row in plan.rows]
    going_on = [s for s in sequences if not _ends_for_sure(scheduler, s)]
    return [] if _is_guess_in_sight(scheduler, going_on) else going_on


def _ends_for_sure(scheduler: Scheduler, sequence: Sequence) -> bool:
    is_full = len(sequence.tokens) + 1 >= scheduler.config.context_length
    return is_full or sequence.num_generated + 1 == sequence.request.sampling.max_tokens


def _is_guess_in_sight(scheduler: Scheduler, sequences: Iterable[Sequence]) -> bool:
    """Return whether somebody repeats what was said: then drafts may be worth more than haste."""
    price = scheduler.draft_price()
    return price is not None and any(
        s.may_draft and s.guess(price, scheduler.config) for s in sequences
    )
