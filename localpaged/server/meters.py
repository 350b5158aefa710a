"""What `/metrics` tells: vLLM's names and meanings under our prefix. `docs/server.md` has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from localpaged.engine.events import FinishEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.server.desk import Arrived, num_tokens_in

PREFIX = "localpaged:"
LABEL = "model_name"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HISTOGRAMS = (
    (
        "time_to_first_token_seconds",
        "Seconds from a request over HTTP to its first token.",
        (
            *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
            *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0),
        ),
    ),
    (
        "inter_token_latency_seconds",
        "Seconds between a request's steps that brought tokens, over HTTP.",
        (
            *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
            *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
        ),
    ),
    (
        "e2e_request_latency_seconds",
        "Seconds from a request over HTTP to its end.",
        (
            *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
            *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0),
        ),
    ),
)
"""Name, meaning and the seconds that are counted up to."""

_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CANCELLED: "abort",
}

Snapshots = Callable[[], Sequence[tuple[str, EngineSnapshot]]]
"""The engine's pictures of now, by the names of the models."""


class RequestMeter:
    """Times and ends of one request of the server. Loop's thread only; seconds."""

    def __init__(self, meters: Meters, model: str) -> None:
        self._meters = meters
        self._model = model
        self._ttft = meters.ttft.labels(model)
        self._inter_token = meters.inter_token.labels(model)
        self._began_s = time.perf_counter()
        self._last_token_s: float | None = None
        self._reasons: list[FinishReason] = []

    def note(self, arrived: Arrived) -> None:
        """Take what the engine told at one time."""
        if num_tokens_in(arrived):
            if self._last_token_s is None:
                self._ttft.observe(arrived.at_s - self._began_s)
            else:
                self._inter_token.observe(arrived.at_s - self._last_token_s)
            self._last_token_s = arrived.at_s
        self._reasons += [e.reason for e in arrived.events if isinstance(e, FinishEvent)]

    def end(self, *, has_failed: bool, is_read: bool) -> None:
        """The request is done with: it has failed, was read, or was left by its client."""
        took_s = time.perf_counter() - self._began_s
        self._meters.latency.labels(self._model).observe(took_s)
        ends = [_REASONS[reason] for reason in self._reasons]
        if has_failed or not is_read:
            ends = ["error" if has_failed else "abort"]
        for end in ends:
            self._meters.ended.labels(self._model, end).inc()


class Meters:
    """The server's own counts and, at each look, the engine's. Any thread may look."""

    def __init__(self, snapshots: Snapshots) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a time beside every count, which nobody asks for
        self._registry = registry = CollectorRegistry(auto_describe=False)
        registry.register(_EngineCollector(snapshots))
        self.ttft, self.inter_token, self.latency = (
            Histogram(PREFIX + name, doc, (LABEL,), buckets=buckets, registry=registry)
            for name, doc, buckets in _HISTOGRAMS
        )
        self.ended = Counter(
            f"{PREFIX}request_success",
            "Answers over HTTP that ended, by why: stop, length, abort or error.",
            (LABEL, "finished_reason"),
            registry=registry,
        )
        self.responses = Counter(
            f"{PREFIX}http_responses",
            "Responses by status.",
            ("status",),
            registry=registry,
        )

    def text(self) -> bytes:
        """Return the page."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterable[Metric]:
        """Yield what the engine's pictures say."""
        pictures = self._snapshots()
        for name, doc, gauge_of in _GAUGES:
            gauge = GaugeMetricFamily(PREFIX + name, doc, labels=(LABEL,))
            for model, picture in pictures:
                gauge.add_metric((model,), gauge_of(picture))
            yield gauge
        for name, doc, count_of in _COUNTERS:
            counter = CounterMetricFamily(PREFIX + name, doc, labels=(LABEL,))
            for model, picture in pictures:
                counter.add_metric((model,), count_of(picture))
            yield counter


def _num_waiting(picture: EngineSnapshot) -> int:
    return sum(sequence.state == "waiting" for sequence in picture.sequences)


def _kv_usage(picture: EngineSnapshot) -> float:
    most = picture.max_blocks or picture.total_blocks
    return picture.held_blocks / most if most else 0.0


_GAUGES: tuple[tuple[str, str, Callable[[EngineSnapshot], float]], ...] = (
    (
        "num_requests_running",
        "Sequences in the batch, those of the chat included.",
        lambda picture: len(picture.sequences) - _num_waiting(picture),
    ),
    ("num_requests_waiting", "Sequences that wait, those of the chat included.", _num_waiting),
    (
        "kv_cache_usage_perc",
        "Share of the KV blocks that are in use, of all there may be; 1 is full.",
        _kv_usage,
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[EngineSnapshot], float]], ...] = (
    ("prompt_tokens", "Tokens of prompts, cached ones included.", lambda p: p.prompt_tokens),
    ("generation_tokens", "Tokens that were sampled.", lambda p: p.generated_tokens),
    ("prefix_cache_queries", "Tokens looked up in the prefix tree.", lambda p: p.prompt_tokens),
    ("prefix_cache_hits", "Tokens found there.", lambda p: p.cached_prompt_tokens),
    ("num_preemptions", "Sequences that gave up their blocks.", lambda p: p.preemptions),
)
