"""A picture of the engine between two steps: plain ints and strings, published by assignment."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.engine.params import BLOCK_SIZE_TOKENS, RequestId


@dataclass(frozen=True, slots=True)
class SequenceView:
    """One request that waits or runs. `state` is waiting, prefill or decode."""

    request_id: RequestId
    chat_id: str
    state: str
    queue_position: int | None
    num_tokens: int
    num_computed: int
    shared_blocks: int
    own_blocks: int


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Blocks by class and totals since start. `held` are in use, `cached` can be evicted.

    held_blocks + cached_blocks + free_blocks == total_blocks, which may grow to max_blocks.
    Pinned blocks are held. `host_` counts blocks of host memory. `filled_slots` are those slots of
    held blocks that have KV. `taken_s` is on the engine's monotonic clock. `ttft_samples` and
    `inter_token_samples` are the latest measurements, for `latency.percentiles`. `docs/stats.md`
    defines every count. `weight_bytes` None: not known. `runner_note` says why a GPU's steps are
    not launched as graphs; empty where they are, and on the CPU. `dtype` names the numbers of
    linear layers, empty where it is not known.
    `device_` bytes are of the card that computes, whoever has them; None on the processor.
    """

    model_name: str = ""
    device: str = ""
    block_size: int = BLOCK_SIZE_TOKENS
    block_bytes: int = 0
    total_blocks: int = 0
    held_blocks: int = 0
    cached_blocks: int = 0
    free_blocks: int = 0
    max_blocks: int = 0
    pinned_blocks: int = 0
    host_total_blocks: int = 0
    host_used_blocks: int = 0
    sequences: tuple[SequenceView, ...] = ()
    taken_s: float = 0.0
    weight_bytes: int | None = None
    device_total_bytes: int | None = None
    device_free_bytes: int | None = None
    filled_slots: int = 0
    requests: int = 0
    steps: int = 0
    step_rows: int = 0
    peak_held_blocks: int = 0
    busy_s: float = 0.0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    computed_prompt_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    block_copies: int = 0
    evicted_blocks: int = 0
    swapped_in_blocks: int = 0
    swapped_out_blocks: int = 0
    preemptions: int = 0
    decode_tokens_per_s: float = 0.0
    ttft_samples: bytes = b""
    inter_token_samples: bytes = b""
    runner_note: str = ""
    dtype: str = ""
