"""Programs that tell stats in tests: what they tell is made up, when they end is the test's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from localpaged.errors import StatsError
from localpaged.stats.protocol import CHATS, MAP, TREE
from localpaged.stats.schema import (
    BlockMap,
    Blocks,
    ChatStats,
    HostTier,
    Latency,
    Memory,
    ModelHistory,
    ModelStats,
    Program,
    Rates,
    Slots,
    Snapshot,
    Totals,
    Tree,
    TreeBranch,
)

NOON_S = 1_710_504_000.0  # 15 March 2024, 12:00 UTC
MIB = 1 << 20
POINTS = 120

CHAT_ROWS = (
    ChatStats("c1", "Radix tree question", "decode", 1, None, 3_121, 3_120, 31, 170),
    ChatStats("c2", "Translate the manual", "prefill", 1, None, 12_800, 7_808, 488, 0),
    ChatStats("c3", "Haiku about caches", "decode", 4, None, 1_024, 1_023, 24, 36),
    ChatStats("c4", "Summary of the meeting", "waiting", 1, 1, 2_210, 0, 0, 0),
    ChatStats("c5", "Bash one-liner", "cached", 0, None, 640, 640, 16, 24),
    ChatStats("c6", "", "cached", 0, None, 352, 352, 22, 0),
)
BRANCHES = (
    TreeBranch(1, None, 0, 24, 0, 6, 5, is_pinned=True),
    TreeBranch(2, 1, 24, 146, 0, 2, 2),
    TreeBranch(3, 2, 170, 31, 0, 1, 1, chat_id="c1"),
    TreeBranch(4, 2, 170, 3, 3, 0, 1, chat_id="c5"),
    TreeBranch(5, 1, 24, 12, 0, 4, 1, chat_id="c3"),
    TreeBranch(6, 5, 36, 6, 0, 1, 1, chat_id="c3"),
    TreeBranch(7, 5, 36, 6, 0, 1, 1, chat_id="c3"),
    TreeBranch(8, None, 0, 22, 22, 0, 1, chat_id="c6"),
)


def waves(top: float, *, period: float = 40.0, floor: float = 0.4) -> tuple[float | None, ...]:
    """Two minutes of something that goes up and down and never above `top`."""
    return tuple(
        round(top * (floor + (1 - floor) * abs(math.sin(second / period * math.pi))), 2)
        for second in range(POINTS)
    )


def sparse(values: tuple[float | None, ...], every: int) -> tuple[float | None, ...]:
    """The same with something measured now and then only."""
    return tuple(value if place % every == 0 else None for place, value in enumerate(values))


def history() -> ModelHistory:
    """Two busy minutes."""
    none = (0.0,) * POINTS
    return ModelHistory(
        prefill_tokens_per_s=tuple(2_700.0 if s % 30 < 6 else 0.0 for s in range(POINTS)),
        decode_tokens_per_s=waves(188.0),
        batch_rows=waves(6.0, period=60.0),
        queue_length=tuple(float(s // 20 % 3) for s in range(POINTS)),
        ttft_p50_ms=sparse(waves(110.0), 3),
        ttft_p95_ms=sparse(waves(420.0), 3),
        inter_token_p50_ms=waves(17.0, floor=0.8),
        inter_token_p95_ms=waves(24.0, floor=0.7),
        active_blocks=waves(1_269.0, period=120.0),
        pinned_blocks=(82.0,) * POINTS,
        cached_blocks=waves(901.0),
        free_blocks=waves(1_844.0),
        fill=waves(0.98, floor=0.9),
        host_used_blocks=none,
        cached_prompt_tokens=tuple(2_048.0 if s % 30 == 0 else 0.0 for s in range(POINTS)),
        block_copies=tuple(1.0 if s % 40 == 7 else 0.0 for s in range(POINTS)),
        evicted_blocks=none,
        swapped_in_blocks=none,
        swapped_out_blocks=none,
        preemptions=none,
    )


def block_map() -> BlockMap:
    """A pool of 256 blocks, busy at its beginning."""
    states = "p" * 24 + "a" * 80 + "c" * 40
    owners = "*" * 24 + "A" * 31 + "B" * 49 + "C" * 20 + "?" * 20
    return BlockMap(
        num_blocks=256,
        blocks_per_cell=1,
        states=states.ljust(256, "."),
        refs=("6" * 24 + "1" * 80 + "0" * 40).ljust(256, "0"),
        ages=("0" * 104 + "3" * 40).ljust(256, "0"),
        owners=owners.ljust(256, "."),
        chats=("c1", "c2", "c3"),
    )


def model(name: str = "SmolLM2-135M-Instruct", **changes: Any) -> ModelStats:
    """A model with work to do."""
    made = ModelStats(
        name=name,
        device="cpu",
        weights_bytes=270 * MIB,
        blocks=Blocks(4_096, 1_269, 82, 901, 1_844, 8_192, 16, 368_640),
        slots=Slots(held=21_616, filled=21_102),
        host=HostTier(),
        running=3,
        queue_length=1,
        rates=Rates(2_710.0, 187.6, 5.0),
        ttft=Latency(41, 110.0, 420.0, 610.0),
        inter_token=Latency(2_000, 17.0, 24.2, 31.0),
        totals=Totals(
            requests=41,
            steps=9_120,
            step_rows=31_000,
            prompt_tokens=96_400,
            cached_prompt_tokens=83_900,
            prefilled_tokens=12_500,
            generated_tokens=31_007,
            block_copies=3,
        ),
        history=history(),
        chats=CHAT_ROWS,
        num_chats=len(CHAT_ROWS),
        tree=Tree(8, 250, 201, 412, BRANCHES),
        block_map=block_map(),
    )
    return replace(made, **changes)


def snapshot(pid: int = 4_121, *models: ModelStats, taken_at: float = NOON_S) -> Snapshot:
    """What the chat with this process id tells."""
    return Snapshot(
        program=Program("0.5.0", pid, "chat", NOON_S - 2_467),
        taken_at=taken_at,
        memory=Memory(1_264 * MIB, 16_000 * MIB, 9_100 * MIB),
        models=models or (model(),),
        rss_bytes_history=(1_264.0 * MIB,) * POINTS,
    )


class ScriptedSource:
    """A StatsSource whose programs are in `running`; what fails is in `failures`."""

    def __init__(self, **running: Snapshot) -> None:
        self.running = dict(running)
        self.failures: dict[str, StatsError] = {}
        self.asked: list[tuple[str, frozenset[str]]] = []

    def engines(self) -> tuple[str, ...]:
        """The names in the order in which they came."""
        return tuple(self.running)

    def read(self, engine: str, details: frozenset[str]) -> Snapshot:
        """What a program tells, with no more than what was asked for."""
        self.asked.append((engine, details))
        if engine in self.failures:
            raise self.failures[engine]
        told = self.running[engine]
        return replace(told, models=tuple(_asked_for(each, details) for each in told.models))


def _asked_for(told: ModelStats, details: frozenset[str]) -> ModelStats:
    return replace(
        told,
        chats=told.chats if CHATS in details else (),
        tree=told.tree if TREE in details else None,
        block_map=told.block_map if MAP in details else None,
    )
