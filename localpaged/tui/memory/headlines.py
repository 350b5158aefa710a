"""The lines around the block map: sizes and shares above, what sharing saves below."""

from __future__ import annotations

from localpaged.engine.inspection import BlockState, Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.plain_text import visible
from localpaged.tui.figures import byte_size, grouped, percent
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRONG, Role, Run

SHARES = (
    ("active", BlockState.HELD),
    ("pinned", BlockState.PINNED),
    ("cached", BlockState.CACHED),
    ("free", BlockState.FREE),
)
Pair = tuple[list[Run], list[Run]]


def head_runs(seen: Inspection, glyphs: Glyphs, *, is_wide: bool) -> Pair:
    """How large the pool is, and which share of it is in which state."""
    if not seen.num_blocks:
        return [Run("KV memory", Role.ACCENT, STRONG)], []
    dot = Run(f" {glyphs.dot} ", Role.FAINT)
    left = [
        Run("KV ", Role.ACCENT, STRONG),
        Run(f"{grouped(seen.num_blocks)} blocks", Role.TEXT),
        dot,
        Run(byte_size(seen.num_blocks * seen.block_bytes), Role.TEXT),
    ]
    if is_wide:
        each = f"{seen.block_size} tokens, {byte_size(seen.block_bytes)} each"
        left += [dot, Run(each, Role.DIM)]
        if seen.max_blocks > seen.num_blocks:
            left += [dot, Run(f"grows to {grouped(seen.max_blocks)}", Role.DIM)]
        if seen.host_used_blocks:
            left += [dot, Run(f"{grouped(seen.host_used_blocks)} in host memory", Role.DIM)]
        left += [dot, Run(visible(seen.model_name), Role.FAINT)]
    right: list[Run] = []
    for word, state in SHARES:
        share = percent(seen.count(state), seen.num_blocks)
        right += [*([dot] if right else []), Run(f"{word} ", Role.DIM), Run(share, Role.TEXT)]
    return left, right


def total_runs(
    seen: Inspection, snapshot: EngineSnapshot, glyphs: Glyphs, *, is_wide: bool
) -> list[Run]:
    """What sharing saves now, and what the engine did for it since its start."""
    saved = blocks_and_bytes(seen.saved_blocks, seen)
    hits = percent(snapshot.cached_prompt_tokens, snapshot.prompt_tokens)
    copies, evictions = grouped(snapshot.block_copies), grouped(snapshot.evicted_blocks)
    preemptions = grouped(snapshot.preemptions)
    if is_wide:
        lead = "saved by sharing: "
        parts = [
            f"hit rate {hits}",
            f"copies {copies}",
            f"evictions {evictions}",
            f"preemptions {preemptions}",
        ]
    else:
        lead = "saved "
        parts = [
            f"hits {hits}",
            f"copies {copies}",
            f"evicted {evictions}",
            f"preempted {preemptions}",
        ]
    runs = [Run(lead, Role.DIM), Run(saved, Role.SUCCESS)]
    for part in parts:
        runs += [Run(f" {glyphs.dot} ", Role.FAINT), Run(part, Role.DIM)]
    return runs


def blocks_and_bytes(num_blocks: int, seen: Inspection) -> str:
    """31 blocks (697 KiB)."""
    size = byte_size(num_blocks * seen.block_bytes)
    return f"{counted_blocks(num_blocks)} ({size})"


def counted_blocks(number: int) -> str:
    """1 block, 31 blocks."""
    return f"{grouped(number)} {'block' if number == 1 else 'blocks'}"
