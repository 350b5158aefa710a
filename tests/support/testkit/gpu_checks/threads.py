"""A check that tells with how many threads torch computes in each of its processes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_check_parts.bench import Bench
from gpu_check_parts.entries import Entry, Skip


def run(bench: Bench) -> Iterator[Entry]:
    import torch

    yield Skip(f"process {bench.conditions.shard}", f"{torch.get_num_threads()} threads")
