"""What a snapshot counts, recomputed from the engine's own lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS
from localpaged.engine.core import EngineCore


def check_metrics(core: EngineCore, prompts: Mapping[str, Sequence[int]]) -> None:
    """Compare block classes, filled slots and prompt counts; `prompts` by request id."""
    told, kv, size = core.snapshot(), core.scheduler.kv, core.config.block_size
    assert told.held_blocks + told.cached_blocks + told.free_blocks == told.total_blocks
    assert 0 <= told.pinned_blocks <= told.held_blocks
    filled: dict[int, int] = {}
    for sequence in core.scheduler.running:
        for place, block in enumerate(sequence.block_table):
            filled[block] = min(size, sequence.num_computed - place * size)
    for sequence in core.scheduler.running:
        copy = sequence.pending_copy
        if copy is not None:
            filled.setdefault(copy.source, sequence.num_computed % size)
    flags = kv.pool.tree_flags()
    for block, refs in enumerate(kv.pool.counts()):
        if refs and flags[block] and block >= NUM_RESERVED_BLOCKS:
            filled[block] = size
    assert len(filled) == told.held_blocks
    assert told.filled_slots == sum(filled.values())
    assert told.filled_slots <= told.held_blocks * size
    assert told.requests == len(prompts)
    assert told.cached_prompt_tokens <= told.prompt_tokens
    assert told.prompt_tokens <= sum(len(prompt) for prompt in prompts.values())
    assert told.computed_prompt_tokens <= told.prefilled_tokens
