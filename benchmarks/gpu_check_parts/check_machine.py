"""Before all others: which card there is, whether it will do, and how fast its memory is."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_check_parts.bench import Bench
from gpu_check_parts.entries import Entry, Fault, Figure, Machine

LEAST_CAPABILITY = (8, 0)


def run(bench: Bench) -> Iterator[Entry]:
    """Yield the machine, its memory's bandwidth, and a fault where there is no GPU to use."""
    import torch

    if bench.is_rehearsal:
        yield Machine({"card": None, "is_rehearsal": True})
    elif not torch.cuda.is_available():
        yield Fault("GPU", f"torch {torch.__version__} sees no CUDA device")
        return
    else:
        card = torch.cuda.get_device_properties(bench.device)
        free, total = torch.cuda.mem_get_info()
        yield Machine(
            {
                "card": card.name,
                "compute_capability": f"{card.major}.{card.minor}",
                "multiprocessors": card.multi_processor_count,
                "cache_bytes": card.L2_cache_size,
                "memory_bytes": total,
                "free_bytes": free,
                "cuda": torch.version.cuda,
                "is_rehearsal": False,
            }
        )
        if (card.major, card.minor) < LEAST_CAPABILITY:
            yield Fault("GPU", f"{card.name} is sm_{card.major}{card.minor}; sm_80 is the least")
            return
    yield bandwidth(bench)


def bandwidth(bench: Bench) -> Figure:
    """Measure the memory's bandwidth: what all shares in this run are of."""
    from gpu_check_parts.stopwatch import measure_bandwidth

    num_bytes = bench.pick(min(2**30, bench.free_bytes() // 4), 2**12)
    times = measure_bandwidth(bench.watch, bench.device, num_bytes)
    return Figure(
        BANDWIDTH,
        "GB/s",
        num_bytes / times.median / 1e9,
        num_bytes / times.high / 1e9,
        num_bytes / times.low / 1e9,
        times.runs,
        note="reading or copying, the faster",
    )


BANDWIDTH = "memory bandwidth"
