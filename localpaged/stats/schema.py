"""Stats snapshots: what one running program tells of itself, versioned and frozen.

`docs/stats.md` has the exact meaning of every number. The JSON form has the names of the fields
below, and of the properties that follow from them; `from_json` passes over what it does not know,
so that a newer program of the same major version can be read, and `SCHEMA_MAJOR` changes when a
meaning does. Times are Unix seconds, sizes bytes; a number that is not known is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from localpaged.errors import StatsError
from localpaged.stats.codec import decode_fields, encode

SCHEMA_MAJOR, SCHEMA_MINOR = 1, 0
HISTORY_POINTS, HISTORY_INTERVAL_S = 120, 1.0

MAX_MAP_CELLS = 4_096
MAX_TREE_NODES = 256
MAX_CHATS = 256

MAP_FREE, MAP_ACTIVE, MAP_CACHED, MAP_PINNED = ".", "a", "c", "p"
OWNER_NONE, OWNER_SEVERAL, OWNER_OTHER = ".", "*", "?"
OWNER_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

Series = tuple[float | None, ...]
"""One point a second, the latest last; None where there was nothing to measure."""


@dataclass(frozen=True, slots=True)
class Program:
    """Who tells: `command` is chat, ask, compare or serve."""

    version: str
    pid: int
    command: str
    started_at: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Of the process and its machine. `device_` is a graphics card's, None on the CPU."""

    rss_bytes: int
    system_total_bytes: int
    system_free_bytes: int
    device_total_bytes: int | None = None
    device_free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """KV blocks by class: active + pinned + cached + free == total, which may grow to max.

    `active`: a live sequence holds it and no pin does. `pinned`: a pin holds it, whoever else
    does. `cached`: nobody holds it, the prefix tree keeps it, it can be evicted. `free`: the rest.
    """

    total: int
    active: int
    pinned: int
    cached: int
    free: int
    max: int
    tokens_per_block: int
    bytes_per_block: int

    @property
    def total_bytes(self) -> int:
        """KV memory there is."""
        return self.total * self.bytes_per_block


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of the blocks that sequences or pins hold, and how many of them have KV."""

    held: int = 0
    filled: int = 0

    @property
    def fill(self) -> float | None:
        """The share that has KV; None while nothing is held."""
        return self.filled / self.held if self.held else None


@dataclass(frozen=True, slots=True)
class HostTier:
    """Blocks of host memory, where evicted KV goes; none where it was not asked for."""

    total_blocks: int = 0
    used_blocks: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds over the latest `count` measurements; None without any."""

    count: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second, and rows a step, of the last second; 0 while nothing runs."""

    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    batch_rows: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of the whole run, however often the model was loaded.

    prompt_tokens == cached_prompt_tokens + what had to be computed. `prefilled_tokens` are all
    tokens computed by reading, again after a preemption included. `busy_s` is the time of steps.
    """

    requests: int = 0
    steps: int = 0
    step_rows: int = 0
    busy_s: float = 0.0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    block_copies: int = 0
    evicted_blocks: int = 0
    swapped_in_blocks: int = 0
    swapped_out_blocks: int = 0
    preemptions: int = 0

    @property
    def hit_ratio(self) -> float | None:
        """The share of prompt tokens found in the prefix tree; None before the first prompt."""
        return self.cached_prompt_tokens / self.prompt_tokens if self.prompt_tokens else None


@dataclass(frozen=True, slots=True)
class ModelHistory:
    """A model's last two minutes. Counts are what a second added, classes and queue its end."""

    prefill_tokens_per_s: Series = ()
    decode_tokens_per_s: Series = ()
    batch_rows: Series = ()
    queue_length: Series = ()
    ttft_p50_ms: Series = ()
    ttft_p95_ms: Series = ()
    inter_token_p50_ms: Series = ()
    inter_token_p95_ms: Series = ()
    active_blocks: Series = ()
    pinned_blocks: Series = ()
    cached_blocks: Series = ()
    free_blocks: Series = ()
    fill: Series = ()
    host_used_blocks: Series = ()
    cached_prompt_tokens: Series = ()
    block_copies: Series = ()
    evicted_blocks: Series = ()
    swapped_in_blocks: Series = ()
    swapped_out_blocks: Series = ()
    preemptions: Series = ()


@dataclass(frozen=True, slots=True)
class ChatStats:
    """A chat with KV in a model, or in its queue.

    `state` is decode, prefill, waiting or, where only cached blocks are left of it, cached.
    `own_blocks` are of no other chat, `shared_blocks` of others, too. `tokens` are those known of
    its live sequences, `computed_tokens` those of them with KV; of a chat that is cached, both are
    what its blocks hold.
    """

    chat_id: str
    title: str
    state: str
    sequences: int = 0
    queue_position: int | None = None
    tokens: int = 0
    computed_tokens: int = 0
    own_blocks: int = 0
    shared_blocks: int = 0


@dataclass(frozen=True, slots=True)
class TreeBranch:
    """A branch of the prefix tree: `num_blocks` after the `start_blocks` above it.

    `refs` counts who holds its first block now, `num_chats` the chats that had anything in or
    below it. Its last `cached_blocks` are held by nobody; `is_pinned` tells of its first one.
    """

    id: int
    parent_id: int | None
    start_blocks: int
    num_blocks: int
    cached_blocks: int
    refs: int
    num_chats: int
    chat_id: str = ""
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """The prefix tree. `branches` come from above to below, each whole before its neighbour.

    When there are more than MAX_TREE_NODES, `branches` are the largest of them with all above.
    `saved_blocks` would be needed besides if nothing were shared.
    """

    num_branches: int = 0
    num_blocks: int = 0
    depth_blocks: int = 0
    saved_blocks: int = 0
    branches: tuple[TreeBranch, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockMap:
    """One character a cell; a cell stands for `blocks_per_cell` blocks, the last for the rest.

    `states`: MAP_ letters, of several blocks the most frequent. `refs`: digits, the most users of
    any, 9 is 9 or more. `ages`: digits, index into AGE_BOUNDS_S of engine/inspection.py, the
    youngest. `owners`: OWNER_ marks, or the letter of OWNER_LETTERS at the place in `chats`.
    """

    num_blocks: int
    blocks_per_cell: int
    states: str
    refs: str
    ages: str
    owners: str
    chats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelStats:
    """One loaded model. `tree` and `block_map` are there where they were asked for.

    `weights_bytes` is None where it is not known. `running` sequences hold KV, `queue_length` ones
    wait. `runner_note` says why a card's steps are no graphs, where they are none. `dtype` names
    the numbers that are computed with, as the chat's top line does.
    """

    name: str
    device: str
    weights_bytes: int | None
    blocks: Blocks
    slots: Slots = Slots()
    host: HostTier = HostTier()
    running: int = 0
    queue_length: int = 0
    rates: Rates = Rates()
    ttft: Latency = Latency()
    inter_token: Latency = Latency()
    totals: Totals = Totals()
    history: ModelHistory = ModelHistory()
    chats: tuple[ChatStats, ...] = ()
    num_chats: int = 0
    tree: Tree | None = None
    block_map: BlockMap | None = None
    runner_note: str = ""
    dtype: str = ""

    @property
    def graphs(self) -> str:
        """How a card's decode steps are launched, as untrusted text; empty on the processor."""
        if self.runner_note or not self.device.startswith("cuda"):
            return self.runner_note
        return "decode steps are recorded"

    @property
    def kv_bytes(self) -> int:
        """KV memory there is."""
        return self.blocks.total_bytes

    @property
    def hit_bytes(self) -> int:
        """KV that was found instead of computed, in the whole run."""
        blocks = self.blocks
        hit_bytes = self.totals.cached_prompt_tokens * blocks.bytes_per_block
        return hit_bytes // max(1, blocks.tokens_per_block)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one program tells at one moment. `loading` names models that are being loaded."""

    program: Program
    taken_at: float
    memory: Memory
    models: tuple[ModelStats, ...] = ()
    loading: tuple[str, ...] = ()
    rss_bytes_history: Series = ()
    history_interval_s: float = HISTORY_INTERVAL_S
    schema_version: str = field(default=f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}")


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as plain dicts, lists, strings and numbers."""
    data: dict[str, Any] = encode(snapshot)
    return data


def from_json(data: object) -> Snapshot:
    """Return the snapshot that JSON stands for; raises StatsError for what is none of ours."""
    if not isinstance(data, dict):
        raise StatsError("What was read is not stats of localpaged.")
    check_version(data.get("schema_version"))
    return decode_fields(Snapshot, data)


def check_version(version: object) -> None:
    """Raise StatsError, with both versions, for another major version than ours."""
    major = version.partition(".")[0] if isinstance(version, str) else ""
    if not major.isdecimal() or not major.isascii():
        raise StatsError("What was read is not stats of localpaged: they have no version.")
    if int(major[:9]) != SCHEMA_MAJOR:
        raise StatsError(
            f"The running program writes stats in version {major[:9]}, this one reads version"
            f" {SCHEMA_MAJOR}.",
            hint="Use the same localpaged for both.",
        )
