"""Stopwatch: CUDA events around work that is warm, the card's cache emptied before each run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

WARM_RUNS = 3
MOST_RUNS = 60
LEAST_RUNS = 7
AHEAD_CYCLES = 1_500_000
"""The card waits about a millisecond, so that the host has started everything before it runs."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of several runs: their median and quartiles."""

    median: float
    low: float
    high: float
    runs: int


def times_of(seconds: Sequence[float]) -> Times:
    """Return the median and the first and third quartile."""
    if len(seconds) == 1:
        return Times(seconds[0], seconds[0], seconds[0], 1)
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Times(median, low, high, len(seconds))


class Stopwatch:
    """Times work on one device. On the CPU it is a rehearsal: one run by the host's clock."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_cuda = device.type == "cuda"

    def kernel(self, run: Callable[[], object], *, spend_s: float = 0.25) -> Times:
        """Time work that only the device does, without what starting it costs the host."""
        if not self._is_cuda:
            return self.whole(run, runs=1, warm_runs=0)
        for _ in range(WARM_RUNS):
            run()
        torch.cuda.synchronize()
        started_s = time.perf_counter()
        self._one_run(run)
        torch.cuda.synchronize()
        took_s = time.perf_counter() - started_s
        runs = min(max(int(spend_s / took_s), LEAST_RUNS), MOST_RUNS)
        pairs = [self._one_run(run) for _ in range(runs)]
        torch.cuda.synchronize()
        return times_of([start.elapsed_time(end) / 1e3 for start, end in pairs])

    def whole(self, run: Callable[[], object], *, runs: int, warm_runs: int = 1) -> Times:
        """Time work from the host's call until the device is done."""
        for _ in range(warm_runs):
            run()
        seconds = []
        for _ in range(runs):
            self.settle()
            started_s = time.perf_counter()
            run()
            self.settle()
            seconds.append(time.perf_counter() - started_s)
        return times_of(seconds)

    def settle(self) -> None:
        """Wait until the device has done everything."""
        if self._is_cuda:
            torch.cuda.synchronize()

    def _one_run(self, run: Callable[[], object]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.sum()
        torch.cuda._sleep(AHEAD_CYCLES)
        start.record()
        run()
        end.record()
        return start, end

    @cached_property
    def _flush(self) -> torch.Tensor:
        """Return memory of twice the card's cache: reading it drives everything else out.

        What was written instead would have to leave the cache while the work is timed.
        """
        cache_bytes = torch.cuda.get_device_properties(self._device).L2_cache_size
        count = max(2 * cache_bytes, 2**26) // 4
        return torch.zeros(count, dtype=torch.float32, device=self._device)


def measure_bandwidth(watch: Stopwatch, device: torch.device, num_bytes: int) -> Times:
    """Return the seconds in which the device moves `num_bytes`, the faster of reading and copying.

    Everything else is a share of this, so it must be what the card can do: of a sum, which only
    reads, and a copy, which reads and writes half of it each, the better one.
    """
    whole = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    half = whole.numel() // 2
    reading = watch.kernel(whole.sum)
    copying = watch.kernel(lambda: whole[:half].copy_(whole[half : 2 * half]))
    return min(reading, copying, key=lambda times: times.median)
