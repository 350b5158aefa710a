"""RunKeeper: saves what this run came to, now and then and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.stats.collector import Collector
from localpaged.stats.schema import Program
from localpaged.stats.watch import ModelWatch
from localpaged.store.run_summaries import RunSummary

SAVE_INTERVAL_S = 60.0
"""What a program that is killed may lose of its summary."""

Save = Callable[[Sequence[RunSummary]], None]


class RunKeeper:
    """The stats thread; `end` once that has ended.

    Invariant: with the first request a row is saved, then every SAVE_INTERVAL_S while the engine
    works, and when it comes to rest.
    """

    def __init__(
        self,
        run_id: str,
        program: Program,
        save: Save,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`save` may only enqueue."""
        self._run_id = run_id
        self._program = program
        self._save = save
        self._clock = clock
        self._latest: dict[str, RunSummary] = {}
        self._seen_steps: dict[str, int] = {}
        self._saved_steps: dict[str, int] = {}
        self._save_at = 0.0

    def note(self, collector: Collector) -> None:
        """Take over what was counted; save it when it is time."""
        now = self._clock()
        for name, (snapshot, watch) in collector.watched().items():
            self._latest[name] = self._summary(name, snapshot, watch, now=now)
        steps = {name: summary.steps for name, summary in self._latest.items() if summary.requests}
        has_come_to_rest, self._seen_steps = steps == self._seen_steps, steps
        if steps != self._saved_steps and (has_come_to_rest or now >= self._save_at):
            self._save(tuple(self._latest.values()))
            self._saved_steps = steps
            self._save_at = now + SAVE_INTERVAL_S

    def end(self) -> None:
        """Save the last of it."""
        if self._latest:
            now = self._clock()
            ended = (replace(s, last_at=now, is_ended=True) for s in self._latest.values())
            self._save(tuple(ended))

    def _summary(
        self, name: str, snapshot: EngineSnapshot, watch: ModelWatch, *, now: float
    ) -> RunSummary:
        totals, peaks = watch.totals(snapshot), watch.peaks
        ttft, inter_token = watch.latencies(snapshot)
        return RunSummary(
            run_id=self._run_id,
            model=snapshot.model_name or name,
            command=self._program.command,
            version=self._program.version,
            pid=self._program.pid,
            started_at=self._program.started_at,
            last_at=now,
            requests=totals.requests,
            steps=totals.steps,
            busy_s=round(totals.busy_s, 3),
            prompt_tokens=totals.prompt_tokens,
            cached_prompt_tokens=totals.cached_prompt_tokens,
            prefilled_tokens=totals.prefilled_tokens,
            generated_tokens=totals.generated_tokens,
            peak_held_blocks=peaks.held_blocks,
            max_blocks=snapshot.max_blocks,
            bytes_per_block=snapshot.block_bytes,
            peak_prefill_tokens_per_s=peaks.prefill_tokens_per_s,
            peak_decode_tokens_per_s=peaks.decode_tokens_per_s,
            ttft_p50_ms=ttft.p50_ms,
            inter_token_p50_ms=inter_token.p50_ms,
            block_copies=totals.block_copies,
            evicted_blocks=totals.evicted_blocks,
            swapped_in_blocks=totals.swapped_in_blocks,
            swapped_out_blocks=totals.swapped_out_blocks,
            preemptions=totals.preemptions,
        )
