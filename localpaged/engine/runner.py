"""ModelRunner: one forward pass for a StepPlan."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from localpaged.engine.batch import build_batch
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.model import PagedModel
from localpaged.engine.sampler import sample
from localpaged.engine.step_plan import RowResult, StepPlan, StepResult


class ModelRunner:
    """Copies, batch, model, sampler. Engine thread only; holds no state of any request.

    `padding_ids` are the logits that stand for no token: a head may be wider than the tokenizer.
    """

    def __init__(
        self, model: PagedModel, kv: KVStorage, *, padding_ids: Sequence[int] = ()
    ) -> None:
        self._model = model
        self._kv = kv
        self._padding_ids = torch.tensor(padding_ids, dtype=torch.int64)

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample its sampled rows."""
        with torch.inference_mode():
            return self._run(plan)

    def _run(self, plan: StepPlan) -> StepResult:
        # Copies first: their sources may be written, their targets are written by this step.
        self._kv.apply(plan.copies)
        batch = build_batch(plan, block_size=self._kv.block_size)
        hidden = self._model.forward(batch, self._kv)
        sampled_rows = [row for row in plan.rows if row.needs_logits]
        if not sampled_rows:
            return StepResult((None,) * len(plan.rows))
        logits = self._model.logits(hidden[batch.sampled_tokens])
        chosen = iter(sample(logits, sampled_rows, padding_ids=self._padding_ids))
        results: list[RowResult | None] = [
            next(chosen) if row.needs_logits else None for row in plan.rows
        ]
        return StepResult(tuple(results))
