"""ModelRunner: one forward pass for a StepPlan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from localpaged.engine.batch import build_batch, fresh_rests
from localpaged.engine.drawing import Select, select_likeliest
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.logprobs import score_prompt
from localpaged.engine.model import PagedModel
from localpaged.engine.sampler import NOT_FINITE, sample
from localpaged.engine.step_plan import PromptScores, RowResult, StepPlan, StepResult


class ModelRunner:
    """Copies, batch, model, sampler. Engine thread only; holds no state of any request.

    `padding_ids` are the logits that stand for no token: a head may be wider than the tokenizer.
    `torch_threads` are torch's in a step, unless others were chosen by whoever made this; `select`
    finds the likeliest tokens.
    """

    def __init__(
        self,
        model: PagedModel,
        kv: KVStorage,
        *,
        padding_ids: Sequence[int] = (),
        torch_threads: int | None = None,
        select: Select = select_likeliest,
    ) -> None:
        self._model = model
        self._kv = kv
        self._padding_ids = torch.tensor(padding_ids, dtype=torch.int64)
        self._torch_threads = torch_threads
        self._select = select

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample its sampled rows."""
        if self._torch_threads not in (None, torch.get_num_threads()):
            torch.set_num_threads(self._torch_threads)
        with torch.inference_mode():
            return self._run(plan)

    def _run(self, plan: StepPlan) -> StepResult:
        if plan.pool_blocks is not None:
            self._kv.grow(plan.pool_blocks)
        # In this order: each reads what the next ones, and at last the rows, may write.
        started_s = time.perf_counter()
        self._kv.swap_out(plan.swap_outs)
        self._kv.swap_in(plan.swap_ins)
        swap_s = time.perf_counter() - started_s
        self._kv.apply(plan.copies)
        self._kv.clear(fresh_rests(plan, block_size=self._kv.block_size))
        batch = build_batch(plan, block_size=self._kv.block_size)
        hidden = self._model.forward(batch, self._kv)
        results: list[RowResult | None] = [None] * len(plan.rows)
        deciding = [i for i, row in enumerate(plan.rows) if row.needs_logits]
        if deciding:
            logits = self._model.logits(hidden[batch.sampled_tokens])
            rows = [plan.rows[i] for i in deciding]
            chosen = sample(logits, rows, padding_ids=self._padding_ids, select=self._select)
            for i, result in zip(deciding, chosen, strict=True):
                results[i] = result
        first = 0
        for i, row in enumerate(plan.rows):
            if row.prompt_scores is not None:
                own = hidden[first : first + len(row.token_ids)]
                results[i] = self._score(own, row.prompt_scores, results[i] or RowResult())
            first += len(row.token_ids)
        return StepResult(tuple(results), swap_s=swap_s)

    def _score(self, hidden: torch.Tensor, scores: PromptScores, result: RowResult) -> RowResult:
        """Add the prompt's log probabilities to a row's result."""
        logprobs = score_prompt(hidden, scores, self._model.logits, padding_ids=self._padding_ids)
        if result.error is not None or logprobs is None:
            return NOT_FINITE
        return replace(result, prompt_logprobs=logprobs)
