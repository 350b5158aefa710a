"""ModelWatch: what one model does, second by second, for as long as the program runs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields, replace

from localpaged.engine.latency import num_samples, percentiles
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.stats.schema import (
    HISTORY_POINTS,
    Blocks,
    Latency,
    ModelHistory,
    Rates,
    Slots,
    Totals,
)

STALE_S = 0.1
"""The engine makes a picture twenty times a second while it works; an older one stands for now."""

_SERIES = tuple(field.name for field in fields(ModelHistory))
_COUNTED = (
    "cached_prompt_tokens",
    "block_copies",
    "evicted_blocks",
    "swapped_in_blocks",
    "swapped_out_blocks",
    "preemptions",
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The most of a run: blocks that were held at once, and tokens in one second."""

    held_blocks: int = 0
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0


class ModelWatch:
    """Rates and rings of one model. The stats thread only.

    Invariant: no ring has more than HISTORY_POINTS points, and all have equally many. Totals only
    grow, even where the model was unloaded and loaded again.
    """

    def __init__(self, *, since_s: float | None = None) -> None:
        """`since_s`: when it was not loaded yet, on the engine's clock."""
        self.rates = Rates()
        self.peaks = Peaks()
        self._before = Totals()
        self._last = Totals()
        self._last_s = since_s
        self._drawn = (b"", b"")
        self._ttft: tuple[bytes, Latency] = (b"", Latency())
        self._inter_token: tuple[bytes, Latency] = (b"", Latency())
        self._rings: dict[str, deque[float | None]] = {
            name: deque(maxlen=HISTORY_POINTS) for name in _SERIES
        }

    def totals(self, snapshot: EngineSnapshot) -> Totals:
        """Return what the whole run counted, up to this picture."""
        now = _totals(snapshot)
        before = self._before
        if self._is_loaded_anew(now):
            before = _plus(before, self._last)
        return _plus(before, now)

    def latencies(self, snapshot: EngineSnapshot) -> tuple[Latency, Latency]:
        """Return the percentiles of first tokens and of intervals."""
        self._ttft = _measured(self._ttft, snapshot.ttft_samples)
        self._inter_token = _measured(self._inter_token, snapshot.inter_token_samples)
        return self._ttft[1], self._inter_token[1]

    def history(self) -> ModelHistory:
        """Return the last two minutes."""
        return ModelHistory(**{name: tuple(ring) for name, ring in self._rings.items()})

    def sample(self, snapshot: EngineSnapshot, *, now_s: float) -> None:
        """Add a point for the time since the last one; `now_s` is on the engine's clock."""
        now = _totals(snapshot)
        if self._is_loaded_anew(now):
            self._before = _plus(self._before, self._last)
            self._last = Totals()
        at_s = now_s if now_s - snapshot.taken_s > STALE_S else snapshot.taken_s
        added = _minus(now, self._last)
        if self._last_s is not None and at_s > self._last_s:
            self.rates = _rates(added, seconds=at_s - self._last_s)
        self._last, self._last_s = now, at_s
        self._note_peaks(snapshot)
        points = self._points(snapshot, added)
        for name, ring in self._rings.items():
            ring.append(points[name])

    def _is_loaded_anew(self, now: Totals) -> bool:
        return now.steps < self._last.steps or now.requests < self._last.requests

    def _points(self, snapshot: EngineSnapshot, added: Totals) -> dict[str, float | None]:
        ttft, inter_token = self.latencies(snapshot)
        # where nothing was measured in this second there is nothing to draw
        drawn, self._drawn = self._drawn, (self._ttft[0], self._inter_token[0])
        ttft = ttft if self._drawn[0] != drawn[0] else Latency()
        inter_token = inter_token if self._drawn[1] != drawn[1] else Latency()
        blocks = blocks_of(snapshot)
        counted: dict[str, float | None] = {name: float(getattr(added, name)) for name in _COUNTED}
        return counted | {
            "prefill_tokens_per_s": self.rates.prefill_tokens_per_s,
            "decode_tokens_per_s": self.rates.decode_tokens_per_s,
            "batch_rows": self.rates.batch_rows,
            "queue_length": float(num_waiting(snapshot)),
            "ttft_p50_ms": ttft.p50_ms,
            "ttft_p95_ms": ttft.p95_ms,
            "inter_token_p50_ms": inter_token.p50_ms,
            "inter_token_p95_ms": inter_token.p95_ms,
            "active_blocks": float(blocks.active),
            "pinned_blocks": float(blocks.pinned),
            "cached_blocks": float(blocks.cached),
            "free_blocks": float(blocks.free),
            "fill": slots_of(snapshot).fill,
            "host_used_blocks": float(snapshot.host_used_blocks),
        }

    def _note_peaks(self, snapshot: EngineSnapshot) -> None:
        self.peaks = Peaks(
            max(self.peaks.held_blocks, snapshot.peak_held_blocks),
            max(self.peaks.prefill_tokens_per_s, self.rates.prefill_tokens_per_s),
            max(self.peaks.decode_tokens_per_s, self.rates.decode_tokens_per_s),
        )


def blocks_of(snapshot: EngineSnapshot) -> Blocks:
    """Return the classes of blocks, which sum up to all."""
    return Blocks(
        total=snapshot.total_blocks,
        active=snapshot.held_blocks - snapshot.pinned_blocks,
        pinned=snapshot.pinned_blocks,
        cached=snapshot.cached_blocks,
        free=snapshot.free_blocks,
        max=snapshot.max_blocks,
        tokens_per_block=snapshot.block_size,
        bytes_per_block=snapshot.block_bytes,
    )


def slots_of(snapshot: EngineSnapshot) -> Slots:
    """Return how full held blocks are."""
    return Slots(snapshot.held_blocks * snapshot.block_size, snapshot.filled_slots)


def num_waiting(snapshot: EngineSnapshot) -> int:
    """Return how many sequences wait."""
    return sum(view.queue_position is not None for view in snapshot.sequences)


def _measured(known: tuple[bytes, Latency], samples: bytes) -> tuple[bytes, Latency]:
    if samples == known[0]:
        return known
    found = percentiles(samples, (50, 95, 99))
    if found is None:
        return samples, Latency()
    return samples, Latency(num_samples(samples), *(round(1e3 * seconds, 3) for seconds in found))


def _rates(added: Totals, *, seconds: float) -> Rates:
    return Rates(
        prefill_tokens_per_s=round(added.prefilled_tokens / seconds, 2),
        decode_tokens_per_s=round(added.generated_tokens / seconds, 2),
        batch_rows=round(added.step_rows / added.steps, 2) if added.steps else 0.0,
    )


def _totals(snapshot: EngineSnapshot) -> Totals:
    return Totals(**{field.name: getattr(snapshot, field.name) for field in fields(Totals)})


def _plus(a: Totals, b: Totals) -> Totals:
    return replace(a, **{f.name: getattr(a, f.name) + getattr(b, f.name) for f in fields(Totals)})


def _minus(a: Totals, b: Totals) -> Totals:
    return replace(a, **{f.name: getattr(a, f.name) - getattr(b, f.name) for f in fields(Totals)})
